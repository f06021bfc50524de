"""Steps of stacks with one value a layer: gated convolutions, highway LSTM layers."""

from dataclasses import replace
from typing import TYPE_CHECKING

from regard.inside.follow.formula import Formula, Reference
from regard.inside.follow.kinds.recurrent import LAST, STATES
from regard.inside.follow.plan import Kind, Side, StepPlan
from regard.inside.follow.rules import recurrent as rules
from regard.models.conv import ConvEncoderFacts

if TYPE_CHECKING:
    from regard.models.papers.he import HighwayStack

CONVOLUTION = Kind(
    "gated convolution",
    rules.gated_convolution,
    STATES,
    "A linear layer over the window around a token is gated, and added to the token.",
    Formula.of(
        ("y", "output"), "= (", ("x", "input"), "+ GLU(", ("W", "weight"), "window + b)) √½"
    ),
    Reference("Gehring et al. (2017)", "section 3.2"),
    "regard.models.conv:ConvEncoderModule.forward",
)
HIGHWAY = Kind(
    "highway LSTM",
    rules.highway_states,
    STATES,
    "A gate mixes the state of an LSTM with a projection of its input.",
    Formula.of(("h", "output"), "= r ⊙ o ⊙ tanh(c) + (1 - r) ⊙", ("W", "weight"), ("x", "input")),
    Reference("He et al. (2017)", "eq. 9"),
    "regard.models.papers.he:HighwayModule.forward",
)
CONVOLVED = replace(LAST, place="regard.models.conv:ConvEncoderModule.forward")
HIGHWAY_LAST = replace(LAST, place="regard.models.papers.he:HighwayModule.forward")


def convolution_steps(
    plan: StepPlan, stack: ConvEncoderFacts, side: Side, x: str, position: object = None
) -> str:
    """Steps of a convolutional encoder."""
    for number in range(stack.depth):
        roles = {r: side.at(f"layers.{number}.linear.{r}") for r in ("weight", "bias")}
        where = side.name(f"layer {number}/output"), side.at(f"blocks.{number}.output")
        x = plan.add(CONVOLUTION, *where, [x], roles)
    return plan.add(CONVOLVED, side.name("states"), side.at("output"), [x])


def highway_steps(
    plan: StepPlan, stack: "HighwayStack", side: Side, x: str, position: object = None
) -> str:
    """Steps of highway LSTM layers, which read in alternate directions."""
    for number in range(stack.depth):
        layer = side.at(f"blocks.{number}")
        roles = {r: f"{layer}.inputs.{r}" for r in ("weight", "bias")}
        roles["states"] = f"{layer}.states"
        where = side.name(f"layer {number}/output"), f"{layer}.output"
        x = plan.add(HIGHWAY, *where, [x], roles, backward=number % 2 == 1)
    return plan.add(HIGHWAY_LAST, side.name("states"), side.at("output"), [x])
