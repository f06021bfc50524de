"""Models of two texts agree with others written anew, and treat each row alone."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from regard.core.batch import TokenRow, pack_rows
from regard.core.errors import BadInput
from regard.core.layout import Layout
from regard.core.tape import Tape
from regard.layers.attend import other_text
from regard.models.facts import change, from_json, to_json
from regard.models.label_heads import LabelHead, SpanHead
from regard.models.papers import KINDS, cove
from regard.models.papers import bidaf as bidaf_paper
from regard.models.papers import clark as clark_paper
from regard.models.papers import esim as esim_paper
from regard.models.text_pairs import TextPairStack, TextsPool
from text_pair_peers import bcn, bidaf, clark, esim

WORDS, CHARACTERS = 20, 5
SMALL = {"width": 3, "embedding": 4, "trunk.embed.vocab": WORDS, "dropout": 0.0}
CLASSIFIED = {"pool_dropout": 0.0, "hidden": (5,)}
ESIM = change(esim_paper.BASE, **SMALL, **CLASSIFIED).with_heads(LabelHead(3))
BCN = change(cove.BCN, **SMALL, **CLASSIFIED).with_heads(LabelHead(3))
READER = change(bidaf_paper.BASE, **SMALL | {"embedding": 7}, filters=((2, 3),), longest=CHARACTERS)
BIDAF = bidaf_paper.PAPER.fit_heads(READER.with_heads(SpanHead()))
CLARK = clark_paper.PAPER.fit_heads(
    change(
        clark_paper.BASE, **SMALL | {"embedding": 7}, filters=((2, 3),), longest=CHARACTERS
    ).with_heads(SpanHead())
)
MODELS = {"esim": (ESIM, esim), "bcn": (BCN, bcn), "bidaf": (BIDAF, bidaf), "clark": (CLARK, clark)}
each_model = pytest.mark.parametrize("name", MODELS)
LENGTHS = [(4, 3), (1, 1), (2, 0), (7, 2), (1, 6)]


def row(first: int, second: int, facts, start: int = 1) -> TokenRow:
    """A row of two texts of these lengths."""
    shape = (first + second, *facts.trunk.ids_per_token)
    ids = start + np.arange(np.prod(shape)).reshape(shape) * 7 % (WORDS - start)
    return TokenRow(ids, [0] * first + [1] * second)


def rows_of(facts, lengths=LENGTHS):
    return [row(*pair, facts, start) for start, pair in enumerate(lengths, 1)]


def build(name, seed=0):
    torch.manual_seed(seed)
    model = MODELS[name][0].build().double().eval()
    for buffer in model.buffers():  # running means of batch norm
        buffer.uniform_(0.5, 1.5)
    return model


def logits_of(model, rows, tape=None):
    head = "span" if "span" in model.heads else "label"
    more = {} if tape is None else {"tape": tape}
    return model(pack_rows(rows), **more).by_head[head]


def expected(name, model, rows):
    packed = pack_rows(rows)
    vectors = packed.layout.texts.split(model.trunk.embed(packed.tokens_T, packed.layout))
    return MODELS[name][1](model, list(zip(vectors[::2], vectors[1::2], strict=True)))


@each_model
def test_logits_and_gradients_are_those_of_a_padded_implementation(name):
    model = build(name)
    rows = rows_of(MODELS[name][0])
    gradients = []
    for run in (logits_of, lambda *inputs: expected(name, *inputs)):
        model.zero_grad()
        logits = run(model, rows)
        draws = torch.Generator().manual_seed(3)
        (logits * torch.randn(logits.shape, generator=draws, dtype=logits.dtype)).sum().backward()
        gradients.append((logits, {key: one.grad for key, one in model.named_parameters()}))
    (ours, own), (theirs, other) = gradients
    torch.testing.assert_close(ours, theirs)
    for key, gradient in own.items():
        assert gradient is not None and gradient.isfinite().all(), key
        torch.testing.assert_close(gradient, other[key], msg=key)


@each_model
@settings(max_examples=8)
@given(lengths=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5)), min_size=1, max_size=5))
def test_the_result_of_a_row_does_not_depend_on_its_batch(name, lengths):
    model, rows = build(name), rows_of(MODELS[name][0], lengths)
    with torch.no_grad():
        together = logits_of(model, rows)
        alone = torch.cat([logits_of(model, [each]) for each in rows])
    torch.testing.assert_close(together, alone)


@each_model
def test_rows_without_tokens_are_read(name):
    facts, model = MODELS[name][0], build(name)
    rows = [row(0, 0, facts), row(2, 1, facts), row(0, 2, facts)]
    assert logits_of(model, rows).isfinite().all()
    assert logits_of(model, rows[:1]).isfinite().all()


@each_model
def test_each_text_attends_to_the_other_and_a_text_alone_to_itself(name):
    tape, rows = Tape("trunk.alignment.weights"), rows_of(MODELS[name][0])
    logits_of(build(name), rows, tape)
    weights_BHLS = tape.records["trunk.alignment.weights"]
    for (first, second), weights in zip(LENGTHS, weights_BHLS[:, 0], strict=True):
        length, texts = first + second, [slice(0, first), slice(first, first + second)]
        assert not weights[:length, length:].any()
        torch.testing.assert_close(weights[:length].sum(1), torch.ones(length).double())
        if second:
            assert not any(weights[text, text].any() for text in texts)
            assert weights[texts[0], texts[1]].all() and weights[texts[1], texts[0]].all()


def test_each_word_attends_to_the_other_words_of_its_text():
    tape, rows = Tape("trunk.self_attention.weights"), rows_of(CLARK)
    logits_of(build("clark"), rows, tape)
    weights_BHLS = tape.records["trunk.self_attention.weights"]
    for (first, second), weights in zip(LENGTHS, weights_BHLS[:, 0], strict=True):
        assert not weights.diagonal().any()
        for begin, end in ((0, first), (first, first + second)):
            own = weights[begin:end]
            torch.testing.assert_close(
                own.sum(1), torch.full((end - begin,), float(end - begin > 1)).double()
            )
            assert not own[:, :begin].any() and not own[:, end:].any()


def test_a_head_of_the_pool_reads_one_text():
    for name, path in (("bcn", "pool.weights"), ("bidaf", "trunk.summary.weights")):
        tape, rows = Tape(path), rows_of(MODELS[name][0])
        logits_of(build(name), rows, tape)
        for (first, second), weights_HS in zip(LENGTHS, tape.records[path][:, :, 0], strict=True):
            torch.testing.assert_close(weights_HS[0, :first].sum(), torch.ones(()).double())
            assert not weights_HS[0, first:].any() and not weights_HS[1, :first].any()
            torch.testing.assert_close(weights_HS[1].sum().item(), float(second > 0))


def test_an_edit_of_the_alignment_changes_the_result():
    model, rows = build("esim"), rows_of(ESIM)
    flat = Tape(edits={"trunk.alignment.weights": lambda name, value: torch.zeros_like(value)})
    assert not torch.allclose(logits_of(model, rows), logits_of(model, rows, flat))


@each_model
def test_cost_is_three_times_what_torch_counts_forward(name):
    facts = change(MODELS[name][0], width=16, depth=3)
    model, rows = facts.build(), [row(4, 5, facts)] * 2
    with FlopCounterMode(display=False) as counter:
        logits_of(model, rows)
    forward = facts.training_flops([(9,), (9,)]) / 3
    assert forward == pytest.approx(counter.get_total_flops(), rel=0.03)


@each_model
def test_facts_are_written_and_read(name):
    facts = MODELS[name][0]
    assert from_json(to_json(facts), KINDS, "here") == facts


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=6), st.booleans()
)
def test_texts_divide_rows_at_the_first_other_segment(lengths, mixed):
    rows = [
        TokenRow([0] * (a + b), [0] * a + [2 - (mixed and i % 2) * 2 * (i > 0) for i in range(b)])
        for a, b in lengths
    ]
    layout = pack_rows(rows).layout
    assert layout.texts.known_lengths == [text for pair in lengths for text in pair]
    texts = [number for a, b in lengths for number in [0] * a + [1] * b]
    assert layout.text_T.tolist() == texts


def test_rows_without_segments_are_one_text():
    layout = Layout.rectangle(2, 3)
    assert layout.texts.known_lengths == [3, 0, 3, 0]
    assert other_text(layout, layout).all()
    with pytest.raises(ValueError, match="cannot be divided into texts"):
        _ = Layout.rectangle(2, 3, lengths_B=torch.tensor([1, 3])).texts


def test_features_join_the_states_that_attend():
    stack = TextPairStack(width=3, embedding=4, depth=3)
    assert stack.layer_inputs({1: 5, 2: 7}) == [4, 3, 13]
    plain = TextPairStack(width=3, embedding=4, projected=False)
    assert plain.layer_inputs({1: 5}) == [4, 4 * 11]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: change(ESIM, depth=1), "depth must be at least 2, not 1"),
        (lambda: change(ESIM, comparison=("sum",)), "no comparison is called 'sum'"),
        (lambda: change(ESIM, comparison=()), "comparison is empty"),
        (lambda: change(ESIM, input_layer="relu"), "no input_layer is called 'relu'"),
        (lambda: TextsPool(parts=("median",)), "no part of a pool is called 'median'"),
        (lambda: TextsPool(parts=()), "parts is empty"),
        (lambda: TextsPool(hidden=(0,)), "hidden must be at least 1"),
        (lambda: TextsPool(hidden_kind="relu"), "no hidden_kind is called 'relu'"),
    ],
)
def test_facts_that_make_no_sense_are_refused(wrong, said):
    with pytest.raises(BadInput, match=said):
        wrong()
