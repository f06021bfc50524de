"""SQuAD 1.1 and 2.0 (Rajpurkar et al., 2016, 2018): extractive question answering."""

from collections.abc import Iterator
from pathlib import Path

from regard.data.files.fields import BadExample, Dropped, field_of, filled, parsed, typed
from regard.data.files.sources import read_json_file
from regard.data.files.text_files import name_of
from regard.data.readers.examples import GoldAnswer, QuestionExample
from regard.ground.errors import BadInput
from regard.ground.files import JSON


def squad(
    path: Path, dropped: Dropped = None, articles: tuple[int, int] | None = None
) -> Iterator[QuestionExample]:
    """All questions, or those about `articles` from the first index up to the second."""
    name = name_of(path)
    entries = field_of(read_json_file(path), "data", list, name)
    start, stop = articles or (0, len(entries))
    if articles and not 0 <= start < stop <= len(entries):
        raise BadInput(f"{name}: there are no articles {start} to {stop}, only {len(entries)}")
    for number, article in enumerate(entries[start:stop], start=start + 1):
        where = f"{name}: article {number}"
        questions = _questions(typed(article, dict, "it", where), where, name)
        yield from parsed(questions, _question, dropped)


def _questions(
    article: dict[str, JSON], where: str, name: str
) -> Iterator[tuple[str, tuple[str, dict[str, JSON]]]]:
    """(where, (context, question)); errors outside of questions cannot be dropped."""
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
