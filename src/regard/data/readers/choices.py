"""SWAG (Zellers et al., 2018) and RACE (Lai et al., 2017): multiple choice."""

import re
from collections.abc import Iterator
from pathlib import Path

from regard.data.files.fields import BadExample, Dropped, field_of, filled, one_of, parsed, typed
from regard.data.files.sources import Csv, read_cells, read_json_file
from regard.data.readers.examples import ChoiceExample
from regard.ground.errors import BadInput
from regard.ground.files import JSON

NUMBERS = ("0", "1", "2", "3")
LETTERS = ("A", "B", "C", "D")

_BLANK = re.compile("_+")


def swag(path: Path, dropped: Dropped = None) -> Iterator[ChoiceExample]:
    """A sentence and its four continuations."""
    columns = ("sent1", "sent2", "ending0", "ending1", "ending2", "ending3", "label")

    def parse(where: str, cells: tuple[str, ...]) -> ChoiceExample:
        first, second, *endings = cells[:6]
        label = int(one_of(NUMBERS, cells[6], where)) if len(cells) > 6 else None
        texts = [f"{second} {filled(ending, where)}".strip() for ending in endings]
        return ChoiceExample(where, tuple((filled(first, where), text) for text in texts), label)

    return parsed(read_cells(Csv(str(path), columns, optional=("label",)), dropped), parse, dropped)


def race(path: Path, dropped: Dropped = None) -> Iterator[ChoiceExample]:
    """An article, and a question with each of its options.

    `path` is a file or a folder, of which all subfolders (high, middle) are read.
    """
    files = [path]
    if path.is_dir():
        files = sorted(one for one in path.rglob("*.txt*") if one.suffix in (".txt", ".gz", ".xz"))
    if not files:
        raise BadInput(f"{path}: no .txt files in this folder")
    for file in files:
        yield from parsed(_questions(file), _choice, dropped)


def _questions(file: Path) -> Iterator[tuple[str, tuple[str, JSON, JSON, JSON]]]:
    """(where, (article, question, its options, its answer)); hidden answers are None."""
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
    options = typed(options, list, "what it may be", where)
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
    """The option in place of the question's blank; after the question if it has not one blank."""
    filled_in, blanks = _BLANK.subn(lambda _: option, question)
    return filled_in if blanks == 1 else f"{question} {option}".strip()
