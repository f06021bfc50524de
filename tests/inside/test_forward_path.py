"""The path of a forward pass: the functions of the package that run, in order, and no others."""

import json
import sys
from xml.etree import ElementTree

import pytest

from regard import BadInput
from regard.experiments.paper_path import train_path
from regard.inside.forward_path import (
    PathStep,
    beam_path,
    count_lines,
    forward_path,
    load_path,
    trace,
    visits_of,
)
from regard.models.papers import LINEAGE, paper
from regard.views.code_path import draw_path
from regard.views.palette import LIGHT
from verb import run


def functions(steps):
    return [step.function for step in steps]


@pytest.fixture(scope="module")
def gpt2():
    return forward_path(paper("GPT-2"), "small")


def test_the_path_of_gpt2_goes_through_the_definition_of_attention(gpt2):
    names = functions(gpt2)
    (attend,) = [step for step in gpt2 if step.function == "attend"]
    assert attend.file.endswith("attend.py")
    assert not [step for step in gpt2 if "kernels" in step.file or "cpp" in step.file]
    assert names.index("TransformerModule.__init__") < names.index("TransformerModule.forward")
    assert names.index("TransformerModule.forward") < names.index("attend")
    assert len(set(gpt2)) == len(gpt2) and sys.getprofile() is None


def test_lines_are_those_of_functions(gpt2):
    files = count_lines(step.file for step in gpt2)
    assert all(1 <= step.line <= files[step.file] for step in gpt2)
    assert not any("<listcomp>" in step.function for step in gpt2)


@pytest.mark.thinned
@pytest.mark.parametrize("name", ["BERT", "ViT", "Bahdanau", "XLNet", "Lin"])
def test_other_families_have_a_path(name):
    steps = forward_path(paper(name), paper(name).default_size)
    assert {"attend", "masked_softmax"} <= set(functions(steps))


def test_recurrent_papers_without_attention_have_one_too():
    steps = forward_path(paper("Zaremba"), "small")
    assert "attend" not in functions(steps) and len(steps) > 10


@pytest.mark.slow
@pytest.mark.parametrize("one", LINEAGE, ids=lambda one: one.key)
def test_every_paper_has_a_path_of_its_forward_and_of_loading(one):
    forward, load = (path(one, one.default_size) for path in (forward_path, load_path))
    assert {step.file for step in forward} & {step.file for step in load}
    assert len(load) > len(forward) / 2


def test_loading_reads_a_folder():
    assert "read" in functions(load_path(paper("BERT"), "tiny"))


def test_what_an_import_runs_does_not_count():
    def imports():
        sys.modules.pop("regard.views.line_chart", None)
        import regard.views.line_chart  # noqa: F401

    assert trace(imports) == []
    assert sys.getprofile() is None


def test_the_verb_prints_it_plain_and_as_json():
    lines = run("papers", "Zaremba", "--path").stdout.splitlines()
    assert lines[0] == "the facts of Zaremba are values in regard.models.papers.zaremba"
    assert lines[1].split() == ["file", "line", "function"]
    records = [
        json.loads(one) for one in run("papers", "Zaremba", "--path", "--json").stdout.splitlines()
    ]
    steps = [PathStep(**record) for record in records]
    files = count_lines(step.file for step in steps)
    assert lines[-1] == (
        f"{len(files)} files with {sum(files.values()):,} lines, {len(steps)} functions"
    )
    assert len(lines) == len(steps) + 3


@pytest.mark.parametrize(
    "arguments",
    [
        ("--path",),
        ("BERT", "GPT", "--path"),
        ("BERT", "--train"),
        ("BERT", "--path", "--train", "--load"),
        ("BERT", "--path", "--results"),
    ],
)
def test_a_path_is_of_one_model(arguments):
    assert "--path" in run("papers", *arguments, code=2).stderr


def test_one_step_of_training_is_its_rows_its_loss_and_its_update():
    steps = train_path(paper("BERT"), "tiny")
    assert steps[0].function == "Trainer.step"
    files = count_lines(step.file for step in steps)
    assert {"objectives/masked_lm.py", "models/transformer.py", "training/optimiser.py"} <= {*files}
    assert not {
        "training/run_events.py",
        "training/recipe_files.py",
        "models/folders/folder.py",
    } & {*files}
    called = functions(steps)
    assert "ModelOptimiser.step" in called and "TrainableModel.__init__" not in called


def test_one_step_of_a_beam_search_reads_no_source():
    steps = beam_path(paper("Transformer"), "base")
    assert steps[0].function == "Search.__call__"
    called = functions(steps)
    assert "EncoderDecoderModule.decode" in called and "EncoderDecoderModule.encode" not in called
    with pytest.raises(BadInput, match="BERT: is no encoder-decoder"):
        beam_path(paper("BERT"), "tiny")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["GPT-2", "ViT", "Transformer", "ELMo", "Lin"])
def test_training_has_a_path(name):
    one, whole = (run("papers", name, "--path", kind).stdout for kind in ("--train", "--run"))
    assert "optim" in one and "recipe_files" not in one
    assert {*one.splitlines()[2:-1]} and "train_events" in whole


def test_a_drawing_has_a_line_for_each_visit_of_a_file():
    files = ("models/a.py", "models/a.py", "layers/b.py", "models/a.py")
    steps = [PathStep(file, 10 * n + 1, f"f<{n}>") for n, file in enumerate(files)]
    visits = visits_of(steps)
    assert [[step.line for step in visit] for visit in visits] == [[1, 11], [21], [31]]
    root = ElementTree.fromstring(draw_path("path", visits, {"models/a.py": 7}, LIGHT))
    marks = [*root.iterfind(".//*[@data-step]")]
    (first, second, third) = (next(iter(mark)).text for mark in marks)
    assert first == "1. models/a.py:1 f<0>, f<1> (7 lines in the file)"
    assert second == "2. layers/b.py:21 f<2>" and third.startswith("3. models/a.py:31")
    places = [tuple(mark[1].get(name) for name in ("cx", "fill")) for mark in marks]
    assert places[0] == places[2] != places[1]
