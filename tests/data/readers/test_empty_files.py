"""Files without examples, and files whose columns are not named, are named in the message."""

import pytest
import torch

from regard.core.errors import BadInput
from regard.training.distributed import World
from regard.training.recipe import read
from regard.training.run import prepare
from regard.training.run_events import score_tests
from small import write_corpus
from small_documents import write_animals
from small_rnn import write_streams
from small_tuning import write_tuning


def refusal(recipe, *settings):
    folder, world = recipe.parent, World(0, 1, torch.device("cpu"))
    with pytest.raises(BadInput) as caught:
        prepare(read(recipe, settings), folder / "run", world, data=folder)
    assert not (folder / "run").exists()
    return str(caught.value)


@pytest.mark.parametrize("name", ["train", "dev", "test"])
def test_empty_files_of_pairs(name, tmp_path):
    write_corpus(tmp_path)
    for side in ("src", "tgt"):
        (tmp_path / f"{name}.{side}").write_text("")
    said = refusal(tmp_path / "small.toml")
    assert f"{name}.src" in said and f"{name}.tgt" in said
    assert "no pairs in" in said or "no usable text" in said


@pytest.mark.parametrize("kind", ["one", "tags", "choose"])
@pytest.mark.parametrize("name", ["train", "dev", "test"])
def test_empty_files_of_examples(kind, name, tmp_path):
    recipe = write_tuning(tmp_path, kind, 8, 4)
    (file,) = tmp_path.glob(f"{name}.*")
    header = "" if kind == "tags" else file.read_text().splitlines()[0] + "\n"
    file.write_text(header)
    assert refusal(recipe) == f"data.{name}: no examples in {file.name}"


def test_empty_documents(tmp_path):
    write_animals(tmp_path, 12, 10)
    (tmp_path / "animals.txt").write_text("\n\n")
    said = refusal(tmp_path / "animals.toml")
    assert said == "data.train: no documents in animals.txt"


@pytest.mark.parametrize("kind", ["text", "documents"])
@pytest.mark.parametrize("content", ["", "\n \n"])
def test_empty_test_sets_of_language_models(kind, content, tmp_path):
    corpus = write_streams(tmp_path)
    (corpus / "nothing.txt").write_text(content)
    setting = f'data.more_tests={{ b = {{ {kind} = "nothing.txt" }} }}'
    given = [f'data.test={{ {kind} = "animals.txt" }}', setting]
    recipe, expected = corpus / "lstm.toml", "data.b: no documents in nothing.txt"
    assert refusal(recipe, *given) == expected
    with pytest.raises(BadInput, match=f"^{expected}$"):
        score_tests(None, read(recipe, given[1:]), corpus)


def test_files_whose_columns_are_not_named(tmp_path):
    write_corpus(tmp_path)
    path = tmp_path / "small.toml"
    with pytest.raises(BadInput, match=r"data\.train: train\.tsv: name the two columns"):
        read(path, ['data.train={ table = "train.tsv" }'])
    with pytest.raises(BadInput, match=r"data\.train: train\.src: give source and target"):
        read(path, ['data.train={ source = "train.src" }'])
