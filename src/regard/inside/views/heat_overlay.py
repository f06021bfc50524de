"""Weights of patches drawn over an image: the brighter a place, the larger its weight."""

import io
from base64 import b64encode

import numpy as np

from regard.images.decode import GREY, pillow

RAMP = ((60, 20, 60), (196, 50, 30), (250, 150, 30), (255, 240, 150))  # RGB at these shares:
SHARES = (0.0, 0.4, 0.75, 1.0)
OPACITY = 0.8  # at the largest weight; at the least one nothing is drawn
DARKEST, LIGHTEST = 20, 170  # of the grey image under the weights
BICUBIC = 3  # the filter, as Pillow numbers them


def ramp_rgba(shares: np.ndarray) -> np.ndarray:
    """(…, 4): colour and opacity, in bytes, of shares from 0 to 1."""
    channels = [np.interp(shares, SHARES, levels) for levels in zip(*RAMP, strict=True)]
    return np.rint(np.stack([*channels, 255 * OPACITY * shares], axis=-1)).astype(np.uint8)


def shares_of(weights: np.ndarray) -> np.ndarray:
    """0 for the least weight, 1 for the largest."""
    least, most = weights.min(), weights.max()
    return (weights - least) / (most - least) if most > least else np.zeros_like(weights)


def enlarge(values: np.ndarray, height: int, width: int) -> np.ndarray:
    """Bytes (H, W, C), or numbers (H, W), on more pixels: those of a patch lie over the patch."""
    picture = pillow().fromarray(values)
    return np.asarray(picture.resize((width, height), BICUBIC))


def three_channels(pixels_HWC: np.ndarray) -> np.ndarray:
    """Bytes in three channels."""
    return np.broadcast_to(pixels_HWC, (*pixels_HWC.shape[:2], 3))


def overlay(pixels_HWC: np.ndarray, weights_RC: np.ndarray) -> np.ndarray:
    """An image (H, W, 3) in dim greys under the weights of its patches (rows, columns)."""
    grey_HW = DARKEST + pixels_HWC @ GREY * (LIGHTEST - DARKEST) / 255
    shares_RC = shares_of(weights_RC).astype(np.float32)
    shares_HW = np.clip(enlarge(shares_RC, *pixels_HWC.shape[:2]), 0, 1)
    heat_HWC = ramp_rgba(shares_HW).astype(np.float64)
    opacity_HW1 = heat_HWC[..., 3:] / 255
    mixed = grey_HW[..., None] * (1 - opacity_HW1) + heat_HWC[..., :3] * opacity_HW1
    return np.rint(mixed).astype(np.uint8)


def png_bytes(pixels_HWC: np.ndarray) -> bytes:
    """A PNG file; one channel is grey."""
    buffer = io.BytesIO()
    pixels = pixels_HWC[..., 0] if pixels_HWC.shape[2] == 1 else pixels_HWC
    pillow().fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def data_uri(pixels_HWC: np.ndarray) -> str:
    """A PNG file as an address that contains it."""
    return "data:image/png;base64," + b64encode(png_bytes(pixels_HWC)).decode()
