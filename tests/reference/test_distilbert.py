"""DistilBERT: its size, the dropout of its heads, and masked LM."""

import pytest
import torch

from encoder_families import FAMILIES
from regard.models.facts import change
from regard.models.label_heads import LabelHead, SpanHead
from regard.models.papers import bert, distilbert

transformers = pytest.importorskip("transformers")


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


def test_masked_lm_trains_on_full_rows_and_fills_masks(tmp_path):
    model = FAMILIES["distilbert"].pretrain(tmp_path, "masked-lm = {}\nnext-sentence = false")
    (filled,) = model.fill(["The old [MASK] mended his nets."])
    assert len(filled.blanks) == 1 and len(filled.blanks[0]) == 5
    model.save(tmp_path / "hf", "hf")
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(
        tmp_path / "hf", local_files_only=True
    )
    assert type(theirs) is transformers.DistilBertForMaskedLM
