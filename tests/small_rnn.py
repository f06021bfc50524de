"""A tiny LSTM language model of documents about animals, read in streams."""

from pathlib import Path

from regard.training.recipe import read
from regard.training.run import Run, prepare
from small_documents import RECIPE, write_animals
from small_runs import ALONE

CHANGES = (
    ('kind = "wordpiece"\n', ""),
    ("mixed = true\n", ""),
    ('paper = "bert"\nsize = "tiny"', 'paper = "zaremba"'),
    (
        "width = 32, inner = 64, depth = 1, heads = 2, longest = 32, init_std = 0.1",
        'width = 24, embedding = 20, initial = "learned"',
    ),
)


def write_streams(folder: Path) -> Path:
    """The documents, and the recipe lstm.toml."""
    write_animals(folder)
    recipe = RECIPE
    for before, after in CHANGES:
        assert before in recipe
        recipe = recipe.replace(before, after)
    (folder / "lstm.toml").write_text(recipe)
    return folder


def prepared(corpus: Path, out: Path, *settings: str, resume: bool = False) -> Run:
    """A run of that recipe."""
    recipe = read(corpus / "lstm.toml", settings)
    return prepare(recipe, out, ALONE, data=corpus, resume=resume)
