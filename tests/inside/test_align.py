"""None"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naive import word_groups
from regard.inside.align import (
    AgreeingMethods,
    AlignmentMethod,
    PairAttention,
    candidate_methods,
    choose_agreeing_methods,
    choose_method,
    extract_links,
    multiply_directions,
)
from regard.metrics.links import GoldLinks, flipped

# "le chat noir" for "the black cat": four rows (the last predicts the end), four source columns
# (the last is the end mark). Rows are sharp and in the order of prediction.
PLAIN = np.array([[0.8, 0.1, 0.1, 0], [0, 0.2, 0.7, 0.1], [0, 0.6, 0.4, 0], [0.1, 0, 0, 0.9]])
WORDS = word_groups([0, 1, 2])
EXPECTED = frozenset({(0, 0), (2, 1), (1, 2)})
TARGETS, SOURCES = 5, 4


def attended(*layers_LS, target=WORDS, source=WORDS):
    return PairAttention([np.asarray(weights)[None] for weights in layers_LS], target, source)


def test_plain_reads_the_step_that_predicts_the_word():
    assert extract_links(attended(PLAIN), AlignmentMethod(layer=0)) == EXPECTED


def test_shifted_reads_the_step_that_has_the_word_as_input():
    late = np.vstack([PLAIN[-1:], PLAIN[:-1]])
    assert extract_links(attended(late), AlignmentMethod(layer=0, shifted=True)) == EXPECTED
    assert extract_links(attended(late), AlignmentMethod(layer=0)) != EXPECTED


def test_a_layer_and_a_head_are_chosen_and_heads_are_averaged_otherwise():
    uniform = np.full((4, 4), 0.25)
    other = np.roll(PLAIN, 1, axis=1)
    layers = [np.stack([uniform, uniform]), np.stack([0.4 * other, PLAIN])]
    both = PairAttention(layers, WORDS, WORDS)
    assert extract_links(both, AlignmentMethod(layer=1, head=1)) == EXPECTED
    assert extract_links(both, AlignmentMethod(layer=1, head=0)) != EXPECTED
    mean = attended((0.4 * other + PLAIN) / 2)
    assert extract_links(both, AlignmentMethod(layer=-1)) == extract_links(
        mean, AlignmentMethod(layer=0)
    )


def test_pieces_of_a_word_are_read_together():
    # Target "un|seen", source "not|se|en": each piece of "seen" gets less than "not", both more.
    weights = [[0.40, 0.3, 0.3], [0.40, 0.3, 0.3], [1, 0, 0]]
    pair = attended(weights, target=word_groups([0, 0]), source=word_groups([0, 1, 1]))
    assert extract_links(pair, AlignmentMethod(layer=0)) == {(1, 0)}


def test_a_smaller_share_links_one_target_word_to_several_source_words():
    assert extract_links(attended(PLAIN), AlignmentMethod(layer=0, share=0.6)) == EXPECTED | {
        (2, 2)
    }
    assert extract_links(attended(PLAIN), AlignmentMethod(layer=0, share=0.7)) == EXPECTED


def test_a_spurious_word_stays_alone():
    weights = [[0.1, 0.05, 0.05, 0.8], *PLAIN[1:]]
    assert extract_links(attended(weights), AlignmentMethod(layer=0)) == EXPECTED
    assert extract_links(attended(weights), AlignmentMethod(layer=0, spurious=True)) == EXPECTED - {
        (0, 0)
    }


def test_a_word_with_all_its_attention_on_the_end_mark_has_no_link():
    weights = [[0, 0, 0, 1], *PLAIN[1:]]
    assert extract_links(attended(weights), AlignmentMethod(layer=0)) == EXPECTED - {(0, 0)}
    assert extract_links(attended(weights), AlignmentMethod(layer=0, share=0.0)).isdisjoint(
        {(0, 0), (1, 0)}
    )


def test_no_words_no_links():
    assert extract_links(attended(PLAIN, source=[]), AlignmentMethod(layer=0)) == frozenset()
    assert extract_links(attended(PLAIN[:1], target=[]), AlignmentMethod(layer=0)) == frozenset()


@given(st.integers(0, 999), st.integers(1, 6), st.integers(1, 6), st.booleans())
def test_argmax_links_every_target_word_once_and_smaller_shares_only_add(
    seed, targets, sources, shifted
):
    weights = np.random.default_rng(seed).random((targets + 1, sources)) + 1e-3
    target, source = word_groups(range(targets)), word_groups(range(sources))
    pair = attended(weights, target=target, source=source)
    argmax = extract_links(pair, AlignmentMethod(0, shifted=shifted))
    rows = weights[1:] if shifted else weights[:-1]
    assert argmax == {(int(row.argmax()), target) for target, row in enumerate(rows)}
    assert argmax <= extract_links(pair, AlignmentMethod(0, shifted=shifted, share=0.5))
    assert (
        len(extract_links(pair, AlignmentMethod(0, shifted=shifted, share=0.0)))
        == targets * sources
    )


def test_choose_finds_the_layer_and_the_shift():
    noise = np.random.default_rng(0).random((4, 4))
    late = np.vstack([PLAIN[-1:], PLAIN[:-1]])
    method, score = choose_method(
        [attended(noise, late, noise)] * 2, [GoldLinks(EXPECTED, EXPECTED)] * 2
    )
    assert method == AlignmentMethod(layer=1, head=None, shifted=True, share=1.0, spurious=False)
    assert (score.aer, score.precision, score.recall) == (0, 1, 1)


def test_a_method_describes_itself():
    assert str(AlignmentMethod(1)) == "layer 1, mean of heads, plain"
    said = "layer 0, head 2, shifted, links from 0.5 of the largest weight"
    assert str(AlignmentMethod(0, 2, shifted=True, share=0.5)) == said
    assert str(AlignmentMethod(0, spurious=True)).endswith(
        "plain, no link where most weight lies on no word"
    )


def test_choose_finds_many_to_one_and_spurious_words():
    many = EXPECTED | {(2, 2)}
    assert choose_method([attended(PLAIN)], [GoldLinks(many, many)])[0] == AlignmentMethod(
        layer=0, share=0.5
    )
    weights = [[0.1, 0.05, 0.05, 0.8], *PLAIN[1:]]
    fewer = EXPECTED - {(0, 0)}
    assert choose_method([attended(weights)], [GoldLinks(fewer, fewer)])[0] == AlignmentMethod(
        layer=0, spurious=True
    )


def test_choose_needs_sentences():
    with pytest.raises(ValueError, match="no sentence pairs"):
        choose_method([], [])


def pair(seed, truth, good, layers=3, flip=False):
    """Noise in every layer but ``good``, which holds ``truth`` (target, source), shifted by one."""
    draw = np.random.default_rng(seed)
    truth = truth.T if flip else truth
    shape = (2, truth.shape[0] + 1, truth.shape[1])
    weights = [draw.random(shape) for _ in range(layers)]
    weights[good][:, 1:] += 3 * truth
    return PairAttention(weights, word_groups(range(shape[1] - 1)), word_groups(range(shape[2])))


def corpus(count=12):
    draw = np.random.default_rng(0)
    truths = [np.eye(TARGETS, SOURCES)[draw.permutation(TARGETS)] for _ in range(count)]
    forward = [pair(seed, truth, good=1) for seed, truth in enumerate(truths)]
    backward = [pair(99 + seed, truth, good=2, flip=True) for seed, truth in enumerate(truths)]
    return forward, backward


def test_it_finds_the_layers_that_say_the_same():
    forward, backward = corpus()
    agreed = choose_agreeing_methods(forward, backward)
    assert agreed.forward == AlignmentMethod(layer=1, shifted=True)
    assert agreed.backward == AlignmentMethod(layer=2, shifted=True)


def test_no_other_two_methods_agree_more():
    forward, backward = corpus(3)

    def share(one, other):
        """Twice the links in common over all links."""
        said = [extract_links(each, one) for each in forward]
        answered = [flipped(extract_links(each, other)) for each in backward]
        common = sum(len(a & b) for a, b in zip(said, answered, strict=True))
        return 2 * common / sum(map(len, said + answered))

    ours, theirs = candidate_methods(forward[0]), candidate_methods(backward[0])
    assert len(ours) == 3 * 2
    tried = {(one, other): share(one, other) for one in ours for other in theirs}
    best = max(tried, key=tried.__getitem__)
    assert choose_agreeing_methods(forward, backward) == AgreeingMethods(
        *best, pytest.approx(tried[best])
    )


def test_the_product_is_read_in_both_directions():
    """Source word 1 is sure of target 0; target 1 wavers, and the other direction decides."""
    said = np.array([[0.5, 0.5], [0.6, 0.4], [0, 0]])
    answered = np.array([[0.1, 0.9], [0.9, 0.1], [0, 0]])
    words = word_groups([0, 1])
    ours, theirs = (
        PairAttention([said[None]], words, words),
        PairAttention([answered[None]], words, words),
    )
    assert extract_links(ours, AlignmentMethod(0)) == {(0, 0), (1, 0), (0, 1)}
    forward, backward = multiply_directions(
        ours, theirs, AlignmentMethod(0), AlignmentMethod(0, spurious=True)
    )
    assert forward == backward == {(0, 1), (1, 0)}


@pytest.mark.parametrize("seed", range(5))
def test_the_product_has_no_side(seed):
    draw = np.random.default_rng(seed)
    words = [word_groups(range(count)) for count in (TARGETS, SOURCES)]
    ours = PairAttention([draw.random((2, TARGETS + 1, SOURCES))], *words)
    theirs = PairAttention([draw.random((2, SOURCES + 1, TARGETS))], *words[::-1])
    one = multiply_directions(ours, theirs, AlignmentMethod(0), AlignmentMethod(0, shifted=True))
    other = multiply_directions(theirs, ours, AlignmentMethod(0, shifted=True), AlignmentMethod(0))
    assert [flipped(links) for links in one] == list(reversed(other))
    weights = ours.layers[0].mean(0)[:-1] * theirs.layers[0].mean(0)[1:].T
    assert one[0] == {(int(row.argmax()), target) for target, row in enumerate(weights)}
    assert one[1] == {(source, int(row.argmax())) for source, row in enumerate(weights.T)}


def test_a_pair_without_words_is_no_obstacle():
    forward, backward = corpus(2)
    empty = PairAttention([np.ones((2, 1, 1))] * 3, [], [])
    agreed = choose_agreeing_methods([*forward, empty], [*backward, empty])
    assert agreed == choose_agreeing_methods(forward, backward)
    assert choose_agreeing_methods([empty], [empty]).share == 0.0


def test_both_directions_need_the_same_pairs():
    forward, backward = corpus(2)
    for ours, theirs in (([], []), (forward, backward[:1])):
        with pytest.raises(ValueError, match="pairs forward"):
            choose_agreeing_methods(ours, theirs)
