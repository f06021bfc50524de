"""Augmentation of batches of images on the device.

Random numbers of an image depend on its key alone. All shapes are fixed and nothing is copied to
the host, so that a step with augmentation can be compiled and captured. Pixels are values from 0 to
1.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

# SplitMix64, as in ``counter_rng``, by operations of torch: random numbers without a state, so that
# a captured step draws for each batch what an eager one would.
GOLDEN = 0x9E3779B97F4A7C15 - 2**64  # as signed numbers of 64 bits
FIRST, SECOND = 0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64


def _shifted(values: Tensor, places: int) -> Tensor:
    """Logical shift to the right."""
    return (values >> places) & ((1 << (64 - places)) - 1)


def _mixed(values: Tensor) -> Tensor:
    values = (values ^ _shifted(values, 30)) * FIRST
    values = (values ^ _shifted(values, 27)) * SECOND
    return values ^ _shifted(values, 31)


class Draws:
    """Sequence of uniform random numbers for each key."""

    def __init__(self, keys_B: Tensor):
        self.keys_B, self.counter = keys_B, 0

    def uniform(self, low: float = 0.0, high: float = 1.0) -> Tensor:
        """Draw numbers (B,) from ``low`` to below ``high``."""
        self.counter += 1
        step = (self.counter * GOLDEN + 2**63) % 2**64 - 2**63  # as torch's integers overflow
        bits = _shifted(_mixed(self.keys_B + step), 40)
        return low + (high - low) * bits.to(torch.float32) * 2.0**-24


QUANTILES = 1_024  # of a beta distribution, between which numbers are interpolated
ERASED_AREA, ERASED_RATIO = (0.02, 1 / 3), 3.3  # of timm; Zhong et al.: up to 0.4 of the area
CROP_RATIO = 4 / 3
BYTES = 256  # numbers of a histogram


def _column(values_B: Tensor) -> Tensor:
    return values_B[:, None, None, None]


def random_flip(images: Tensor, draws: Draws) -> Tensor:
    """Mirror half of the images, left to right."""
    return torch.where(_column(draws.uniform() < 0.5), images.flip(3), images)


def random_crop(images: Tensor, draws: Draws, padding: int) -> Tensor:
    """Shift each image by up to ``padding`` pixels in both directions, with zeros around it."""
    channels, height, width = images.shape[1:]
    images = F.pad(images, (padding,) * 4)
    rows, columns = (torch.arange(size, device=images.device) for size in (height, width))
    rows_BH = rows + draws.uniform(0, 2 * padding + 1).long()[:, None]
    columns_BW = columns + draws.uniform(0, 2 * padding + 1).long()[:, None]
    index = rows_BH[:, None, :, None].expand(-1, channels, -1, images.shape[3])
    images = images.gather(2, index)
    return images.gather(3, columns_BW[:, None, None].expand(-1, channels, height, -1))


def random_resized_crop(images: Tensor, draws: Draws, least: float) -> Tensor:
    """Stretch a part of each image, of at least this share of its area, to the whole size.

    The aspect ratio of the part is drawn among those that fit into the image at the drawn area.
    """
    area_B = draws.uniform(least, 1.0)
    ratio_B = torch.exp(draws.uniform(-1, 1) * (-area_B.log()).clamp(max=math.log(CROP_RATIO)))
    width_B, height_B = ((area_B * r).sqrt().clamp(max=1.0) for r in (ratio_B, 1 / ratio_B))
    x_B, y_B = (draws.uniform(-1, 1) * (1 - size_B) for size_B in (width_B, height_B))
    zeros_B = torch.zeros_like(x_B)
    rows = ((width_B, zeros_B, x_B), (zeros_B, height_B, y_B))
    return _warped(images, torch.stack([torch.stack(row, 1) for row in rows], 1), "reflection")


def _warped(images: Tensor, theta_B23: Tensor, outside: str = "zeros") -> Tensor:
    """Sample each image at the places of an affine map, in coordinates from -1 to 1."""
    grid = F.affine_grid(theta_B23, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, padding_mode=outside, align_corners=False)


def random_erasing(images: Tensor, draws: Draws, rate: float) -> Tensor:
    """Make a rectangle of an image grey, with this rate (Zhong et al., 2017, arXiv:1708.04896)."""
    area_B = draws.uniform(*ERASED_AREA)
    ratio_B = torch.exp(draws.uniform(-math.log(ERASED_RATIO), math.log(ERASED_RATIO)))
    chosen_B = draws.uniform() < rate
    inside = _rectangle(images, (area_B * ratio_B).sqrt(), (area_B / ratio_B).sqrt(), draws)
    return torch.where(inside & _column(chosen_B), torch.full_like(images, 0.5), images)


def _rectangle(images: Tensor, height_B: Tensor, width_B: Tensor, draws: Draws) -> Tensor:
    """Mask (B, 1, H, W) of a random rectangle with these shares of the sides."""
    spans = []
    for size, share_B in zip(images.shape[2:], (height_B, width_B), strict=True):
        length_B = (share_B.clamp(max=1.0) * size).round()
        first_B = (draws.uniform() * (size - length_B + 1)).floor()
        spans.append((first_B, first_B + length_B))
    return _inside(images, *spans)


def _clipped_square(images: Tensor, share_B: Tensor, draws: Draws) -> Tensor:
    """Mask (B, 1, H, W) of a square around a random pixel, clipped to the image."""
    spans = []
    for size in images.shape[2:]:
        half_B = (share_B * size / 2).floor()
        centre_B = (draws.uniform() * size).floor()
        spans.append((centre_B - half_B, centre_B + half_B))
    return _inside(images, *spans)


def _inside(images: Tensor, *spans: tuple[Tensor, Tensor]) -> Tensor:
    """Mask (B, 1, H, W) of the pixels between a first and an end row and column."""
    inside = []
    for size, (first_B, end_B) in zip(images.shape[2:], spans, strict=True):
        places = torch.arange(size, device=images.device)
        inside.append((places >= first_B[:, None]) & (places < end_B[:, None]))
    return (inside[0][:, :, None] & inside[1][:, None, :])[:, None]


# The set of RandAugment (Cubuk et al., 2019, arXiv:1909.13719): maps of places (a turn by 30
# degrees, shears along x and y, moves by 0.45 of a side), maps of colours.
FARTHEST = (math.pi / 6, 0.3, 0.3, 0.9, 0.9)


def _grey(images: Tensor) -> Tensor:
    """Convert red, green and blue to one channel."""
    if images.shape[1] == 1:
        return images
    red, green, blue = images.split(1, 1)
    return 0.299 * red + 0.587 * green + 0.114 * blue


def _towards(other: Tensor, images: Tensor, change: Tensor) -> Tensor:
    """Move images away from ``other``: ``change`` 0 keeps them, -1 gives ``other``."""
    return (images + change * (images - other)).clamp(0, 1)


def brightness(images: Tensor, change: Tensor) -> Tensor:
    """Change the brightness, from black to twice as bright."""
    return _towards(torch.zeros_like(images), images, 0.9 * change)


def contrast(images: Tensor, change: Tensor) -> Tensor:
    """Change the contrast, from even grey to twice the contrast."""
    return _towards(_grey(images).mean((2, 3), keepdim=True), images, 0.9 * change)


def colour(images: Tensor, change: Tensor) -> Tensor:
    """Change the saturation, from grey to twice the colour."""
    return _towards(_grey(images), images, 0.9 * change)


def sharpness(images: Tensor, change: Tensor) -> Tensor:
    """Change the sharpness, from smooth to twice as sharp; the border stays."""
    if min(images.shape[2:]) < 3:
        return images
    inner = images[:, :, 1:-1, 1:-1]
    around = (9 * F.avg_pool2d(images, 3, stride=1) + 4 * inner) / 13
    smooth = images + F.pad(around - inner, (1, 1, 1, 1))
    return _towards(smooth, images, 0.9 * change)


def posterise(images: Tensor, change: Tensor) -> Tensor:
    """Reduce pixel values to eight to four bits."""
    levels = 2.0 ** (8 - 4 * change.abs()).round()
    return ((images * 255).round() / 256 * levels).floor() / levels * 256 / 255


def solarise(images: Tensor, change: Tensor) -> Tensor:
    """Invert pixel values above a threshold: none (0) to all (1)."""
    inverted = (images * (BYTES - 1)).round() >= BYTES * (1 - change.abs())
    return torch.where(inverted, 1 - images, images)


def autocontrast(images: Tensor, change: Tensor) -> Tensor:
    """Stretch each channel from its darkest to its brightest value."""
    least, most = images.amin((2, 3), keepdim=True), images.amax((2, 3), keepdim=True)
    stretched = (images - least) / (most - least).clamp(min=1e-6)
    return torch.where(most > least, stretched, images)


def equalise(images: Tensor, change: Tensor) -> Tensor:
    """Equalise the histogram of each channel, as ``ImageOps.equalize`` of Pillow does."""
    bytes_CN = (images * (BYTES - 1)).round().long().flatten(2).flatten(0, 1)
    counts_CV = _histograms(bytes_CN)
    below_CV = counts_CV.cumsum(1)
    last_C1 = counts_CV.gather(1, bytes_CN.amax(1, keepdim=True))  # that of the brightest number
    step_C1 = (bytes_CN.shape[1] - last_C1) // (BYTES - 1)
    level_CV = (below_CV - counts_CV + step_C1 // 2) // step_C1.clamp(min=1)
    level_CN = level_CV.clamp(max=BYTES - 1).gather(1, bytes_CN)
    flat = (level_CN / (BYTES - 1)).view_as(images)
    return torch.where(step_C1.view(*images.shape[:2], 1, 1) > 0, flat, images)


def _histograms(bytes_CN: Tensor) -> Tensor:
    """Histogram (C, 256) of the bytes of each row."""
    rows_C1 = torch.arange(len(bytes_CN), device=bytes_CN.device)[:, None] * BYTES
    places = (rows_C1 + bytes_CN).flatten()  # in one dimension the sum is deterministic
    counts = torch.zeros(len(bytes_CN) * BYTES, dtype=torch.long, device=bytes_CN.device)
    return counts.scatter_add(0, places, torch.ones_like(places)).view(-1, BYTES)


Colours = Callable[[Tensor, Tensor], Tensor]
COLOURS: tuple[Colours, ...] = (
    *(brightness, contrast, colour, sharpness),
    *(posterise, solarise, autocontrast, equalise),
)


def random_augment(images: Tensor, draws: Draws, count: int, magnitude: float) -> Tensor:
    """Apply RandAugment: ``count`` random operations to each image, one after the other.

    Their strength is ``magnitude`` times the largest (0 to 1), with a random sign if an operation
    has two directions; one of the operations leaves the image unchanged.
    """
    places, colours = len(FARTHEST), len(COLOURS)
    for _ in range(count):
        chosen_B = draws.uniform(0, 1 + places + colours).long()
        strength_B = magnitude * torch.where(draws.uniform() < 0.5, -1.0, 1.0)
        turned = _warped(images, _affine(chosen_B - 1, strength_B))
        moved = _column((chosen_B >= 1) & (chosen_B <= places))
        result = torch.where(moved, turned, images)
        for number, change in enumerate(COLOURS, start=1 + places):
            changed = change(images, _column(strength_B))
            result = torch.where(_column(chosen_B == number), changed, result)
        images = result
    return images


def _affine(chosen_B: Tensor, strength_B: Tensor) -> Tensor:
    """Affine map (B, 2, 3) of the chosen operation."""
    angle, shear_x, shear_y, x, y = (
        (chosen_B == number) * strength_B * most for number, most in enumerate(FARTHEST)
    )
    rows = ((angle.cos(), shear_x - angle.sin(), x), (shear_y + angle.sin(), angle.cos(), y))
    return torch.stack([torch.stack(row, 1) for row in rows], 1)


def beta_quantiles(alpha: float) -> Tensor:
    """Quantiles 0, 1/n, 2/n, … of a beta distribution (alpha, alpha).

    With x = sin²θ the density is (sin θ · cos θ)^(2·alpha - 1), which is summed over θ.
    """
    angles = (torch.arange(1 << 18, dtype=torch.float64) + 0.5) / (1 << 18) * math.pi / 2
    below = torch.cumsum((angles.sin() * angles.cos()) ** (2 * alpha - 1), 0)
    shares = torch.linspace(0, 1, QUANTILES + 1, dtype=torch.float64) * below[-1]
    at = torch.searchsorted(below, shares).clamp(max=len(angles) - 1)
    quantiles = angles[at].sin() ** 2
    quantiles[0], quantiles[-1] = 0.0, 1.0
    return quantiles.float()


def draw_beta(draws: Draws, quantiles: Tensor) -> Tensor:
    """Draw numbers (B,) of the distribution with these quantiles."""
    place_B = draws.uniform() * QUANTILES
    index_B = place_B.long()
    return torch.lerp(quantiles[index_B], quantiles[index_B + 1], place_B - index_B)


@dataclass(frozen=True)
class Augmentation:
    """Random augmentations, in this order; 0 and False leave a step out.

    ``crop`` is the padding of random crops in pixels, ``crop_area`` the smallest share of the area
    of an image that is stretched to its size; ``operations`` of RandAugment have a ``magnitude``
    from 0 to 1. ``erase`` is the rate of random erasing.
    """

    crop: int = 0
    crop_area: float = 1.0
    flip: bool = False
    operations: int = 0
    magnitude: float = 0.5
    erase: float = 0.0

    def __call__(self, images: Tensor, draws: Draws) -> Tensor:
        """Augment images."""
        if self.crop:
            images = random_crop(images, draws, self.crop)
        if self.crop_area < 1:
            images = random_resized_crop(images, draws, self.crop_area)
        if self.flip:
            images = random_flip(images, draws)
        if self.operations:
            images = random_augment(images, draws, self.operations, self.magnitude)
        if self.erase:
            images = random_erasing(images, draws, self.erase)
        return images


class Mixing:
    """Each image mixed with the next of its batch: mixup (Zhang et al., 2017, arXiv:1710.09412) or
    CutMix (Yun et al., 2019, arXiv:1905.04899), with shares of Beta(α, α); α = 0 is none.

    With both, each image is mixed by one of them, with equal probability.
    """

    def __init__(self, mixup: float = 0.0, cutmix: float = 0.0):
        self.mixup, self.cutmix = mixup, cutmix
        self.quantiles = {alpha: beta_quantiles(alpha) for alpha in {mixup, cutmix} - {0.0}}

    def to(self, device: torch.device | str) -> None:
        """Move the tables to a device."""
        self.quantiles = {alpha: table.to(device) for alpha, table in self.quantiles.items()}

    def __call__(self, images: Tensor, mixed_B: Tensor, draws: Draws) -> tuple[Tensor, Tensor]:
        """Mix images; returns them and each image's own share, 1 where ``mixed_B`` is False.

        The rest comes from the next image, ``images.roll(-1, 0)``.
        """
        shifted, blended_B = images.roll(-1, 0), draws.uniform() < 0.5
        if not (self.mixup and self.cutmix):
            blended_B = torch.full_like(blended_B, bool(self.mixup))
        share_B = torch.ones(len(images), device=images.device)
        if self.mixup:
            own_B = self._share(self.mixup, mixed_B & blended_B, draws)
            images = torch.lerp(shifted, images, _column(own_B))
            share_B = share_B * own_B
        if self.cutmix:
            side_B = (1 - self._share(self.cutmix, mixed_B & ~blended_B, draws)).sqrt()
            cut = _clipped_square(images, side_B, draws)
            images = torch.where(cut, shifted, images)
            share_B = share_B * (1 - cut.float().mean((1, 2, 3)))
        return images, share_B

    def _share(self, alpha: float, chosen_B: Tensor, draws: Draws) -> Tensor:
        return torch.where(chosen_B, draw_beta(draws, self.quantiles[alpha]), 1.0)
