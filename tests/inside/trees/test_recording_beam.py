"""A beam that takes notes: it decides as the beam, and its notes hold together."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.generation import Beam, Constraints, Greedy, rescore
from regard.inside.trees.recording_beam import RULES, RecordingBeam
from regard.inside.trees.tree_nodes import PRUNED

from ...generation.toy import BOS, EOS, AttentionState, Toy, small_tree

SEEDS = st.integers(0, 100_000)


@st.composite
def beams(draw):
    stop = draw(st.sampled_from(["default", "transformers", "transformers-early"]))
    size = draw(st.integers(1, 4))
    plain = stop == "default"
    return Beam(
        size=size,
        best=draw(st.integers(1, size)),
        length=draw(st.sampled_from(["none", "mean", "gnmt", "power"])),
        alpha=draw(st.floats(0, 1.5)),
        coverage=draw(st.sampled_from([None, 0.0, 0.4])),
        finished=draw(st.none() | st.integers(size, size + 2)) if plain else None,
        no_repeat=draw(st.integers(0, 3)),
        early=draw(st.booleans()) if plain else True,
        stop=stop,
    )


def seen(beam, toy, constraints):
    recording = RecordingBeam(beam)
    state = AttentionState(toy, [(0, ())], "cpu")
    found = recording(state, constraints)
    return found, recording.tree("title", str, lambda tokens: " ".join(map(str, tokens)))


@pytest.mark.slow
@settings(max_examples=150)
@given(SEEDS, beams(), st.integers(2, 5), st.integers(1, 7), st.integers(0, 3), st.booleans())
def test_it_finds_what_the_beam_finds_and_knows_all_of_it(
    seed, beam, vocabulary, longest, shortest, must_end
):
    toy = Toy(seed, vocabulary)
    constraints = Constraints(BOS, EOS, longest, shortest, must_end=must_end)
    found, tree = seen(beam, toy, constraints)
    assert found == beam(AttentionState(toy, [(0, ())], "cpu"), constraints)
    assert [one.hypothesis for one in tree.hypotheses][: beam.best] == found[0]
    assert tree.beam == beam
    for one in tree.hypotheses:
        path = [tree.nodes[number] for number in tree.path(one.node)]
        tokens = [node.token for node in path[1:]]
        assert tokens == [*one.hypothesis.tokens, *([EOS] if one.hypothesis.finished else [])]
        assert [node.logprob for node in path[1:]] == list(one.hypothesis.logprobs)
        assert path[-1].total == pytest.approx(one.hypothesis.logprob)
        assert path[-1].score == one.hypothesis.score
        assert all(node.fate == "kept" for node in path[:-1])
    ends = [n for n, node in enumerate(tree.nodes) if node.fate not in ("kept", *PRUNED)]
    assert sorted(one.node for one in tree.hypotheses) == ends


@settings(max_examples=80)
@given(SEEDS, beams(), st.integers(2, 5), st.integers(1, 6))
def test_fates_follow_from_ranks(seed, beam, vocabulary, longest):
    _, tree = seen(beam, Toy(seed, vocabulary), Constraints(BOS, EOS, longest))
    for step in range(1, tree.steps + 1):
        nodes = [tree.nodes[number] for number in tree.at(step)]
        assert [node.rank for node in nodes] == list(range(1, len(nodes) + 1))
        assert [node.total for node in nodes] == sorted((n.total for n in nodes), reverse=True)
        going = [node for node in nodes if node.token != EOS]
        for node in nodes:
            if node.token == EOS:
                assert node.fate == ("finished" if node.rank <= beam.size else "outranked")
            elif going.index(node) >= beam.size:
                assert node.fate == "outranked"
            elif step == tree.steps:
                assert node.fate != "kept"
            else:
                assert node.fate in ("kept", "stuck")
            assert tree.nodes[node.parent].step == step - 1
            assert tree.why(tree.nodes.index(node))


def fates(beam, toy, constraints):
    _, tree = seen(beam, toy, constraints)
    return [tree.nodes[number].fate for number in tree.at(tree.steps)]


def test_a_sentence_is_over_for_one_of_three_reasons():
    toy, far = Toy(2, vocabulary=3), Constraints(BOS, EOS, 12)
    assert "enough" in fates(Beam(3, finished=1, early=False), toy, far)
    assert "beaten" in fates(Beam(3, length="none", finished=99), toy, far)
    assert "unfinished" in fates(Beam(3, finished=99, early=False), toy, Constraints(BOS, EOS, 3))


def test_what_nothing_may_follow_is_stuck():
    constraints = Constraints(BOS, EOS, 9, forbidden=(EOS, 2))
    _, tree = seen(Beam(2, no_repeat=1), Toy(0, vocabulary=3), constraints)
    assert [node.fate for node in tree.nodes] == ["kept", "stuck"]
    assert not tree.hypotheses[0].hypothesis.finished


@settings(max_examples=40)
@given(SEEDS, st.integers(2, 5))
def test_other_rules_choose_from_the_same_set(seed, vocabulary):
    _, tree = seen(Beam(4, finished=6), Toy(seed, vocabulary), Constraints(BOS, EOS, 6))
    hypotheses = [one.hypothesis for one in tree.hypotheses]
    for choice, rule in zip(tree.choices, RULES, strict=True):
        best = rescore(hypotheses, *rule)[0]
        assert tree.hypotheses[choice.hypothesis].hypothesis.tokens == best.tokens
        assert choice.score == best.score


def test_greedy_search_loses_to_a_beam_of_two_and_the_tree_shows_where():
    """The worked example: 0.5 · 0.4 = 0.20 for greedy search, 0.4 · 0.9 = 0.36 for two."""
    constraints = Constraints(BOS, EOS, 3)
    ((greedy,),) = Greedy()(small_tree().open([0]), constraints)
    _, one = seen(Beam(1, length="none"), small_tree(), constraints)
    _, two = seen(Beam(2, length="none"), small_tree(), constraints)
    assert one.hypotheses[0].text == "1" and two.hypotheses[0].text == "2"
    assert one.hypotheses[0].hypothesis.logprob == pytest.approx(greedy.logprob)
    assert math.exp(one.hypotheses[0].hypothesis.logprob) == pytest.approx(0.20)
    assert math.exp(two.hypotheses[0].hypothesis.logprob) == pytest.approx(0.36)
    ((lost,),) = [[n for n in one.at(1) if one.nodes[n].token == 2]]
    assert one.nodes[lost].fate == "outranked"
    assert [two.nodes[n].token for n in two.winner[1:]] == [2, EOS]


def test_one_sentence_once():
    recording = RecordingBeam(Beam(2))
    with pytest.raises(ValueError, match="has not searched"):
        recording.tree("", str, str)
    recording(Toy(0).open([0]), Constraints(BOS, EOS, 3))
    with pytest.raises(ValueError, match="once"):
        recording(Toy(0).open([0]), Constraints(BOS, EOS, 3))
    with pytest.raises(ValueError, match="one sentence"):
        RecordingBeam(Beam(2))(Toy(0).open([0, 1]), Constraints(BOS, EOS, 3))


def test_figures_are_plain_numbers():
    _, tree = seen(Beam(2), Toy(0), Constraints(BOS, EOS, 4))
    for node in tree.nodes:
        assert not any(isinstance(value, np.generic) for value in vars(node).values())
