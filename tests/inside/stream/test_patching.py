"""Patching restores the clean run where it should, and finds the head that decides."""

import numpy as np
import pytest
import torch

from regard import BadInput
from regard.api import Model
from regard.core.tape import Tape
from regard.inside.stream.patching import PLACES, TwoRuns, patch
from regard.inside.stream.paths import patch_paths
from regard.models.facts import change
from regard.models.folders.loaded_model import LoadedModel
from regard.models.heads import NextTokenHead
from regard.models.papers import gpt2
from small_families import IDS, OTHER_IDS, SIZE, small_family, small_rows
from small_rnn_lm import small_lstm

FAMILIES = ["bert", "bert-label", "gpt2", "llama", "t5", "translator", "xlnet", "vit"]


def runs_of(model, ids=IDS, other=OTHER_IDS, **chosen):
    rows = small_rows(model, ids), small_rows(model, other)
    token = {} if "label" in model.facts.head_names else {"token": 4}
    return TwoRuns.of(model, "two runs", *rows, **token | chosen)


@pytest.mark.parametrize("name", FAMILIES)
def test_all_embeddings_restore_the_clean_run_and_none_the_corrupted(name):
    model = small_family(name)
    runs = runs_of(model)
    names = [f"{side}.embed.output" for side in model.facts.sides]
    tokens = len(runs.positions(model.facts.sides[0]))
    masks = torch.stack([torch.ones(tokens), torch.zeros(tokens)]).bool()
    effects = runs.effects(dict.fromkeys(names, masks))
    np.testing.assert_allclose(effects, [1, 0], atol=1e-3)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_last_state_at_the_position_decides(name):
    """After the last layer, only the state that the head reads counts."""
    model = small_family(name)
    grid = patch(runs_of(model)).maps[-1]
    assert grid.rows == ["embedding", "layer 0", "layer 1"]
    expected = np.zeros(len(grid.columns))
    expected[0 if "label" in model.facts.head_names else 4] = 1
    np.testing.assert_allclose(grid.values_LC[-1], expected, atol=1e-3)


@pytest.mark.parametrize("name", ["gpt2", "t5", "xlnet"])
@pytest.mark.parametrize("at", PLACES[1:])
def test_each_place_is_patched_as_an_edit_does(name, at):
    model = small_family(name)
    runs = runs_of(model)
    if at == "cross_outputs" and name != "t5":
        with pytest.raises(BadInput, match="at: this model has no cross_outputs"):
            patch(runs, at)
        return
    effects = patch(runs, at)
    grid = effects.maps[-1]
    side = model.facts.sides[-1]
    path = {
        "attention_outputs": "attention.output",
        "cross_outputs": "cross.output",
        "mlp_outputs": "mlp.output",
        "head_outputs": "attention.head_outputs",
    }[at]
    full = f"{side}.blocks.1.{path}"

    def edit(_, value):
        value = value.clone()
        place = (slice(None), 1) if at == "head_outputs" else (4,)
        value[place] = runs.clean_values[full][place]
        return value

    with torch.inference_mode():
        outputs = model.run([runs.corrupted_rows], Tape(edits={full: edit}))
    logit = runs.target.of(outputs).item()
    expected = (logit - runs.corrupted) / (runs.clean - runs.corrupted)
    column = 1 if at == "head_outputs" else 4
    assert grid.values_LC[1, column] == pytest.approx(expected, abs=1e-4)


def test_heads_of_one_layer_by_position():
    """The map of one layer has the effect of each head at each position."""
    model = small_family("gpt2")
    runs = runs_of(model)
    (grid,) = patch(runs, "head_outputs", layer=1).maps
    assert grid.values_LC.shape == (2, 5) and grid.name == "decoder, layer 1"
    assert grid.columns == ["3", "7/9", "1", "12", "5"]
    whole = patch(runs, "head_outputs").maps[0].values_LC[1]
    np.testing.assert_allclose(grid.values_LC[:, 4], whole, atol=1e-4)  # others reach no logit
    np.testing.assert_allclose(grid.values_LC[:, :4], 0, atol=1e-4)


def test_a_recurrent_model_has_states_only():
    model = small_lstm()
    runs = runs_of(model)
    (grid,) = patch(runs).maps
    assert grid.rows == ["embedding", "layer 0", "layer 1"]
    np.testing.assert_allclose(grid.values_LC[-1], [0, 0, 0, 0, 1], atol=1e-4)
    assert grid.values_LC[0, 1] == pytest.approx(1, abs=1e-4)  # the only token that differs
    with pytest.raises(BadInput, match="at: this model has no head_outputs; it has states"):
        patch(runs, "head_outputs")


def copying_model() -> Model:
    """Two layers of attention, in which only head 1 of layer 0 and head 0 of layer 1 write.

    Head 1 of layer 0 copies the mean of all tokens into the second half of the states; head 0 of
    layer 1 copies that half, as it is at the last token, back to the first half, which the output
    reads.
    """
    facts = change(
        gpt2.SMALL, **SIZE | {"vocab": 8, "width": 16}, output_heads=(NextTokenHead(tied=False),)
    )
    module = facts.build().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
        for part in module.modules():
            if isinstance(part, torch.nn.LayerNorm):
                part.weight.fill_(1)
        eye = torch.eye(8)
        module.trunk.embed.token.weight[:, :8] = 3 * eye
        write, read = (module.trunk.blocks[number].attention for number in (0, 1))
        write.qkv.weight[2 * 16 + 8 :, :8] = eye  # values of head 1
        write.o.weight[8:, 8:] = eye
        read.qkv.weight[2 * 16 : 2 * 16 + 8, 8:] = eye  # values of head 0
        read.o.weight[:8, :8] = 2 * eye
        module.output.weight[:, :8] = eye
    return Model(LoadedModel(gpt2.PAPER, facts, module, None))


def test_patching_finds_the_heads_that_copy():
    model = copying_model().inspected
    runs = runs_of(model, [1, 2, 3, 4, 5], [1, 6, 3, 4, 5], target=2, against=6)
    assert runs.clean > 0 > runs.corrupted
    (grid,) = patch(runs, "head_outputs").maps
    effects = grid.values_LC
    assert effects[0, 1] == pytest.approx(1, abs=0.05) and effects[1, 0] == pytest.approx(
        1, abs=0.05
    )
    np.testing.assert_allclose([effects[0, 0], effects[1, 1]], 0, atol=1e-4)
    (states,) = patch(runs).maps
    assert states.values_LC[0].argmax() == 1 and states.values_LC[-1].argmax() == 4


def test_a_path_leads_from_the_copying_head_into_the_reading_head():
    model = copying_model().inspected
    runs = runs_of(model, [1, 2, 3, 4, 5], [1, 6, 3, 4, 5], target=2, against=6)
    effects = patch_paths(runs, (1, 0)).maps[0].values_LC
    assert effects[0, 1] == pytest.approx(1, abs=0.05) and effects[0, 0] == pytest.approx(
        0, abs=1e-4
    )
    values = patch_paths(runs, (1, 0), into=["values"]).maps[0].values_LC
    np.testing.assert_allclose(values, effects, atol=1e-4)
    for elsewhere in (patch_paths(runs, (1, 0), into=["queries"]), patch_paths(runs, (1, 1))):
        np.testing.assert_allclose(elsewhere.maps[0].values_LC, 0, atol=1e-4)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_a_receiver_reads_what_the_sender_adds_to_the_states(name):
    """Of a pre-norm model: the states after layer 0 change by (a - b) W_O, and nothing else."""
    model, receiver = small_family(name), 1
    runs = runs_of(model)
    effects = patch_paths(runs, (1, receiver)).maps[0].values_LC
    path = "trunk.blocks.0.attention.head_outputs"
    attention = model.module.trunk.blocks[0].attention
    inputs = [f"trunk.blocks.1.attention.{kind}" for kind in ("queries", "keys", "values")]
    for sender in range(attention.heads.count):
        change_THK = torch.zeros_like(runs.clean_values[path])
        change_THK[:, sender] = (runs.clean_values[path] - runs.corrupted_values[path])[:, sender]
        added_TD = change_THK.flatten(1) @ attention.o.weight.T
        tape = Tape(*inputs, edits={"trunk.blocks.0.output": lambda _, x, more=added_TD: x + more})
        with torch.inference_mode():
            model.run([runs.corrupted_rows], tape)
            edits = {name: only(tape.records[name], receiver, attention) for name in inputs}
            logit = runs.target.of(model.run([runs.corrupted_rows], Tape(edits=edits))).item()
        expected = (logit - runs.corrupted) / (runs.clean - runs.corrupted)
        assert effects[0, sender] == pytest.approx(expected, abs=1e-4)


def only(value, head, attention):
    """Edit to the value of one head, or of the keys that it reads."""

    def edit(_, current):
        current = current.clone()
        number = head if current.shape[1] == attention.heads.count else head // 2
        current[:, number] = value[:, number]
        return current

    return edit


@pytest.mark.parametrize("name", ["translator", "bert", "xlnet"])
def test_paths_of_other_families(name):
    effects = patch_paths(runs_of(small_family(name)), (1, 1))
    (grid,) = effects.maps
    assert grid.values_LC.shape == (1, 2) and np.abs(grid.values_LC).max() > 1e-4
    assert "paths into layer 1, head 1 (queries, keys, values)" in effects.caption


def test_lengths_must_agree():
    model = small_family("gpt2")
    with pytest.raises(BadInput, match=r"not 5 \(3 7 1 12 5\) and 4 \(3 7 1 12\): exchange words"):
        runs_of(model, IDS, IDS[:4])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda runs: patch(runs, "weights"), "at: 'weights' is not one of states, attention"),
        (lambda runs: patch(runs, "states", layer=0), "layer: only head_outputs have a map of"),
        (lambda runs: patch(runs, "head_outputs", layer=2), "layer must be at most 1, not 2"),
        (lambda runs: patch_paths(runs, (0, 0)), "receiver: its layer must be at least 1, not 0"),
        (lambda runs: patch_paths(runs, (1, 2)), "receiver: its head must be at most 1, not 2"),
        (lambda runs: patch_paths(runs, (1, 1), into=["x"]), "into: 'x' is not one of queries"),
    ],
)
def test_what_cannot_be_patched_is_refused(call, message):
    with pytest.raises(BadInput, match=message):
        call(runs_of(small_family("gpt2")))


def test_equal_inputs_are_refused():
    with pytest.raises(BadInput, match="on both inputs: choose another target"):
        runs_of(small_family("gpt2"), IDS, IDS)


def test_views():
    effects = patch(runs_of(small_family("translator")))
    assert [grid.name for grid in effects.grids] == ["source", "target"]
    assert "7/9" in effects.svg() and "source" in effects.html()
    assert "clean" in effects.text() and "target" in effects.text()
    record = effects.to_json()
    assert record["at"] == "states" and len(record["maps"][0]["effects"]) == 3
    names, rows = effects.table
    assert names == ["map", "row", "column", "value"] and len(rows) == 2 * 3 * 5
