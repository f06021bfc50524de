"""Angles of rotary positions: those of transformers, and one operator for compiled models."""

import pytest
import torch

from regard.layers.rotary import SCALINGS, LinearScaling, Llama3Scaling, Rotation, angles_once

# As published: size of a head, base, scaling, and how many frequencies stay, are mixed or divided.
LLAMA_2, VICUNA_16K = (128, 1e4, None, (64, 0, 0)), (128, 1e4, LinearScaling(4.0), (0, 0, 64))
LLAMA_3_1 = (128, 5e5, Llama3Scaling(8.0, 1.0, 4.0, 8192), (29, 6, 29))
LLAMA_3_2_1B = (64, 5e5, Llama3Scaling(32.0, 1.0, 4.0, 8192), (15, 3, 14))
PUBLISHED = {
    "Llama 2": LLAMA_2,
    "Vicuna 16k": VICUNA_16K,
    "Llama 3.1": LLAMA_3_1,
    "Llama 3.2 1B": LLAMA_3_2_1B,
}
POSITIONS = (0, 1, 2, 50, 3, 8_191, 131_071)


def transformers_frequencies(size, base, scaling):
    """Frequencies of transformers for the settings in the terms of its configurations."""
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    names = {"factor": "factor", "low": "low_freq_factor", "high": "high_freq_factor"}
    names["original"] = "original_max_position_embeddings"
    kind = {LinearScaling: "linear", Llama3Scaling: "llama3"}.get(type(scaling), "default")
    values = vars(scaling) if scaling else {}
    table = {"rope_type": kind, "rope_theta": base, **{names[key]: values[key] for key in values}}
    config = LlamaConfig(head_dim=size, max_position_embeddings=131_072, rope_parameters=table)
    return LlamaRotaryEmbedding(config).inv_freq


@pytest.mark.parametrize("size, base, scaling, counts", PUBLISHED.values(), ids=PUBLISHED)
def test_frequencies_of_published_models_are_those_of_transformers(size, base, scaling, counts):
    expected_F = transformers_frequencies(size, base, scaling)
    rotation = Rotation(size, base, scaling)
    frequencies_F = rotation.frequencies(torch.device("cpu"))
    torch.testing.assert_close(frequencies_F, expected_F, rtol=1e-6, atol=0)
    shares_F = frequencies_F / transformers_frequencies(size, base, None)
    divided = (shares_F - 1 / scaling.factor).abs() < 1e-6 if scaling else shares_F < 0
    stay = (shares_F - 1).abs() < 1e-6
    found = (int(stay.sum()), int((~stay & ~divided).sum()), int(divided.sum()))
    assert found == counts  # every branch of the formula
    angles_TF = torch.tensor(POSITIONS)[:, None].double() * expected_F.double()
    cosines_TF, sines_TF = rotation.angles(torch.tensor(POSITIONS))
    # Products in single precision: the angle of position p is wrong by p · 2⁻²⁴ · ω at most, twice.
    rounding_TF = 2.0**-23 * angles_TF + 1e-6
    assert ((cosines_TF - angles_TF.cos()).abs() <= rounding_TF).all()
    assert ((sines_TF - angles_TF.sin()).abs() <= rounding_TF).all()


@pytest.mark.parametrize("size, base, scaling, _", PUBLISHED.values(), ids=PUBLISHED)
def test_one_operator_has_the_settings_of_the_rotation(size, base, scaling, _, monkeypatch):
    rotation, positions_T = Rotation(size, base, scaling), torch.tensor(POSITIONS)
    expected = rotation.angles(positions_T)
    asked = []
    with monkeypatch.context() as compiling:
        compiling.setattr("regard.layers.rotary.angles_once", lambda *args: asked.append(args))
        compiling.setattr("torch.compiler.is_compiling", lambda: True)
        rotation.angles(positions_T)
    torch.testing.assert_close(angles_once(*asked[0]), expected, rtol=0, atol=0)
    torch.library.opcheck(angles_once, asked[0], test_utils=("test_schema", "test_faketensor"))


def test_every_scaling_has_a_name():
    assert {*SCALINGS} == {type(scaling).__name__ for _, _, scaling, _ in PUBLISHED.values()}
