"""``regard convert``: a model as Hugging Face or regard keep it, held against what it was."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import torch
import typer

from regard.api import Model, load
from regard.cli.say import JSON, MODEL, complain, note, print_json, print_line
from regard.data.language import corpus
from regard.ground.errors import BadInput
from regard.ground.files import read_json
from regard.inside import agreement
from regard.models.facts import PairFacts
from regard.models.folder import FORMATS

LIMIT = 1e-5
LENGTHS = (1, 6, 13, 24)
SENTENCES = 8
TEXTS = "ids of texts"


def convert(
    source: MODEL,
    target: Annotated[Path, typer.Argument(metavar="DST", help="A folder that is not there yet.")],
    to: Annotated[str, typer.Option("--to", help="hf or regard.")],
    check: Annotated[bool, typer.Option("--check", help="Read it back and compare.")] = False,
    as_json: JSON = False,
) -> None:
    """Write a model's folder in the form of Hugging Face or of regard.

    With --check, what was written is read back and run beside the original, on random ids and on
    text, and beside transformers if that is installed: one line for each layer with the largest
    difference (as a share of the layer's largest value, where that is above 1), and one with the
    number of texts that get other ids. Above 1e-5 nothing is left in DST and the exit code is 1.

    Example: regard convert opus-mt-en-de runs/en-de --to regard --check
    """
    if to not in FORMATS:
        raise BadInput(f"--to {to}: choose {' or '.join(FORMATS)}")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise BadInput(f"{target}: is there already, and nothing is overwritten")
    model = load(source, "cpu")
    if check and not isinstance(model.facts, PairFacts):
        raise BadInput("--check compares translators; this model labels texts")
    with _appearing(target) as written:
        model.save(written, to)
        if check:
            theirs = next((f for f in (written, Path(source)) if _is_hugging_face(f)), None)
            worst = _compared(model, written, theirs, as_json)
            if not worst <= LIMIT:  # a NaN is no agreement
                complain(f"{target}: not written, since it differs by {worst:.1e} (above {LIMIT})")
                raise typer.Exit(1)
    note(f"wrote {target}")


@contextmanager
def _appearing(folder: Path) -> Iterator[Path]:
    """A folder to write to that takes its name when the block ends well, and else goes."""
    folder = folder.resolve()
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    try:
        temporary.mkdir(parents=True)
        yield temporary
        temporary.replace(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _is_hugging_face(folder: Path) -> bool:
    return "regard" not in read_json(folder / "config.json")


def _compared(model: Model, written: Path, theirs: Path | None, as_json: bool) -> float:
    """Print how far all agree, line by line; the largest difference of all."""
    assert isinstance(model.facts, PairFacts)
    texts = [(pair.source, pair.target) for pair in corpus(0, SENTENCES, 0).dev]
    pairs = [*_random_ids(model.facts), *_ids_of(model, texts)]
    ours = agreement.values(model.module, model.facts, pairs)
    again = load(written, "cpu")
    columns = {
        "read back": agreement.differences(ours, agreement.values(again.module, model.facts, pairs))
    }
    if model.tokenizer is not None and again.tokenizer is not None:
        own, other = (agreement.coders(one.translator.text) for one in (model, again))
        columns["read back"][TEXTS] = agreement.other_ids(own, other, texts)
    if theirs is not None and not agreement.has_reference():
        note("transformers is not installed: compared without it")
    elif theirs is not None:
        said = agreement.reference_values(agreement.reference(theirs), pairs)
        columns["transformers"] = agreement.differences(ours, said)
        if model.tokenizer is not None:
            other = agreement.reference_coders(theirs)
            columns["transformers"][TEXTS] = agreement.other_ids(own, other, texts)
    _print(columns, as_json)
    return float(torch.tensor([list(column.values()) for column in columns.values()]).max())


def _random_ids(facts: PairFacts) -> Iterator[agreement.Pair]:
    """Any ids the model knows, the same at every run."""
    draw = torch.Generator().manual_seed(0)
    for length in LENGTHS:
        source = torch.randint(facts.source.embed.vocab, (length,), generator=draw)
        target = torch.randint(facts.target.embed.vocab, (length + 1,), generator=draw)
        yield source.tolist(), target.tolist()


def _ids_of(model: Model, texts: list[tuple[str, str]]) -> Iterator[agreement.Pair]:
    if model.tokenizer is not None:
        source, target = model.translator.text.sides
        for one, other in texts:
            yield [*source.encode(one), target.eos], [target.bos, *target.encode(other)]


def _print(columns: dict[str, dict[str, float]], as_json: bool) -> None:
    if not as_json:
        print_line(f"{'largest difference':20}" + "".join(f"{name:>14}" for name in columns))
    for layer in columns["read back"]:
        found = {name: column[layer] for name, column in columns.items()}
        if as_json:
            print_json({"layer": layer, **found})
        else:
            form = "14.0f" if layer == TEXTS else "14.1e"  # a count, or a difference
            print_line(f"{layer:20}" + "".join(f"{value:{form}}" for value in found.values()))
