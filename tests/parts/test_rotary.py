"""Rotary angles as one operator, which compiled models run, are those of the definition."""

import pytest
import torch

from regard.parts.rotary import SCALINGS, LinearScaling, Llama3Scaling, Rotation, angles_once

SCALED = [None, LinearScaling(4.0), Llama3Scaling(8.0, 1.0, 4.0, 32)]


@pytest.mark.parametrize("scaling", SCALED, ids=str)
def test_one_operator_gives_the_angles_of_the_definition(scaling, monkeypatch):
    rotation, positions_T = Rotation(6, 500.0, scaling), torch.tensor([0, 1, 2, 50, 3])
    expected = rotation.angles(positions_T)
    asked = []
    with monkeypatch.context() as compiling:
        compiling.setattr("regard.parts.rotary.angles_once", lambda *args: asked.append(args))
        compiling.setattr("torch.compiler.is_compiling", lambda: True)
        rotation.angles(positions_T)
    torch.testing.assert_close(angles_once(*asked[0]), expected, rtol=0, atol=0)
    torch.library.opcheck(angles_once, asked[0], test_utils=("test_schema", "test_faketensor"))


def test_every_scaling_has_a_name():
    assert {*SCALINGS} == {type(scaling).__name__ for scaling in SCALED}
