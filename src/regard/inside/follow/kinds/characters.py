"""Steps of word vectors from characters."""

from regard.inside.follow.formula import Formula, Reference
from regard.inside.follow.plan import Kind, Side, StepPlan
from regard.inside.follow.rules import block
from regard.inside.follow.rules import characters as rules
from regard.models.characters import Characters

VECTORS = ("token", "dimension")
PLACE = "regard.models.characters:CharacterEmbedding._vectors"
KIM = "Kim et al. (2016)"
FILTERS = Kind(
    "filters over characters",
    rules.filter_maxima,
    VECTORS,
    "Each filter keeps its largest value over the characters of the word.",
    Formula.of(("y", "output"), "= act(max_t", ("F", "weight"), "*", ("c_t", "input"), "+ b)"),
    Reference(KIM, "eq. 5, 6"),
    PLACE,
)
HIGHWAY = Kind(
    "highway layer",
    rules.highway,
    VECTORS,
    "A gate mixes a dense layer with its own input.",
    Formula.of(("y", "output"), "= g ⊙ relu(", ("W", "weight"), ("x", "input"), ") + (1 - g) ⊙ x"),
    Reference("Srivastava et al. (2015)", "eq. 3"),
    PLACE,
    "",
)
PROJECTION = Kind(
    "projection of words",
    block.linear,
    VECTORS,
    "A linear layer maps the filters to the size of a word vector.",
    Formula.of(("y", "output"), "=", ("W", "weight"), ("x", "input"), "+", ("b", "weight")),
    Reference("Peters et al. (2018)", "section 3.4"),
    PLACE,
)
COPY = Kind(
    "word vectors",
    block.copy,
    VECTORS,
    "The vectors of words that the first layer reads.",
    Formula.of(("y", "output"), "=", ("x", "input")),
    Reference(KIM),
    "regard.models.papers.elmo:BiLMModule.forward",
    "embed.output",
)
TWICE = Kind(
    "word vectors, twice",
    rules.twice,
    VECTORS,
    "Both directions read the same word vectors.",
    Formula.of(("y", "output"), "= [", ("x; x", "input"), "]"),
    Reference("Peters et al. (2018)", "section 3.1"),
    "regard.models.papers.elmo:BiLMModule.forward",
    "embed.output",
)


def characters_steps(
    plan: StepPlan, words: Characters, side: Side, width: int, norm: object = None
) -> str:
    """Steps from the characters of words to their vectors."""
    x = spelling_steps(plan, words, side, "embed", 0)
    kind = TWICE if side.two_directions else COPY
    return plan.add(kind, side.name("embed/output"), side.at("embed.output"), [x])


def spelling_steps(plan: StepPlan, words: Characters, side: Side, path: str, first: int) -> str:
    """Steps up to the last layer over characters, whose ids begin at place ``first``."""
    at, name = side.at, side.name
    weights = {"table": at(f"{path}.token.weight")}
    for number in range(len(words.filters)):
        weights[f"filter_{number}"] = at(f"{path}.filters.{number}.weight")
        weights[f"shift_{number}"] = at(f"{path}.filters.{number}.bias")
    where = name(f"{path}/filters".replace(".", "/")), at(f"{path}.filters")
    settings: dict[str, object] = {"activation": words.character_activation}
    settings["places"] = first, None
    x = plan.add(FILTERS, *where, [side.ids], weights, **settings)
    for number in range(words.highways):
        layers = {"transform": "transform", "gate": "gate"}
        layer = at(f"{path}.highways.{number}")
        roles = {role: f"{layer}.{role}.weight" for role in layers}
        roles |= {f"{role}_bias": f"{layer}.{role}.bias" for role in layers}
        where = name(f"{path}/highway {number}".replace(".", "/")), at(f"{path}.highway.{number}")
        x = plan.add(HIGHWAY, *where, [x], roles)
    if not words.projected:
        return x
    roles = {role: at(f"{path}.projection.{role}") for role in ("weight", "bias")}
    where = name(f"{path}/projection".replace(".", "/")), at(f"{path}.projection")
    return plan.add(PROJECTION, *where, [x], roles)
