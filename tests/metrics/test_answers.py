"""Answers: by hand, SQuAD's definition restated slowly, thresholds that do what they say."""

import random
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import BadInput
from regard.metrics.answers import answer_scores, best_threshold, exact_match, normalised, token_f1

WORDS = st.sampled_from(["red", "Green", "blue!", "the", "A", "an", "-", "theme", "U.S."])
ANSWER = st.lists(WORDS, max_size=5).map(" ".join)
QUESTION = st.tuples(st.lists(ANSWER, max_size=3), ANSWER)
PLAIN = st.sampled_from(["red", "green", "red green", "blue"])
SCORED = st.tuples(st.lists(PLAIN, max_size=2), PLAIN, st.integers(-3, 3).map(float))


def values(golds, found, **options):
    return {one.name: one.value for one in answer_scores(golds, found, **options)}


def slow_words(answer: str) -> list[str]:
    kept = "".join(letter for letter in answer.lower() if letter not in string.punctuation)
    for article in ("a", "an", "the"):
        kept = re.sub(rf"(?<!\w){article}(?!\w)", " ", kept)
    return kept.split()


def slow_scores(answers: list[str], predicted: str) -> tuple[float, float]:
    """Exact match and F1 of one question, words struck off one by one."""
    best_exact = best_f1 = 0.0
    for gold in [one for one in answers if slow_words(one)] or [""]:
        golden, named = slow_words(gold), slow_words(predicted)
        left, shared = list(golden), 0
        for word in named:
            if word in left:
                left.remove(word)
                shared += 1
        if not golden or not named:
            f1 = 1.0 if golden == named else 0.0
        elif not shared:
            f1 = 0.0
        else:
            precision, recall = shared / len(named), shared / len(golden)
            f1 = 2 * precision * recall / (precision + recall)
        best_exact, best_f1 = max(best_exact, float(golden == named)), max(best_f1, f1)
    return best_exact, best_f1


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ("The  Eiffel Tower.", "eiffel tower"),
        ("a theme, an Ant & the Anthem", "theme ant anthem"),
        ("U.S.", "us"),
        ("well-known", "wellknown"),
        ("l’an 2000", "l’ 2000"),
        ("the-end", "theend"),
        ("The", ""),
        (" \t\n", ""),
    ],
)
def test_what_does_not_count_is_taken_away(answer, wanted):
    assert normalised(answer) == wanted


def test_by_hand():
    assert exact_match("the Cat", "cat!") == 1
    assert exact_match("cat", "cats") == 0
    assert token_f1("the big black cat", "black cat") == pytest.approx(
        2 * 1 * (2 / 3) / (1 + 2 / 3)
    )
    assert token_f1("cat cat dog", "cat cat cat") == pytest.approx(2 / 3)
    assert token_f1("cat", "dog") == token_f1("", "dog") == token_f1("cat", "") == 0
    assert token_f1("", "") == token_f1("", "the") == 1
    golds = [["big cat", "cat"], ["dog"], ["old dog"]]
    assert values(golds, ["a cat", "cat", "dog"]) == {
        "exact match": pytest.approx(100 / 3),
        "F1": pytest.approx(100 * (1 + 0 + 2 / 3) / 3),
    }


def test_questions_without_an_answer_are_also_scored_apart():
    found = values([["cat"], [], ["old dog"], []], ["cat", "", "dog", "dog"])
    assert found == {
        "exact match": pytest.approx(50),
        "F1": pytest.approx(100 * (1 + 1 + 2 / 3 + 0) / 4),
        "HasAns exact match": pytest.approx(50),
        "HasAns F1": pytest.approx(100 * (1 + 2 / 3) / 2),
        "NoAns exact match": pytest.approx(50),
        "NoAns F1": pytest.approx(50),
    }
    assert values([[""]], [""]) == values([[]], [""])
    assert list(values([[]], [""])) == ["exact match", "F1", "NoAns exact match", "NoAns F1"]


@given(st.lists(QUESTION, min_size=1, max_size=8))
def test_as_the_definition_says(questions):
    golds, found = zip(*questions, strict=True)
    slowly = [slow_scores(*one) for one in questions]
    ours = values(golds, found)
    for number, name in enumerate(["exact match", "F1"]):
        assert ours[name] == pytest.approx(100 * sum(one[number] for one in slowly) / len(slowly))


@given(ANSWER, ANSWER)
def test_both_are_fair_and_f1_is_kinder(one, other):
    for match in (exact_match, token_f1):
        assert match(one, one) == 1
        assert match(one, other) == match(other, one)
        assert match(one, other) == match(normalised(one), other)
    assert token_f1(one, other) >= exact_match(one, other)


def test_best_threshold_by_hand():
    golds = [["cat"], [], ["old dog"], []]
    found, scores = ["cat", "cow", "dog", "hen"], [0.1, 0.6, 0.3, 0.9]
    best = best_threshold(golds, found, scores)
    assert type(best["F1"].score) is float
    assert best["exact match"] == (0.1, 75)  # the dog is not exact, and moves nothing
    assert best["F1"] == (0.3, pytest.approx(100 * (2 + 1 + 2 / 3) / 4))
    assert best_threshold([[], []], ["cow", "hen"], [0.2, 0.3])["F1"] == (0, 100)


def as_the_script(golds, found, scores, matched) -> tuple[float, float]:
    """SQuAD 2.0's search, which asks questions one by one, from the surest answer on."""
    now = best = sum(not answers for answers in golds)
    threshold = 0.0
    for score, number in sorted((score, number) for number, score in enumerate(scores)):
        now += matched[number] if golds[number] else -1 if found[number] else 0
        if now > best:
            best, threshold = now, score
    return threshold, pytest.approx(100 * best / len(golds))


@given(st.lists(QUESTION, min_size=1, max_size=10), st.randoms(use_true_random=False))
def test_best_threshold_as_the_script_has_it(questions, chance):
    golds, found = zip(*questions, strict=True)
    golds = [[one for one in answers if one] for answers in golds]
    scores = [(number + 1) / 100 for number in range(len(golds))]  # as probabilities, none alike
    chance.shuffle(scores)
    slowly = [slow_scores(*one) for one in zip(golds, found, strict=True)]
    best = best_threshold(golds, found, scores)
    assert best["exact match"] == as_the_script(golds, found, scores, [one[0] for one in slowly])
    # sums of fractions may part equal thresholds by a rounding
    assert best["F1"].score == as_the_script(golds, found, scores, [one[1] for one in slowly])[1]


@given(st.lists(SCORED, min_size=1, max_size=10))
def test_a_threshold_reaches_its_score_and_no_other_more(questions):
    golds, found, scores = zip(*questions, strict=True)

    def reached(threshold, name):
        kept = [one if score <= threshold else "" for one, score in zip(found, scores, strict=True)]
        return values(golds, kept)[name]

    for name, (threshold, score) in best_threshold(golds, found, scores).items():
        assert reached(threshold, name) == pytest.approx(score)
        assert all(reached(other, name) <= score + 1e-9 for other in [-10, *scores])


def test_intervals_hold_the_score_and_shrink_with_more_questions():
    chance = random.Random(0)
    golds = [[] if chance.random() < 0.3 else ["black cat"] for _ in range(400)]
    found = [chance.choice(["black cat", "cat", ""]) for _ in golds]
    few = answer_scores(golds[:40], found[:40], with_interval=True)
    many = answer_scores(golds, found, with_interval=True)
    for one, other in zip(few, many, strict=True):
        assert one.interval.low < one.value < one.interval.high
        assert other.interval.high - other.interval.low < one.interval.high - one.interval.low
    assert many[1].signature == "questions:400|bs:1000|seed:12345"
    assert many[4].signature == f"questions:{golds.count([])}|bs:1000|seed:12345"
    assert answer_scores(golds, found)[0].interval is None


def test_what_cannot_be_scored_is_reported():
    with pytest.raises(BadInput, match="1 answers predicted for 2 questions"):
        answer_scores([["a"], []], ["a"])
    with pytest.raises(BadInput, match="no questions"):
        answer_scores([], [])
    with pytest.raises(TypeError, match="a list of answers for each question"):
        answer_scores(["cat"], ["cat"])
    with pytest.raises(BadInput, match="1 no-answer scores for 2 questions"):
        best_threshold([["a"], []], ["a", ""], [0.1])
    with pytest.raises(BadInput, match="finite"):
        best_threshold([["a"]], ["a"], [float("nan")])
