"""How much each class counts."""

from collections import Counter
from collections.abc import Iterable, Mapping

from regard.ground.errors import BadInput
from regard.text.labels import LabelSet


def class_weights(
    labels: LabelSet, asked: Mapping[str, float] | str | None, occurring: Iterable[int]
) -> tuple[float, ...] | None:
    """A weight for each class as a recipe asks for it; "balanced": all together count the same."""
    if asked is None:
        return None
    if isinstance(asked, str):
        counts = Counter(occurring)
        if missing := [name for i, name in enumerate(labels.names) if not counts[i]]:
            raise BadInput(
                f"labels.weights: balanced, but there is no {missing[0]!r} to learn from"
            )
        share = counts.total() / len(labels)
        return tuple(share / counts[number] for number in range(len(labels)))
    given = {labels.name(name, "labels.weights"): weight for name, weight in asked.items()}
    return tuple(given.get(name, 1.0) for name in labels.names)
