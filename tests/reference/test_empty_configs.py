"""An empty config.json is the model of the reference's defaults, in every family."""

import pytest

from regard.models.papers import LINEAGE

transformers = pytest.importorskip("transformers")

FORMATS = {
    format.model_type: format
    for paper in LINEAGE
    if (format := paper.formats.get("hf")) is not None
}


@pytest.mark.parametrize("kind", FORMATS)
def test_keys_that_a_file_leaves_out_are_those_of_the_reference(kind):
    keys = transformers.AutoConfig.for_model(kind).to_dict()
    keys.pop("head_dim", None)  # follows from the width and the number of heads
    if keys.get("num_key_value_heads") == keys.get("num_attention_heads"):
        keys.pop("num_key_value_heads", None)
    assert len(keys) > 20
    assert FORMATS[kind].facts_of({}, ()) == FORMATS[kind].facts_of(keys, ())
