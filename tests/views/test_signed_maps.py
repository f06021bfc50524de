"""Maps of positive and negative numbers: a sign in text, another colour in drawings."""

import numpy as np

from regard.views.attention_text import colour_cell, heat_map, ramp_colour, shade_cell
from regard.views.matrix_svg import draw_attention
from regard.views.palette import LIGHT, scale_colour

VALUES = np.array([[2.0, -1.0], [0.0, -2.0]])


def lines(values, paint=shade_cell):
    return [line.plain for line in heat_map(["a", "b"], ["x", "y"], values, 60, paint)]


def test_negative_numbers_have_a_sign_in_text():
    _, first, second, _, *legend = lines(VALUES)
    assert first == "a ██-▓" and second == "b ··-█"
    assert "██ 1.3" in "".join(legend) and "-█ -1.3" in "".join(legend)


def test_the_legend_of_weights_has_no_negative_numbers():
    assert "-" not in lines(np.abs(VALUES))[-1]


def test_negative_numbers_have_another_colour():
    assert ramp_colour(-1.0) != ramp_colour(1.0) and ramp_colour(-0.0) == ramp_colour(0.0)
    assert colour_cell(-1.0).plain == "  "
    svg = draw_attention("title", "caption", ["a", "b"], ["x", "y"], VALUES)
    for share in (1.0, -0.5, -1.0):
        assert f'fill="{scale_colour("signed", (1 + share) / 2)}"' in svg
    assert ">-2.00<" in svg and ">2.00<" in svg
    plain = draw_attention("title", "caption", ["a", "b"], ["x", "y"], np.abs(VALUES))
    assert LIGHT.below in svg and LIGHT.below not in plain and ">0<" in plain
