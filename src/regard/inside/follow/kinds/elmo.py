"""Steps of bidirectional language models with projected LSTM layers (ELMo)."""

from dataclasses import replace
from typing import TYPE_CHECKING

from regard.inside.follow.formula import Formula, Reference
from regard.inside.follow.kinds.recurrent import GATE_AXES, LAST, MEMORY, STATES
from regard.inside.follow.plan import Kind, Side, StepPlan
from regard.inside.follow.rules import recurrent as rules

if TYPE_CHECKING:
    from regard.models.papers.elmo import BiLMHead, BiLMStack
    from regard.models.trunk import Trunk

STEP = "regard.layers.recurrent.projected_lstm:ProjectedBiLSTM._step"
PETERS, SAK = Reference("Peters et al. (2018)", "section 3.1"), Reference("Sak et al. (2014)")
GATES = Kind(
    "gates of a projected LSTM",
    rules.projected_gates,
    GATE_AXES,
    "Gates i, f and o say what is written, kept and read; the state is a projection.",
    Formula.of(("i, f, o", "output"), "= σ(", ("W", "weight"), ("[x; h]", "input"), "+ b)"),
    SAK,
    STEP,
)
CELLS = Kind(MEMORY.name, MEMORY.rule, MEMORY.axes, MEMORY.sentence, MEMORY.formula, SAK, STEP)
PROJECTED = Kind(
    "projected states",
    rules.projected_states,
    STATES,
    "What the output gate reads from the cell is projected, clipped, and added to the input.",
    Formula.of(("h", "output"), "= clip(", ("P", "weight"), ("(o ⊙ tanh c)", "input"), ")"),
    SAK,
    "regard.models.papers.elmo:BiLMModule.forward",
    "output",
)
LOGITS = Kind(
    "logits of both directions",
    rules.logits_by_direction,
    ("token", "direction", "word"),
    "Each direction predicts its next word; both share the vectors of words.",
    Formula.of(("y", "output"), "=", ("E", "weight"), ("h", "input"), "+ b"),
    PETERS,
    "regard.models.heads:AnyHead.run",
)
BILM_LAST = replace(LAST, place="regard.models.papers.elmo:BiLMModule.forward")


def bilm_steps(
    plan: StepPlan, stack: "BiLMStack", side: Side, x: str, position: object = None
) -> str:
    """Steps of the layers of a bidirectional language model."""
    for number in range(stack.depth):
        name, path = side.name(f"layer {number}"), side.at(f"blocks.{number}")
        roles = {"gates": f"{path}.gates", "shift": f"{path}.bias"}
        below = [x] if stack.residual and number else []
        inputs = [x, f"{path}.output", *below]  # with the state before each token
        gates = plan.add(GATES, f"{name}/gates", f"{path}.gates", inputs, roles)
        settings: dict[str, object] = {"order": "igfo", "clip": stack.cell_clip}
        where = f"{name}/cells", f"{path}.cells"
        cells = plan.add(CELLS, *where, [gates], direction="both", **settings)
        projection = {"projection": f"{path}.projection"}
        where, clip = (f"{name}/output", f"{path}.output"), stack.projection_clip
        x = plan.add(PROJECTED, *where, [gates, cells, *below], projection, clip=clip)
    return plan.add(BILM_LAST, side.name("states"), side.at("output"), [x])


def bilm_head_steps(plan: StepPlan, head: "BiLMHead", trunk: "Trunk", states: str) -> str:
    """Step of the logits of both directions."""
    roles = {role: f"heads.bilm.out.{role}" for role in ("weight", "bias")}
    return plan.add(LOGITS, "bilm/logits", "heads.bilm.logits", [states], roles)
