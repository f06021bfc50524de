"""ELECTRA: sizes, generators, the discriminator, and summaries that are refused."""

import pytest
import torch

import regard
from encoder_families import FAMILIES
from regard.core.errors import BadInput
from regard.models.folders import folder as folders
from regard.models.papers import electra

transformers = pytest.importorskip("transformers")

FAMILY = FAMILIES["electra"]


def test_other_summaries_are_refused(tmp_path):
    theirs = FAMILY.reference("ElectraForMultipleChoice", summary_type="mean")
    theirs.save_pretrained(tmp_path)
    with pytest.raises(BadInput, match="summary_type is 'mean', and only 'first' is supported"):
        folders.read(tmp_path)


def test_a_summary_without_a_dense_layer_is_refused_by_its_key(tmp_path):
    """Its only tensor, classifier.weight, looks like that of another head."""
    FAMILY.reference("ElectraForMultipleChoice", summary_use_proj=False).save_pretrained(tmp_path)
    message = "config.json: architectures: the choice head of ElectraForMultipleChoice: summary_use"
    with pytest.raises(BadInput, match=f"{message}_proj is False, and only True is supported$"):
        regard.load(tmp_path, "cpu")


@torch.no_grad()
def test_a_discriminator_gives_a_logit_for_every_token(tmp_path):
    theirs = FAMILY.reference("ElectraForPreTraining")
    theirs.save_pretrained(tmp_path)
    (logits,) = regard.load(tmp_path, "cpu").logits([[5, 6, 7]])
    expected = theirs(torch.tensor([[5, 6, 7]])).logits[0, :, None]
    torch.testing.assert_close(logits, expected, rtol=1e-5, atol=1e-5)


COUNTS = {
    "small": 13_483_008,
    "base": 108_891_648,
    "large": 334_092_288,
    "small-generator": 4_580_928,
    "base-generator": 33_511_168,
    "large-generator": 50_999_552,
}


@pytest.mark.thinned
@pytest.mark.parametrize("size", COUNTS)
def test_sizes_are_those_of_the_reference(size):
    facts = electra.PAPER.sizes[size]
    assert electra.PAPER.parameters(facts) == COUNTS[size]
    config = transformers.ElectraConfig(**electra.HF.config_of(facts))
    with torch.device("meta"):
        theirs = transformers.ElectraModel(config)
    assert theirs.num_parameters() == COUNTS[size]


def test_generators_have_the_shares_of_the_paper():
    for size, share in {"small": 4, "base": 3, "large": 4}.items():
        whole = electra.PAPER.sizes[size].trunk
        part = electra.PAPER.sizes[f"{size}-generator"].trunk
        for name in ("width", "heads", "inner"):
            assert getattr(whole.stack, name) == share * getattr(part.stack, name)
        assert part.stack.depth == whole.stack.depth
        assert part.token_width == whole.token_width  # embeddings can be shared
