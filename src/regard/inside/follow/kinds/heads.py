"""Steps of heads: dense layer, norm, logits."""

from typing import TYPE_CHECKING

from regard.inside.follow.formula import Formula, Reference
from regard.inside.follow.kinds.norms import norm_kind
from regard.inside.follow.plan import Kind, StepPlan
from regard.inside.follow.rules import block, pools
from regard.models.heads import AnyHead, NextTokenHead
from regard.models.label_heads import LinearHead, MLMHead, TransitionHead
from regard.models.trunk import Trunk

if TYPE_CHECKING:
    from regard.models.papers.deit import DistilledLabelHead

RUN = "regard.models.heads:AnyHead.run"
MLM, LINEAR = (
    f"regard.models.label_heads:{name}Module.forward" for name in ("MLMHead", "LinearHead")
)
DEVLIN = Reference("Devlin et al. (2018)", "section 3")
TOKEN, ROW = ("token", "output"), ("row", "output")
LINEAR_FORMULA = Formula.of(("y", "output"), "=", ("W", "weight"), ("h", "input"), "+ b")


def logits_kind(axes: tuple[str, ...], sentence: str) -> Kind:
    """Kind of the output layer of a head."""
    return Kind("logits", block.linear, axes, sentence, LINEAR_FORMULA, DEVLIN, RUN)


NEXT = logits_kind(TOKEN, "Each token of the vocabulary gets a logit as the next token.")
MASKED = logits_kind(TOKEN, "Each token of the vocabulary gets a logit as the token here.")
OF_TOKENS = logits_kind(TOKEN, "A linear layer gives the logits of each token.")
OF_ROWS = logits_kind(ROW, "A linear layer gives the logits of the row.")
TABLE = Kind(
    "transitions",
    pools.table,
    ("label", "next label"),
    "A table has a score for each pair of successive labels, and for both ends.",
    Formula.of(("A", "output"), "=", ("A", "weight")),
    Reference("Lafferty et al. (2001)"),
    RUN,
    "logits",
)
TWO_LAYERS = Kind(
    "mean of two heads",
    pools.mean_of_layers,
    ROW,
    "Class token and distillation token have an output layer each; logits are their mean.",
    Formula.of(("y", "output"), "= (W_1", ("h_1", "input"), "+ W_2", ("h_2", "input"), ") / 2"),
    Reference("Touvron et al. (2021)", "section 4"),
    "regard.models.papers.deit:DistilledLabelHead.run",
)


def dense_kind(place: str) -> Kind:
    """Kind of the dense layer of a head."""
    sentence = "A dense layer with an activation comes before the output layer."
    formula = Formula.of(("y", "output"), "= act(", ("W", "weight"), ("h", "input"), "+ b)")
    axes = ("token", "dimension")
    return Kind("dense layer", block.linear, axes, sentence, formula, DEVLIN, place)


def _of(head: AnyHead, layer: str) -> dict[str, str]:
    return {role: f"heads.{head.name}.{layer}.{role}" for role in ("weight", "bias")}


def _step(head: AnyHead, value: str) -> tuple[str, str]:
    return f"{head.name}/{value}", f"heads.{head.name}.{value}"


def next_token_steps(plan: StepPlan, head: NextTokenHead, trunk: Trunk, states: str) -> str:
    """Step of the logits over the next token."""
    roles = {role: f"heads.{head.name}.{role}" for role in ("weight", "bias")}
    return plan.add(NEXT, *_step(head, "logits"), [states], roles)


def mlm_steps(plan: StepPlan, head: MLMHead, trunk: Trunk, states: str) -> str:
    """Steps of the masked-LM head."""
    stack, norm = trunk.stack, trunk.stack.norm_settings
    activation = head.dense_activation or stack.activation
    dense = _step(head, "dense")
    x = plan.add(dense_kind(MLM), *dense, [states], _of(head, "dense"), activation=activation)
    kind = norm_kind(norm.kind, MLM, "norm")
    x = plan.add(kind, *_step(head, "norm"), [x], _of(head, "norm"), eps=norm.eps)
    return plan.add(MASKED, *_step(head, "logits"), [x], _of(head, "out"))


def linear_steps(plan: StepPlan, head: LinearHead, trunk: Trunk, states: str) -> str:
    """Steps of linear heads over tokens or rows, with a dense layer and a norm if they have it."""
    dense, norm = head.dense_layer, trunk.stack.norm_settings
    if dense is not None:
        where, activation = _step(head, "dense"), dense.dense_activation
        roles = _of(head, "dense")
        states = plan.add(dense_kind(LINEAR), *where, [states], roles, activation=activation)
        if dense.dense_norm:
            kind = norm_kind(norm.kind, LINEAR, "norm")
            states = plan.add(kind, *_step(head, "norm"), [states], _of(head, "norm"), eps=norm.eps)
    kind = OF_ROWS if head.per_row else OF_TOKENS
    return plan.add(kind, *_step(head, "logits"), [states], _of(head, "out"))


def transition_steps(plan: StepPlan, head: TransitionHead, trunk: Trunk, states: str) -> str:
    """Step of the table of transitions."""
    return plan.add(TABLE, *_step(head, "logits"), [], {"weight": f"heads.{head.name}.table"})


def distilled_steps(plan: StepPlan, head: "DistilledLabelHead", trunk: Trunk, states: str) -> str:
    """Step of the mean of two output layers."""
    layers = {"first": 0, "second": 1}
    roles = {name: f"heads.{head.name}.out.{layer}.weight" for name, layer in layers.items()}
    roles |= {
        f"{name}_bias": f"heads.{head.name}.out.{layer}.bias" for name, layer in layers.items()
    }
    return plan.add(TWO_LAYERS, *_step(head, "logits"), [states], roles)


def unread_steps(plan: StepPlan, head: AnyHead, trunk: Trunk, states: str) -> str:
    """No step: the head runs only where positions are given, as in training."""
    return states
