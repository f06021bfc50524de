"""Masked LM and next-sentence prediction: loss of transformers, fixed shapes, number of targets."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from bert_folders import read_by_reference, write_bert
from regard.core.batch import IGNORED, BatchLimits, TokenRow
from regard.data.rows.mlm_masking import TokenMasker
from regard.models.folders.folder import read
from regard.objectives.masked_lm import MaskedLM
from regard.objectives.next_sentence import NextSentence
from regard.objectives.rows import AnnotatedRow
from regard.objectives.span_boundary import SpanBoundary
from regard.objectives.sum import Sum
from small_bert import vocabulary

HEADS = pytest.mark.parametrize(("head", "follows"), [("words and pairs", True), ("words", False)])


def example(tokens, segments, positions, originals, follows):
    """A masked row; ``follows`` is 0 where its second passage follows the first, else 1."""
    targets = {"mlm": originals, "sentence_pair": follows}
    return AnnotatedRow(TokenRow(tokens, segments), {"mlm": positions}, targets)


EXAMPLES = [
    example([1, 3, 9, 3, 2, 7, 2], [0, 0, 0, 0, 0, 1, 1], [1, 3], [8, 9], 0),
    example([1, 5, 2, 3, 2], [0, 0, 0, 1, 1], [3], [4], 1),
    example([1, 30, 31, 2, 3, 33, 3, 2], [0, 0, 0, 0, 1, 1, 1, 1], [2, 4, 6], [31, 6, 7], 1),
]


def objective_of(follows, smoothing=0.0):
    """Masked LM, with next-sentence prediction if the second passages ``follow``."""
    members = (MaskedLM(smoothing=smoothing), NextSentence(smoothing=smoothing))
    return Sum(*members[: 1 + follows])


def their_loss(model, examples, follows):
    """The loss of ``transformers`` over one padded batch, with targets at masked positions."""
    longest = max(len(one.row.tokens) for one in examples)
    ids, kinds, there = (torch.zeros(len(examples), longest, dtype=torch.long) for _ in range(3))
    labels = torch.full((len(examples), longest), IGNORED)
    for number, one in enumerate(examples):
        size = len(one.row.tokens)
        ids[number, :size], there[number, :size] = torch.tensor(one.row.tokens), 1
        kinds[number, :size] = torch.tensor(one.row.segments)
        labels[number, torch.tensor(one.positions["mlm"])] = torch.tensor(one.targets["mlm"])
    given = {"input_ids": ids, "token_type_ids": kinds, "attention_mask": there, "labels": labels}
    if follows:
        given["next_sentence_label"] = torch.tensor(
            [one.targets["sentence_pair"] for one in examples]
        )
    return model(**given).loss


@pytest.mark.parametrize("limits", [None, BatchLimits(32, 6, 10)])
@HEADS
def test_loss_is_that_of_transformers(tmp_path, head, follows, limits):
    """The mean over masked positions, and the mean over rows beside it; gradients too."""
    folder = write_bert(tmp_path / "bert", head)
    ours, theirs = read(folder).module, read_by_reference(folder)
    objective = objective_of(follows)
    batch = objective.collate(EXAMPLES, limits)
    weight = torch.tensor(np.sum([objective.weight(one) for one in EXAMPLES], axis=0))
    assert weight.tolist() == ([6, 3] if follows else 6)
    loss, likelihood = objective(ours, batch)
    assert loss.shape == likelihood.shape == weight.shape
    loss, wanted = (loss / weight).sum(), their_loss(theirs, EXAMPLES, follows)
    torch.testing.assert_close(loss.float(), wanted, rtol=1e-5, atol=1e-5)
    loss.backward()
    wanted.backward()
    torch.testing.assert_close(
        ours.trunk.embed.token.weight.grad,
        theirs.bert.embeddings.word_embeddings.weight.grad,
        rtol=1e-4,
        atol=1e-5,
    )


def test_a_batch_has_targets_at_masked_positions_alone():
    batch = objective_of(follows=True).collate(EXAMPLES)
    assert batch.positions["mlm"].tolist() == [1, 3, 10, 14, 16, 18]
    assert batch.targets["mlm"].tolist() == [8, 9, 4, 31, 6, 7]
    assert batch.targets["sentence_pair"].tolist() == [0, 1, 1]
    assert batch.weight == 6 + 3
    batch = objective_of(follows=False).collate(EXAMPLES)
    assert batch.targets.keys() == batch.positions.keys() == {"mlm"} and batch.weight == 6


@HEADS
def test_targets_are_smoothed(tmp_path, head, follows):
    """Tokens and rows alike; the likelihood is taken from what is not smoothed."""
    folder = write_bert(tmp_path / "bert", head)
    model, objective = read(folder).module, objective_of(follows, smoothing=0.2)
    batch = objective.collate(EXAMPLES)
    loss, likelihood = objective(model, batch)
    outputs = model(batch.inputs, positions=batch.positions)
    for smoothing, found in ((0.2, loss), (0.0, likelihood)):
        wanted = [
            F.cross_entropy(
                outputs.by_head[name], targets, label_smoothing=smoothing, reduction="sum"
            )
            for name, targets in batch.targets.items()
        ]
        assert len(wanted) == 1 + follows
        torch.testing.assert_close(found.reshape(-1), torch.stack(wanted), check_dtype=False)


def test_fixed_shapes_do_not_depend_on_the_examples():
    objective, limits = objective_of(follows=True), BatchLimits(32, 6, 10)
    shapes = {
        tuple(one.shape for one in (*batch.targets.values(), *batch.positions.values()))
        for batch in (objective.collate(some, limits) for some in (EXAMPLES, EXAMPLES[:1]))
    }
    assert len(shapes) == 1


def test_more_targets_than_a_batch_can_hold_are_an_error():
    many = AnnotatedRow(TokenRow([3] * 30, [0] * 30), {"mlm": range(30)}, {"mlm": [3] * 30})
    with pytest.raises(ValueError, match="30 masked positions in a batch with room for"):
        MaskedLM().collate([many], BatchLimits(32, 1, 32))


@given(
    st.lists(st.integers(3, 40), min_size=1, max_size=30),
    st.floats(0.01, 0.5),
    st.booleans(),
    st.integers(0, 99),
)
def test_a_batch_can_hold_all_targets_of_any_rows(lengths, rate, whole, seed):
    """As tight a batch as there is: as many rows and tokens as its limits allow."""
    draw = np.random.default_rng(seed)
    special = np.array([True] * 3 + [False] * 17)
    begins = draw.random(20) < 0.5 if whole else None
    tokens = draw.integers(3, 20, sum(lengths))
    drawn = TokenMasker(2, special, begins, rate).mask_rows(
        tokens, np.array(lengths), np.arange(len(lengths)), (seed,)
    )
    limits = BatchLimits(sum(lengths), len(lengths), max(lengths))
    assert len(drawn.positions) <= MaskedLM(rate=rate).max_positions(limits) <= limits.tokens


def test_spans_have_up_to_ten_words(monkeypatch):
    """Joshi et al., 2019, section 3.1: ℓ ~ Geo(0.2), of 1 to 10 words, 3.8 in the mean."""
    maskers = []
    monkeypatch.setattr(
        "regard.objectives.masked_lm.TokenMasker",
        lambda *given, **settings: maskers.append(TokenMasker(*given, **settings)),
    )
    for objective in (MaskedLM(spans=0.2), SpanBoundary().masked):
        objective.annotator(vocabulary())
    for masker in maskers:
        weights = masker.ngram_weights / masker.ngram_weights.sum()
        assert len(weights) == 10
        assert weights @ np.arange(1, 11) == pytest.approx(3.8, abs=0.01)
