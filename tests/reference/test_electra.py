"""ELECTRA: values of every head, folders both ways, ids without a tokenizer, and tasks."""

import json

import pytest
import torch

import regard
from encoder_family import FILES, Family
from regard.core.errors import BadInput
from regard.models.folders import folder as folders
from regard.models.papers import electra

transformers = pytest.importorskip("transformers")

HEADS = {
    "ElectraModel": None,
    "ElectraForPreTraining": "replaced_token",
    "ElectraForMaskedLM": "mlm",
    "ElectraForSequenceClassification": "label",
    "ElectraForTokenClassification": "token_label",
    "ElectraForQuestionAnswering": "span",
    "ElectraForMultipleChoice": "choice",
}
SIZES = {
    "vocab_size": 60,
    "embedding_size": 8,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 20,
}
FAMILY = Family(electra.PAPER, "ElectraConfig", SIZES, HEADS, segments=2)
SETTINGS = (
    {},
    {"tie_word_embeddings": False},
    {"hidden_act": "relu"},
    {"embedding_size": 12, "num_hidden_layers": 1},  # no projection
)


@pytest.mark.thinned
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("kind", HEADS)
def test_every_head_agrees_on_ragged_rows(kind, settings, tmp_path):
    FAMILY.check_values(kind, settings, tmp_path)


@pytest.mark.thinned
@pytest.mark.parametrize("kind", HEADS)
def test_a_conversion_is_checked_head_by_head(kind, tmp_path):
    FAMILY.check_conversion(kind, tmp_path)


@pytest.mark.thinned
@pytest.mark.parametrize("kind", HEADS)
def test_a_folder_comes_back_bit_for_bit(kind, tmp_path):
    dropouts = {"classifier_dropout": 0.3, "summary_last_dropout": 0.4}
    FAMILY.check_folder(kind, tmp_path, **dropouts)


@pytest.mark.thinned
@pytest.mark.parametrize("kind", HEADS)
def test_a_new_folder_is_read_by_the_reference(kind, tmp_path):
    FAMILY.check_new_folder(kind, tmp_path)


@pytest.mark.parametrize("kind", HEADS)
def test_tensors_tell_the_head_where_no_architecture_does(kind, tmp_path):
    FAMILY.reference(kind).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["architectures"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    (head,) = folders.read(tmp_path).facts.head_names or (None,)
    assert head == HEADS[kind]


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


def test_a_folder_without_tokenizer_files_serves_ids(tmp_path):
    FAMILY.check_ids("ElectraModel", tmp_path)


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


@pytest.mark.parametrize("task", FILES)
def test_every_task_trains_and_predicts(task, tmp_path):
    model = FAMILY.check_task(task, tmp_path)
    (head,) = model.facts.output_heads
    assert {"label": "gelu", "choice": "gelu"}.get(head.name) == getattr(head, "dense", None)
