"""Models and data that the captures of all trees read, written once by the tree of these tests.

What is here may use every helper of the tests: it runs in their own tree only.
"""

import json
import re
import shutil
from pathlib import Path

import numpy as np

from net.parts import Place
from net.processes import regard
from safety.commands import COMMANDS
from safety.recipes import END, LADDER, RUNS, START

TREEBANK = """\
1\tThe\tthe\tDET\t_\t_\t2\tdet\t_\t_
2\towl\towl\tNOUN\t_\t_\t3\tnsubj\t_\t_
3\tsaw\tsee\tVERB\t_\t_\t0\troot\t_\t_
4\tan\ta\tDET\t_\t_\t6\tdet\t_\t_
5\told\told\tADJ\t_\t_\t6\tamod\t_\t_
6\tsailor\tsailor\tNOUN\t_\t_\t3\tobj\t_\t_

1\tA\ta\tDET\t_\t_\t2\tdet\t_\t_
2\tcow\tcow\tNOUN\t_\t_\t3\tnsubj\t_\t_
3\tslept\tsleep\tVERB\t_\t_\t0\troot\t_\t_

"""
FILES = {
    "texts.txt": "the owl\nthe cow and the dog\nthe old sailor came\n",
    "other.txt": "an owl\nthe old cat\nthe dog and the cow\n",
    "labels.txt": "bad\nfair\nbad\n",
    "table.csv": "id,text,label\n1,the owl,no\n2,the cow and an owl,yes\n3,the dog,no\n4,owl,yes\n",
    "similar.tsv": "owl\tcow\t3.5\ndog\tcat\t9\nowl\tdog\t1\ncow\tcat\t2\n",
    "vectors.txt": "owl 0.1 0.2\ncow 0.1 0.3\ndog -0.2 0.4\ncat 0.5 0.1\n",
    "queries.jsonl": '{"_id": "q1", "text": "the owl"}\n{"_id": "q2", "text": "a cow"}\n',
    "corpus.jsonl": "".join(
        json.dumps({"_id": f"d{number}", "text": text}) + "\n"
        for number, text in enumerate(["an owl", "the cow", "dog and cat", "the old sailor"])
    ),
    "question.tsv": "who is it?\tthe old sailor\n",
    "qrels.tsv": "query-id\tcorpus-id\tscore\nq1\td0\t1\nq2\td1\t1\n",
    "edits.toml": '[[edit]]\nkind = "head"\nlayer = 0\nhead = 0\n',
    "treebank.conllu": TREEBANK * 6,
}


def write_inputs(place: Place) -> None:
    """All of them; a file says that they are complete."""
    from safety.data import write_data
    from safety.frozen_folders import FROZEN
    from safety.frozen_folders import RUNS as HALF_DONE
    from safety.marian import write_marian
    from small_mistakes import write_folder

    folder = place.inputs
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copytree(FROZEN / "models", folder / "models")
    shutil.copytree(FROZEN / "images", folder / "images")
    shutil.copytree(HALF_DONE / "data", folder / "runs")
    for recipe in (folder / "runs").glob("*.toml"):
        recipe.write_text(recipe.read_text().replace("judge = ", "metric = "))
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "bank").mkdir()
    for part in ("dev", "test"):
        (folder / "bank" / f"en-{part}.conllu").write_text(TREEBANK * 6)
    write_data(folder / "data")
    write_marian(folder / "marian", *(folder / f"data/pairs/train.{one}" for one in ("src", "tgt")))
    (folder / "mistakes").mkdir()
    write_folder(folder / "mistakes")
    write_papers(folder / "papers")
    write_recipes(folder / "recipes")
    train_models(folder)
    (folder / "complete").touch()


def write_papers(folder: Path) -> None:
    """A small random model of each paper and form, with its inputs in a file beside it."""
    from paper_matrix import Inputs, forms, model_of, tiny, with_heads

    folder.mkdir()
    for size in forms():
        facts = with_heads(size, tiny(size))
        name = f"{size.paper.key}-{size.name}"
        model_of(size, facts, "cpu").save(folder / name)
        inputs = Inputs(facts)
        kind = "images" if inputs.images else "pairs" if inputs.pairs else "ids"
        rows = [[5, 6, 7, 3, 9], [4], [8, 3, 5, 5, 6, 4, 9, 7]]
        if kind == "ids" and inputs.spelled:
            kind = "spelled"
        content = {"kind": kind, "ids": rows, "prompts": inputs.prompts[:2]}
        if inputs.images:
            np.save(folder / f"{name}.npy", np.stack(inputs.texts))
        folder.joinpath(f"{name}.json").write_text(json.dumps(content) + "\n")


def write_recipes(folder: Path) -> None:
    """The recipes of all runs, without what differs from them."""
    folder.mkdir()
    for name, run in RUNS.items():
        (folder / f"{name}.toml").write_text(run.recipe + END)
    (folder / "ladder.toml").write_text(LADDER)


def settings(name: str, inputs: Path) -> list[str]:
    """What differs from the recipe of a run."""
    start = str(inputs / "regard" / START)
    return [f"--set={one.replace('{start}', start)}" for one in RUNS[name].settings]


def train_models(folder: Path) -> None:
    """The models that commands name, after two steps; those of Hugging Face are converted."""
    words = " ".join(word for command in COMMANDS.values() for word in command.arguments)
    names = [START, *re.findall(r"\{regard\.([\w-]+)\}", words)]
    names += [name for name in RUNS if name.startswith("tune-")][:8]
    for name in dict.fromkeys(names):
        out = folder / "trained" / name
        steps = ["--set=train.steps=2", "--set=optimiser.warmup=1"]
        recipe = folder / "recipes" / f"{name}.toml"
        arguments = ["train", recipe, "--data", folder / "data", "--out", out]
        done = regard([*arguments, *settings(name, folder), *steps, "--device", "cpu"])
        if done.code:
            raise SystemExit(f"{name}: exit {done.code}\n{done.out}{done.err}")
        shutil.copytree(out / "model", folder / "regard" / name)
    for name in dict.fromkeys(re.findall(r"\{hf\.([\w-]+)\}", words)):
        source, target = folder / "regard" / name, folder / "hf" / name
        assert regard(["convert", source, target, "--to", "hf"]).code == 0, name
