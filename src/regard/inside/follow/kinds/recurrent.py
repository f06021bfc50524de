"""Steps of recurrent layers: gates, memory cells and states of encoders and language models."""

from dataclasses import dataclass, replace

from regard.inside.follow.formula import Formula, Reference
from regard.inside.follow.plan import Kind, Side, StepPlan
from regard.inside.follow.rules import block
from regard.inside.follow.rules import recurrent as rules
from regard.models.rnn import AnyRNN, CausalRNNFacts, RNNEncoderFacts

CELLS = "regard.layers.recurrent.cells:"
STACK = "regard.layers.recurrent.rnn:RNNStack.forward"
LSTM_PAPER = Reference("Hochreiter & Schmidhuber (1997)")
GRU_PAPER = Reference("Cho et al. (2014)", "section 2.3")
GATE_AXES = ("token", "direction", "gate", "dimension")
STATES = ("token", "dimension")
TORCH_NAMES = {
    "input": "weight_ih_l0",
    "state": "weight_hh_l0",
    "input_bias": "bias_ih_l0",
    "state_bias": "bias_hh_l0",
}
LSTM_GATES = Kind(
    "gates of an LSTM",
    rules.gates,
    GATE_AXES,
    "Gates i, f and o say what is written, kept and read; g is what could be written.",
    Formula.of(
        ("i, f, o", "output"), "= σ(", ("W", "weight"), ("x", "input"), "+ U h), g = tanh(…)"
    ),
    LSTM_PAPER,
    f"{CELLS}lstm_cell",
)
GRU_GATES = Kind(
    "gates of a GRU",
    rules.gates,
    GATE_AXES,
    "The reset gate r and the update gate z mix the old state with the new one, n.",
    Formula.of(("r, z", "output"), "= σ(", ("W", "weight"), ("x", "input"), "+ U h), n = tanh(…)"),
    GRU_PAPER,
    f"{CELLS}gru_cell",
)
MEMORY = Kind(
    "memory cells",
    rules.memory_cells,
    ("token", "direction", "dimension"),
    "The memory cell keeps a part of its old value and takes in a part of the new one.",
    Formula.of(("c'", "output"), "=", ("f", "input"), "⊙ c +", ("i", "input"), "⊙", ("g", "input")),
    LSTM_PAPER,
    f"{CELLS}lstm_cell",
)
LSTM_STATES = Kind(
    "states of an LSTM",
    rules.lstm_states,
    STATES,
    "The output gate reads from the memory cell.",
    Formula.of(("h", "output"), "=", ("o", "input"), "⊙ tanh(", ("c", "input"), ")"),
    LSTM_PAPER,
    STACK,
)
GRU_STATES = Kind(
    "states of a GRU",
    rules.gru_states,
    STATES,
    "The update gate mixes the old state with the new one.",
    Formula.of(("h'", "output"), "= (1 - z) ⊙", ("n", "input"), "+ z ⊙ h"),
    GRU_PAPER,
    STACK,
)
RNN_STATES = Kind(
    "states of an RNN",
    rules.plain_states,
    STATES,
    "The new state comes from the token and the old state.",
    Formula.of(("h'", "output"), "= tanh(", ("W", "weight"), ("x", "input"), "+ U h + b)"),
    Reference("Elman (1990)"),
    STACK,
)
LAST = Kind(
    "last states",
    block.copy,
    STATES,
    "The states of the top layer are what heads and decoders read.",
    Formula.of(("h", "output"), "=", ("x", "input")),
    Reference("Sutskever et al. (2014)", "section 2"),
    "regard.models.rnn:RNNEncoderModule.forward",
)
CAUSAL_LAST = replace(LAST, place="regard.models.rnn:CausalRNNModule.forward")


@dataclass(frozen=True)
class Layer:
    """Recurrent layer: name, paths on the tape and of its weights, cell and direction.

    ``begin`` are the paths of the first h and c, by these letters; ``initial`` is the name of a
    learned first state.
    """

    name: str
    path: str
    weights: str
    cell: str
    direction: str = "forward"
    residual: bool = False
    begin: tuple[tuple[str, str], ...] = ()
    initial: str = ""

    def step(self, value: str) -> tuple[str, str]:
        """Name of a step, and the tape path of its output."""
        return f"{self.name}/{value}", f"{self.path}.{value}"

    def kind(self, kind: Kind) -> Kind:
        """The kind of gates or cells, without an axis of directions if there is only one."""
        axes = tuple(axis for axis in kind.axes if axis != "direction")
        return kind if self.direction == "both" else replace(kind, axes=axes)


def layer_steps(plan: StepPlan, layer: Layer, inputs: dict[str, str]) -> str:
    """Steps of a layer; ``inputs`` are paths by role: "x", "context", "fed", "summary"."""
    ways = ("", "_reverse") if layer.direction == "both" else ("",)
    weights = {
        f"{role}{way}": f"{layer.weights}.kernel.{name}{way}"
        for way in ways
        for role, name in TORCH_NAMES.items()
    }
    learned = {"initial": layer.initial} if layer.initial else {}
    begin = dict(layer.begin)
    read = {**inputs, **begin}
    settings: dict[str, object] = {"roles": tuple(read), "direction": layer.direction}
    if layer.cell == "rnn":
        settings["residual"] = layer.residual
        where = layer.step("output")
        return plan.add(RNN_STATES, *where, list(read.values()), weights | learned, **settings)
    kind = layer.kind(LSTM_GATES if layer.cell == "lstm" else GRU_GATES)
    more = {"states": f"{layer.path}.output"}  # of a later step: the state before each token
    more |= {"below": inputs["x"]} if layer.residual else {}
    read = {name: path for name, path in read.items() if name != "c"} | more
    settings["roles"] = tuple(read)
    where, values = layer.step("gates"), list(read.values())
    gates = plan.add(kind, *where, values, weights | learned, cell=layer.cell, **settings)
    below = [inputs["x"]] if layer.residual else []
    way = {"direction": layer.direction}
    if layer.cell == "lstm":
        before = [begin["c"]] if begin else []
        cells = plan.add(layer.kind(MEMORY), *layer.step("cells"), [gates, *before], learned, **way)
        return plan.add(LSTM_STATES, *layer.step("output"), [gates, cells, *below])
    more = {name: path for name, path in begin.items() if name == "h"}
    more |= {"below": inputs["x"]} if layer.residual else {}
    values, roles = [gates, *more.values()], tuple(more)
    return plan.add(GRU_STATES, *layer.step("output"), values, learned, roles=roles, **way)


def encoder_steps(
    plan: StepPlan, stack: RNNEncoderFacts, side: Side, x: str, position: object = None
) -> str:
    """Steps of a recurrent encoder."""
    for layer in layers_of(stack, side, "layers.layers", stack.direction):
        x = layer_steps(plan, layer, {"x": x})
    return plan.add(LAST, side.name("states"), side.at("output"), [x])


def causal_steps(
    plan: StepPlan, stack: CausalRNNFacts, side: Side, x: str, position: object = None
) -> str:
    """Steps of the recurrent layers of a language model."""
    for layer in layers_of(stack, side, "layers", learned=stack.initial == "learned"):
        x = layer_steps(plan, layer, {"x": x})
    return plan.add(CAUSAL_LAST, side.name("states"), side.at("output"), [x])


def layers_of(
    stack: AnyRNN, side: Side, folder: str, direction: str = "forward", *, learned: bool = False
) -> list[Layer]:
    """The layers of a stack, whose weights are in a ``folder`` of its module."""
    return [
        Layer(
            side.name(f"layer {number}"),
            side.at(f"blocks.{number}"),
            side.at(f"{folder}.{number}"),
            stack.cell,
            direction,
            stack.residual and number > 0,
            initial=side.at(f"initial.layers.{number}") if learned else "",
        )
        for number in range(stack.depth)
    ]
