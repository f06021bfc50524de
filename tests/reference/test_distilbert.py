"""DistilBERT: values of every head, folders both ways, ids without a tokenizer, and tasks."""

import json

import pytest
import torch

from encoder_family import FILES, Family
from regard.models.facts import change
from regard.models.folders import folder as folders
from regard.models.label_heads import LabelHead, SpanHead
from regard.models.papers import bert, distilbert

transformers = pytest.importorskip("transformers")

HEADS = {
    "DistilBertModel": None,
    "DistilBertForMaskedLM": "mlm",
    "DistilBertForSequenceClassification": "label",
    "DistilBertForTokenClassification": "token_label",
    "DistilBertForQuestionAnswering": "span",
    "DistilBertForMultipleChoice": "choice",
}
SIZES = {
    "vocab_size": 60,
    "dim": 12,
    "n_layers": 2,
    "n_heads": 3,
    "hidden_dim": 20,
    "max_position_embeddings": 20,
}
FAMILY = Family(distilbert.PAPER, "DistilBertConfig", SIZES, HEADS)
SETTINGS = (
    {},
    {"tie_word_embeddings": False},
    {"activation": "relu"},
    {"sinusoidal_pos_embds": True, "n_layers": 1, "n_heads": 1},
)


@pytest.mark.thinned
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("kind", HEADS)
def test_every_head_agrees_on_ragged_rows(kind, settings, tmp_path):
    FAMILY.check_values(kind, settings, tmp_path)


@pytest.mark.thinned
@pytest.mark.parametrize("kind", HEADS)
def test_a_folder_comes_back_bit_for_bit(kind, tmp_path):
    dropouts = {"seq_classif_dropout": 0.3, "qa_dropout": 0.4, "sinusoidal_pos_embds": True}
    FAMILY.check_folder(kind, tmp_path, **dropouts)


@pytest.mark.thinned
@pytest.mark.parametrize("kind", HEADS)
def test_a_new_folder_is_read_by_the_reference(kind, tmp_path):
    FAMILY.check_new_folder(kind, tmp_path)


@pytest.mark.parametrize("kind", [kind for kind in HEADS if HEADS[kind] != "choice"])
def test_tensors_tell_the_head_where_no_architecture_does(kind, tmp_path):
    FAMILY.reference(kind).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["architectures"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    (head,) = folders.read(tmp_path).facts.head_names or (None,)
    assert head == HEADS[kind]


def test_a_folder_without_tokenizer_files_serves_ids(tmp_path):
    FAMILY.check_ids("DistilBertModel", tmp_path)


def test_the_size_is_that_of_the_published_model():
    assert distilbert.PAPER.parameters(distilbert.BASE) == 66_362_880


def test_dropout_of_rows_falls_on_the_input_of_the_last_layer_only():
    head = LabelHead(2, dropout=0.9, dense="relu", last_only=True)
    module = head.build(distilbert.BASE.trunk, None, 768)
    seen = {}
    module.dense.register_forward_hook(lambda _, given, __: seen.update(dense=given[0]))
    module.out.register_forward_hook(lambda _, given, __: seen.update(out=given[0]))
    module(torch.ones(4, 768))
    assert (seen["dense"] == 1).all()
    assert (seen["out"] == 0).float().mean() > 0.8


def test_only_its_own_span_head_has_dropout():
    facts = change(bert.BASE, pool=None).with_heads(SpanHead())
    ours, theirs = (
        change(paper.fit_heads(facts), dropout=0.3) for paper in (distilbert.PAPER, bert.PAPER)
    )
    assert ours.head("span").dropout == theirs.trunk.stack.dropout == 0.3
    assert theirs.head("span") == SpanHead()
    bert.HF.config_of(theirs)  # has no key for another rate


@pytest.mark.parametrize("task", FILES)
def test_every_task_trains_and_predicts(task, tmp_path):
    model = FAMILY.check_task(task, tmp_path)
    if task in ("classify", "choose"):
        (head,) = model.facts.output_heads
        assert (head.dropout, head.dense, head.last_only) == (0.2, "relu", True)


def test_masked_lm_trains_on_full_rows_and_fills_masks(tmp_path):
    model = FAMILY.pretrain(tmp_path, "masked-lm = {}\nnext-sentence = false")
    (filled,) = model.fill(["The old [MASK] mended his nets."])
    assert len(filled.blanks) == 1 and len(filled.blanks[0]) == 5
    model.save(tmp_path / "hf", "hf")
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(
        tmp_path / "hf", local_files_only=True
    )
    assert type(theirs) is transformers.DistilBertForMaskedLM
