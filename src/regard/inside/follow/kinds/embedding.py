"""Steps of token embeddings: tokens, positions, segments, norm, projection."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from regard.inside.follow.formula import Formula, Reference
from regard.inside.follow.kinds.characters import spelling_steps
from regard.inside.follow.kinds.norms import norm_kind
from regard.inside.follow.plan import NOTHING, Kind, Side, StepPlan
from regard.inside.follow.rules import block, characters, embedding
from regard.layers.block import Norm
from regard.models.embedding import Learned
from regard.models.positions import Sinusoid
from regard.models.tokens import Tokens

if TYPE_CHECKING:
    from regard.models.papers.ernie import TaskTokens
    from regard.models.papers.he import PredicateTokens

PLACE = "regard.models.tokens:Embedding.forward"
VASWANI = "Vaswani et al. (2017)"
VECTORS = ("token", "dimension")
OUT = ("x", "output")
TOKEN = Kind(
    "token vectors",
    embedding.look_up,
    VECTORS,
    "Each token id selects a row of the table of token vectors.",
    Formula.of(OUT, "=", ("E[id]", "weight"), ("· s", "", r"\cdot s")),
    Reference(VASWANI, "section 3.4"),
    PLACE,
)
OF_WORDS = replace(TOKEN, rule=characters.word_vectors)
SPELLED = Kind(
    "vectors from characters",
    block.copy,
    VECTORS,
    "The vector of a word that its characters give.",
    Formula.of(("y", "output"), "=", ("x", "input")),
    Reference("Ma & Hovy (2016)", "section 2.1"),
    "regard.models.characters:SpelledEmbedding.forward",
)
BESIDE = Kind(
    "vectors side by side",
    embedding.beside,
    VECTORS,
    "Two vectors of a token are concatenated.",
    Formula.of(("y", "output"), "= [", ("x; z", "input"), "]"),
    Reference("Ma & Hovy (2016)", "figure 3"),
    "regard.models.characters:SpelledEmbedding.forward",
)
LEARNED = Kind(
    "learned positions",
    embedding.learned_positions,
    VECTORS,
    "Each place of a token selects a row of the table of position vectors.",
    Formula.of(("p", "output"), "=", ("P[i]", "weight")),
    Reference("Gehring et al. (2017)", "section 3.1"),
    PLACE,
)
SINUSOIDS = Kind(
    "sinusoids",
    embedding.sinusoids,
    VECTORS,
    "Each place of a token gives sines and cosines of falling frequencies.",
    Formula.of(("p", "output"), "= sin, cos(", ("i", "input"), "/ b^(2k/d))"),
    Reference(VASWANI, "section 3.5"),
    PLACE,
)
SEGMENTS = Kind(
    "segment vectors",
    embedding.look_up,
    VECTORS,
    "The first and the second text of a row have a vector each.",
    Formula.of(("s", "output"), "=", ("S[segment]", "weight")),
    Reference("Devlin et al. (2018)", "section 3"),
    PLACE,
)
SUM = Kind(
    "sum of vectors",
    embedding.total,
    VECTORS,
    "The vectors of token, position and segment are added.",
    Formula.of(OUT, "=", ("E[id]", "input"), "+", ("p", "input"), "+", ("s", "input")),
    Reference("Devlin et al. (2018)", "figure 2"),
    PLACE,
    "",  # where nothing follows, it is what the function returns
)
PROJECTION = Kind(
    "projection of vectors",
    block.linear,
    VECTORS,
    "A linear layer maps small token vectors to the width of the states.",
    Formula.of(OUT, "=", ("W", "weight"), ("x", "input"), "+", ("b", "weight")),
    Reference("Lan et al. (2019)", "section 3.1"),
    "regard.models.transformer:TransformerModule.forward",
    "embed.output",
)


def task_tokens_steps(
    plan: StepPlan, tokens: "TaskTokens", side: Side, width: int, norm: Norm
) -> str:
    """Steps of tokens whose sum has the vector of a task, too."""
    task = {"extra": "norm.task.weight"} if tokens.task_types else {}
    return vector_steps(plan, tokens, side, width, norm, of_norm=task)


def tokens_steps(plan: StepPlan, tokens: Tokens, side: Side, width: int, norm: Norm) -> str:
    """Steps from token ids to the vectors that the first layer reads."""
    spelling = tokens.characters
    if spelling is None:
        return vector_steps(plan, tokens, side, width, norm)
    size = width - spelling.all_filters
    words = vector_steps(plan, tokens, side, size, norm, "embed.words", first_id=True)
    x = spelling_steps(plan, spelling, side, "embed.characters", 1)
    where = side.name("embed/characters/output"), side.at("embed.characters.output")
    spelled = plan.add(SPELLED, *where, [x])
    return plan.add(BESIDE, side.name("embed/output"), side.at("embed.output"), [words, spelled])


def predicate_steps(
    plan: StepPlan, tokens: "PredicateTokens", side: Side, width: int, norm: Norm
) -> str:
    """Steps of words with a vector beside each that marks the predicate."""
    size = width - tokens.indicator
    x = vector_steps(plan, tokens, side, size, norm, "embed.words", segments=False)
    roles = {"table": side.at("embed.indicator.weight")}
    where = side.name("embed/indicator"), side.at("embed.indicator")
    mark = plan.add(SEGMENTS, *where, [side.segments], roles)
    return plan.add(BESIDE, side.name("embed/output"), side.at("embed.output"), [x, mark])


def vector_steps(
    plan: StepPlan,
    tokens: Tokens,
    side: Side,
    width: int,
    norm: Norm,
    path: str = "embed",
    *,
    of_norm: Mapping[str, str] = NOTHING,
    first_id: bool = False,
    segments: bool = True,
) -> str:
    """Steps of the vectors of tokens, positions and segments under a ``path``.

    With ``first_id``, the first id of a token is that of a word, and others are of its characters.
    """
    size = tokens.embedding_size or width
    scale = math.sqrt(size) if tokens.scaled else 1.0

    def where(value: str) -> tuple[str, str]:
        return side.name(f"{path}.{value}".replace(".", "/")), side.at(f"{path}.{value}")

    def weights(*names: str, layer: str) -> dict[str, str]:
        return {name: side.at(f"{path}.{layer}.{name}") for name in names}

    table = {"table": side.at(f"{path}.token.weight")}
    kind = OF_WORDS if first_id else TOKEN
    parts = [plan.add(kind, *where("token"), [side.ids], table, scale=scale)]
    position = tokens.position
    if position is not None and not position.by_distance:
        parts.append(plan.follow(position, side, size, path))
    if tokens.segments and segments:
        roles = {"table": side.at(f"{path}.segment.weight")}
        parts.append(plan.add(SEGMENTS, *where("segment"), [side.segments], roles))
    projected = tokens.embedding_size is not None
    end = where("unprojected" if projected else "output")
    if tokens.normed:
        x = plan.add(SUM, *where("sum"), parts)
        roles = weights("weight", "bias", layer="norm")
        roles |= {role: side.at(f"{path}.{name}") for role, name in of_norm.items()}
        x = plan.add(norm_kind(norm.kind, PLACE, "sum"), *end, [x], roles, eps=norm.eps)
    else:
        x = plan.add(SUM, *end, parts)
    if not projected:
        return x
    return plan.add(
        PROJECTION, *where("output"), [x], weights("weight", "bias", layer="projection")
    )


def learned_steps(
    plan: StepPlan, position: Learned, side: Side, size: int, path: str = "embed"
) -> str:
    """Step of learned position vectors."""
    table = {"table": side.at(f"{path}.position.weight")}
    where = side.name(f"{path}/position"), side.at(f"{path}.position")
    return plan.add(LEARNED, *where, [side.ids], table, offset=position.offset)


def sinusoid_steps(
    plan: StepPlan, position: Sinusoid, side: Side, size: int, path: str = "embed"
) -> str:
    """Step of sinusoidal position vectors."""
    settings: dict[str, object] = {"width": size, "base": position.base}
    settings["halves"] = position.halves
    where = side.name(f"{path}/position"), side.at(f"{path}.position")
    return plan.add(SINUSOIDS, *where, [side.ids], **settings)
