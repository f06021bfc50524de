"""Permutation LM: batches, what is predicted from what, memory over streams, and resuming."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.core.batch import IGNORED, BatchLimits, TokenRow
from regard.core.errors import BadInput
from regard.data.batches.document_dataset import DocumentDataset, RowStreams
from regard.data.rows.documents import Documents
from regard.models.facts import change
from regard.models.papers import bert, xlnet
from regard.objectives.permutation_lm import PermutationLM, PermutationLMConfig
from regard.objectives.rows import AnnotatedRow
from regard.objectives.sum import Sum
from regard.text.tokenizers.encoder_tokenizer import train_encoder_tokenizer

TEXTS = ("the old sailor mended his nets before the storm", "nobody believed the keeper of it") * 5
SMALL = {"width": 12, "depth": 2, "heads": 3, "inner": 16}
LONGEST = 14


@pytest.fixture(scope="module")
def tokenizer():
    return train_encoder_tokenizer(TEXTS, "xlnet-unigram", 60, lower=True, longest=64)


@pytest.fixture(scope="module")
def dataset(tokenizer):
    objective = Sum(PermutationLM())
    documents = Documents.of([[tokenizer.words.encode(text)] for text in TEXTS * 3])
    plan = objective.row_maker.rows(documents, tokenizer.template, LONGEST, 0)
    return DocumentDataset(documents, plan, objective.annotator(tokenizer), seed=1)


def model(tokenizer, objective=None):
    torch.manual_seed(0)
    facts = (objective or Sum(PermutationLM())).fit(change(xlnet.BASE, **SMALL, dropout=0.0))
    module = change(facts, vocab=len(tokenizer.words), attention_dropout=0.0).build()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return module


def test_rows_keep_their_tokens_and_targets_are_these(dataset, tokenizer):
    plain = dataset.planned(0).read(np.arange(4))
    for (row, positions, targets), (original, _) in zip(
        dataset.read(0, np.arange(4)), plain, strict=True
    ):
        assert (
            np.array_equal(row.tokens, original.tokens)
            and row.tokens[-1] == tokenizer.template.special["cls"]
        )
        at = positions["permutation_lm"]
        assert np.array_equal(targets["permutation_lm"], row.tokens[at])
        assert len(at) == LONGEST // 6 and tokenizer.mask not in row.tokens
        context = ~np.isin(row.tokens, [*tokenizer.special])
        context[at] = False
        assert (row.orders[context] == -1).all() and min(row.orders[at]) > -1


def test_what_is_predicted_does_not_depend_on_itself_or_on_later_tokens(dataset, tokenizer):
    """Another token at a place changes nothing at the place, nor before it in the order."""
    objective, module = Sum(PermutationLM()), model(tokenizer).eval()
    examples = dataset.read(0, np.arange(3))
    batch = objective.collate(examples)
    order_T = batch.inputs.layout.orders_T
    with torch.no_grad():
        before_NV = objective.outputs(module, batch).by_head["permutation_lm"]
        for at in batch.positions["permutation_lm"].tolist():
            tokens_T = batch.inputs.tokens_T.clone()
            tokens_T[at] = (tokens_T[at] + 1) % len(tokenizer.words)
            other = replace(batch, inputs=replace(batch.inputs, tokens_T=tokens_T))
            after_NV = objective.outputs(module, other).by_head["permutation_lm"]
            same_N = (after_NV == before_NV).all(-1)
            chosen_N = batch.positions["permutation_lm"]
            row_T = batch.inputs.layout.rows_T
            later_N = (order_T[chosen_N] > order_T[at]) & (row_T[chosen_N] == row_T[at])
            assert torch.equal(~same_N, later_N)


def test_the_first_chunk_of_a_row_does_not_see_the_second(tokenizer):
    objective, module = Sum(PermutationLM(chunk=7)), model(tokenizer).eval()
    documents = Documents.of([[tokenizer.words.encode(text)] for text in TEXTS * 3])
    plan = objective.row_maker.rows(documents, tokenizer.template, LONGEST, 0)
    chunked = DocumentDataset(documents, plan, objective.annotator(tokenizer), seed=1)
    batch = objective.collate(chunked.read(0, np.arange(3)), BatchLimits(3 * LONGEST, 3, LONGEST))
    at_N = batch.positions["permutation_lm"]
    in_second_N = at_N % LONGEST >= 7
    assert in_second_N.sum() == 3 == batch.weight / 2
    with torch.no_grad():
        before_NV = objective.outputs(module, batch).by_head["permutation_lm"]
        for first, changes in ((0, torch.ones(6, dtype=torch.bool)), (7, in_second_N)):
            tokens_T = batch.inputs.tokens_T.clone()
            context = [n for n in range(first, first + 5) if n not in at_N.tolist()]
            tokens_T[context[0] :: LONGEST] += 1  # of every row; also where it is predicted
            other = replace(batch, inputs=replace(batch.inputs, tokens_T=tokens_T))
            after_NV = objective.outputs(module, other).by_head["permutation_lm"]
            changed_N = (after_NV != before_NV).any(-1)
            assert not changed_N[~changes].any() and changed_N[changes][:1].all()


def test_a_chunk_is_no_shorter_than_the_context_of_a_prediction():
    with pytest.raises(ValueError, match=r"chunk must be 0, or at least one_in \(6\)"):
        PermutationLMConfig(chunk=5)


def test_a_batch_of_fixed_shape_has_the_same_loss(dataset, tokenizer):
    objective, module = Sum(PermutationLM()), model(tokenizer).eval()
    examples = dataset.read(0, np.arange(3))
    loss, nll = objective(module, objective.collate(examples))
    for limits in (BatchLimits(3 * LONGEST, 3, LONGEST), BatchLimits(70, 4, 20)):
        batch = objective.collate(examples, limits)
        assert batch.inputs.layout.full == (limits.tokens == 3 * LONGEST)
        assert len(batch.targets["permutation_lm"]) % batch.inputs.layout.rows == 0
        assert (batch.targets["permutation_lm"] != IGNORED).sum() == batch.weight == 6
        for found, expected in zip(objective(module, batch), (loss, nll), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_rows_of_several_lengths():
    objective = PermutationLM()
    rows = [
        AnnotatedRow(
            TokenRow([5] * size, [0] * size, [*range(size)]),
            {objective.head: at},
            {objective.head: [5] * len(at)},
        )
        for size, at in ((9, [7, 8]), (4, [3]))
    ]
    batch = objective.collate(rows)
    assert batch.positions[objective.head].tolist() == [7, 8, 12, 9]
    assert batch.targets[objective.head].tolist() == [5, 5, 5, IGNORED] and batch.weight == 3
    assert batch.inputs.layout.orders_T.tolist() == [*range(9), *range(4)]


def test_a_model_without_queries_is_refused():
    with pytest.raises(BadInput, match="permutation-lm: only XLNet's stack has a query stream"):
        Sum(PermutationLM()).check(bert.BASE)


def test_streams_read_successive_rows_and_carry_their_memory(dataset, tokenizer):
    objective = Sum(PermutationLM(memory=5))
    module = model(tokenizer, objective).eval()
    streams = RowStreams.of(dataset, BatchLimits(3 * LONGEST, 8, LONGEST))
    assert streams.rows == 3 and streams.chunks == len(dataset) // 3
    sampler = streams.sampler(objective, BatchLimits(1, 1, 1), 0, False, {})
    state, plan = objective.initial_state(module, 3), dataset.planned(0)
    for number, (_, sampled) in zip(range(2), sampler.batches(), strict=False):
        examples = sampled.read()
        for stream, example in enumerate(examples):
            (passage,) = plan.read(np.array([stream * streams.chunks + number]))
            assert np.array_equal(example.row.tokens, passage.row.tokens)
        for limits in (None, BatchLimits(100, 50, LONGEST)):
            batch = replace(objective.collate(examples, limits), state=state)
            loss, _, after = objective(module, batch)
            assert batch.inputs.layout.rows == 3
        if number:
            without = objective(module, replace(batch, state=objective.initial_state(module, 3)))
            assert not torch.allclose(without[0], loss)
        state = after
        assert [one.shape for one in state] == [(3, 5, 12)] * 2
    with pytest.raises(BadInput, match="rows are too few for 1000 streams of text"):
        RowStreams.of(dataset, BatchLimits(1000 * LONGEST, 1000, LONGEST))
