"""Kinds of position, from their names in a recipe to what a model makes of them."""

import json
from itertools import permutations

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounter

from regard import generation
from regard.core.batch import BatchLimits, PackedTokens, SourceTarget, pack
from regard.core.errors import BadInput
from regard.core.layout import Layout
from regard.generation.cpp import obstacle
from regard.layers.attend import DistanceDot, ScaledDot, full
from regard.layers.kernels.call import AttentionCall
from regard.layers.kernels.fast_attend import choose
from regard.layers.relative_score import sinusoid
from regard.models.embedding import Learned
from regard.models.facts import change, from_json, paths, to_json
from regard.models.papers import KINDS, bert, cho, modernbert
from regard.models.papers.transformer import BASE
from regard.models.positions import POSITIONS, Relative, Sinusoid
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.training.recipe import read
from regard.training.recipe_files import find
from regard.training.run import task_of

VOCAB = 13
SMALL = change(bert.TINY, vocab=VOCAB, width=8, inner=12, segments=0, init_std=0.5, pool=None)
PAIR = change(BASE, width=8, heads=2, inner=12, depth=2, vocab=VOCAB, position="relative")
ROWS = [[1, 2, 3, 4, 5, 6, 7], [8], [9, 10, 9, 10]]
POSITION_KINDS = pytest.mark.parametrize("kind", list(POSITIONS))


def states(model: torch.nn.Module, read: PackedTokens) -> Tensor:
    return model.encode(read).states_TD


def test_a_position_has_a_name():
    found = {kind: change(PAIR, position=kind).source.embed.position for kind in POSITIONS}
    assert found["none"] is None
    assert isinstance(found["sinusoid"], Sinusoid)
    assert found["learned"] == Learned(512)
    assert found["relative"] == Relative(16)


def test_the_name_of_what_is_there_changes_nothing():
    for position in (Learned(48), Relative(3), Sinusoid(halves=True), None):
        facts = change(SMALL, position=position)
        same = next(name for name, one in POSITIONS.items() if type(one) is type(position))
        assert change(facts, position=same) == facts


def test_its_length_may_follow():
    changed = change(SMALL, position="relative", farthest=3)
    assert changed.trunk.embed.position == Relative(3)
    sides = change(PAIR, **{"source.position": "learned"})
    assert (sides.source.embed.position, sides.target.embed.position) == (
        Learned(512),
        Relative(16),
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"position": "relativ"}, "no position is called 'relativ'; did you mean 'relative'?"),
        ({"position": 16}, "no position is called '16'; known: learned, none, relative"),
        ({"position": "relative", "farthest": 1.5}, "farthest of Relative must be int"),
    ],
)
def test_what_is_no_position_is_reported(changes, message):
    with pytest.raises(BadInput, match=message):
        change(SMALL, **changes)


def test_distances_are_no_business_of_embeddings():
    assert Relative(3).build(4) is None


def test_facts_reach_the_part_they_build():
    positions = torch.arange(5)
    found = Sinusoid(base=50.0, halves=True).build(4)(Layout.ragged([5]))
    assert torch.equal(found, sinusoid(positions, 4, 50.0, halves=True))
    assert Learned(7).build(4).weight.shape == (7, 4)
    assert Learned(7, offset=2).build(4).weight.shape == (9, 4)


def test_a_model_reads_as_many_tokens_as_it_has_positions_behind_an_offset():
    """Rows up to the limit are read, whatever vectors stand before the first position."""
    facts = change(SMALL, position=Learned(4, offset=2))
    assert facts.trunk.embed.limit == 4 and from_json(to_json(facts), KINDS, "x") == facts
    plain, model = change(facts, offset=0).build().eval(), facts.build().eval()
    weights = {**model.state_dict()}
    weights["trunk.embed.position.weight"] = weights["trunk.embed.position.weight"][2:]
    plain.load_state_dict(weights)
    for packed in (pack([[1, 2, 3, 4], [5]]), pack([[1, 2, 3, 4]] * 2)):
        torch.testing.assert_close(states(model, packed), states(plain, packed))
    with pytest.raises(ValueError, match="position 4 is out of range: 4 positions are learned"):
        states(model, pack([[1, 2, 3, 4, 5]]))


def test_a_recurrent_encoder_cannot_have_relative_positions():
    with pytest.raises(BadInput, match="relative positions need self-attention layers"):
        change(cho.LAPTOP, position="relative")
    spoilt = to_json(cho.LAPTOP.source)
    spoilt["embed"]["position"] = to_json(Relative(3))
    with pytest.raises(BadInput, match=r"^config\.json: position"):
        from_json(spoilt, KINDS, "config.json")


@POSITION_KINDS
def test_every_kind_survives_json(kind):
    facts = change(SMALL, position=kind)
    assert from_json(json.loads(json.dumps(to_json(facts))), KINDS, "config.json") == facts


@POSITION_KINDS
@torch.inference_mode()
def test_ragged_rows_are_read_as_each_alone(kind):
    model = change(SMALL, position=kind).build().eval()
    packed = pack(ROWS)
    together = packed.layout.split(states(model, packed))
    for row, found in zip(ROWS, together, strict=True):
        torch.testing.assert_close(found, states(model, pack([row])), rtol=1e-4, atol=1e-5)


@POSITION_KINDS
@torch.inference_mode()
def test_words_in_another_order_are_another_sentence_unless_there_are_no_positions(kind):
    model = change(SMALL, position=kind).build().eval()
    orders = list(permutations([3, 4, 5]))
    found = torch.stack([states(model, pack([[1, *order]]))[0] for order in orders])
    distances = torch.pdist(found)
    assert (distances < 1e-4).all() if kind == "none" else (distances > 1e-3).all()


@torch.inference_mode()
def test_relative_positions_do_not_know_where_a_row_begins():
    tokens_T = torch.tensor(ROWS[0])
    early, late = (Layout.rectangle(1, len(tokens_T), start=start) for start in (0, 40))
    for kind, same in (("relative", True), ("learned", False), ("sinusoid", False)):
        model = change(SMALL, position=kind).build().eval()
        one, other = (states(model, PackedTokens(tokens_T, layout)) for layout in (early, late))
        assert torch.allclose(one, other, atol=1e-5) == same


def test_every_layer_scores_by_distances_of_its_own():
    model = change(SMALL, position="relative", farthest=3, init_std=0.02).build()
    scores = [block.attention.score for block in model.trunk.blocks]
    assert model.trunk.embed.position is None
    assert all(isinstance(score, DistanceDot) for score in scores)
    assert [score.distance.weight.shape for score in scores] == [(7, 4)] * 2
    assert len({score.distance.weight.data_ptr() for score in scores}) == 2
    packed = pack(ROWS)
    states(model, packed).square().sum().backward()
    assert all(score.distance.weight.grad.any() for score in scores)


def test_layers_with_a_window_turn_by_a_base_of_their_own():
    """ModernBERT: 160,000, and 10,000 in the two of three layers that see 128 tokens."""
    with torch.device("meta"):
        blocks = modernbert.PAPER.sizes["base"].trunk.build().blocks
    cpu, turned = torch.device("cpu"), [block.attention.score.rotation for block in blocks]
    slowest = torch.stack([rotation.frequencies(cpu)[-1] for rotation in turned])
    bases = [160_000.0 if layer % 3 == 0 else 10_000.0 for layer in range(22)]
    torch.testing.assert_close(slowest, torch.tensor(bases) ** -(62 / 64))


def test_a_decoder_looks_at_its_source_without_distances():
    model = PAIR.build()
    for block in model.target.blocks:
        assert isinstance(block.attention.score, DistanceDot)
        assert isinstance(block.cross.score, ScaledDot)


@torch.inference_mode()
def test_a_decoder_goes_step_by_step_where_it_would_go_at_once():
    model = change(PAIR, farthest=2).build().eval()
    source, written = pack(ROWS), torch.randint(0, VOCAB, (3, 6))
    state = generation.open_state(model, source, capacity=8)
    for number in range(6):
        found = state.step(written[:, number])
    target = pack(written.tolist())
    logits_TV = model(SourceTarget(source, target)).by_head["next_token"]
    wanted = torch.stack([row[-1] for row in target.layout.split(logits_TV)]).log_softmax(-1)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_no_fast_way_leaves_the_distances_out():
    layout, x_THK = Layout.ragged([3, 2]), torch.randn(5, 2, 4)
    call = AttentionCall(DistanceDot(2, 4), layout, layout, full, 0.0)
    assert choose(call, x_THK, x_THK) is None
    assert "does not support" in str(obstacle(PAIR.build()))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
def test_one_graph_without_a_look_at_the_data_serves_all_batches_of_a_budget():
    torch._dynamo.reset()
    limits, counter = BatchLimits(tokens=32, rows=8, longest=16), CompileCounter()
    model = change(SMALL, position="relative", farthest=3).build().eval()
    compiled = torch.compile(model.encode, backend=counter, fullgraph=True)
    for rows in (ROWS, [[1] * 16, [2] * 16], [[5]]):
        packed = pack(rows, limits)
        wanted = states(model, packed)
        torch.testing.assert_close(compiled(packed).states_TD, wanted)
    assert counter.frame_count == 1
    torch._dynamo.reset()


@POSITION_KINDS
def test_both_recipes_train_the_same_encoder(kind, tmp_path):
    settings = [f"model.change.position={kind}"]
    found = [read(find(f"positions-{data}"), settings) for data in ("sst2", "conll")]
    assert found[0].model == found[1].model
    for recipe in found:
        facts = task_of(recipe).resolve(tmp_path).facts
        assert isinstance(facts, TrunkWithHeads) and facts.trunk.embed.position == POSITIONS[kind]
        assert dict(paths(facts))["trunk.stack.width"] == 256
