"""Images as patches (Dosovitskiy et al., 2020)."""

from dataclasses import dataclass
from typing import ClassVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.errors import BadFact, BadInput
from regard.core.layout import Layout
from regard.core.tape import NULL_TAPE, NullTape
from regard.layers.block import LAYER_NORM, Norm
from regard.layers.dropout import Dropout
from regard.models.embedding import AnyEmbedding, EmbeddingModule
from regard.models.facts import at_least, one_of

Grid = tuple[int, int]  # rows and columns of patches
BASE = 10_000.0  # of sinusoids
PREFIX_NAMES = ("class", "distillation")


@dataclass(frozen=True)
class Patches(AnyEmbedding):
    """Embedding of images as patches (Dosovitskiy et al., 2020); an image is a row.

    ``image_size`` and ``patch_size`` are the pixels on a side of a square, or height and width.
    ``prefix_tokens`` learned vectors come before the patches: one is the class token, a second
    DeiT's distillation token. ``positions`` are "learned", for images of ``image_size`` and
    interpolated for others, or "sinusoid", of rows and columns. ``normed`` adds a layer norm after
    the positions, in place of the bias of the projection, as in CLIP (Radford et al., 2021).
    """

    reads_images: ClassVar[bool] = True
    patch_size: int | tuple[int, int] = 16
    image_size: int | tuple[int, int] = 224
    channels: int = 3
    prefix_tokens: int = 1
    positions: str = "learned"
    normed: bool = False

    def __post_init__(self) -> None:
        for name, size in (("patch_size", self.patch_size), ("image_size", self.image_size)):
            if not isinstance(size, int) and (len(size) != 2 or size[0] == size[1]):
                fault = "must be one number for a square, or height and width that differ"
                raise BadFact(name, f"{fault}, not {size}")
        at_least(1, self, "patch_size", "image_size", "channels")
        at_least(0, self, "prefix_tokens")
        one_of(GRID_POSITIONS, "kind of positions", self.positions)
        for pixels, side in zip(self.image, self.patch, strict=True):
            if pixels % side:
                raise BadInput(
                    f"{pixels} pixels are not divisible by patch_size ({side})", key="image_size"
                )

    @property
    def image(self) -> tuple[int, int]:
        """Height and width of an image in pixels."""
        return _sides(self.image_size)

    @property
    def patch(self) -> tuple[int, int]:
        """Height and width of a patch in pixels."""
        return _sides(self.patch_size)

    @property
    def ids_per_token(self) -> tuple[int, ...]:
        return (self.channels, *self.image)

    @property
    def sizes(self) -> dict[str, int]:
        return {"channels": self.channels}

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        (height, width), (rows, columns) = self.image, self.patch
        return height // rows, width // columns

    @property
    def prefix_names(self) -> tuple[str, ...]:
        """The names of the tokens before the patches."""
        more = (f"token {number}" for number in range(len(PREFIX_NAMES), self.prefix_tokens))
        return (*PREFIX_NAMES[: self.prefix_tokens], *more)

    @property
    def has_distillation_token(self) -> bool:
        return self.prefix_tokens == len(PREFIX_NAMES)

    def vectors(self, length: int) -> int:
        return length * (self.prefix_tokens + self.grid[0] * self.grid[1])

    def build(self, width: int, dropout: float, norm: Norm = LAYER_NORM) -> "PatchEmbedding":
        if self.positions == "sinusoid" and width % 4:
            raise BadInput(f"sinusoids need a width divisible by 4, not {width}", key="positions")
        return PatchEmbedding(self, width, dropout, norm)

    def macs(self, width: int) -> int:
        return self.channels * self.patch[0] * self.patch[1] * width


class PatchEmbedding(EmbeddingModule):
    """Module of ``Patches``: learned prefix vectors, and a vector for each patch of an image.

    A patch is the pixels of all channels, flattened, through one linear layer; positions are added,
    then dropout. Images may have any size that is a multiple of the patch size.
    """

    token = None
    vocab = 0

    def __init__(self, patches: Patches, width: int, dropout: float, norm: Norm):
        super().__init__()
        self.patch, self.channels = patches.patch, patches.channels
        prefix, normed = patches.prefix_tokens, patches.normed
        position = GRID_POSITIONS[patches.positions](patches.grid, prefix, width)
        self.projection = nn.Linear(patches.macs(1), width, bias=not normed)
        self.prefix = nn.Embedding(prefix, width) if prefix else None
        self.position = position
        self.dropout = Dropout(dropout)
        self.norm = norm.build(width) if normed else None

    def layout_of(self, pixels_BCHW: Tensor, layout: Layout) -> Layout:
        rows, columns = self.grid_of(pixels_BCHW)
        prefix = 0 if self.prefix is None else self.prefix.num_embeddings
        images = pixels_BCHW.shape[0]
        return Layout.rectangle(images, prefix + rows * columns, pixels_BCHW.device)

    def resampled(self, other: EmbeddingModule) -> dict[str, Tensor]:
        return self.position.resampled(cast(PatchEmbedding, other).position.grid)

    def forward(self, pixels_BCHW: Tensor, layout: Layout, tape: NullTape = NULL_TAPE) -> Tensor:
        if pixels_BCHW.dtype == torch.uint8:
            raise ValueError("pixels are uint8; normalise them to floats first")
        grid = self.grid_of(pixels_BCHW)
        precision = next(self.parameters(), pixels_BCHW).dtype
        x_BPD = self.projection(self._patches(pixels_BCHW.to(precision), grid))
        x_BPD = tape("patches", x_BPD)
        if self.prefix is not None:
            prefix_BPD = self.prefix.weight.to(x_BPD.dtype).expand(x_BPD.shape[0], -1, -1)
            x_BPD = torch.cat([tape("prefix", prefix_BPD), x_BPD], 1)
        x_BPD = x_BPD + tape("position", self.position(grid).to(x_BPD.dtype))
        x_TD = self.dropout(x_BPD.flatten(0, 1))
        return x_TD if self.norm is None else self.norm(tape("sum", x_TD))

    def grid_of(self, pixels_BCHW: Tensor) -> Grid:
        """Rows and columns of the patches of each image."""
        channels, height, width = pixels_BCHW.shape[1:]
        rows, columns = height // self.patch[0], width // self.patch[1]
        whole = (rows * self.patch[0], columns * self.patch[1]) == (height, width)
        if channels != self.channels or not (whole and rows and columns):
            shape = f"{channels} × {height} × {width}"
            patches = f"{self.channels} × {self.patch[0]} × {self.patch[1]}"
            raise BadInput(f"images of size {shape} cannot be divided into patches of {patches}")
        return rows, columns

    def _patches(self, pixels_BCHW: Tensor, grid: Grid) -> Tensor:
        """Pixels of each patch, (B, patches, channels · height · width)."""
        parts = pixels_BCHW.unflatten(3, (grid[1], -1)).unflatten(2, (grid[0], -1))
        return parts.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)


class LearnedGrid(nn.Embedding):
    """Learned position vectors of the prefix tokens and of the grid, row by row."""

    def __init__(self, grid: Grid, prefix: int, width: int):
        super().__init__(prefix + grid[0] * grid[1], width)
        self.grid, self.prefix = grid, prefix

    def forward(self, grid: Grid) -> Tensor:  # type: ignore[override]
        """Return the position vectors, (prefix + patches, D)."""
        return resample_positions(self.weight, self.prefix, self.grid, grid)

    def resampled(self, grid: Grid) -> dict[str, Tensor]:
        """Return the vectors resized to another grid, by the name of the weight."""
        return {"position.weight": self(grid)}


class SinusoidGrid(nn.Module):
    """Fixed sinusoids of columns and rows, and zeros for the prefix (Beyer et al., 2022,
    arXiv:2205.01580). The sinusoids of the model's own grid are computed once.
    """

    vectors_PD: Tensor

    def __init__(self, grid: Grid, prefix: int, width: int):
        super().__init__()
        self.grid, self.prefix, self.width = grid, prefix, width
        self.register_buffer("vectors_PD", self._vectors(grid), persistent=False)

    def forward(self, grid: Grid) -> Tensor:
        """Return the position vectors, (prefix + patches, D)."""
        if grid == self.grid:
            return self.vectors_PD
        return self._vectors(grid, self.vectors_PD.device)

    def _vectors(self, grid: Grid, device: torch.device | None = None) -> Tensor:
        return F.pad(sinusoid_grid(grid, self.width, device), (0, 0, self.prefix, 0))

    def resampled(self, grid: Grid) -> dict[str, Tensor]:
        """Return an empty dict: sinusoids are not weights."""
        return {}


GRID_POSITIONS: dict[str, type[LearnedGrid | SinusoidGrid]] = {
    "learned": LearnedGrid,
    "sinusoid": SinusoidGrid,
}


def resample_positions(weight_PD: Tensor, prefix: int, before: Grid, after: Grid) -> Tensor:
    """Position vectors of a grid, resized to another by bicubic interpolation; the prefix is kept.

    This lets a model read images of other sizes than in training (section 3.2).
    """
    if before == after:
        return weight_PD
    own_PD, grid_PD = weight_PD[:prefix], weight_PD[prefix:]
    grid_DHW = grid_PD.T.unflatten(1, before).float()
    (resampled_DHW,) = F.interpolate(grid_DHW[None], after, mode="bicubic", align_corners=False)
    return torch.cat([own_PD, resampled_DHW.flatten(1).T.to(weight_PD.dtype)])


def sinusoid_grid(grid: Grid, width: int, device: torch.device | None = None) -> Tensor:
    """Sinusoids of a grid, (patches, D): sines and cosines of x, then of y, a quarter of D each."""
    quarter = width // 4
    powers = torch.arange(quarter, dtype=torch.float64, device=device) / max(1, quarter - 1)
    places = (torch.arange(size, dtype=torch.float64, device=device) for size in grid)
    y_P, x_P = torch.cartesian_prod(*places).T
    angles = [at_P[:, None] * BASE**-powers for at_P in (x_P, y_P)]
    waves = [wave for angle in angles for wave in (angle.sin(), angle.cos())]
    return torch.cat(waves, 1).float()


def _sides(size: int | tuple[int, int]) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else size
