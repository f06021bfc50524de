"""Steps of whole models: sides, pool, heads, and the output layer of an encoder-decoder."""

from dataclasses import replace

from regard.inside.follow.formula import Formula, Reference
from regard.inside.follow.plan import Kind, Side, StepPlan
from regard.inside.follow.rules import block, pools
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.trunk import AnyStack, Trunk
from regard.models.trunk_with_heads import TrunkWithHeads

LOGITS = Kind(
    "logits",
    block.linear,
    ("token", "output"),
    "Each token of the vocabulary gets a logit as the next token.",
    Formula.of(("y", "output"), "=", ("E", "weight"), ("h", "input"), "+ b"),
    Reference("Vaswani et al. (2017)", "section 3.4"),
    "regard.models.encoder_decoder:EncoderDecoderModule.forward",
)
MIXED = "regard.models.trunk_with_heads:TrunkWithHeadsModule.encode"
PETERS = Reference("Peters et al. (2018)", "eq. 1")
MIX_WEIGHTS = Kind(
    "weights of layers",
    pools.mixture_weights,
    ("layer",),
    "The softmax of a learned number for each layer.",
    Formula.of(("s", "output"), "= softmax(", ("w", "weight"), ")"),
    PETERS,
    "regard.models.features:ScalarMix.forward",
)
MIX = Kind(
    "mixture of layers",
    pools.mixture,
    ("token", "dimension"),
    "The states of all layers are summed with these weights, times one number.",
    Formula.of(("h", "output"), "=", ("γ", "weight", r"\gamma"), "Σ", ("s_j h_j", "input")),
    PETERS,
    MIXED,
    "mix.output",
)


def trunk_steps(
    plan: StepPlan, trunk: Trunk, side: Side, source: tuple[str, AnyStack] | None = None
) -> str:
    """Steps of an embedding and a stack."""
    if trunk.features is not None:
        return plan.follow(trunk.features, trunk, side)
    stack, embed = trunk.stack, trunk.embed
    side = replace(side, two_directions=stack.two_directions)
    x = plan.follow(embed, side, stack.input_width, stack.norm_settings)
    more = {} if source is None else {"source": source}
    return plan.follow(stack, side, x, embed.position, **more)


def trunk_with_heads_steps(plan: StepPlan, model: TrunkWithHeads) -> str:
    """Steps of a trunk, its pool and its heads."""
    side = Side("", "trunk", "trunk.ids", "trunk.segments")
    states = plan.follow(model.trunk, side)
    if model.mix:
        states = _mixed_steps(plan, model)
    elif model.layer not in (None, -1):
        states = model.trunk.state_path("trunk", model.layer)
    pooled = states
    if model.pool is not None:
        pooled = plan.follow(model.pool, states, model.width_read)
    last = pooled
    for head in model.output_heads:
        last = plan.follow(head, model.trunk, pooled if head.per_row else states)
    return last


def encoder_decoder_steps(plan: StepPlan, model: EncoderDecoder) -> str:
    """Steps of an encoder, a decoder that attends to it, and the output layer."""
    source, target = (
        Side(f"{label} ", path, f"{path}.ids", f"{path}.segments")
        for label, path in (("encoder", "source"), ("decoder", "target"))
    )
    encoded = plan.follow(model.source, source)
    states = plan.follow(model.target, target, (encoded, model.source.stack))
    scale = model.target.width**-0.5 if model.scaled_output else 1.0
    roles = {role: f"head.{role}" for role in ("weight", "bias")}
    return plan.add(LOGITS, "logits", "logits", [states], roles, scale=scale)


def _mixed_steps(plan: StepPlan, model: TrunkWithHeads) -> str:
    """Steps of the learned mixture of embedding and layers."""
    where, roles = ("mix/weights", "trunk.mix.weights"), {"logits": "mix.logits"}
    weights = plan.add(MIX_WEIGHTS, *where, [], roles)
    layers = [model.trunk.state_path("trunk", n) for n in range(model.trunk.stack.depth + 1)]
    where, roles = ("mix/output", "trunk.mix.output"), {"scale": "mix.scale"}
    return plan.add(MIX, *where, [weights, *layers], roles)
