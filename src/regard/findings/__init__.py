"""Floor 7: published findings about what happens inside models, each with a check and its rule."""

from regard.findings import grokking, head_roles, induction_heads
from regard.findings.finding import Finding
from regard.ground.errors import BadInput, did_you_mean

FINDINGS: tuple[Finding, ...] = (head_roles.FINDING, induction_heads.FINDING, grokking.FINDING)
"""All findings, in the order of their years."""


def finding(name: str) -> Finding:
    """The finding of this name."""
    by_name = {each.name: each for each in FINDINGS}
    if name not in by_name:
        raise BadInput(f"no finding is called {name!r}{did_you_mean(name, by_name)}")
    return by_name[name]
