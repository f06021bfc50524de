"""A ladder: several models trained on the same data, and one table of what each came to."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.table import Table

from regard.api import Model, load
from regard.cli.evaluate import keeps
from regard.cli.say import OUT, note
from regard.data.sources import read_lines, read_pairs
from regard.ground.errors import BadInput
from regard.ground.files import write_json, write_text
from regard.inside.align import choose
from regard.inside.ladder import Ladder, Step
from regard.inside.record import record
from regard.metrics.alignment import Gold, alignment_error_rate, parse_gold
from regard.metrics.bleu import bleu, bleu_metric
from regard.metrics.lengths import by_length
from regard.search.beam import Beam
from regard.text.words import words
from regard.training.files import Files
from regard.training.ranks import Ranks
from regard.training.recipe import Recipe
from regard.training.run import Run

Train = Callable[[Recipe, Path], Run]
Pairs = list[tuple[str, str]]


def climb(
    recipe: Recipe, folder: Path, ranks: Ranks, train: Train, data: Path, promised: bool
) -> bool:
    """Train every rung in a folder of its own, and print the table; false if a promise broke."""
    if recipe.data.test is None:
        raise BadInput("a ladder needs a test set (data.test)")
    names = [_slug(rung.name) for rung in recipe.rung]
    if len(set(names)) < len(names):
        raise BadInput(f"two rungs of a ladder have one name: {', '.join(names)}")
    if recipe.data.links is not None:  # what is wrong with them is said before anything is trained
        _golds(recipe, data)
    steps = []
    for rung, name in zip(recipe.rung, names, strict=True):
        if ranks.leads:
            note(f"\n{rung.name}")
        run = train(recipe.at(rung), folder / name)
        if ranks.leads:
            model = load(run.model_folder, str(ranks.device))
            steps.append(measure(rung.name, model, recipe, data))
            model.save(run.model_folder)  # with the reading of its attention
        ranks.wait()
    if not ranks.leads:
        return True
    search = _search(recipe)
    greedy = "greedy search" if search.size == 1 else f"beam of {search.size}, {search.formula}"
    ladder = Ladder(recipe.about.title, steps, greedy)
    _show(ladder)
    _write(ladder, folder)
    if not promised:
        return True
    promises = [(rung.expect, step) for rung, step in zip(recipe.rung, steps, strict=True)]
    kept = [keeps(promise, [step.score]) for promise, step in promises if promise is not None]
    return all(kept)


def measure(name: str, model: Model, recipe: Recipe, data: Path) -> Step:
    """A trained model on the test set of a recipe."""
    assert recipe.data.test is not None
    pairs = _pairs(recipe.data.test, recipe, data)
    found = model.translate([source for source, _ in pairs], _search(recipe))
    hypotheses, references = [one[0].text for one in found], [[target for _, target in pairs]]
    how: dict[str, Any] = recipe.measure.model_dump()
    lengths = [len(words(source)) for source, _ in pairs]
    return Step(
        name,
        bleu(hypotheses, references, **how),
        by_length(bleu_metric(**how), hypotheses, references, lengths),
        _error_rate(model, recipe, data),
        model.notes["cost"],
    )


def _error_rate(model: Model, recipe: Recipe, data: Path) -> float | None:
    """Of the model's attention, read as suits the development set best, which it remembers."""
    facts: Any = model.facts
    if recipe.data.links is None or facts.target.stack.looks[0] == 0:
        return None
    (dev, dev_golds), (test, test_golds) = _golds(recipe, data)
    tried = [one.attended() for one in record(model.translator, dev)]
    model.reading, _ = choose(tried, dev_golds)
    return alignment_error_rate(list(model.align(test)), test_golds).aer


def _golds(recipe: Recipe, data: Path) -> list[tuple[Pairs, list[Gold]]]:
    """Pairs and gold links of the development and of the test set."""
    assert recipe.data.links is not None and recipe.data.test is not None
    found = []
    for files, name in (
        (recipe.data.dev, recipe.data.links.dev),
        (recipe.data.test, recipe.data.links.test),
    ):
        pairs, path = _pairs(files, recipe, data), data / name
        lines = list(read_lines(path))
        if len(lines) != len(pairs):
            raise BadInput(f"{path} has {len(lines)} lines for {len(pairs)} pairs")
        golds = [
            parse_gold(line, 0, f"{path}:{number}", (len(words(one)), len(words(other))))
            for number, (line, (one, other)) in enumerate(zip(lines, pairs, strict=True), 1)
        ]
        found.append((pairs, golds))
    return found


def _pairs(files: Files, recipe: Recipe, data: Path) -> Pairs:
    read = read_pairs(files.under(data), recipe.data.longest_characters)
    return [(source, target) for _, source, target in read]


def _search(recipe: Recipe) -> Beam:
    return Beam(recipe.decode.beam, length=recipe.decode.length, alpha=recipe.decode.alpha)


def _show(ladder: Ladder) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(ladder.columns):
        table.add_column(column, justify="right" if number else "left")
    for step in ladder.steps:
        table.add_row(*step.cells())
    OUT.print(table)
    for one in ladder.notes:
        OUT.print(one, markup=False)


def _write(ladder: Ladder, folder: Path) -> None:
    write_json(folder / "ladder.json", {"rungs": [step.figures for step in ladder.steps]})
    write_text(folder / "ladder.svg", ladder.svg())
    write_text(folder / "ladder.html", ladder.html())
    note(f"{folder / 'ladder.html'}: the table, and BLEU against length (ladder.svg)")


def _slug(name: str) -> str:
    """A name as a folder."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "rung"
