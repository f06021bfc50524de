"""No key of a recipe is accepted and ignored: each is read by a run of its task, or refused."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import torch

import regard
from regard.core.config import Config
from regard.core.errors import BadInput
from regard.data.data_tables import FilesConfig, LinksConfig
from regard.models.model_tables import StartConfig
from regard.objectives.by_name import OBJECTIVES
from regard.tasks.components import TASKS
from regard.training.distributed import World
from regard.training.loop import train
from regard.training.loop.events import EndEvent
from regard.training.recipe import Recipe, read, recipe_class, task_of
from regard.training.recipe.tables import RungConfig
from regard.training.recipe_files import AboutConfig, ExpectConfig
from regard.training.run import prepare
from small import write_corpus
from small_answers import write_answers
from small_documents import write_animals
from small_labels import write_owls
from small_tuning import write_start, write_tuning

ALONE = World(0, 1, torch.device("cpu"))

# Keys that no run on a CPU shows, and why.
NOT_SHOWN = {
    "about": "printed by `regard recipes`",
    "expect": "compared with the scores of `regard train` and `regard evaluate`",
    "rung": "read by ladders: see tests/cli/runs/test_ladder.py",
    "batches.pad_to_multiple": "shapes are fixed on CUDA only",
    "train.compile": "steps are compiled on CUDA only",
    "distributed.replicas": "of several processes: see tests/faults/test_sharded.py",
    "distributed.reshard": "of several processes",
    "distributed.shards": "of distributed.exact: see tests/faults/test_exact_sum.py",
    "distributed.timeout": "of several processes: see tests/faults/test_lost_ranks.py",
}

ANY = {
    "data.links": 'data.links={dev = "a", test = "b"}',
    "model.layers": "model.layers=[0]",  # of no model.start
    "model.vocabulary": "model.vocabulary=text",
    "model.features_at": "model.features_at=output",  # of no model.features
    "model.features_layers": "model.features_layers=top",
    "optimiser.nonmonotone": "optimiser.nonmonotone=3",  # of no averaged SGD
}
PLAIN = {**ANY, "model.target": "model.target=cho:base"}
ENCODER = {
    **PLAIN,
    "data.longest_characters": "data.longest_characters=9",
    "text.kind": "text.kind=bpe",
    "text.normalise": "text.normalise=nfkc",
    "text.dropout": "text.dropout=0.1",
    "text.unknown": "text.unknown=0.5",
}
SMOOTH = {"train.smoothing": "train.smoothing=0.1"}
TEACHER = {  # of no distillation.teacher
    "distillation.kind": "distillation.kind=hard",
    "distillation.temperature": "distillation.temperature=3",
    "distillation.weight": "distillation.weight=0.1",
}
CLASSES = {"labels.weights": "labels.weights=balanced", "labels.positive": "labels.positive=owl"}
NAMES = {"labels.names": 'labels.names={a = "b"}'}

IMAGES = {  # of texts
    f"images.{key}": f"images.{key}={value}"
    for key, value in {
        **{"mean": "[0.1]", "std": "[0.1]", "workers": 1, "crop": 2, "crop_area": 0.5},
        **{"flip": "true", "operations": 2, "magnitude": 0.1, "erase": 0.1},
        **{"mixup": 0.1, "cutmix": 0.1},
    }.items()
}

GIVEN: dict[str, Any] = {"teacher": "folder"}  # keys of objectives that have no default

# For each run the keys that it refuses, each by a setting that sets it.
REFUSED: dict[str, dict[str, str]] = {
    "translate": {
        **ANY,
        "model.start": "model.start=folder",
        "model.features": "model.features=folder",
        "model.vectors": "model.vectors=file",
        "measure.dev_sentences": "measure.dev_sentences=9",
    },
    "text-to-text": {key: ENCODER[key] for key in ENCODER if key != "data.longest_characters"},
    "pooled": {**PLAIN, **TEACHER, **IMAGES},
    "one": {**ENCODER, **TEACHER, **IMAGES},
    "several": {**ENCODER, **TEACHER, **IMAGES, **SMOOTH, **CLASSES},
    "number": {**ENCODER, **TEACHER, **IMAGES, **SMOOTH, **CLASSES, **NAMES},
    "tags": {**ENCODER, **TEACHER},
    "numbers": {
        **ENCODER,
        **TEACHER,
        **SMOOTH,
        **NAMES,
        "labels.weights": "labels.weights=balanced",
        "labels.scheme": "labels.scheme=IOB2",
    },
    "roles": ENCODER,
    "coreference": {**ENCODER, **SMOOTH},
    "answer": {**ENCODER, **SMOOTH},
    "choose": {**ENCODER, **SMOOTH},
    "pretrain": {
        **ENCODER,
        "data.test": 'data.test={documents = "animals.txt"}',
        "data.more_tests": 'data.more_tests={a = {documents = "animals.txt"}}',
    },
}


def write(run: str, folder: Path) -> Path:
    """The files of a run, with a recipe beside them."""
    if run == "translate":
        return write_corpus(folder)
    if run == "text-to-text":
        return write_answers(folder)
    if run == "pooled":
        return write_owls(folder)
    if run == "pretrain":
        return write_animals(folder) / "animals.toml"
    return write_tuning(folder, run)


ELSEWHERE = (FilesConfig, LinksConfig, ExpectConfig, AboutConfig, RungConfig, StartConfig)


def tables(table: type[Config], path: str = "") -> Iterator[tuple[str, type[Config], str]]:
    """(path, table, key) of every key, but for what tests of ladders, files and starts look at."""
    for name, field in table.model_fields.items():
        inner = [kind for kind in (field.annotation, *get_args(field.annotation)) if is_table(kind)]
        if not inner or inner[0] in ELSEWHERE:
            yield path + name, table, name
        else:
            yield from tables(inner[0], f"{path}{name}.")


def is_table(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Config)


@pytest.mark.thinned
@pytest.mark.parametrize("run", REFUSED)
def test_every_key_is_read_or_refused(run, tmp_path, monkeypatch):
    recipe = read(write(run, tmp_path), ["train.steps=4", "train.evaluate_every=2"])
    seen: set[tuple[type, str]] = set()

    def record(self: Config, name: str) -> Any:
        seen.add((type(self), name))
        return object.__getattribute__(self, name)

    with monkeypatch.context() as patched:
        patched.setattr(Config, "__getattribute__", record)
        use(recipe, tmp_path)
    absent = [f"objective.{name}." for name, table in getattr(recipe, "objective", ()) if not table]
    unread = {
        path
        for path, table, key in tables(type(recipe))
        if (table, key) not in seen and not path.startswith(tuple(absent))
    }
    assert {path for path in unread if path not in NOT_SHOWN} - {"task"} <= REFUSED[run].keys()


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_key_of_an_objective_is_read(name, monkeypatch):
    kind, seen = OBJECTIVES[name], set()
    table = kind.config(**{key: GIVEN[key] for key in GIVEN if key in kind.config.model_fields})

    def record(self: Config, key: str) -> Any:
        seen.add(key)
        return object.__getattribute__(self, key)

    with monkeypatch.context() as patched:
        patched.setattr(Config, "__getattribute__", record)
        kind.from_config(table, 0.0)
    assert {*kind.config.model_fields} <= seen


def use(recipe: Recipe, folder: Path) -> None:
    """A run from its beginning to the scores of its test sets."""
    run = prepare(recipe, folder / "run", ALONE, data=folder)
    for event in train(run.job):
        last = event
    assert isinstance(last, EndEvent)
    run.finish(last.progress)
    model = regard.load(run.model_folder, "cpu")
    for files in recipe.data.tests.values():
        task_of(recipe).test_scores(model, task_of(recipe).read(files, folder))


@pytest.mark.parametrize("run", REFUSED)
def test_what_is_refused_is_reported_in_one_line_and_nothing_is_written(run, tmp_path):
    path = write(run, tmp_path)
    prepared = set(tmp_path.iterdir())
    for key, setting in REFUSED[run].items():
        with pytest.raises(BadInput) as caught:
            prepare(read(path, [setting]), tmp_path / "run", ALONE, data=tmp_path)
        said = str(caught.value)
        assert "\n" not in said and key.split(".")[-1] in said, said
    assert set(tmp_path.iterdir()) == prepared


def test_every_table_of_every_task_is_enumerated():
    runs = {
        "translate": "translate",
        "text-to-text": "text-to-text",
        "pretrain": "pretrain",
        "roles": "roles",
        "coreference": "coreference",
        "answer": "answer",
        "choose": "choose",
    }
    assert {*TASKS} == {*runs, "classify", "tag", "embed"}
    keys = {path for name in TASKS for path, *_ in tables(recipe_class(name))}
    assert {"objective.masked-lm.rate", "objective.next-sentence.short", "decode.beam"} <= keys
    refused = {key for run in REFUSED.values() for key in run}
    assert refused | NOT_SHOWN.keys() <= keys | {"rung", "about", "expect"}


FORMS: dict[str, dict[str, Any]] = {
    "lines": {"source": "a", "target": "b"},
    "table": {"table": "a", "columns": (0, 1)},
    "csv": {"csv": "a", "columns": (0, 1)},
    "jsonl": {"jsonl": "a", "columns": ("a", "b")},
    "parquet": {"parquet": "a", "columns": ("a", "b")},
    "tmx": {"tmx": "a", "columns": ("en", "fr")},
    "headings": {"headings": "a"},
    "reader": {"file": "a", "reader": "tsv", "options": {"texts": ["a"]}},
    "documents": {"documents": "a.jsonl", "key": "text"},
    "text": {"text": "a.txt"},
    "held out": {"held_out": 3},
}
VALUES: dict[str, Any] = {key: value for form in FORMS.values() for key, value in form.items()}
DELIMITED = {"delimiter": ";", "quoting": True, "encoding": "cp1252", "header": False}
VALUES |= {"spaced": ("english", "french"), **DELIMITED}
MORE = {  # keys that a form may have
    **{form: {"spaced", *DELIMITED} for form in ("table", "csv")},
    **{form: {"spaced"} for form in ("lines", "parquet", "tmx", "headings")},
    "jsonl": {"spaced", "encoding"},
}


@pytest.mark.parametrize("form", FORMS)
def test_files_have_no_key_that_their_form_does_not_read(form):
    own = FORMS[form]
    FilesConfig(**own)
    may = MORE.get(form, set())
    FilesConfig(**own, **{key: VALUES[key] for key in may})
    assert VALUES.keys() == FilesConfig.model_fields.keys()
    for key in VALUES.keys() - own.keys() - may:
        with pytest.raises(ValueError):
            FilesConfig(**own, **{key: VALUES[key]})


def test_a_key_is_for_documents_in_json(tmp_path):
    FilesConfig(documents="a.jsonl", key="story").collection(tmp_path)
    with pytest.raises(BadInput, match="key can only be used with JSON lines"):
        FilesConfig(documents="a.txt", key="story").collection(tmp_path)


def test_what_a_start_brings_is_not_set_beside_it(tmp_path):
    path = write_tuning(tmp_path, "one")
    with pytest.raises(BadInput, match=r"model: size cannot be used with start"):
        read(path, ["model.start=folder"])
    with pytest.raises(BadInput, match=r"text cannot be used beside model.st"):
        read(path, ["model.start=folder", "model.size="])
    started = read(path, ["model.start=folder", "model.size=", "text=false"])
    assert started.model.start.folder == "folder"


def test_the_paper_of_a_start_must_be_that_of_the_recipe(tmp_path):
    path = write_tuning(tmp_path, "one")
    write_start(tmp_path / "start")
    settings = ["model.start=start", "model.size=", "text=false", "model.paper=lin"]
    with pytest.raises(BadInput, match=r"model.paper: start holds a model of BERT, not of Lin"):
        prepare(read(path, settings), tmp_path / "run", ALONE, data=tmp_path)
