"""Colours of all drawings: the variables of ``modules/palette.css``, which pages and scripts use.

Drawings that stand alone have the light values; drawings in a page refer to the variables.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

RGB = tuple[int, int, int]


@dataclass(frozen=True)
class Palette:
    """Colours of a drawing: values, or variables of the page around it."""

    paper: str
    ink: str
    quiet: str
    rule: str
    band: str
    accent: str
    below: str
    hues: Sequence[str]

    @classmethod
    def of(cls, colours: Mapping[str, str]) -> "Palette":
        """Palette of colours by the name of their variable."""
        hues = [value for name, value in colours.items() if name.startswith("hue-")]
        own = {name: colours[name] for name in cls.__dataclass_fields__ if name in colours}
        return cls(**own, hues=hues)

    def hue(self, number: int) -> str:
        """Colour of a line or group by its number."""
        return self.hues[number % len(self.hues)]


STYLE = (files("regard.views") / "modules" / "palette.css").read_text(encoding="utf-8")
_PAIRS = re.findall(r"--([\w-]+): light-dark\((#\w+), (#\w+)\)", STYLE)
_SCALES = dict(re.findall(r"--(\w+-(?:light|dark)): ((?:#\w{6} ?)+)", STYLE))
LIGHT = Palette.of({name: light for name, light, _ in _PAIRS})
DARK = Palette.of({name: dark for name, _, dark in _PAIRS})
PAGE = Palette.of({name: f"var(--{name})" for name, _, _ in _PAIRS})


def scale_stops(name: str, theme: str = "light") -> list[RGB]:
    """Colours (RGB in bytes) of a scale at equal distances."""
    stops = _SCALES[f"{name}-{theme}"].split()
    return [(red, green, blue) for red, green, blue in (bytes.fromhex(each[1:]) for each in stops)]


def scale_colour(name: str, share: float, theme: str = "light") -> str:
    """Colour of a share, from 0 to 1, on the scale of this name."""
    stops = scale_stops(name, theme)
    place = min(max(share, 0.0), 1.0) * (len(stops) - 1)
    left = min(int(place), len(stops) - 2)
    ends = zip(stops[left], stops[left + 1], strict=True)
    return "#" + bytes(round(low + (high - low) * (place - left)) for low, high in ends).hex()
