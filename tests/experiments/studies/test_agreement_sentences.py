"""Sentences for language models: grammatical in one form, and tests that the text does not have."""

import pytest

from regard.core.errors import BadInput
from regard.data.readers.document_files import SentenceFile
from regard.experiments.studies.agreement_data import (
    NOUNS,
    TEST_ADJECTIVES,
    TEST_SUBJECTS,
    VERB_FORMS,
    agreement_sentences,
    make_agreement_text,
)

NUMBER = {form: number for noun in NOUNS for number, form in enumerate(noun)}
VERB = {form: number for verb in VERB_FORMS for number, form in enumerate(verb)}
TESTS, TEXT = agreement_sentences(6), make_agreement_text(3_000, 50)


def parsed(sentence):
    """The nouns, the verb and the adjective of a sentence."""
    *prefix, verb, adjective, stop = sentence.split()
    assert stop == "." and verb in VERB
    return [word for word in prefix if word in NUMBER], verb, adjective


def test_one_form_agrees_with_the_subject_and_the_other_does_not():
    for one in TESTS:
        (nouns, right, adjective), wrong = parsed(one.right), parsed(one.wrong)[1]
        numbers = [NUMBER[noun] for noun in nouns]
        assert VERB[right] == numbers[0] != VERB[wrong]
        assert {right, wrong} in [{*verb} for verb in VERB_FORMS]
        assert one.right.replace(f" {right} ", f" {wrong} ") == one.wrong
        assert one.attractors == sum(number != numbers[0] for number in numbers)
        assert one.distance == one.right.split().index(right) - 2
        assert one.nearest_agrees == (numbers[-1] == numbers[0])
        assert adjective in TEST_ADJECTIVES and nouns[0] in TEST_SUBJECTS


def test_every_kind_has_as_many_sentences_half_of_them_singular():
    kinds = {}
    for one in TESTS:
        kinds.setdefault((one.distance, one.attractors), []).append(one)
    between = [(n, attractors) for n in (0, 1, 2, 4, 8) for attractors in range(n + 1)]
    assert list(kinds) == [(3 * n, attractors) for n, attractors in between]
    for sentences in kinds.values():
        assert len({*sentences}) == len(sentences) == 6
        assert sum(VERB[parsed(one.right)[1]] for one in sentences) == 3


def test_the_text_agrees_and_has_no_sentence_of_a_test():
    assert (len(TEXT.train), len(TEXT.dev)) == (3_000, 50)
    assert not {*TEXT.train} & {*TEXT.dev}
    everything = agreement_sentences(160)
    tests = {text for one in everything for text in (one.right, one.wrong)}
    prefixes = {one.prefix.text for one in everything if one.distance}
    for sentence in [*TEXT.train, *TEXT.dev]:
        (subject, *others), verb, adjective = parsed(sentence)
        assert VERB[verb] == NUMBER[subject] and len(others) <= 2
        assert sentence not in tests
        assert not (subject in TEST_SUBJECTS and (others or adjective in TEST_ADJECTIVES))
        assert " ".join(sentence.split()[:-3]) not in prefixes
    known = {word for sentence in TEXT.train for word in sentence.split()}
    assert {word for sentence in tests for word in sentence.split()} <= known


def test_a_seed_gives_the_same_sentences():
    assert agreement_sentences(6) == TESTS != agreement_sentences(6, seed=2)
    assert make_agreement_text(3_000, 50) == TEXT != make_agreement_text(3_000, 50, seed=2)


@pytest.mark.parametrize("each", [0, 161])
def test_there_are_only_so_many_short_sentences(each):
    with pytest.raises(BadInput, match="from 1 to 160"):
        agreement_sentences(each)


def test_a_sentence_is_a_document(tmp_path):
    TEXT.write(tmp_path)
    source = SentenceFile(str(tmp_path / "dev.txt"))
    parts = source.parts(None, whole=True)
    assert [*parts] == [([text], True) for text in TEXT.dev]
