"""SpanBERT: its sizes; folders are BERT's, and are read as BERT where nothing says otherwise."""

import pytest
import torch

from encoder_families import FAMILIES
from regard.models.folders import folder as folders
from regard.models.papers import bert, spanbert

transformers = pytest.importorskip("transformers")

COUNTS = {"base": 108_310_272, "large": 333_579_264}
SIZES = FAMILIES["spanbert"].sizes


@pytest.mark.parametrize("size", COUNTS)
def test_sizes_are_those_of_the_published_models(size):
    facts = spanbert.PAPER.sizes[size]
    assert spanbert.PAPER.parameters(facts) == COUNTS[size]
    config = transformers.BertConfig(**spanbert.HF.config_of(facts))
    with torch.device("meta"):
        assert transformers.BertModel(config).num_parameters() == COUNTS[size]


def test_a_published_folder_is_read_as_bert(tmp_path):
    transformers.BertModel(transformers.BertConfig(**SIZES)).save_pretrained(tmp_path)
    assert folders.read(tmp_path).paper is bert.PAPER


@pytest.mark.parametrize("kind", ["BertModel", "BertForMaskedLM", "BertForQuestionAnswering"])
def test_a_folder_of_its_own_is_a_bert_folder_for_the_reference(kind, tmp_path):
    theirs = getattr(transformers, kind)(transformers.BertConfig(**SIZES))
    theirs.save_pretrained(tmp_path / "theirs")
    loaded = folders.read(tmp_path / "theirs")
    (tmp_path / "new").mkdir()
    ours = folders.LoadedModel(spanbert.PAPER, loaded.facts, loaded.module)
    folders.write(tmp_path / "new", ours, "hf")
    again = folders.read(tmp_path / "new")
    assert again.paper is spanbert.PAPER and again.facts == loaded.facts
    back, info = getattr(transformers, kind).from_pretrained(
        tmp_path / "new", output_loading_info=True, local_files_only=True
    )
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    before = theirs.state_dict()
    assert all(torch.equal(before[name], one) for name, one in back.state_dict().items())
