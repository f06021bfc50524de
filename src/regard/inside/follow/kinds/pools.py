"""Steps of pools: one vector for each row."""

from regard.inside.follow.formula import Formula, Reference
from regard.inside.follow.kinds.rnn_decoder import BOTH_SCORES, context_steps, score_steps
from regard.inside.follow.plan import Kind, Rule, StepPlan
from regard.inside.follow.rules import block
from regard.inside.follow.rules import pools as rules
from regard.models.pools import (
    AttentionPool,
    ConcatPool,
    FirstToken,
    FirstTokens,
    LastToken,
    MeanPool,
)

OUTPUT = "pooled", "pool.output"


def pool(name: str, rule: Rule, sentence: str, right: str, reference: Reference) -> Kind:
    """Kind of a pool; ``right`` is the right side of its formula."""
    return Kind(
        name,
        rule,
        ("row", "dimension"),
        sentence,
        Formula.of(("p", "output"), "=", (right, "input")),
        reference,
        "regard.models.trunk_with_heads:TrunkWithHeadsModule.pooled",
        "pool.output",
    )


DEVLIN = Reference("Devlin et al. (2018)", "section 3")
FIRST = pool(
    "first token", rules.first_states, "The first state stands for the row.", "h_1", DEVLIN
)
DENSE = pool(
    "first token, dense",
    rules.first_states,
    "The first state goes through a dense layer with tanh.",
    "tanh(W h_1 + b)",
    DEVLIN,
)
LAST = pool(
    "last token",
    rules.last_state,
    "The last state stands for the row.",
    "h_T",
    Reference("Radford et al. (2018)", "section 3.2"),
)
MEAN = pool(
    "mean of states",
    rules.mean_state,
    "The mean of all states stands for the row.",
    "Σ h_t / T",
    Reference("Reimers & Gurevych (2019)", "section 3"),
)

JOINED = pool(
    "last, maximum and mean",
    rules.joined_states,
    "The last state, the maximum and the mean of all states stand for the row.",
    "[h_T; max h_t; mean h_t]",
    Reference("Howard & Ruder (2018)", "section 3.3"),
)
LIN = Reference("Lin et al. (2017)", "eq. 5")
CONTEXT = pool("attention pool", block.copy, "The context stands for the row.", "c", LIN)
QUERIES = {
    name: Kind(
        f"{name} query",
        rule,
        ("row", "head", "dimension"),
        "One query attends to all states of the row.",
        Formula.of(("q", "output"), "=", (right, "weight")),
        LIN,
        "regard.layers.recurrent.rnn_attention:RNNAttention.forward",
        "queries",
    )
    for name, rule, right in (
        ("learned", rules.learned_query, "q"),
        ("zeros", rules.zero_query, "0"),
        ("mean", rules.mean_query, "mean h_t"),
    )
}


def first_steps(plan: StepPlan, pool: FirstToken, states: str, width: int) -> str:
    """Step of the pool of the first token."""
    if not pool.dense:
        return plan.add(FIRST, *OUTPUT, [states])
    return plan.add(DENSE, *OUTPUT, [states], {r: f"pool.dense.{r}" for r in ("weight", "bias")})


def first_tokens_steps(plan: StepPlan, pool: FirstTokens, states: str, width: int) -> str:
    """Step of the pool of several first tokens."""
    return plan.add(FIRST, *OUTPUT, [states], count=pool.count)


def last_steps(plan: StepPlan, pool: LastToken, states: str, width: int) -> str:
    """Step of the pool of the last token."""
    return plan.add(LAST, *OUTPUT, [states])


def mean_steps(plan: StepPlan, pool: MeanPool, states: str, width: int) -> str:
    """Step of the mean of the states."""
    return plan.add(MEAN, *OUTPUT, [states])


def concat_steps(plan: StepPlan, pool: ConcatPool, states: str, width: int) -> str:
    """Step of the last state, the maximum and the mean."""
    return plan.add(JOINED, *OUTPUT, [states])


def attention_steps(plan: StepPlan, pool: AttentionPool, states: str, width: int) -> str:
    """Steps of attention from one query to all states."""
    score = BOTH_SCORES.get(pool.score, pool.score)
    parts = "pool", "pool", "pool.attention"
    roles = {"learned": "pool.learned"} if pool.query == "learned" else {}
    query = plan.add(QUERIES[pool.query], "pool/queries", "pool.queries", [states], roles)
    keys, values = score_steps(plan, score, *parts, states)
    context = context_steps(plan, score, *parts, (query, keys, values), width)
    return plan.add(CONTEXT, *OUTPUT, [context])
