"""``regard predict``: labels of texts, tags of words, answers and choices."""

from dataclasses import asdict, replace
from typing import Annotated, Any

import typer

from regard.api import load
from regard.cli.console import DEVICE, JSON, MODEL, PRECISION, print_json, print_line
from regard.cli.line_io import answered, as_it_is, json_object, one_or_two
from regard.data.readers.records import held, typed
from regard.ground.errors import BadInput
from regard.metrics.entities import OUTSIDE
from regard.tasks.answer import Answerer, Answers
from regard.tasks.choose import Choice, Chooser
from regard.tasks.classify import EncoderClassifier, Numbers, Prediction, Several
from regard.tasks.rows import Runner
from regard.tasks.tag import Tagger, Tagging
from regard.text.labels import MultiLabelSet, RegressionSet, SingleLabelSet
from regard.text.words import spaced_spans


def predict(
    model: MODEL,
    file: Annotated[str, typer.Argument(help="One input a line; - is standard input.")] = "-",
    split: Annotated[
        bool, typer.Option("--split", help="Words to tag are what white space sets apart.")
    ] = False,
    entities: Annotated[
        bool, typer.Option("--entities", help="Print entities instead of tagged words.")
    ] = False,
    precision: PRECISION = "auto",
    as_json: JSON = False,
    device: DEVICE = None,
) -> None:
    """Print what a model says of each line. An empty line stays an empty line.

    Of a classifier, the label, a tab, and its probability (or the labels that hold, or the number).
    Two texts have a tab between them. Of a tagger, word/tag for each word. Answers are asked for as
    question, tab, context, or as JSON with these two keys; choices as JSON: {"first": "…",
    "choices": ["…", "…"]}, the best of which is printed by its number, counted from 0.

    With --json everything is printed: all probabilities, and where words, entities and answers
    begin and end, in characters.

    Example: echo "a gripping film" | regard predict runs/sst2-pooled/model
    """
    predictor = load(model, device, precision=precision).predictor
    if isinstance(predictor, Tagger):
        if split:
            predictor = replace(predictor, spans=spaced_spans)
        if entities and not predictor.finds_entities:
            raise BadInput("--entities: the tags of this model mean none")
    elif split or entities:
        name = "--split" if split else "--entities"
        raise BadInput(f"{name}: means nothing to a model that tags no words")
    with_entities = isinstance(predictor, Tagger) and predictor.finds_entities
    for number, said in answered(file, _parse(predictor), predictor.predict):
        if as_json:
            record = _empty(predictor) if said is None else _record(said, with_entities)
            print_json({"line": number, **record})
        else:
            print_line("" if said is None else _line(said, entities))


def _parse(predictor: Runner) -> Any:
    match predictor:
        case EncoderClassifier():
            return one_or_two
        case Answerer():
            return _question
        case Chooser():
            return _choices
        case _:
            return as_it_is


def _question(line: str, where: str) -> tuple[str, str]:
    if line.lstrip().startswith("{"):
        record = json_object(line, where)
        return held(record, "question", str, where), held(record, "context", str, where)
    question, tab, context = line.partition("\t")
    if not tab:
        raise BadInput(f"{where}: no tab between a question and its context")
    return question, context


def _choices(line: str, where: str) -> tuple[str, list[str]]:
    record = json_object(line, where)
    choices = held(record, "choices", list, where)
    if not choices:
        raise BadInput(f"{where}: there are no choices to choose from")
    return held(record, "first", str, where), [typed(c, str, "a choice", where) for c in choices]


def _line(said: Any, entities: bool) -> str:
    match said:
        case Prediction():
            return f"{said.label}\t{said.probability:.4f}"
        case Several():
            return "\t".join(said.labels)
        case Numbers():
            return "\t".join(f"{value:.4f}" for value in said.values.values())
        case Tagging() if entities:
            return "\t".join(f"{_flat(one.text)}/{one.label}" for one in said.entities)
        case Tagging():
            return " ".join(f"{one.text}/{_tag(one)}" for one in said.words)
        case Answers(answer=None):
            return f"\t{said.no_answer_probability:.4f}"
        case Answers():
            assert said.answer is not None
            return f"{_flat(said.answer.text)}\t{said.answer.probability:.4f}"
        case Choice():
            return f"{said.index}\t{said.probability:.4f}"
    raise TypeError(type(said))


def _tag(word: Any) -> str:
    return (word.tag or OUTSIDE) if word.value is None else f"{word.value:.4f}"


def _flat(text: str) -> str:
    """On one line, and in one column."""
    return " ".join(text.split())


def _record(said: Any, with_entities: bool) -> dict[str, Any]:
    """All that is said, by name."""
    match said:
        case Prediction():
            return {"label": said.label, "probability": said.probability, **asdict(said)}
        case Tagging():
            words = [_without_nothing(asdict(word)) for word in said.words]
            found = {"entities": [asdict(one) for one in said.entities]} if with_entities else {}
            return {"words": words, **found}
        case Answers():
            answer = None if said.answer is None else asdict(said.answer)
            best = [asdict(one) for one in said.best]
            none = {"no_answer": said.no_answer, "probability": said.no_answer_probability}
            return {"answer": answer, "none": none, "best": best}
        case Choice():
            return {"choice": said.index, "text": said.text, "probability": said.probability} | {
                "probabilities": said.probabilities
            }
    return asdict(said)


def _without_nothing(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if value is not None}


EMPTY = {
    SingleLabelSet.problem_type: ("label", "probability", "probabilities"),
    MultiLabelSet.problem_type: ("labels", "probabilities"),
    RegressionSet.problem_type: ("values",),
}


def _empty(predictor: Runner) -> dict[str, Any]:
    """What is said of an empty line: the same names, and nothing."""
    match predictor:
        case Tagger():
            return {"words": None}
        case Answerer():
            return {"answer": None, "none": None, "best": None}
        case Chooser():
            return {"choice": None, "text": None, "probability": None, "probabilities": None}
        case EncoderClassifier():
            return dict.fromkeys(EMPTY[predictor.labels.problem_type])
        case _:
            return {"label": None, "probability": None, "probabilities": None}
