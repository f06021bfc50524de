"""Phrases and entities as units of masked LM: where they are found, and that they stay whole."""

import numpy as np
import pytest

from regard.core.errors import BadInput
from regard.data.data_tables import FilesConfig
from regard.objectives.lexicon_phrases import PhraseFinder, Phrases
from regard.objectives.masked_lm import MaskedLM, MaskedLMConfig
from regard.objectives.rows import AnnotatedRow
from regard.text.tokenizers.encoder_tokenizer import train_encoder_tokenizer
from small_bert import vocabulary

VOCAB, MASK = 12, 11
LETTERS = np.ones(VOCAB, bool)
PHRASES = ((1, 2), (1, 2, 3), (2, 3), (4, 5, 6, 7))


def found(row, phrases=PHRASES, inner=()):
    finder = PhraseFinder(phrases, np.isin(np.arange(VOCAB), inner), LETTERS)
    return np.flatnonzero(finder.continuations(row, [len(row)])).tolist()


@pytest.mark.parametrize(
    ("row", "joined"),
    [
        ([0, 1, 2, 3, 8], [2, 3]),  # the longest
        ([0, 1, 2, 8, 2, 3], [2, 5]),
        ([1, 2, 1, 2, 3, 2, 3], [1, 3, 4, 6]),  # from left to right
        ([4, 5, 6, 8, 1, 2], [5]),  # no part of a phrase
        ([4, 5, 6, 7], [1, 2, 3]),
        ([3, 2, 1], []),
        ([1], []),
    ],
)
def test_the_longest_phrase_is_found_from_left_to_right(row, joined):
    assert found(row) == joined


def test_phrases_consist_of_whole_words():
    """9 continues a word: the phrase before it, or after its start, is another word."""
    assert found([1, 2, 9, 8], inner=[9]) == []
    assert found([1, 2, 3, 9, 1, 2], inner=[9]) == [1, 5]  # the shorter is whole, as 3 begins one
    assert found([8, 1, 2], inner=[1]) == [] and found([1, 2], inner=[1]) == [1]
    assert found([1, 9, 8], [(1, 9)], inner=[9]) == [1]


def test_no_phrase_crosses_the_end_of_a_row():
    finder = PhraseFinder(PHRASES, ~LETTERS, LETTERS)
    joined = finder.continuations([1, 2, 3, 4, 5, 6, 7], [2, 2, 3])
    assert np.flatnonzero(joined).tolist() == [1]


@pytest.mark.parametrize("kind", ["wordpiece", "byte-bpe", "unigram"])
def test_phrases_are_found_with_every_tokenizer(kind):
    text = "Ada Lovelace met Charles Babbage. Lovelace (Ada Lovelace) read Charles Babbages."
    tokenizer = train_encoder_tokenizer([text] * 3, kind, 300, lower=False)
    finder = Phrases(["Ada Lovelace", "Charles Babbage", "met"]).finder(tokenizer)
    ids, spans = tokenizer.words.cut(text)
    joined = finder.continuations(ids, [len(ids)])
    starts = np.flatnonzero(~joined)
    units = {
        text[spans[a][0] : spans[b - 1][1]].strip()
        for a, b in zip(starts, [*starts[1:], len(ids)], strict=True)
        if b - a > 1
    }
    assert {"Ada Lovelace", "Charles Babbage"} <= units
    assert units <= {"Ada Lovelace", "Charles Babbage", "met"}  # of three names, not Babbages


TEXTS = (
    "Ada Lovelace met Charles Babbage in London before the storm came in.",
    "The lighthouse keeper mended his nets; Ada Lovelace counted twelve gulls and three boats.",
    "Nobody believed that Charles Babbage had a cat which could read, singing in the storm.",
)
UNITS = ("Ada Lovelace", "Charles Babbage", "lighthouse keeper", "twelve gulls")


def rows():
    tokenizer = vocabulary()
    return [
        AnnotatedRow(tokenizer.row(tokenizer.words.encode(text)), {}, {}) for text in TEXTS * 200
    ]


def inside_units(text, row):
    """Mask of the tokens in a name of ``UNITS`` other than its first, by places in the text."""
    ids, spans = vocabulary().words.cut(text)
    begin = next(at for at in range(len(row)) if [*row[at : at + len(ids)]] == [*ids])
    places = [(text.find(unit), text.find(unit) + len(unit)) for unit in UNITS if unit in text]
    inside = np.zeros(len(row), bool)
    for at, (start, end) in enumerate(spans, start=begin):
        start += len(text[start:end]) - len(text[start:end].lstrip())
        inside[at] = any(first < start and end <= last for first, last in places)
    return inside


@pytest.mark.parametrize("whole_words", [False, True])
def test_units_are_chosen_as_wholes_at_the_rate(whole_words):
    objective, examples = MaskedLM(0.3, whole_words, phrases=Phrases(UNITS)), rows()
    annotate, indices = objective.annotator(vocabulary()), np.arange(len(examples))
    masked = annotate(examples, indices, (1, 0))
    tokens = [example.row.tokens for example in examples]
    by_row = [inside_units(text, row) for text, row in zip(TEXTS * 200, tokens, strict=True)]
    joined = np.concatenate(by_row)
    chosen = np.concatenate(
        [np.isin(np.arange(len(row.row.tokens)), row.positions["mlm"]) for row in masked]
    )
    inner = np.flatnonzero(joined)
    assert len(inner) > 1_000 and (chosen[inner] == chosen[inner - 1]).all()
    assert 0.05 < chosen[inner].mean() < 0.5
    expected = sum(round(0.3 * len(row)) for row in tokens)
    assert 0.97 * expected <= chosen.sum() <= expected
    plain = MaskedLM(0.3, whole_words).annotator(vocabulary())(examples, indices, (1, 0))
    pairs = zip(masked, plain, strict=True)
    assert any([*a.positions["mlm"]] != [*b.positions["mlm"]] for a, b in pairs)


def test_chosen_tokens_are_masked_replaced_or_kept():
    objective, examples = MaskedLM(phrases=Phrases(UNITS)), rows()
    masked = objective.annotator(vocabulary())(examples, np.arange(len(examples)), (3, 1))
    now = np.concatenate([np.asarray(row.row.tokens)[row.positions["mlm"]] for row in masked])
    before = np.concatenate([row.targets["mlm"] for row in masked])
    assert np.mean(now == vocabulary().mask) == pytest.approx(0.8, abs=0.03)
    assert np.mean(now == before) == pytest.approx(0.1, abs=0.03)


def test_draws_depend_on_the_key_and_the_row_alone():
    objective, examples = MaskedLM(phrases=Phrases(UNITS)), rows()
    annotate = objective.annotator(vocabulary())
    whole = annotate(examples, np.arange(len(examples)), (1, 2))
    for part in (slice(0, 5), slice(7, 60)):
        again = annotate(examples[part], np.arange(len(examples))[part], (1, 2))
        for one, other in zip(whole[part], again, strict=True):
            assert np.array_equal(one.row.tokens, other.row.tokens)
            assert np.array_equal(one.positions["mlm"], other.positions["mlm"])
    other_epoch = annotate(examples, np.arange(len(examples)), (1, 3))
    pairs = zip(whole, other_epoch, strict=True)
    assert any(not np.array_equal(a.row.tokens, b.row.tokens) for a, b in pairs)


def opened(data, **keys):
    objective = MaskedLM.from_config(MaskedLMConfig(**keys), 0.0)
    objective.open(data, 16)
    return objective


def test_phrases_of_files(tmp_path):
    (tmp_path / "lexicon.txt").write_text("New York\n\n  lighthouse keeper \nNew York\n")
    content = "Ada B-PER\nLovelace I-PER\nsails O\n\nin O\nNew B-LOC\nYork I-LOC\n"
    (tmp_path / "a.conll").write_text(content)
    tagged = FilesConfig(reader="CoNLL", file="a.conll")
    lexicon = opened(tmp_path, lexicon="lexicon.txt")
    assert lexicon.phrases.texts == ("New York", "lighthouse keeper")
    assert opened(tmp_path, tagged=tagged).phrases.texts == ("Ada Lovelace", "New York")
    assert opened(tmp_path, lexicon=["a b", "c"]).phrases.texts == ("a b", "c")
    both = opened(tmp_path, lexicon="lexicon.txt", tagged=tagged)
    assert both.phrases.texts == ("New York", "lighthouse keeper", "Ada Lovelace")
    assert "" == MaskedLM().fingerprint != lexicon.fingerprint != both.fingerprint


def test_files_without_phrases(tmp_path):
    (tmp_path / "empty.txt").write_text("\n \n")
    (tmp_path / "a.conll").write_text("sails O\n")
    with pytest.raises(BadInput, match=r"^objective.masked-lm.lexicon: there are no phrases in em"):
        opened(tmp_path, lexicon="empty.txt")
    with pytest.raises(BadInput, match=r"^objective.masked-lm.tagged: there are no phrases in a.c"):
        opened(tmp_path, tagged=FilesConfig(reader="CoNLL", file="a.conll"))
    with pytest.raises(BadInput, match=r"nowhere\.txt: cannot be read"):
        opened(tmp_path, lexicon="nowhere.txt")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"lexicon": "a", "ngrams": 2}, "lexicon cannot be used with ngrams or spans"),
        ({"lexicon": "a", "spans": 0.2}, "lexicon cannot be used with ngrams or spans"),
        ({"tagged": {"held_out": 3}}, "tagged: give a file and its reader"),
    ],
)
def test_keys_that_do_not_fit(keys, message):
    with pytest.raises(ValueError, match=message):
        MaskedLMConfig(**keys)
