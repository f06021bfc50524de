"""Plan of a computation: its steps, made from facts and names of weights."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from regard.core.errors import BadInput
from regard.inside.follow.formula import Formula, Reference
from regard.inside.follow.source import SourceLine

Rule = Callable[..., np.ndarray]
StepMaker = Callable[..., str]
Axes = tuple[str, ...]
NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Kind:
    """Kind of steps: rule, axes of the output, sentence, formula, reference, and place in our code.

    ``place`` is "module:object"; ``value`` is the name on the tape that is looked for in it, by
    default the last part of the output's path; "" means the function itself.
    """

    name: str
    rule: Rule
    axes: Axes
    sentence: str
    formula: Formula
    reference: Reference
    place: str
    value: str | None = None


@dataclass(frozen=True, eq=False)
class Step:
    """One step of a computation: a value on the tape, and the rule that recomputes it.

    ``inputs`` are outputs of earlier steps, or inputs of the model; ``weights`` are names in the
    state dict by the role that they have in the rule; ``settings`` come from facts.
    """

    name: str
    kind: Kind
    output: str
    inputs: tuple[str, ...]
    weights: Mapping[str, str]
    settings: Mapping[str, object]

    @property
    def axes(self) -> Axes:
        """Names of the axes of the output."""
        return self.kind.axes

    @property
    def formula(self) -> Formula:
        """What the step computes."""
        return self.kind.formula

    @property
    def sentence(self) -> str:
        """What the step computes, in words."""
        return self.kind.sentence

    @property
    def reference(self) -> Reference:
        """Where a paper describes the step."""
        return self.kind.reference

    @property
    def source(self) -> SourceLine:
        """Our file and line."""
        value = self.output.rpartition(".")[2] if self.kind.value is None else self.kind.value
        return SourceLine.of(self.kind.place, value)

    def compute(
        self, values: Mapping[str, np.ndarray], weights: Mapping[str, np.ndarray]
    ) -> np.ndarray:
        """The output, recomputed in float64."""
        inputs = [values[name].astype(np.float64) for name in self.inputs]
        roles = {role: weights[name] for role, name in self.weights.items()}
        return self.kind.rule(*inputs, **roles, **self.settings)


@dataclass
class StepPlan:
    """Steps that are being collected.

    ``parameters`` are the names of the state dict, ``makers`` the functions that add the steps of a
    class of facts, by its name.
    """

    parameters: Collection[str]
    makers: Mapping[str, StepMaker]
    steps: list[Step] = field(default_factory=list)

    def add(
        self,
        kind: Kind,
        name: str,
        output: str,
        inputs: Sequence[str],
        weights: Mapping[str, str] = NOTHING,
        /,
        **settings: object,
    ) -> str:
        """Add a step and return the tape path of its output; a missing bias is left out."""
        roles = {
            role: path
            for role, path in weights.items()
            if role != "bias" or path in self.parameters
        }
        self.steps.append(Step(name, kind, output, tuple(inputs), roles, settings))
        return output

    def follow(self, facts: object, *arguments: object, **more: object) -> str:
        """Add the steps of a value of facts; return the path of its last output."""
        name = type(facts).__name__
        if name not in self.makers:
            known = ", ".join(sorted(self.makers))
            raise BadInput(f"follow: {name} has no steps yet; there are steps of: {known}")
        return self.makers[name](self, facts, *arguments, **more)


@dataclass(frozen=True)
class Side:
    """A side of a model: the prefix of its names, its tape path, and its inputs.

    With ``two_directions``, the stack reads each vector twice.
    """

    label: str
    path: str
    ids: str
    segments: str = ""
    two_directions: bool = False

    def name(self, rest: str) -> str:
        """Public name of a step of this side."""
        return f"{self.label}{rest}"

    def at(self, rest: str) -> str:
        """Tape path, or name of a weight, under this side."""
        return f"{self.path}.{rest}"
