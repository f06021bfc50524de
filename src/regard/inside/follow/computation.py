"""A computation: the steps of a model on one input, their numbers, and the check of each.

It prints itself: the steps that are shown, with small matrices of their values.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from regard.core.errors import BadInput, did_you_mean
from regard.inside.follow.check import BOUND, CheckReport, CheckRow, relative_difference
from regard.inside.follow.plan import Step

HEAD = re.compile(r"(?:^|/)head (\d+)(?=/)")
LAYER = re.compile(r"(?:^|\s)layer (\d+)/")
LOGITS = "outputs with and without a tape"
MOST_ROWS, MOST_COLUMNS = 8, 6  # of a matrix that is printed
TOKENS = {"token", "query", "patch"}  # axes that --position chooses from
CELL = 11  # characters of a number with a space before it


class UnknownStep(BadInput, KeyError):
    """Name of a step, or number of a head, that a computation does not have."""


@dataclass(frozen=True)
class Shown:
    """The part of a computation that is shown; None: all."""

    layer: int | None = None
    head: int | None = None
    position: int | None = None
    upto: str | None = None


@dataclass(frozen=True, eq=False)
class Computation(Mapping[str, np.ndarray]):
    """The steps of a model on one input; values by the name of a step.

    ``recorded`` are inputs and values on the tape, ``tokens`` the names of tokens by side.
    ``difference`` is the largest difference of the outputs to those of a run without a tape.
    "layer 2/head 3/weights" is a part of "layer 2/attention/weights".
    """

    model: str
    steps: tuple[Step, ...]
    recorded: Mapping[str, np.ndarray] = field(repr=False)
    weights: Mapping[str, np.ndarray] = field(repr=False)
    tokens: Mapping[str, tuple[str, ...]]
    difference: float = 0.0
    shown: Shown = Shown()

    def __iter__(self) -> Iterator[str]:
        return (step.name for step in self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, name: str) -> np.ndarray:
        head = HEAD.search(name)
        if head is None:
            return self.recorded[self.step(name).output]
        return self._of_head(name, head)

    def __contains__(self, name: object) -> bool:
        try:
            return isinstance(name, str) and self[name] is not None
        except UnknownStep:
            return False

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def step(self, name: str) -> Step:
        """The step of this name."""
        for step in self.steps:
            if step.name == name:
                return step
        raise UnknownStep(f"no step is called {name!r}{did_you_mean(name, [*self])}")

    def _of_head(self, name: str, match: re.Match[str]) -> np.ndarray:
        head = int(match[1])
        whole = HEAD.sub("", name)
        layer, _, value = whole.rpartition("/")
        own = whole if whole in [*self] else f"{layer}/attention/{value}"
        step = self.step(own)
        return self.of_head(step, self.recorded[step.output], head)

    def of_head(self, step: Step, value: np.ndarray, head: int) -> np.ndarray:
        """The part of the value of a step that belongs to a head."""
        if "head" not in step.axes:
            raise UnknownStep(f"the step {step.name!r} has no heads")
        axis = step.axes.index("head")
        if not 0 <= head < value.shape[axis]:
            last = value.shape[axis] - 1
            raise UnknownStep(f"no head {head} in {step.name!r}; there are 0 to {last}")
        return value.take(head, axis)

    @property
    def uncovered(self) -> list[str]:
        """Values on the tape that are no step's output, or the output of several steps."""
        outputs = [step.output for step in self.steps]
        inputs = {f"{side}.{what}" for side in self.tokens for what in ("ids", "segments")}
        return [name for name in self.recorded if name not in inputs and outputs.count(name) != 1]

    def recompute(self, *, chained: bool = False) -> Iterator[tuple[Step, np.ndarray]]:
        """Steps and their outputs by the rules, from recorded inputs.

        If ``chained``, all outputs are computed from the inputs of the model alone.
        """
        if not chained:
            yield from ((step, step.compute(self.recorded, self.weights)) for step in self.steps)
            return
        outputs = {step.output for step in self.steps}
        values = {name: value for name, value in self.recorded.items() if name not in outputs}
        for first, last, loop in self._parts():
            values |= {name: np.zeros_like(self.recorded[name]) for name in loop}
            for _ in range(1 + max((len(values[name]) for name in loop), default=0)):
                for step in self.steps[first:last]:
                    values[step.output] = step.compute(values, self.weights)
        yield from ((step, values[step.output]) for step in self.steps)

    def _parts(self) -> Iterator[tuple[int, int, set[str]]]:
        """Steps from first to last, with the outputs that go back in a loop over words, if any.

        A pass through a loop computes the values of one more word.
        """
        numbers = {step.output: number for number, step in enumerate(self.steps)}
        first, last, loop = 0, 0, set[str]()
        for number, step in enumerate(self.steps):
            back = {name for name in step.inputs if numbers.get(name, -1) >= number}
            if number > last:
                yield first, number, loop
                first, loop = number, set()
            loop |= back
            last = max([last, number, *(numbers[name] for name in back)])
        yield first, len(self.steps), loop

    def check(self, *, chained: bool = False) -> CheckReport:
        """Recompute each step, and compare it with the value on the tape."""
        rows = []
        for step, computed in self.recompute(chained=chained):
            difference = relative_difference(computed, self.recorded[step.output])
            rows.append(CheckRow(step.name, difference, BOUND, str(step.source)))
        rows.append(CheckRow(LOGITS, self.difference, BOUND, "core/tape.py"))
        return CheckReport(tuple(rows))

    def show(
        self,
        layer: int | None = None,
        head: int | None = None,
        position: int | None = None,
        upto: str | None = None,
    ) -> "Computation":
        """The same computation that shows other steps."""
        layers = sorted({number for step in self.steps if (number := layer_of(step)) is not None})
        if layer is not None and layer not in layers:
            listed = f"there are {layers[0]} to {layers[-1]}" if layers else "there are none"
            raise BadInput(f"no layer {layer}; {listed}")
        counts = [self[s.name].shape[s.axes.index("head")] for s in self.steps if "head" in s.axes]
        heads = max((n for n in counts), default=0)
        if head is not None and not 0 <= head < heads:
            raise BadInput(f"no head {head}; there are 0 to {heads - 1}" if heads else "no heads")
        longest = max(map(len, self.tokens.values()))
        if position is not None and not 0 <= position < longest:
            raise BadInput(f"no position {position}; there are 0 to {longest - 1}")
        if upto is not None:
            self.step(upto)
        return replace(self, shown=Shown(layer, head, position, upto))

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self, step: str | None = None) -> Iterator[str]:
        """Lines of the steps that are shown, or of one step in full."""
        return text_lines(self, step)

    def to_json(self, step: str | None = None) -> dict[str, object]:
        """The steps that are shown, or one step, with their values, as plain JSON values."""
        return json_values(self, step)

    @property
    def shown_steps(self) -> Sequence[Step]:
        """The steps that are shown."""
        names = [step.name for step in self.steps]
        end = len(names) if self.shown.upto is None else names.index(self.shown.upto) + 1
        layer = self.shown.layer
        of_layer = (step for step in self.steps[:end] if layer is None or layer_of(step) == layer)
        return [step for step in of_layer if _has_head(self, step)]


def layer_of(step: Step) -> int | None:
    """The number of the layer of a step, or None."""
    match = LAYER.search(step.name)
    return None if match is None else int(match[1])


def text_lines(computation: Computation, only: str | None = None) -> Iterator[str]:
    """Lines of the steps that are shown, or of one of them in full."""
    steps = computation.shown_steps if only is None else [computation.step(only)]
    for step in steps:
        yield from step_lines(computation, step, full=only is not None)
        yield ""
    longest = max(map(len, computation.tokens.values()))
    if longest > MOST_ROWS and only is None and computation.shown.position is None:
        yield f"{MOST_ROWS} of {longest} tokens are shown; a position chooses another"


def _has_head(computation: Computation, step: Step) -> bool:
    """Whether a step has the head that is shown; steps without heads are always shown."""
    head = computation.shown.head
    if head is None or "head" not in step.axes:
        return True
    return head < computation[step.name].shape[step.axes.index("head")]


def step_lines(computation: Computation, step: Step, *, full: bool = False) -> Iterator[str]:
    """Lines of a step: name, sentence, formula, inputs, shape, matrix."""
    outputs = {other.output: other.name for other in computation.steps}
    value, axes = shown_value(computation, step)
    shape = " × ".join(f"{size} {axis}" for size, axis in zip(value.shape, axes, strict=True))
    yield f"{step.name}  [{shape or 'one number'}]"
    yield f"  {step.sentence}"
    yield f"  {step.formula.text}    ({step.reference}; {step.source})"
    if full:
        for name in step.inputs:
            yield f"  from {outputs.get(name, name)}"
        for role, name in step.weights.items():
            yield f"  weight {role}: {name}"
        for name, setting in step.settings.items():
            yield f"  {name}: {setting}"
    labels = row_labels(computation, step, axes, len(value) if value.ndim else 1)
    yield from matrix_lines(value, labels)


def shown_value(computation: Computation, step: Step) -> tuple[np.ndarray, tuple[str, ...]]:
    """Value of a step, of the head and position that are shown, and its axes."""
    value, axes = computation[step.name], list(step.axes[: computation[step.name].ndim])
    shown = computation.shown
    if shown.head is not None and "head" in axes and _has_head(computation, step):
        value = value.take(shown.head, axes.index("head"))
        axes.remove("head")
    for axis in [axis for axis in axes if axis in TOKENS]:
        number = axes.index(axis)
        if shown.position is not None and shown.position < value.shape[number]:
            value = value.take(shown.position, number)
            axes.remove(axis)
    return value, tuple(axes)


def row_labels(
    computation: Computation, step: Step, axes: Sequence[str], count: int
) -> Sequence[str]:
    """Names of the rows of a matrix: tokens of the side, or numbers."""
    side = step.output.partition(".")[0]
    tokens = computation.tokens.get(side, ())
    if axes and axes[0] in TOKENS and len(tokens) == count:
        return tokens
    return [str(number) for number in range(count)]


def matrix_lines(value: np.ndarray, labels: Sequence[str]) -> Iterator[str]:
    """Lines of a matrix: its first rows and columns; more axes follow one after the other."""
    if value.ndim > 2:
        for number, part in enumerate(value[:MOST_ROWS]):
            yield f"  {number}:"
            yield from matrix_lines(part, [str(row) for row in range(len(part))])
        return
    rows = np.atleast_2d(value)
    labels = labels if value.ndim == 2 else [""]
    width = max((len(label) for label in labels[:MOST_ROWS]), default=0)
    for label, row in zip(labels[:MOST_ROWS], rows, strict=False):
        cells = "".join(f"{number:>{CELL}.4g}" for number in row[:MOST_COLUMNS])
        more = f"  … {len(row) - MOST_COLUMNS} more" if len(row) > MOST_COLUMNS else ""
        yield f"    {label:<{width}}{cells}{more}"
    if len(rows) > MOST_ROWS:
        yield f"    … {len(rows) - MOST_ROWS} more rows"


def json_values(computation: Computation, only: str | None = None) -> dict[str, object]:
    """The steps that are shown, with their values, as plain JSON values."""
    steps = computation.shown_steps if only is None else [computation.step(only)]
    outputs = {step.output: step.name for step in computation.steps}
    return {
        "model": computation.model,
        "tokens": {side: [*names] for side, names in computation.tokens.items()},
        "steps": [_step_json(computation, step, outputs) for step in steps],
    }


def _step_json(computation: Computation, step: Step, outputs: dict[str, str]) -> dict[str, object]:
    value, axes = shown_value(computation, step)
    return {
        "name": step.name,
        "kind": step.kind.name,
        "sentence": step.sentence,
        "formula": step.formula.latex,
        "reference": str(step.reference),
        "source": str(step.source),
        "inputs": [outputs.get(name, name) for name in step.inputs],
        "weights": dict(step.weights),
        "axes": [*axes],
        "values": _plain(value),
    }


def _plain(value: np.ndarray) -> object:
    """Numbers as lists; None for infinities, which JSON does not have."""
    numbers = value.astype(object)
    numbers[~np.isfinite(value)] = None
    return numbers.tolist()
