"""BPE-dropout: the loop is the library's at rate 0 and the paper's algorithm above it."""

import random
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import BadInput
from regard.text.tokenizers.subwords import Merges, Subwords, read_merges
from work import lines_run

TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])), st.text(alphabet="thestormlighouk' 12\n日")
)


@given(TEXTS)
@settings(deadline=None, max_examples=150)
def test_rate_zero_is_plain_coding(mergeable: Subwords, text: str) -> None:
    assert mergeable.encode_dropped(text, 0.0, (1, 2)) == mergeable.encode(text)


@given(TEXTS, st.floats(0, 1), st.tuples(st.integers(0), st.integers(0)))
@settings(deadline=None, max_examples=80)
def test_any_segmentation_is_the_same_text(
    mergeable: Subwords, text: str, rate: float, key: tuple[int, int]
) -> None:
    ids = mergeable.encode_dropped(text, rate, key)
    assert mergeable.decode(ids) == mergeable.normalise(text)
    assert ids == mergeable.encode_dropped(text, rate, key)


def test_rate_one_spells(mergeable: Subwords) -> None:
    assert mergeable.pieces(mergeable.encode_dropped("the storm", 1.0, (0,))) == list("▁the▁storm")


def test_keys_draw_differently(mergeable: Subwords) -> None:
    drawn = [mergeable.encode_dropped("the lighthouse", 0.3, (7, i)) for i in range(50)]
    assert len(set(map(tuple, drawn))) > 10
    assert drawn == [mergeable.encode_dropped("the lighthouse", 0.3, (7, i)) for i in range(50)]
    assert mergeable.encode_dropped("the lighthouse", 0.3, (1, 23)) != (
        mergeable.encode_dropped("the lighthouse", 0.3, (12, 3))
    )


def test_draws_are_the_same_on_every_machine() -> None:
    merges = Merges({c: [i] for i, c in enumerate("abc")}, {(0, 1): (0, 3), (3, 2): (1, 4)}, [], [])
    draw = random.Random("1,2").random
    drawn = [len(merges.segment("abc", 0.5, draw)) for _ in range(12)]
    assert drawn == [3, 2, 3, 3, 2, 1, 2, 3, 1, 2, 1, 3]


def as_in_the_paper(merges: Merges, word: str, rate: float, draw: random.Random) -> list[int]:
    """Algorithm 1, word for word: draw for every possible merge, make the best that is left."""
    ids = [i for letter in word for i in merges.letters[letter]]
    while True:
        pairs = [(merges.ranks.get((a, b)), i) for i, (a, b) in enumerate(pairwise(ids))]
        left = [(*found, i) for found, i in pairs if found and draw.random() >= rate]
        if not left:
            return ids
        _, merged, i = min(left)
        ids[i : i + 2] = [merged]


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_segmentations_are_as_frequent_as_in_the_paper(rate: float) -> None:
    letters = "abcd"
    vocab = {t: i for i, t in enumerate([*letters, "ab", "bc", "cd", "abc", "abcd", "aa", "bcd"])}
    merges = read_merges(
        {
            "vocab": vocab,
            "merges": [
                ["b", "c"],
                ["a", "b"],
                ["c", "d"],
                ["a", "bc"],
                ["ab", "cd"],
                ["a", "a"],
                ["bc", "d"],
                ["abc", "d"],
            ],
            "byte_fallback": False,
            "unk_token": None,
        }
    )
    draw, n = random.Random(5), 8000
    ours = Counter(tuple(merges.segment("aabcd", rate, draw.random)) for _ in range(n))
    paper = Counter(tuple(as_in_the_paper(merges, "aabcd", rate, draw)) for _ in range(n))
    assert sum(abs(ours[s] - paper[s]) for s in ours | paper) / (2 * n) < 0.03


def test_only_merges_can_be_dropped(vocabularies: dict[str, Subwords]) -> None:
    for kind in ("unigram", "wordpiece"):
        with pytest.raises(BadInput, match=f"needs a bpe vocabulary; this one is {kind}"):
            vocabularies[kind].encode_dropped("the storm", 0.1, (0,))


def test_rates_are_probabilities(mergeable: Subwords) -> None:
    for rate in (-0.1, 1.5, float("nan")):
        with pytest.raises(BadInput, match="not between 0 and 1"):
            mergeable.encode_dropped("the storm", rate, (0,))


def test_vocabularies_with_marked_ends_are_refused() -> None:
    with pytest.raises(BadInput, match="end_of_word_suffix"):
        read_merges(
            {"vocab": {}, "merges": [], "byte_fallback": False, "end_of_word_suffix": "</w>"}
        )


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5])
def test_the_work_grows_with_the_length_of_a_word(mergeable: Subwords, rate: float) -> None:
    def work(length: int) -> int:
        return lines_run(lambda: mergeable.encode_dropped(length * "storm", rate, (0,)))

    work(1)  # the table of merges is read once
    assert work(400) < 5 * work(100)  # the loop of the paper: 16 times
