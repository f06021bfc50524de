"""Floor 2: papers as values, one shared stack. ``LINEAGE`` lists them in order of time."""

from regard.ground.errors import BadInput
from regard.models import transformer
from regard.models.facts import did_you_mean
from regard.models.paper import Paper

LINEAGE: tuple[Paper, ...] = (transformer.PAPER,)


def paper(name: str) -> Paper:
    """The paper of that name."""
    known = {one.key: one for one in LINEAGE}
    if name.lower() not in known:
        raise BadInput(f"no paper is called {name!r}{did_you_mean(name.lower(), list(known))}")
    return known[name.lower()]
