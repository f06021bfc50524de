"""Steps of XLNet's content stream: attention with distances and segments."""

from dataclasses import replace
from typing import TYPE_CHECKING

from regard.inside.follow.formula import Formula, Reference
from regard.inside.follow.kinds.attention import (
    DEFINITION,
    JOINED,
    MASK,
    OUTPUTS,
    PAIRS,
    WEIGHTS,
    Site,
    project,
)
from regard.inside.follow.kinds.transformer import LAST, Sublayer, mlp_steps
from regard.inside.follow.plan import Kind, Side, StepPlan
from regard.inside.follow.rules import attention as rules
from regard.models.transformer import Stack

if TYPE_CHECKING:
    from regard.models.papers.xlnet.two_stream import TwoStreamStack

PLACE = "regard.models.papers.xlnet.two_stream:"
JOINED_CONTENT = replace(JOINED, place=f"{PLACE}TwoStreamBlock.forward.attend_to_content")
LAST_CONTENT = replace(LAST, place=f"{PLACE}TwoStreamModule.forward")
DAI, YANG = Reference("Dai et al. (2019)", "eq. 4"), Reference("Yang et al. (2019)", "section 2.5")
RELATIVE = "regard.layers.relative_score:Relative"
Q = ("q", "input")
DISTANCE = Kind(
    "scores by distance",
    rules.distance_scores,
    PAIRS,
    "The query scores the projected sinusoid of the distance to each key.",
    Formula.of(("s_d", "output"), "= (", Q, "+ w) ·", ("r", "weight"), "/ √K"),
    DAI,
    RELATIVE + "Dot.bias",
)
SEGMENT = Kind(
    "scores by segment",
    rules.segment_scores,
    PAIRS,
    "Keys of the query's segment have one vector, other keys another.",
    Formula.of(("s_g", "output"), "= (", Q, "+ b) ·", ("s", "weight"), "/ √K"),
    YANG,
    RELATIVE + "SegmentDot.bias",
)
SCORES = Kind(
    "relative scores",
    rules.relative_scores,
    PAIRS,
    "The score by content is added to the scores by distance and by segment.",
    Formula.of(("s", "output"), "= (", Q, "+ u) ·", ("k", "input"), "/ √K + s_d + s_g"),
    DAI,
    DEFINITION,
)


def two_stream_steps(
    plan: StepPlan, stack: "TwoStreamStack", side: Side, x: str, position: object = None
) -> str:
    """Steps of all layers of the content stream; without an order, all tokens see each other."""
    like = Stack(
        *(stack.width, stack.depth, stack.heads, stack.inner),
        activation=stack.activation,
        eps=stack.eps,
    )
    for number in range(stack.depth):
        name, path = side.name(f"layer {number}"), side.at(f"blocks.{number}")
        own = Sublayer(like, name, path, path, "attention")
        x = own.add(plan, x, _attention_steps(plan, own, side, x))
        x = mlp_steps(plan, Sublayer(like, name, path, path, "mlp"), x)
    return plan.add(LAST_CONTENT, side.name("states"), side.at("output"), [x])


def _attention_steps(plan: StepPlan, layer: Sublayer, side: Side, x: str) -> str:
    stack, path = layer.stack, f"{layer.path}.attention"
    size, heads, width = stack.width // stack.heads, stack.heads, stack.width
    projections = {"queries": ("q", 0), "keys": ("kv", 0), "values": ("kv", width)}
    name = f"{layer.name}/attention"
    site = Site(name, path, path, heads, heads, size, size, 1.0, projections)
    q, k, v = (project(plan, site, value, x) for value in projections)
    score = f"{path}.score."
    roles = {"distance": f"{score}distance.weight", "bias": f"{score}distance_bias"}
    by_distance = plan.add(DISTANCE, *site.step("distance_scores"), [q, k], roles)
    roles = {"table": f"{score}segment", "bias": f"{score}segment_bias"}
    inputs = [q, k, side.segments]
    by_segment = plan.add(SEGMENT, *site.step("segment_scores"), inputs, roles)
    roles = {"bias": f"{score}content_bias"}
    scores = plan.add(SCORES, *site.step("scores"), [q, k, by_distance, by_segment], roles)
    mask = plan.add(MASK, *site.step("mask"), [x, x], left=None, right=None)
    weights = plan.add(WEIGHTS, *site.step("weights"), [scores, mask])
    outputs = plan.add(OUTPUTS, *site.step("head_outputs"), [weights, v])
    roles = {"weight": f"{path}.o.weight"}
    return plan.add(JOINED_CONTENT, *site.step("output"), [outputs], roles)
