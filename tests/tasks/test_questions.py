"""Question answering learns the tokens of answers, wherever these stand in their context."""

import pytest

from regard.data.readers.examples import GoldAnswer, QuestionExample
from regard.tasks.question_answering import QuestionAnswering
from regard.text.tokenizers.encoder_tokenizer import train_encoder_tokenizer
from regard.training.recipe import read
from regard.training.run import task_of
from small_tuning import write_tuning

CONTEXT = "In 1833, Ada Lovelace met (Charles) Babbage, in London; he drew an engine."


@pytest.fixture(scope="module")
def tokenizer():
    return train_encoder_tokenizer([CONTEXT] * 3, "wordpiece", 80, lower=True, longest=48)


def encoded(tmp_path, tokenizer, answer, *settings):
    """Rows with their targets, of one question."""
    task = task_of(read(write_tuning(tmp_path, "answer"), settings))
    assert isinstance(task, QuestionAnswering)
    answers = () if answer is None else (GoldAnswer(answer, CONTEXT.index(answer)),)
    example = QuestionExample("a.json", "a", "who?", CONTEXT, answers, answer is not None)
    return task.encode(tokenizer, None, [example])


@pytest.mark.parametrize(
    ("answer", "tokens"),
    [
        ("Charles", "charles"),  # before and behind it stand signs
        ("Ada Lovelace", "ada lovelace"),  # spaces
        ("In", "in"),  # the beginning
        ("an engine.", "an engine."),  # the end
        ("an engine", "an engine"),
        ("(", "("),
        ("ondo", "london"),  # in lon|don
        (CONTEXT, CONTEXT),
    ],
)
def test_targets_are_the_tokens_of_the_answer_and_no_more(tmp_path, tokenizer, answer, tokens):
    ((row, (first, last)),) = encoded(tmp_path, tokenizer, answer)
    assert row.tokens[first : last + 1].tolist() == tokenizer.words.encode(tokens)


def test_windows_without_the_whole_answer_have_none(tmp_path, tokenizer):
    answer = tokenizer.words.encode("Babbage, in London")
    rows = encoded(tmp_path, tokenizer, "Babbage, in London", "batches.longest=24")
    having = []
    for row, (first, last) in rows:
        found, size = row.tokens.tolist(), len(answer)
        starts = [at for at in range(len(found)) if found[at : at + size] == answer]
        assert (first, last) == ((starts[0], starts[0] + size - 1) if starts else (0, 0))
        having.append(bool(starts))
    assert {*having} == {False, True}


def test_questions_without_an_answer_point_at_the_summary(tmp_path, tokenizer):
    ((_, target),) = encoded(tmp_path, tokenizer, None)
    assert target == (0, 0)
