"""One palette: hues that people with any colour vision tell apart, and read on their paper."""

from itertools import combinations

import numpy as np
import pytest

from regard.views.palette import DARK, LIGHT, PAGE, scale_colour, scale_stops

LAB = (
    np.array([[0.2104542553, 0.7936177850, -0.0040720468],
              [1.9779984951, -2.4285922050, 0.4505937099],
              [0.0259040371, 0.7827717662, -0.8086757660]]),
    np.array([[0.4122214708, 0.5363325363, 0.0514459929],
              [0.2119034982, 0.6806995451, 0.1073969566],
              [0.0883024619, 0.2817188376, 0.6299787005]]),
)  # fmt: skip
SIGHT = {
    "normal": np.eye(3),
    "protanopia": np.array([[0.152286, 1.052583, -0.204868],
                            [0.114503, 0.786281, 0.099216],
                            [-0.003882, -0.048116, 1.051998]]),
    "deuteranopia": np.array([[0.367322, 0.860646, -0.227968],
                              [0.280085, 0.672501, 0.047413],
                              [-0.011820, 0.042940, 0.968881]]),
    "tritanopia": np.array([[1.255528, -0.076749, -0.178779],
                            [-0.078411, 0.930809, 0.147602],
                            [0.004733, 0.691367, 0.303900]]),
}  # fmt: skip
"""Linear RGB as it is seen (Machado, Oliveira and Fernandes, 2009)."""
THEMES = pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])


def linear(colour):
    levels = np.array([*bytes.fromhex(colour[1:])]) / 255
    return np.where(levels <= 0.04045, levels / 12.92, ((levels + 0.055) / 1.055) ** 2.4)


def contrast(colour, other):
    """Contrast of two colours (WCAG 2.2)."""
    dark, light = sorted(linear(each) @ [0.2126, 0.7152, 0.0722] for each in (colour, other))
    return (light + 0.05) / (dark + 0.05)


def oklab(colour, sight):
    return LAB[0] @ np.cbrt(LAB[1] @ np.clip(sight @ linear(colour), 0, 1))


@THEMES
def test_texts_and_lines_can_be_read_on_their_paper(palette):
    for colour in (palette.ink, palette.quiet, palette.accent, palette.below, *palette.hues):
        assert contrast(colour, palette.paper) >= 4.5


@THEMES
@pytest.mark.parametrize("sight", SIGHT)
def test_hues_can_be_told_apart(palette, sight):
    for colour, other in combinations(palette.hues, 2):
        distance = np.linalg.norm(oklab(colour, SIGHT[sight]) - oklab(other, SIGHT[sight]))
        assert distance >= 0.075, (colour, other)


def test_pages_have_a_variable_for_each_colour():
    assert PAGE.hue(1) == PAGE.hue(1 + len(LIGHT.hues)) == "var(--hue-1)"
    assert PAGE.paper == "var(--paper)" and len(PAGE.hues) == len(DARK.hues) == 8


def test_a_scale_runs_from_its_first_colour_to_its_last():
    assert scale_colour("cividis", 0) == scale_stops_hex("cividis")[0] == LIGHT.paper
    assert scale_colour("cividis", 1) == scale_colour("cividis", 2) == "#00224e"
    assert scale_colour("cividis", 0.05) == "#f6f0d7"  # halfway to the second
    ends = LIGHT.below, LIGHT.paper, LIGHT.accent
    assert tuple(scale_stops_hex("signed")) == ends
    assert scale_stops_hex("signed", "dark") == [DARK.below, DARK.paper, DARK.accent]


def scale_stops_hex(*scale):
    return ["#" + bytes(stop).hex() for stop in scale_stops(*scale)]
