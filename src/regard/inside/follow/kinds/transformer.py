"""Steps of Transformer layers: attention, feed-forward layer, sums and norms around them."""

import math
from dataclasses import dataclass

from regard.inside.follow.formula import Formula, Reference
from regard.inside.follow.kinds.attention import Site, attention_steps
from regard.inside.follow.kinds.norms import norm_kind
from regard.inside.follow.plan import Kind, Side, StepPlan
from regard.inside.follow.rules import block as rules
from regard.models.embedding import AnyPosition
from regard.models.transformer import Stack

VASWANI = "Vaswani et al. (2017)"
RESIDUAL = "regard.layers.block:Residual.forward"
NORMED = "regard.layers.block:Residual.normed"
BLOCK = "regard.layers.block:Block.forward"
STATES = ("token", "dimension")
SUM = Kind(
    "residual sum",
    rules.residual_sum,
    STATES,
    "The output of the sublayer is added to the state before it.",
    Formula.of(("y", "output"), "=", ("x", "input"), "+", ("u", "input")),
    Reference(VASWANI, "section 3.1"),
    RESIDUAL,
    "sum",
)
INNER = Kind(
    "inner feed-forward layer",
    rules.inner_layer,
    ("token", "neuron"),
    "A linear layer and an activation give the inner values of the feed-forward layer.",
    Formula.of(("h", "output"), "= act(", ("W_1", "weight"), ("x", "input"), "+ b_1)"),
    Reference(VASWANI, "eq. 2"),
    "regard.layers.block:Mlp.forward",
)
GATED = Kind(
    "gated inner layer",
    rules.inner_layer,
    ("token", "neuron"),
    "The activation of one linear layer is multiplied with another linear layer.",
    Formula.of(("h", "output"), "= act(V", ("x", "input"), ") ⊙ W", ("x", "input")),
    Reference("Shazeer (2020)", "eq. 6"),
    "regard.layers.block:Mlp.forward",
    "inner",
)
DOWN = Kind(
    "feed-forward output",
    rules.linear,
    STATES,
    "A second linear layer maps the inner values back to the width of the states.",
    Formula.of(("y", "output"), "=", ("W_2", "weight"), ("h", "input"), "+ b_2"),
    Reference(VASWANI, "eq. 2"),
    "regard.layers.block:Block.forward.feed_forward",
)
LAST = Kind(
    "last states",
    rules.copy,
    STATES,
    "The states of the last layer are what heads and decoders read.",
    Formula.of(("h", "output"), "=", ("x", "input")),
    Reference(VASWANI, "figure 1"),
    "regard.models.transformer:TransformerModule.forward",
)


@dataclass(frozen=True)
class Sublayer:
    """A sublayer of a block: its stack, names, paths on the tape and of weights."""

    stack: Stack
    name: str
    path: str
    block: str
    part: str
    normed: bool = True

    def step(self, value: str) -> tuple[str, str]:
        """Name of a step, and the tape path of its output."""
        return f"{self.name}/{self.part}/{value}", f"{self.path}.{self.part}.{value}"

    def norm(self, plan: StepPlan, where: tuple[str, str], x: str, place: str) -> str:
        """Step of the norm of the sublayer."""
        norm = f"{self.block}.{self.part}_residual.norm"
        roles = {role: f"{norm}.{role}" for role in ("weight", "bias")}
        kind = norm_kind(self.stack.norm_kind, place, "normed")
        return plan.add(kind, *where, [x], roles, eps=self.stack.eps)

    def read(self, plan: StepPlan, x: str) -> str:
        """Input of the sublayer: the state, after a norm if the stack has pre-norms."""
        if self.stack.norm == "post" or not self.normed:
            return x
        return self.norm(plan, self.step("normed"), x, NORMED)

    def add(
        self, plan: StepPlan, x: str, update: str, output: tuple[str, str] | None = None
    ) -> str:
        """Steps after the sublayer; ``output``, of the last one of a block, is what they give."""
        post = self.stack.norm == "post"
        roles = {}
        if self.stack.layer_scale is not None:
            roles["layer_scale"] = f"{self.block}.{self.part}_residual.layer_scale"
        where = self.step("sum") if post or output is None else output
        x = plan.add(SUM, *where, [x, update], roles)
        if not post or not self.normed:
            return x
        return self.norm(plan, output or self.step("normed"), x, RESIDUAL)


def stack_steps(
    plan: StepPlan,
    stack: Stack,
    side: Side,
    x: str,
    position: AnyPosition | None = None,
    source: str | None = None,
) -> str:
    """Steps of all layers; ``source`` are the states, and the stack, that a decoder attends to."""
    by_distance = position if position is not None and position.by_distance else None
    for number, index in enumerate(stack.block_numbers):
        name, path = side.name(f"layer {number}"), side.at(f"blocks.{number}")
        weights = side.at(f"blocks.{index}")
        first = stack.first_norm or index > 0
        own = Sublayer(stack, name, path, weights, "attention", first)
        site = _site(stack, own, number, index)
        read = own.read(plan, x)
        x = own.add(plan, x, attention_steps(plan, site, read, read, by_distance))
        if source is not None:
            cross = Sublayer(stack, name, path, weights, "cross")
            site, read = _cross_site(stack, cross, number), cross.read(plan, x)
            x = cross.add(plan, x, attention_steps(plan, site, read, source[0]))
        x = mlp_steps(plan, Sublayer(stack, name, path, weights, "mlp"), x)
    where = side.name("states"), side.at("output")
    if not stack.final_norm:
        return plan.add(LAST, *where, [x])
    roles = {role: side.at(f"norm.{role}") for role in ("weight", "bias")}
    kind = norm_kind(stack.norm_kind, LAST.place, "output")
    return plan.add(kind, *where, [x], roles, eps=stack.eps)


def mlp_steps(plan: StepPlan, mlp: Sublayer, x: str) -> str:
    """Steps of the feed-forward sublayer, which is the last one of a block."""
    stack, read = mlp.stack, mlp.read(plan, x)
    up, down = (
        {role: f"{mlp.block}.mlp.{layer}.{role}" for role in ("weight", "bias")}
        for layer in ("up", "down")
    )
    kind, settings = GATED if stack.gated else INNER, {"activation": stack.activation}
    inner = plan.add(kind, *mlp.step("inner"), [read], up, gated=stack.gated, **settings)
    update = plan.add(DOWN, *mlp.step("output"), [inner], down)
    return mlp.add(plan, x, update, (f"{mlp.name}/output", f"{mlp.path}.output"))


def _site(stack: Stack, layer: Sublayer, number: int, index: int) -> Site:
    """Self-attention of a layer: the window of its block, or that of the stack."""
    heads, kv, key, value = _sizes(stack, stack.heads_by_layer, number)
    causal = stack.causal
    left, right = None, 0 if causal else None
    window = stack.windows[index % len(stack.windows)] if stack.windows else 0
    if window:
        left, right = (window - 1, 0) if causal else (window, window)
    places = {"queries": 0, "keys": heads * key, "values": heads * key + kv * key}
    projections = {name: ("qkv", first) for name, first in places.items()}
    where = layer.step("")[0][:-1], layer.step("")[1][:-1], f"{layer.block}.attention"
    scale = 1 / math.sqrt(key) if stack.scaled_scores else 1.0
    return Site(*where, heads, kv, key, value, scale, projections, left, right)


def _cross_site(stack: Stack, layer: Sublayer, number: int) -> Site:
    heads, kv, key, value = _sizes(stack, stack.cross_heads_by_layer, number)
    projections = {"queries": ("q", 0), "keys": ("kv", 0), "values": ("kv", kv * key)}
    where = layer.step("")[0][:-1], layer.step("")[1][:-1], f"{layer.block}.cross"
    scale = 1 / math.sqrt(key) if stack.scaled_scores else 1.0
    return Site(*where, heads, kv, key, value, scale, projections)


def _sizes(stack: Stack, counts: tuple[int, ...], number: int) -> tuple[int, int, int, int]:
    """Numbers of heads of queries and of keys in a layer, and the sizes of a key and a value."""
    key = stack.width // stack.heads if stack.key is None else stack.key
    value = key if stack.value is None else stack.value
    if counts:
        return counts[number], counts[number], key, value
    return stack.heads, stack.kv_heads or stack.heads, key, value
