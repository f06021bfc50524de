"""Steps of recurrent decoders: bridge, attention to the source, layers, readouts."""

import math
from dataclasses import replace
from typing import cast

from regard.inside.follow.formula import Formula, Reference
from regard.inside.follow.kinds.attention import MASK, PAIRS, PLAIN_SCORES, SCORES, WEIGHTS
from regard.inside.follow.kinds.recurrent import STATES, Layer, layer_steps, layers_of
from regard.inside.follow.plan import Kind, Rule, Side, StepPlan
from regard.inside.follow.rules import attention, block
from regard.inside.follow.rules import recurrent as rules
from regard.models.rnn import RNNEncoderFacts
from regard.models.rnn_decoder import RNNDecoderFacts
from regard.models.trunk import AnyStack

DECODER = "regard.models.rnn_decoder:RNNDecoderModule."
CROSS = "regard.layers.recurrent.rnn_attention:RNNAttention."
BRIDGE = "regard.layers.recurrent.bridge:Bridge.forward"
BAHDANAU, LUONG = "Bahdanau et al. (2014)", "Luong et al. (2015)"
ROW, HEADS = ("row", "dimension"), ("token", "head", "dimension")
BOTH_SCORES = {"concat": "additive", "general": "bilinear"}  # other names


def kind(
    name: str,
    rule: Rule,
    axes: tuple[str, ...],
    sentence: str,
    right: str,
    reference: Reference,
    place: str,
    value: str | None = None,
) -> Kind:
    """Kind whose formula has a ``right`` side of inputs."""
    formula = Formula.of(("y", "output"), "=", (right, "input"))
    return Kind(name, rule, axes, sentence, formula, reference, place, value)


COPY = kind(
    "copied final state",
    rules.final_state,
    ROW,
    "The decoder starts from the final state of the encoder.",
    "h_T",
    Reference("Sutskever et al. (2014)", "section 2"),
    BRIDGE,
    "",
)
COPY_LAST = replace(COPY, rule=rules.last_of_states)
ZEROS = replace(
    COPY, name="empty memory", rule=rules.zeros_like_last, sentence="The memory cell starts at 0."
)
FIRST = kind(
    "first state",
    rules.bridge,
    ROW,
    "The decoder starts from a dense layer over a summary of the source.",
    "tanh(W h + b)",
    Reference(BAHDANAU, "appendix A.2.2"),
    BRIDGE,
    "",
)
SUMMARY = replace(
    FIRST,
    name="summary",
    sentence="One vector summarises the source for all steps.",
    value="summary",
)
VALUES = kind(
    "values",
    rules.one_head,
    HEADS,
    "The values are the states of the source.",
    "h_i",
    Reference(BAHDANAU, "eq. 5"),
    CROSS + "keys",
)
QUERIES = kind(
    "queries",
    rules.previous_states,
    HEADS,
    "The query is the state before the word that is written.",
    "s_{t-1}",
    Reference(BAHDANAU, "eq. 6"),
    CROSS + "forward",
)
CURRENT = kind(
    "queries",
    rules.one_head,
    HEADS,
    "The query is the state of the current word.",
    "h_t",
    Reference(LUONG, "section 3.1"),
    CROSS + "forward",
)
CONTEXT = kind(
    "context",
    rules.context,
    STATES,
    "The context is the mean of the source states, with these weights.",
    "Σ α_i h_i",
    Reference(BAHDANAU, "eq. 5"),
    CROSS + "forward",
)
COMBINED = kind(
    "attentional state",
    rules.combined,
    STATES,
    "Context and state are joined by a dense layer.",
    "tanh(W [c; h])",
    Reference(LUONG, "eq. 5"),
    DECODER + "_step",
)
MAXOUT = kind(
    "maxout layer",
    rules.maxout,
    STATES,
    "Of each pair of outputs of a linear layer, the larger one counts.",
    "max(W [s; x; c] + b)",
    Reference(BAHDANAU, "appendix A.2.2"),
    DECODER + "forward",
)
OUTPUT = kind(
    "last states",
    block.copy,
    STATES,
    "These states predict the next word.",
    "x",
    Reference(BAHDANAU, "eq. 4"),
    DECODER + "forward",
)
UH = kind(
    "keys",
    rules.product,
    HEADS,
    "The part of the score that depends on the source alone is computed once.",
    "U h_i",
    Reference(BAHDANAU, "appendix A.1.2"),
    CROSS + "keys",
)
KEYS = {
    "additive": UH,
    "bilinear": replace(UH, rule=rules.bilinear_keys),
    "cosine": replace(UH, rule=rules.unit_vectors),
}
SAME = replace(VALUES, name="keys", sentence="The keys are the values.")
ADDITIVE = kind(
    "additive scores",
    rules.additive_scores,
    PAIRS,
    "A small network scores each source word against the query.",
    "v · tanh(W q + U h)",
    Reference(BAHDANAU, "appendix A.1.2"),
    "regard.layers.attend:attend",
    "scores",
)
SCORE_KINDS = {
    "additive": ADDITIVE,
    "bilinear": PLAIN_SCORES,
    "cosine": replace(ADDITIVE, name="cosine scores", rule=rules.cosine_scores),
    "dot": PLAIN_SCORES,
    "location": replace(ADDITIVE, name="location scores", rule=rules.location_scores),
    "scaled-dot": SCORES,
}
OWN_WEIGHTS = {"additive": ("query", "v"), "location": ("weight",)}
OF_KEYS = {"additive": ("key",), "bilinear": ("weight",)}


def score_steps(
    plan: StepPlan, score: str, name: str, path: str, weights: str, states: str
) -> tuple:
    """Steps of keys and values of an attention with one head; their paths."""
    values = plan.add(VALUES, f"{name}/values", f"{path}.values", [states])
    roles = {role: f"{weights}.score.{role}" for role in OF_KEYS.get(score, ())}
    keys = plan.add(
        KEYS.get(score, SAME), f"{name}/keys", f"{path}.keys", [_of(score, values, states)], roles
    )
    return keys, values


def _of(score: str, values: str, states: str) -> str:
    """Input of the step of the keys."""
    return values if score in KEYS else states


def context_steps(
    plan: StepPlan,
    score: str,
    name: str,
    path: str,
    weights: str,
    parts: tuple[str, str, str],
    size: int,
) -> str:
    """Steps from queries, keys and values to the context."""
    queries, keys, values = parts
    roles = {role: f"{weights}.score.{role}" for role in OWN_WEIGHTS.get(score, ())}
    settings: dict[str, object] = {}
    if SCORE_KINDS[score].rule is attention.dot_scores:
        settings["scale"] = 1 / math.sqrt(size) if score == "scaled-dot" else 1.0
    where = f"{name}/scores", f"{path}.scores"
    scores = plan.add(SCORE_KINDS[score], *where, [queries, keys], roles, **settings)
    pair, window = [queries, keys], {"left": None, "right": None}
    mask = plan.add(MASK, f"{name}/mask", f"{path}.mask", pair, **window)
    shares = plan.add(WEIGHTS, f"{name}/weights", f"{path}.weights", [scores, mask])
    return plan.add(CONTEXT, f"{name}/context", f"{path}.context", [shares, values])


def decoder_steps(
    plan: StepPlan,
    stack: RNNDecoderFacts,
    side: Side,
    x: str,
    position: object = None,
    source: tuple[str, AnyStack] | None = None,
) -> str:
    """Steps of a recurrent decoder over the states of a source."""
    assert source is not None
    states, encoder = source
    layers = layers_of(stack, side, "layers.layers")
    summary = _summary_steps(plan, stack, side, states, encoder) if stack.summary else None
    layers = [
        replace(layer, begin=_begin_steps(plan, stack, side, number, encoder, summary or states))
        for number, layer in enumerate(layers)
    ]
    inputs, top = {"x": x}, side.at(f"blocks.{stack.depth - 1}.output")
    inputs |= {"summary": summary} if summary else {}
    cross = stack.attention
    name, path = side.name("cross"), side.at("cross")
    score = "" if cross is None else BOTH_SCORES.get(cross.score, cross.score)
    context = None
    if cross is not None:
        keys, values = score_steps(plan, score, name, path, path, states)
        if cross.attends_before:
            queries = _query_steps(plan, side, layers, top, x)
            parts = queries, keys, values
            context = context_steps(plan, score, name, path, path, parts, stack.width)
            inputs["context"] = context
        elif cross.input_feeding:
            inputs["fed"] = side.at("combined")
    state = x
    for number, layer in enumerate(layers):
        state = layer_steps(plan, layer, {"x": state} if number else inputs)
    if cross is not None and not cross.attends_before:
        queries = plan.add(CURRENT, f"{name}/queries", f"{path}.queries", [state])
        parts = queries, keys, values
        joined = context_steps(plan, score, name, path, path, parts, stack.width)
        roles = {"weight": side.at("combine.linear.weight")}
        where = side.name("combined"), side.at("combined")
        state = plan.add(COMBINED, *where, [joined, state], roles)
    if stack.maxout is not None:
        roles = {role: side.at(f"maxout.linear.{role}") for role in ("weight", "bias")}
        seen = [part for part in (context, summary) if part is not None]
        where = side.name("maxout"), side.at("maxout")
        state = plan.add(MAXOUT, *where, [state, x, *seen], roles)
    return plan.add(OUTPUT, side.name("states"), side.at("output"), [state])


def _query_steps(plan: StepPlan, side: Side, layers: list[Layer], top: str, x: str) -> str:
    """The state before each word; it comes from a later step."""
    last = layers[-1]
    below = [side.at(f"blocks.{len(layers) - 2}.output")] if last.residual else []
    inputs = [top, dict(last.begin)["h"], *below]
    return plan.add(QUERIES, side.name("cross/queries"), side.at("cross.queries"), inputs)


def _of_top(encoder: AnyStack, states: str, bridge: str) -> list[str]:
    """Paths of the last states of the encoder and, if they are residual, of the layer below."""
    if bridge == "mean" or not encoder.final_states or encoder.depth == 1:
        return [states]
    residual = cast(RNNEncoderFacts, encoder).residual
    return [states, f"source.blocks.{encoder.depth - 2}.output"] if residual else [states]


def _ways(encoder: AnyStack) -> int:
    """Directions of the encoder; 0: it has no final states."""
    return (2 if encoder.bidirectional else 1) if encoder.final_states else 0


def _summary_steps(
    plan: StepPlan, stack: RNNDecoderFacts, side: Side, states: str, encoder: AnyStack
) -> str:
    roles = {role: side.at(f"bridge.summary.{role}") for role in ("weight", "bias")}
    kind = "last" if stack.bridge == "copy" else stack.bridge
    where = side.name("bridge/summary"), side.at("bridge.summary")
    read = _of_top(encoder, states, kind)
    return plan.add(SUMMARY, *where, read, roles, summary=kind, ways=_ways(encoder))


def _begin_steps(
    plan: StepPlan, stack: RNNDecoderFacts, side: Side, number: int, encoder: AnyStack, read: str
) -> tuple[tuple[str, str], ...]:
    """Paths of the first h and c of a layer."""
    letters = "hc" if stack.cell == "lstm" else "h"
    begin = []
    for index, letter in enumerate(letters):
        where = side.name(f"bridge/layer {number}/{letter}"), side.at(f"bridge.{number}.{letter}")
        if stack.bridge == "copy":
            begin.append((letter, _copy_step(plan, where, number, letter, encoder, read)))
            continue
        roles = {role: side.at(f"bridge.begin.{role}") for role in ("weight", "bias")}
        first = (number * len(letters) + index) * stack.width
        kind = "given" if stack.summary else stack.bridge
        settings: dict[str, object] = {"first": first, "last": first + stack.width}
        settings |= {"ways": _ways(encoder), "summary": kind}
        inputs = [read] if stack.summary else _of_top(encoder, read, kind)
        begin.append((letter, plan.add(FIRST, *where, inputs, roles, **settings)))
    return tuple(begin)


def _copy_step(
    plan: StepPlan, where: tuple[str, str], number: int, letter: str, encoder: AnyStack, read: str
) -> str:
    """Step that copies the final state of a layer of the encoder."""
    if not encoder.final_states:
        return plan.add(COPY_LAST if letter == "h" else ZEROS, *where, [read])
    path, ways, recurrent = (
        f"source.blocks.{number}.",
        _ways(encoder),
        cast(RNNEncoderFacts, encoder),
    )
    backward = recurrent.direction == "backward"
    if letter == "c" and recurrent.cell != "lstm":
        return plan.add(ZEROS, *where, [f"{path}output"])
    below = []
    if letter == "h" and recurrent.residual and number:
        below = [f"source.blocks.{number - 1}.output"]
    value = f"{path}{'output' if letter == 'h' else 'cells'}"
    return plan.add(COPY, *where, [value, *below], ways=ways, backward=backward)
