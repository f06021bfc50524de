"""BLEU counted by hand is sacreBLEU's BLEU; the worked example; wrong input."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU

from regard.core.errors import BadInput
from regard.metrics.translation import TOKENIZERS, Explanation, Ngram, bleu, bleu_metric, explain

CAT = ["the cat the cat on the mat"]
CAT_REFERENCES = [["the cat is on the mat"], ["there is a cat on the mat"]]

words = st.lists(st.sampled_from(["a", "b", "c", "B", "don't", "7.5,", "été"]), max_size=9)
lines = words.map(" ".join)


@st.composite
def corpora(draw, longest=5):
    segments = draw(st.integers(1, longest))
    text = st.lists(lines, min_size=segments, max_size=segments)
    return draw(text), draw(st.lists(text, min_size=1, max_size=3))


def test_worked_example():
    """Tokeniser 13a; every order has a match, so smoothing has nothing to do."""
    working = explain(CAT, CAT_REFERENCES)
    assert [(order.clipped, order.total) for order in working.orders] == [
        (5, 7),
        (4, 6),
        (2, 5),
        (1, 4),
    ]
    assert [(order.unclipped, order.total) for order in working.orders[:2]] == [(7, 7), (5, 6)]
    assert working.hypothesis_length == 7
    assert working.reference_lengths == (6, 7)
    assert working.closest_length == 7
    assert working.brevity_penalty == 1
    assert working.weight == 1 / 4
    assert f"{working.bleu:.2f}" == "46.71"
    assert working.bleu == pytest.approx(100 * (5 / 7 * 4 / 6 * 2 / 5 * 1 / 4) ** 0.25)
    unsmoothed = explain(CAT, CAT_REFERENCES, smoothing="none", tokenize="none")
    assert unsmoothed.bleu == working.bleu


def test_worked_example_by_sacrebleu_with_its_signature():
    score = bleu(CAT, CAT_REFERENCES)
    assert score.name == "BLEU"
    assert f"{score.value:.2f}" == "46.71"
    assert score.signature.startswith("nrefs:2|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert score.interval is None
    assert explain(CAT, CAT_REFERENCES).signature == score.signature


def test_rows_hold_count_most_in_one_reference_and_clipped_count():
    first, second = explain(CAT, CAT_REFERENCES).orders[:2]
    assert first.ngrams == (
        Ngram(("the",), 3, 2, 2, 3),
        Ngram(("cat",), 2, 1, 1, 2),
        Ngram(("on",), 1, 1, 1, 1),
        Ngram(("mat",), 1, 1, 1, 1),
    )
    assert second.ngrams[:2] == (
        Ngram(("the", "cat"), 2, 1, 1, 2),
        Ngram(("cat", "the"), 1, 0, 0, 0),
    )


def test_clipping_is_within_a_segment():
    """A word said twice in one segment is not excused by a reference of another segment."""
    (row,) = explain(["a a", "a"], [["b", "a a"]]).orders[0].ngrams
    assert row == Ngram(("a",), count=3, in_references=2, clipped=1, unclipped=1)


@settings(deadline=None, max_examples=150)
@given(corpora(), st.sampled_from(["exp", "none"]), st.booleans(), st.sampled_from(["13a", "char"]))
def test_counted_by_hand_equals_sacrebleu(corpus, smoothing, lowercase, tokenize):
    hypotheses, references = corpus
    metric = BLEU(lowercase=lowercase, tokenize=tokenize, smooth_method=smoothing)
    theirs = metric.corpus_score(hypotheses, references)
    options = {"tokenize": tokenize, "lowercase": lowercase, "smoothing": smoothing}
    working = explain(hypotheses, references, **options)
    assert working.bleu == pytest.approx(theirs.score, abs=1e-9)
    assert [order.clipped for order in working.orders] == theirs.counts
    assert [order.total for order in working.orders] == theirs.totals
    assert [100 * p for p in working.precisions] == pytest.approx(theirs.precisions)
    assert working.brevity_penalty == pytest.approx(theirs.bp)
    assert (working.hypothesis_length, working.closest_length) == (theirs.sys_len, theirs.ref_len)
    assert working.signature == str(metric.get_signature())

    score = bleu(hypotheses, references, **options)
    assert score.value == pytest.approx(theirs.score, abs=1e-9)
    assert score.signature == working.signature


@settings(deadline=None, max_examples=100)
@given(corpora(longest=1))
def test_a_sentence_without_smoothing_equals_sacrebleu(corpus):
    (hypothesis,), references = corpus
    metric = BLEU(smooth_method="none", effective_order=False)
    theirs = metric.corpus_score([hypothesis], references)
    ours = explain([hypothesis], references, smoothing="none")
    assert ours.bleu == pytest.approx(theirs.score, abs=1e-9)


@settings(deadline=None, max_examples=100)
@given(corpora())
def test_clipping_only_takes_away(corpus):
    for order in explain(*corpus).orders:
        assert order.clipped <= order.unclipped <= order.total
        for ngram in order.ngrams:
            assert ngram.clipped <= min(ngram.count, ngram.in_references)
            assert len(ngram.tokens) == order.n


def brief(hypothesis_length: int, closest_length: int) -> float:
    return Explanation(
        (), hypothesis_length, (closest_length,), closest_length, "none", ""
    ).brevity_penalty


def test_brevity_penalty():
    assert brief(10, 10) == brief(11, 10) == 1
    assert brief(5, 10) == pytest.approx(math.exp(1 - 10 / 5))
    assert brief(0, 10) == 0
    assert brief(0, 0) == 1


def test_of_two_equally_near_references_the_shorter_counts():
    assert explain(["a b c"], [["a b c d"], ["a b"]]).closest_length == 2


def test_smoothing_halves_again_at_each_order_without_a_match():
    working = explain(["a b c d e"], [["b a d c e"]])
    assert working.precisions == (1.0, 1 / (2 * 4), 1 / (4 * 3), 1 / (8 * 2))
    bare = explain(["a b c d e"], [["b a d c e"]], smoothing="none")
    assert bare.precisions == (1.0, 0, 0, 0)
    assert bare.bleu == 0


def test_no_match_and_empty_hypotheses():
    assert explain(["x y z v w"], [["a b c d e"]]).bleu == 0
    assert bleu(["x y z v w"], [["a b c d e"]]).value == 0
    assert explain([""], [["a b"]]).bleu == bleu([""], [["a b"]]).value == 0
    assert bleu([""], [[""]]).value == 0


def test_tokenisers_and_case_are_choices_and_show_in_the_signature():
    hypotheses, references = ["The end."], [["the end ."]]
    assert explain(hypotheses, references).hypothesis_length == 3
    assert explain(hypotheses, references, tokenize="none").hypothesis_length == 2
    assert explain(hypotheses, references, tokenize="char").hypothesis_length == 7
    assert explain(hypotheses, references, lowercase=True).orders[2].clipped == 1
    assert "tok:intl" in bleu(hypotheses, references, tokenize="intl").signature
    assert "case:lc" in bleu(hypotheses, references, lowercase=True).signature
    assert "smooth:none" in bleu(hypotheses, references, smoothing="none").signature


@pytest.mark.parametrize("measure", [bleu, explain])
def test_an_unknown_tokeniser_is_answered_with_the_nearest_name(measure):
    with pytest.raises(BadInput, match=r"unknown tokeniser 'int1'; did you mean 'intl'\?"):
        measure(["a"], [["a"]], tokenize="int1")
    with pytest.raises(BadInput, match="known: ") as caught:
        measure(["a"], [["a"]], tokenize="@@@@@@")
    assert all(name in str(caught.value) for name in TOKENIZERS)


@pytest.mark.parametrize(
    "error", [ImportError("\n\nPlease install it:\n\n  pip install it"), OSError("no network")]
)
def test_a_tokeniser_that_cannot_be_made_is_one_line(monkeypatch, error):
    def refuse(*_, **__):
        raise error

    monkeypatch.setattr("regard.metrics.translation.BLEU", refuse)
    with pytest.raises(BadInput, match="tokeniser 'flores200' cannot be used here") as caught:
        bleu_metric("flores200")
    assert "\n" not in str(caught.value)
    assert str(error).split()[-1] in str(caught.value)


def test_tokenised_text_gives_a_warning_unless_declared(caplog):
    tokenised = ["a b c d ."] * 100
    bleu(tokenised, [tokenised], tokenize="none")
    assert not caplog.records
    bleu(tokenised, [tokenised])
    assert "detokenize" in caplog.text


@pytest.mark.parametrize("measure", [bleu, explain])
def test_wrong_shapes(measure):
    with pytest.raises(BadInput, match="line counts differ: 2 in the hypotheses, 1 in reference 2"):
        measure(["a", "b"], [["a", "b"], ["a"]])
    with pytest.raises(BadInput, match="no references"):
        measure(["a"], [])
    with pytest.raises(BadInput, match="no lines"):
        measure([], [[]])
    for one in (("a b", "a b"), ("a", [["a"]]), (["a", "b"], ["aa", "bb"]), (["a"], "a")):
        with pytest.raises(BadInput, match=r"^give a list of texts, not one text$"):
            measure(*one)
    with pytest.raises(BadInput, match=r"^give a list of references, not 3$"):
        measure(["a"], 3)
    assert measure(iter(["a b"]), iter([iter(["a b"])]))
