"""Spans and their boundaries: what the head reads, targets, loss, and a recipe that trains."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import regard
from regard.core.batch import IGNORED, BatchLimits, TokenRow
from regard.core.errors import BadInput
from regard.models.facts import change
from regard.models.papers import bert, spanbert
from regard.models.papers.spanbert import SpanBoundaryHead
from regard.objectives.masked_lm import MaskedLM
from regard.objectives.rows import AnnotatedRow
from regard.objectives.span_boundary import SpanBoundary
from regard.objectives.sum import Sum
from regard.training.recipe import read
from small_documents import write_animals
from verb import run

TOKENIZER = SimpleNamespace(special=frozenset({2, 3}))
SUM = Sum(SpanBoundary())
FACTS = SUM.fit(change(bert.TINY, vocab=60, width=8, heads=2, inner=16, longest=40))


def example(length, at):
    at = np.array(at, int)
    tokens = np.arange(10, 10 + length)
    row = TokenRow(np.where(np.isin(np.arange(length), at), 4, tokens), [0] * length)
    masked = AnnotatedRow(row, {"mlm": at}, {"mlm": tokens[at]})
    return SpanBoundary().annotator(TOKENIZER)([masked], np.arange(1), (1, 0))[0]


def test_boundaries_are_those_of_whole_runs():
    batch = SUM.collate([example(9, [2, 3, 4, 7]), example(6, [1])])
    assert batch.positions["span_boundary"].tolist() == [
        [1, 1, 1, 6, 9],
        [5, 5, 5, 8, 11],
        [2, 3, 4, 7, 10],
    ]
    assert torch.equal(batch.targets["span_boundary"], batch.targets["mlm"])
    assert SUM.weight(example(9, [2, 3, 4, 7])).tolist() == [4, 4]


def test_rows_that_are_annotated_together_keep_their_own_boundaries():
    both = [example(9, [2, 3, 8]), example(6, [0, 1, 3])]
    together = SpanBoundary().annotator(TOKENIZER)(both, np.arange(2), (1, 0))
    for alone, one in zip(both, together, strict=True):
        assert np.array_equal(alone.positions["span_boundary"], one.positions["span_boundary"])
        assert np.array_equal(alone.targets["span_boundary"], one.targets["span_boundary"])


def test_tokens_far_in_a_span_or_at_an_end_of_a_row_are_not_predicted():
    long = example(30, range(3, 26))
    targets = SUM.collate([long]).targets["span_boundary"]
    assert targets.tolist() == [*range(13, 33), *[IGNORED] * 3]
    assert SUM.weight(long).tolist() == [23, 20]
    ends = SUM.collate([example(6, [0, 1, 3, 5])])
    assert ends.targets["span_boundary"].tolist() == [IGNORED, IGNORED, 13, IGNORED]
    assert ends.positions["span_boundary"].min() >= 0 and ends.positions["span_boundary"].max() < 6
    assert SUM.collate([]).targets["span_boundary"].shape == (0,)


def test_spans_beside_special_tokens_are_not_predicted():
    tokens = np.array([2, 10, 11, 12, 13, 3, 14, 15, 16, 3])
    at = np.array([1, 3, 6, 8])
    row = TokenRow(np.where(np.isin(np.arange(10), at), 4, tokens), [0] * 10)
    masked = AnnotatedRow(row, {"mlm": at}, {"mlm": tokens[at]})
    other = example(9, [4])
    both = SpanBoundary().annotator(TOKENIZER)([other, masked], np.arange(2), (1, 0))
    assert both[1].targets["span_boundary"].tolist() == [IGNORED, 12, IGNORED, IGNORED]
    assert both[0].targets["span_boundary"].tolist() == [14]


@torch.no_grad()
def test_the_head_reads_both_ends_and_the_place_in_the_span():
    torch.manual_seed(0)
    model = FACTS.build().eval()
    for parameter in model.parameters():
        parameter.add_(0.1 * torch.randn_like(parameter))
    batch = SUM.collate([example(9, [2, 3, 4, 7])])
    outputs = model(batch.inputs, positions=batch.positions)
    head, states = model.heads["span_boundary"], outputs.encoded.states_TD
    assert head.out.weight is model.trunk.embed.token.weight
    for number, (before, after, place) in enumerate([(1, 5, 0), (1, 5, 1), (1, 5, 2), (6, 8, 0)]):
        x = torch.cat([states[before], states[after], head.position.weight[place]])
        for dense, norm in zip(head.dense, head.norm, strict=True):
            x = norm(F.gelu(dense(x)))
        expected = model.trunk.embed.token.weight @ x + head.out.bias
        torch.testing.assert_close(outputs.by_head["span_boundary"][number], expected)
    assert "span_boundary" not in model(batch.inputs).by_head
    shapes = [tuple(layer.weight.shape) for layer in head.dense]
    assert shapes == [(8, 2 * 8 + 200), (8, 8)] and head.position.weight.shape == (20, 200)


def test_the_loss_is_that_of_masked_lm_and_that_of_boundaries():
    torch.manual_seed(0)
    model = FACTS.build().eval()
    batch = SUM.collate([example(9, [2, 3, 4, 7]), example(30, range(3, 26))])
    (masked, boundary), _ = SUM(model, batch)
    outputs = model(batch.inputs, positions=batch.positions)
    for loss, head in ((masked, "mlm"), (boundary, "span_boundary")):
        logits, targets = outputs.by_head[head], batch.targets[head]
        expected = F.cross_entropy(logits, targets, reduction="sum", ignore_index=IGNORED)
        torch.testing.assert_close(loss, expected)
    fixed = SUM.collate(
        [example(9, [2, 3, 4, 7]), example(30, range(3, 10))], BatchLimits(128, 4, 40)
    )
    assert fixed.positions["span_boundary"].shape == (3, fixed.positions["mlm"].shape[0])


def test_what_makes_no_sense_is_refused(tmp_path):
    with pytest.raises(BadInput, match="masked-lm and span-boundary train the same head"):
        Sum(MaskedLM(), SpanBoundary())
    recipe = write_animals(tmp_path) / "animals.toml"
    with pytest.raises(BadInput, match="ngrams and spans cannot be used together"):
        read(recipe, ["objective.masked-lm={ ngrams = 3, spans = 0.2 }"])


def test_products_are_those_of_the_layers():
    head, trunk = SpanBoundaryHead(), FACTS.trunk
    module = head.build(trunk, torch.nn.Embedding(60, 8), trunk.width)
    layers = [*module.dense, module.out]
    assert head.macs(trunk, trunk.width) == sum(layer.weight.numel() for layer in layers)


def test_a_recipe_trains_a_model_that_comes_back_from_its_folders(tmp_path):
    transformers = pytest.importorskip("transformers")
    recipe = write_animals(tmp_path) / "animals.toml"
    out = tmp_path / "run"
    settings = (
        *("model.paper=spanbert", "model.size=base", "text.lower=false", "train.steps=4"),
        *("objective.masked-lm=false", "objective.next-sentence=false"),
        "objective.span-boundary={}",
    )
    arguments = [part for one in settings for part in ("--set", one)]
    printed = run("train", recipe, "--data", tmp_path, "--out", out, *arguments).output
    assert "boundary_accuracy" in printed
    model = regard.load(out / "model", "cpu")
    assert model.paper is spanbert.PAPER
    assert model.facts.head_names == ("mlm", "span_boundary")
    model.save(tmp_path / "hf", "hf")
    again = regard.load(tmp_path / "hf", "cpu")
    assert again.paper is spanbert.PAPER and again.facts == model.facts
    before, after = (one.module.state_dict() for one in (model, again))
    assert all(torch.equal(before[name], after[name]) for name in before)
    (one,) = model.fill(["the otter [MASK]"])
    assert len(one.blanks[0]) == 5
    theirs, info = transformers.BertForMaskedLM.from_pretrained(
        tmp_path / "hf", output_loading_info=True, local_files_only=True
    )
    assert not info["missing_keys"]
    assert all(name.startswith("span_boundary.") for name in info["unexpected_keys"])
    assert torch.equal(
        theirs.bert.embeddings.word_embeddings.weight, before["trunk.embed.token.weight"]
    )
