"""Steps of attention: projections, positions in scores, mask, softmax, weighted sum, output."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from regard.inside.follow.formula import Formula, Reference
from regard.inside.follow.plan import Kind, StepPlan
from regard.inside.follow.rules import attention as rules
from regard.models.embedding import AnyPosition
from regard.models.positions import Relative, Rotary

if TYPE_CHECKING:
    from regard.models.papers.t5 import RelativeBias

VASWANI = "Vaswani et al. (2017)"
DEFINITION = "regard.layers.attend:attend"
JOIN = "regard.layers.attention:HeadsModule.join"
HEADS = ("token", "head", "dimension")
PAIRS = ("head", "query", "key")
ONE_FOR_ALL = ("mask", "query", "key")  # of all heads
Q, K, V = ("q", "input"), ("k", "input"), ("v", "input")


def projection(letter: str, value: str, place: str = JOIN) -> Kind:
    """Kind of the projection of states to queries, keys or values."""
    return Kind(
        value.replace("_", " "),
        rules.project,
        HEADS,
        f"Each state is projected to the {value.split('_')[-1]} of all heads.",
        Formula.of((letter, "output"), "=", (f"W_{letter}", "weight"), ("x", "input")),
        Reference(VASWANI, "section 3.2.2"),
        place,
        value,
    )


UNTURNED = "regard.layers.attention:SelfAttention._unturned"
PROJECTIONS = {value: projection(value[0], value) for value in ("queries", "keys", "values")}
BEFORE = {
    value: projection(value[0], f"unturned_{value}", UNTURNED) for value in ("queries", "keys")
}
TURN = Kind(
    "rotary positions",
    rules.turn,
    HEADS,
    "Pairs of dimensions are turned by an angle that grows with the position.",
    Formula.of(("q'", "output"), "= R(", ("position", "input"), ")", ("q", "input")),
    Reference("Su et al. (2021)", "eq. 34"),
    "regard.layers.rotary:turn",
    "",
)
MASK = Kind(
    "mask",
    rules.mask,
    ONE_FOR_ALL,
    "A query may attend to the keys that the mask allows.",
    Formula.of(("m", "output"), "∈ {0, 1}"),
    Reference(VASWANI, "section 3.2.3"),
    DEFINITION,
)
BIAS = Kind(
    "bias by distance",
    rules.bucket_bias,
    PAIRS,
    "Each head has a learned number for each bucket of distances.",
    Formula.of(("b", "output"), "=", ("B[bucket(distance)]", "weight")),
    Reference("Raffel et al. (2019)", "section 2.1"),
    "regard.layers.attend:Score.forward",
)
SCORES = Kind(
    "scores",
    rules.dot_scores,
    PAIRS,
    "The score of a key is its dot product with the query, divided by √K.",
    Formula.of(("s", "output"), "=", Q, "·", K, ("/ √K", "", r"/ \sqrt{K}")),
    Reference(VASWANI, "eq. 1"),
    DEFINITION,
)
PLAIN_SCORES = Kind(
    "scores",
    rules.dot_scores,
    PAIRS,
    "The score of a key is its dot product with the query, plus a bias if there is one.",
    Formula.of(("s", "output"), "=", Q, "·", K, "+", ("b", "input")),
    Reference("Luong et al. (2015)", "section 3.1"),
    DEFINITION,
)
DISTANCE_SCORES = Kind(
    "scores with distances",
    rules.distance_vector_scores,
    PAIRS,
    "A learned vector of the clipped distance is added to the key before the dot product.",
    Formula.of(("s", "output"), "=", Q, "· (", K, "+", ("a", "weight"), ") / √K"),
    Reference("Shaw et al. (2018)", "eq. 4"),
    DEFINITION,
)
WEIGHTS = Kind(
    "weights",
    rules.softmax,
    PAIRS,
    "The softmax turns the scores of allowed keys into weights that sum to 1.",
    Formula.of(("α", "output", r"\alpha"), "= exp(", ("s", "input"), ") / Σ exp(s)"),
    Reference(VASWANI, "eq. 1"),
    DEFINITION,
)
OUTPUTS = Kind(
    "head outputs",
    rules.weighted_sum,
    HEADS,
    "The output of a head is the mean of the values, with these weights.",
    Formula.of(("z", "output"), "= Σ", ("α", "input", r"\alpha"), V),
    Reference(VASWANI, "eq. 1"),
    JOIN,
)
JOINED = Kind(
    "attention output",
    rules.join_heads,
    ("token", "dimension"),
    "The outputs of all heads are concatenated and projected.",
    Formula.of(("y", "output"), "=", ("W_O", "weight"), "[", ("z_1; …; z_H", "input"), "]"),
    Reference(VASWANI, "section 3.2.2"),
    "regard.layers.block:Block.forward.attend_to_self",
)
JOINED_CROSS = replace(JOINED, place="regard.layers.block:Block.forward.attend_to_source")
NO_HEADS = Kind(
    "attention without heads",
    rules.bias_alone,
    ("token", "dimension"),
    "All heads of the layer were removed: its bias is left.",
    Formula.of(("y", "output"), "=", ("b", "weight")),
    Reference("Michel et al. (2019)"),
    "regard.layers.block:Block.forward.attend_to_self",
)


@dataclass(frozen=True)
class Site:
    """Attention of a layer: names, paths on the tape and of weights, sizes, and its mask.

    ``projections`` are the layer and its first row, by "queries", "keys" and "values".
    """

    name: str
    path: str
    weights: str
    heads: int
    kv: int
    key: int
    value: int
    scale: float
    projections: Mapping[str, tuple[str, int]]
    left: int | None = None
    right: int | None = None

    def size(self, value: str) -> tuple[int, int]:
        """Number of heads of queries, keys or values, and the size of each."""
        heads = self.heads if value == "queries" else self.kv
        return heads, self.value if value == "values" else self.key

    def step(self, value: str) -> tuple[str, str]:
        """Name of a step, and the tape path of its output."""
        return f"{self.name}/{value}", f"{self.path}.{value}"


def attention_steps(
    plan: StepPlan, site: Site, x: str, states: str, position: AnyPosition | None = None
) -> str:
    """Steps of attention from ``x`` to ``states``; a ``position`` changes the scores."""
    output = site.step("output")
    roles = {role: f"{site.weights}.o.{role}" for role in ("weight", "bias")}
    if not site.heads:
        return plan.add(NO_HEADS, *output, [x], {"bias": roles["bias"]})
    if position is None:
        q, k = project(plan, site, "queries", x), project(plan, site, "keys", states)
        kind = PLAIN_SCORES if site.scale == 1 else SCORES
        scores = plan.add(kind, *site.step("scores"), [q, k], scale=site.scale)
    else:
        scores = plan.follow(position, site, x)
    v = project(plan, site, "values", states)
    mask = plan.add(MASK, *site.step("mask"), [x, states], left=site.left, right=site.right)
    weights = plan.add(WEIGHTS, *site.step("weights"), [scores, mask])
    heads = plan.add(OUTPUTS, *site.step("head_outputs"), [weights, v])
    kind = JOINED_CROSS if site.path.endswith(".cross") else JOINED
    return plan.add(kind, *output, [heads], roles)


def project(plan: StepPlan, site: Site, value: str, x: str, before: Kind | None = None) -> str:
    """Step of a projection; ``before``: its kind if rotary positions follow."""
    layer, first = site.projections[value]
    heads, size = site.size(value)
    roles = {role: f"{site.weights}.{layer}.{role}" for role in ("weight", "bias")}
    settings = {"first": first, "last": first + heads * size, "heads": heads}
    name = value if before is None else f"unturned_{value}"
    return plan.add(before or PROJECTIONS[value], *site.step(name), [x], roles, **settings)


def relative_steps(plan: StepPlan, position: Relative, site: Site, x: str) -> str:
    """Scores with vectors of distances (Shaw et al., 2018)."""
    q, k = (project(plan, site, value, x) for value in ("queries", "keys"))
    vectors = {"vectors": f"{site.weights}.score.distance.weight"}
    where = site.step("scores")
    return plan.add(DISTANCE_SCORES, *where, [q, k], vectors, farthest=position.farthest)


def bias_steps(plan: StepPlan, position: "RelativeBias", site: Site, x: str) -> str:
    """Scores with a bias of the bucket of the distance (T5)."""
    q, k = (project(plan, site, value, x) for value in ("queries", "keys"))
    table = {"table": f"{site.weights}.score.bias.weight"}
    settings: dict[str, object] = {"buckets": position.buckets, "farthest": position.farthest}
    settings["causal"] = site.right == 0
    bias = plan.add(BIAS, *site.step("bias"), [x, x], table, **settings)
    return plan.add(PLAIN_SCORES, *site.step("scores"), [q, k, bias], scale=1.0)


def rotary_steps(plan: StepPlan, position: Rotary, site: Site, x: str) -> str:
    """Scores of queries and keys that are turned by their positions."""
    windowed = site.left is not None
    base = (position.local_base or position.base) if windowed else position.base
    settings: dict[str, object] = {"size": int(site.key * position.turned), "base": base}
    scaling = {} if position.scaling is None else vars(position.scaling)
    if len(scaling) == 1:
        settings["linear"] = scaling["factor"]
    elif scaling:
        settings["llama3"] = tuple(scaling[key] for key in ("factor", "low", "high", "original"))
    turned = []
    for value in ("queries", "keys"):
        before = project(plan, site, value, x, BEFORE[value])
        turned.append(plan.add(TURN, *site.step(value), [before], **settings))
    return plan.add(SCORES, *site.step("scores"), turned, scale=1 / math.sqrt(site.key))
