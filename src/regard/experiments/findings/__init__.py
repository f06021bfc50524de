"""Floor 7: published findings about what happens inside models, each with a check and its rule."""

from regard.core.errors import BadInput, did_you_mean
from regard.experiments.findings import (
    attention_distance,
    grokking,
    head_pruning,
    head_roles,
    induction_heads,
    probed_layers,
    rollout_faithfulness,
    shifted_alignment,
    verb_agreement,
)
from regard.experiments.findings.finding import Finding

FINDINGS: tuple[Finding, ...] = (
    verb_agreement.FINDING,
    probed_layers.SENSE_LAYERS,
    head_roles.FINDING,
    head_pruning.IMPORTANCE,
    head_pruning.GATES,
    probed_layers.LAYER_ORDER,
    attention_distance.FINDING,
    rollout_faithfulness.FINDING,
    shifted_alignment.FINDING,
    induction_heads.FINDING,
    grokking.FINDING,
)
"""All findings, in the order of their years."""


def finding(name: str) -> Finding:
    """The finding of this name."""
    by_name = {each.name: each for each in FINDINGS}
    if name not in by_name:
        raise BadInput(f"no finding is called {name!r}{did_you_mean(name, by_name)}")
    return by_name[name]
