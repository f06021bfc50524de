"""The text of an encoder with a task, and what the labels of the task are called."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.ground.errors import BadInput, shown
from regard.text.encoder_tokenizer import EncoderTokenizer
from regard.text.labels import LABELS, NUMBER, ONE, SEVERAL, Labels

PROBLEMS = {
    "single_label_classification": ONE,
    "multi_label_classification": SEVERAL,
    "regression": NUMBER,
}
MOST = 100_000  # labels that a configuration may count without naming them


@dataclass(frozen=True)
class TunedText:
    """Rows in, labels out."""

    encoder: EncoderTokenizer
    labels: Labels

    def save(self, folder: Path) -> None:
        """Write both."""
        self.labels.save(folder / LABELS)
        self.encoder.save(folder)

    @staticmethod
    def load(folder: Path) -> "TunedText | None":
        """Read what ``save`` wrote."""
        encoder = EncoderTokenizer.load(folder)
        return None if encoder is None else TunedText(encoder, Labels.load(folder / LABELS))


def labels_in(config: Mapping[str, Any]) -> Labels:
    """The labels of a Hugging Face configuration, by number; two if it is silent."""
    said = config.get("id2label")
    if said is None:
        count = config.get("num_labels") or 2
        if type(count) is not int or not 0 < count <= MOST:
            raise BadInput(f"num_labels is {shown(count)}, not from 1 to {MOST}")
        said = {number: f"LABEL_{number}" for number in range(count)}
    try:
        names = {int(number): str(name) for number, name in said.items()}
    except (AttributeError, TypeError, ValueError):
        raise BadInput(f"id2label is {shown(said)}, not names by number") from None
    if sorted(names) != list(range(len(names))) or not names:
        raise BadInput(f"id2label numbers {shown(sorted(names))}, not 0, 1, 2, …")
    if twice := [name for name, count in Counter(names.values()).items() if count > 1]:
        raise BadInput(f"id2label calls two labels {shown(twice[0])}")
    problem = config.get("problem_type")
    if problem not in (None, *PROBLEMS):
        raise BadInput(f"problem_type is {shown(problem)}, not {', '.join(PROBLEMS)}")
    kind = PROBLEMS[problem] if problem is not None else NUMBER if len(names) == 1 else ONE
    return Labels(tuple(names[number] for number in range(len(names))), kind=kind)


def labels_said(labels: Labels) -> dict[str, Any]:
    """What a configuration says of them."""
    problem = next(problem for problem, kind in PROBLEMS.items() if kind == labels.kind)
    return {
        "id2label": {str(number): name for number, name in enumerate(labels.names)},
        "label2id": {name: number for number, name in enumerate(labels.names)},
        "problem_type": problem,
    }
