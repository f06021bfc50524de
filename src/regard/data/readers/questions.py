"""Readers of multiple choice and of extractive question answering.

SWAG (Zellers et al., 2018), RACE (Lai et al., 2017), SQuAD 1.1 and 2.0 (Rajpurkar et al., 2016,
2018).
"""

import re
from collections.abc import Iterator
from pathlib import Path

from regard.core.errors import BadInput
from regard.core.files import JSON
from regard.data.readers.examples import ChoiceExample, GoldAnswer, QuestionExample
from regard.data.readers.fields import BadExample, Dropped, field_of, filled, one_of, parsed, typed
from regard.data.readers.sources import read_json_file
from regard.data.readers.table_files import Csv, read_cells
from regard.data.readers.text_files import name_of

NUMBERS = ("0", "1", "2", "3")
LETTERS, SUFFIXES = ("A", "B", "C", "D"), (".txt", ".gz", ".xz")

_BLANK = re.compile("_+")


def swag(path: Path, dropped: Dropped = None) -> Iterator[ChoiceExample]:
    """Read SWAG: a sentence and its four continuations."""
    columns = ("sent1", "sent2", "ending0", "ending1", "ending2", "ending3", "label")

    def parse(where: str, cells: tuple[str, ...]) -> ChoiceExample:
        first, second, *endings = cells[:6]
        label = int(one_of(NUMBERS, cells[6], where)) if len(cells) > 6 else None
        texts = [f"{second} {filled(ending, where)}".strip() for ending in endings]
        return ChoiceExample(where, tuple((filled(first, where), text) for text in texts), label)

    return parsed(read_cells(Csv(str(path), columns, optional=("label",)), dropped), parse, dropped)


def race(path: Path, dropped: Dropped = None) -> Iterator[ChoiceExample]:
    """Read RACE: an article, and a question with each of its options.

    `path` is a file or a folder, of which all subfolders (high, middle) are read.
    """
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.rglob("*.txt*") if file.suffix in SUFFIXES)
    if not files:
        raise BadInput(f"{path}: no .txt files in this folder")
    for file in files:
        yield from parsed(_passages(file), _choice, dropped)


def _passages(file: Path) -> Iterator[tuple[str, tuple[str, JSON, JSON, JSON]]]:
    """Yield (where, (article, question, options, answer)); a hidden answer is None."""
    passage, where = read_json_file(file), str(file)
    article = field_of(passage, "article", str, where)
    questions, options = (field_of(passage, key, list, where) for key in ("questions", "options"))
    hidden = "answers" not in passage
    answers = [None] * len(questions) if hidden else field_of(passage, "answers", list, where)
    if not len(questions) == len(options) == len(answers):
        counts = f"{len(questions)} questions, {len(options)} options, {len(answers)} answers"
        raise BadInput(f"{where}: {counts}")
    for number, item in enumerate(zip(questions, options, answers, strict=True), start=1):
        yield f"{file}: question {number}", (article, *item)


def _choice(where: str, item: tuple[str, JSON, JSON, JSON]) -> ChoiceExample:
    article, question, options, answer = item
    question = typed(question, str, "the question", where)
    options = typed(options, list, "options", where)
    if len(options) != len(LETTERS):
        raise BadExample(where, "without four options", f"{len(options)} options instead of 4")
    choices = tuple(
        (filled(article, where), _fill_in(question, typed(option, str, "an option", where)))
        for option in options
    )
    if answer is None:
        return ChoiceExample(where, choices, None)
    letter = one_of(LETTERS, typed(answer, str, "the answer", where), where)
    return ChoiceExample(where, choices, LETTERS.index(letter))


def _fill_in(question: str, option: str) -> str:
    """Put an option into the blank of a question, or after a question without exactly one blank."""
    filled_in, blanks = _BLANK.subn(lambda _: option, question)
    return filled_in if blanks == 1 else f"{question} {option}".strip()


def squad(
    path: Path, dropped: Dropped = None, articles: tuple[int, int] | None = None
) -> Iterator[QuestionExample]:
    """Read SQuAD: all questions, or the questions about `articles` (first index, end index)."""
    name = name_of(path)
    entries = field_of(read_json_file(path), "data", list, name)
    start, stop = articles or (0, len(entries))
    if articles and not 0 <= start < stop <= len(entries):
        raise BadInput(
            f"{name}: options.articles: {start} to {stop}, but the file has {len(entries)}"
        )
    for number, article in enumerate(entries[start:stop], start=start + 1):
        where = f"{name}: article {number}"
        questions = _questions(typed(article, dict, "it", where), where, name)
        yield from parsed(questions, _question, dropped)


def _questions(
    article: dict[str, JSON], where: str, name: str
) -> Iterator[tuple[str, tuple[str, dict[str, JSON]]]]:
    """Yield (where, (context, question)); errors outside of questions cannot be dropped."""
    for count, each in enumerate(field_of(article, "paragraphs", list, where), start=1):
        place = f"{where}, paragraph {count}"
        paragraph = typed(each, dict, "it", place)
        context = field_of(paragraph, "context", str, place)
        for which, entry in enumerate(field_of(paragraph, "qas", list, place), start=1):
            question = typed(entry, dict, "it", f"{place}, question {which}")
            identity = field_of(question, "id", str, f"{place}, question {which}")
            yield f"{name}: question {identity}", (context, question)


def _question(where: str, item: tuple[str, dict[str, JSON]]) -> QuestionExample:
    context, record = item
    text = filled(field_of(record, "question", str, where), where)
    answerable = not field_of({"is_impossible": False, **record}, "is_impossible", bool, where)
    answers = tuple(
        _answer(typed(answer, dict, "an answer", where), context, where)
        for answer in field_of({"answers": [], **record}, "answers", list, where)
    )
    if answers and not answerable:
        detail = "it is marked as impossible, but has an answer"
        raise BadExample(where, "both impossible and answered", detail)
    return QuestionExample(
        where, field_of(record, "id", str, where), text, context, answers, answerable
    )


def _answer(record: dict[str, JSON], context: str, where: str) -> GoldAnswer:
    text = filled(field_of(record, "text", str, where), where)
    start = field_of(record, "answer_start", int, where)
    if start < 0 or not context.startswith(text, start):
        detail = f"the answer {text!r} is not at character {start} of its context"
        raise BadExample(where, "with an answer out of place", detail)
    return GoldAnswer(text, start)
