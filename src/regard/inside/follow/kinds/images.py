"""Steps from the pixels of an image to the vectors of its patches."""

from regard.inside.follow.formula import Formula, Reference
from regard.inside.follow.kinds.norms import norm_kind
from regard.inside.follow.plan import Kind, Side, StepPlan
from regard.inside.follow.rules import embedding
from regard.layers.block import Norm
from regard.models.patches import Patches

PLACE = "regard.models.patches:PatchEmbedding.forward"
VECTORS = ("token", "dimension")
PATCHES = Kind(
    "patches",
    embedding.patch_vectors,
    ("patch", "dimension"),
    "The pixels of each patch, of all channels, go through one linear layer.",
    Formula.of(("x", "output"), "=", ("W", "weight"), ("pixels", "input"), "+", ("b", "weight")),
    Reference("Dosovitskiy et al. (2020)", "eq. 1"),
    PLACE,
)
PREFIX = Kind(
    "prefix tokens",
    embedding.prefix_vectors,
    VECTORS,
    "Learned vectors come before the patches; the first is the class token.",
    Formula.of(("x", "output"), "=", ("C", "weight")),
    Reference("Dosovitskiy et al. (2020)", "section 3.1"),
    PLACE,
)
GRID = Kind(
    "positions of patches",
    embedding.grid_positions,
    VECTORS,
    "Each token of the image has a learned position vector.",
    Formula.of(("p", "output"), "=", ("P", "weight")),
    Reference("Dosovitskiy et al. (2020)", "eq. 1"),
    PLACE,
    "position",
)
WAVES = Kind(
    "sinusoids of patches",
    embedding.grid_sinusoids,
    VECTORS,
    "The column and the row of each patch give sines and cosines.",
    Formula.of(("p", "output"), "= sin, cos(", ("x, y", "input"), ")"),
    Reference("Beyer et al. (2022)"),
    PLACE,
    "position",
)
PLACED = Kind(
    "patches with positions",
    embedding.placed_patches,
    VECTORS,
    "Prefix and patches get their position vectors.",
    Formula.of(("y", "output"), "= [", ("C; x", "input"), "] +", ("p", "input")),
    Reference("Dosovitskiy et al. (2020)", "eq. 1"),
    "regard.models.transformer:TransformerModule.forward",
    "embed.output",
)


def patches_steps(plan: StepPlan, patches: Patches, side: Side, width: int, norm: Norm) -> str:
    """Steps from pixels to the vectors that the first layer reads."""
    at, name = side.at, side.name
    roles = {role: at(f"embed.projection.{role}") for role in ("weight", "bias")}
    where = name("embed/patches"), at("embed.patches")
    cut = plan.add(PATCHES, *where, [side.ids], roles, patch=patches.patch)
    before = []
    if patches.prefix_tokens:
        table = {"table": at("embed.prefix.weight")}
        before = [plan.add(PREFIX, name("embed/prefix"), at("embed.prefix"), [], table)]
    where = name("embed/position"), at("embed.position")
    if patches.positions == "learned":
        table = {"table": at("embed.position.weight")}
        position = plan.add(GRID, *where, [cut], table)
    else:
        settings = {"prefix": patches.prefix_tokens, "grid": patches.grid, "width": width}
        position = plan.add(WAVES, *where, [cut], **settings)
    parts = [cut, position, *before]
    output = name("embed/output"), at("embed.output")
    if not patches.normed:
        return plan.add(PLACED, *output, parts)
    x = plan.add(PLACED, name("embed/sum"), at("embed.sum"), parts)
    roles = {role: at(f"embed.norm.{role}") for role in ("weight", "bias")}
    return plan.add(norm_kind(norm.kind, PLACE, "sum"), *output, [x], roles, eps=norm.eps)
