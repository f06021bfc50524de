"""Each step of a computation is what its rule gives, and each value on the tape is a step's."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.core.errors import BadInput
from regard.core.tape import Tape
from regard.inside.follow.check import relative_difference
from regard.inside.follow.computation import Computation, matrix_lines
from regard.inside.follow.follow import follow
from regard.models.facts import change
from regard.models.papers import bert, t5
from small_families import FACTS, small_family, small_rows
from small_follow import FAMILIES, RECURRENT, computation, papers, randomised

PACKAGE = Path(regard.__file__).parent


def require(found: Computation) -> None:
    """Each step agrees with its rule, also from the inputs of the model on; all are covered."""
    assert not found.uncovered
    for chained in (False, True):
        report = found.check(chained=chained)
        assert not report.failed, str(report)
        assert len(report.rows) == len(found) + 1  # and outputs without a tape


@pytest.mark.parametrize("name", [*FAMILIES, *RECURRENT])
def test_each_step_is_what_its_rule_gives(name):
    require(computation(name))


@pytest.mark.parametrize("name", [paper.key for paper in papers()])
def test_each_step_of_each_paper(name):
    require(computation(name))


def test_values_by_name():
    found = computation("bert")
    weights = found["layer 1/attention/weights"]
    assert weights.shape == (2, 5, 5) and np.allclose(weights.sum(-1), 1)
    assert np.array_equal(found["layer 1/head 1/weights"], weights[1])
    assert np.array_equal(found["layer 1/head 1/queries"], found["layer 1/attention/queries"][:, 1])
    assert [*found] == [step.name for step in found.steps] and len(found) == len(found.steps)


def test_what_does_not_exist_is_refused():
    found = computation("bert")
    for wrong, message in [
        (lambda: found["layer 1/attention/weight"], "no step is called 'layer 1/attention/weight'"),
        (lambda: found["layer 1/head 2/weights"], "no head 2 .*; there are 0 to 1"),
        (lambda: found.step("layer 9/output"), "no step is called"),
        (lambda: found.show(layer=2), "no layer 2; there are 0 to 1"),
        (lambda: found.show(head=2), "no head 2; there are 0 to 1"),
        (lambda: found.show(position=5), "no position 5; there are 0 to 4"),
        (lambda: found.show(upto="layer"), "no step is called 'layer'"),
    ]:
        with pytest.raises(BadInput, match=message):
            wrong()


def test_what_is_shown():
    found = computation("bert").show(layer=1, head=0, position=2, upto="layer 1/attention/sum")
    lines = str(found).splitlines()
    steps = [line for line in lines if line.startswith("layer 1/")]
    assert len(steps) == 9 and not any(line.startswith("layer 0/") for line in lines)
    assert "layer 1/attention/weights  [5 key]" in steps
    (line,) = (n for n, text in enumerate(lines) if text.startswith("layer 1/attention/weights"))
    numbers = [float(cell) for cell in lines[line + 3].split()]
    np.testing.assert_allclose(numbers, found["layer 1/head 0/weights"][2], rtol=1e-3)
    data = json.loads(json.dumps(found.to_json()))
    weights = next(step for step in data["steps"] if step["name"] == "layer 1/attention/weights")
    assert weights["axes"] == ["key"] and weights["source"].startswith("layers/attend.py:")
    np.testing.assert_allclose(weights["values"], found["layer 1/head 0/weights"][2])


def test_a_mask_and_one_step_in_full():
    found = computation("gpt2")
    lines = [*found.lines("layer 0/attention/mask")]
    assert lines[0] == "layer 0/attention/mask  [1 mask × 5 query × 5 key]"
    assert "  right: 0" in lines and lines[-4].split() == ["2", "1", "1", "1", "0", "0"]
    full = [*found.lines("layer 1/mlp/output")]
    assert "  from layer 1/mlp/inner" in full
    assert "  weight weight: trunk.blocks.1.mlp.down.weight" in full


def test_a_long_input_says_how_much_is_shown():
    model = small_family("gpt2")
    lines = str(follow(model, small_rows(model, [3, 7, 1, 12, 5] * 4))).splitlines()
    assert lines[-1] == "8 of 20 tokens are shown; a position chooses another"
    assert any("more rows" in line for line in lines)


@pytest.mark.parametrize("name", [*FAMILIES, *RECURRENT])
def test_the_source_of_a_step_is_the_line_of_its_value(name):
    for step in computation(name).steps:
        value, kind = step.output.rpartition(".")[2], step.kind
        value = value if kind.value is None else kind.value
        line = (PACKAGE / step.source.file).read_text().splitlines()[step.source.line - 1]
        assert f'"{value}"' in line if value else "def " in line, (step.name, line)


def test_sublayers_of_a_block_have_lines_of_their_own():
    steps = {step.name: step for step in computation("bert").steps}
    parts = ("attention/output", "mlp/output", "attention/sum", "mlp/sum", "output")
    assert len({steps[f"layer 0/{part}"].source.line for part in parts}) == 4  # one for both sums


def test_a_chosen_head_is_shown_by_steps_that_have_heads():
    found = computation("gpt2").show(head=1)
    steps = {step["name"]: step for step in found.to_json()["steps"]}
    assert steps["layer 0/attention/mask"]["axes"] == ["mask", "query", "key"]
    weights = found["layer 0/head 1/weights"]
    np.testing.assert_allclose(steps["layer 0/attention/weights"]["values"], weights)
    assert "layer 0/attention/mask" in str(found)


def test_numbers_in_print_are_apart():
    (line,) = matrix_lines(np.array([-1.234e-05, 0.0008739, -123456.0, 1.0]), [""])
    assert line.split() == ["-1.234e-05", "0.0008739", "-1.235e+05", "1"]


def test_a_computation_is_a_mapping():
    found = computation("bert")
    assert "layer 1/head 1/weights" in found and "layer 1/head 2/weights" not in found
    assert found.get("nothing") is None and 3 not in found


def test_values_that_are_no_numbers_are_not_equal():
    numbers = np.array([1.0, np.nan])
    assert relative_difference(numbers, numbers) == np.inf
    assert relative_difference(np.array([np.inf]), np.array([-np.inf])) == np.inf
    assert relative_difference(np.array([1.0, np.inf]), np.array([1.0, np.inf])) == 0


def test_formulas_are_latex():
    steps = [step for name in (*FAMILIES, *RECURRENT) for step in computation(name).steps]
    assert [step.name for step in steps if not step.formula.latex.isascii()] == []
    (norm,) = {step.formula.latex for step in steps if step.kind.name == "layer norm"}
    assert norm.startswith(r"y = ( x - \mu) / \sqrt{\sigma^2 + \epsilon}")


def test_public_face():
    model = randomised(bert.PAPER, change(FACTS["bert"][1]))
    found = model.follow([3, 7, 1], layer=0)
    assert str(found.check()).startswith(f"{len(found) + 1} checks passed")
    assert len(found.shown_steps) < len(found)
    pair = randomised(t5.PAPER, FACTS["t5"][1]).follow(([3, 7, 1], [4, 5]))
    assert pair.tokens.keys() == {"source", "target"}
    assert not pair.check().failed


def test_a_tape_with_all_values_changes_no_logits():
    model = small_family("bert")
    with torch.inference_mode():
        plain, taped = model.run([small_rows(model)]), model.run([small_rows(model)], Tape("*"))
    torch.testing.assert_close(plain.by_head["mlm"], taped.by_head["mlm"])
