"""BERT: its sizes, what it ties, what is read off its states."""

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.ground.batch import BatchLimits, TokenRow, pack_rows
from regard.ground.errors import BadInput
from regard.ground.tape import Tape
from regard.models.facts import Head, change, difference, from_json, to_json
from regard.models.papers import LINEAGE, bert, paper
from regard.models.papers.bert import BASE, LARGE, PAPER
from verb import run

SIZES = {
    "base": 109_482_240,
    "large": 335_141_888,
    "medium": 41_373_184,
    "small": 28_763_648,
    "mini": 11_170_560,
    "tiny": 4_385_920,
}
SMALL = change(BASE, vocab=20, width=8, depth=2, heads=2, inner=12, longest=10)
WHOLE = change(SMALL, fills=True, follows=True)
ROWS = [TokenRow([1, 5, 6, 2], [0] * 4), TokenRow([1, 2, 7, 2], [0, 0, 1, 1]), TokenRow([1], [0])]


def by_formula(facts) -> int:
    d, f, embed = facts.stack.width, facts.stack.inner, facts.embed
    tables = (embed.vocab + embed.position.longest + embed.segments) * d + 2 * d
    layer = 4 * (d * d + d) + 2 * d + (d * f + f) + (f * d + d) + 2 * d
    return tables + facts.stack.depth * layer + (d * d + d)


@pytest.mark.parametrize("size", SIZES)
def test_sizes_have_exactly_so_many_parameters(size):
    facts = PAPER.sizes[size]
    assert PAPER.parameters(facts) == SIZES[size] == by_formula(facts)


@pytest.mark.parametrize("size", SIZES)
def test_the_reference_counts_the_same(size):
    transformers = pytest.importorskip("transformers")
    stack = PAPER.sizes[size].stack
    config = transformers.BertConfig(
        hidden_size=stack.width,
        num_hidden_layers=stack.depth,
        num_attention_heads=stack.heads,
        intermediate_size=stack.inner,
    )
    with torch.device("meta"):
        model = transformers.BertModel(config)
    assert model.num_parameters() == SIZES[size]


def test_every_size_is_counted_and_near_what_was_published():
    assert PAPER.sizes.keys() == SIZES.keys() == PAPER.published.keys()
    for size, published in PAPER.published.items():
        assert SIZES[size] == pytest.approx(published, rel=0.02)
    assert PAPER in LINEAGE and paper("BERT") is PAPER


def test_sizes_differ_only_in_size():
    assert difference(BASE, LARGE) == {
        "stack.width": (768, 1_024),
        "stack.depth": (12, 24),
        "stack.heads": (12, 16),
        "stack.inner": (3_072, 4_096),
    }
    allowed = {"stack.width", "stack.depth", "stack.heads", "stack.inner"}
    for facts in PAPER.sizes.values():
        assert difference(BASE, facts).keys() <= allowed
        assert facts.stack.width == 64 * facts.stack.heads  # heads of one width throughout
        assert facts.stack.inner == 4 * facts.stack.width


def test_papers_prints_them():
    records = [json.loads(line) for line in run("papers", "--json").stdout.splitlines()]
    found = {one["size"]: one["parameters"] for one in records if one["paper"] == "BERT"}
    assert found == SIZES
    assert "109,482,240" in run("papers").stdout
    assert "stack.depth" in run("papers", "bert:base", "bert:large").stdout


def test_heads_add_exactly_their_layers():
    d, vocab = 8, 20
    plain = PAPER.parameters(SMALL)
    words = d * d + d + 2 * d + vocab
    assert PAPER.parameters(change(SMALL, fills=True)) == plain + words
    assert PAPER.parameters(change(SMALL, fills=True, tied=False)) == plain + words + vocab * d
    assert PAPER.parameters(change(SMALL, follows=True)) == plain + 2 * d + 2
    assert PAPER.parameters(change(SMALL, head=Head("tag", 5))) == plain + 5 * d + 5
    assert PAPER.parameters(change(SMALL, pooled=False)) == plain - d * d - d


def test_words_are_tied_where_facts_say_so():
    for tied in (True, False):
        module = Encoder(change(SMALL, fills=True, tied=tied))
        assert (module.words.out.weight is module.trunk.embed.token.weight) is tied


def test_new_weights_have_the_spread_of_the_facts():
    module = Encoder(change(WHOLE, vocab=4_000, width=64, spread=0.07)).requires_grad_(False)
    block = module.trunk.blocks[0]
    for part in (module.trunk.embed.token, block.attention.qkv, block.mlp.up, module.pool):
        assert float(part.weight.std()) == pytest.approx(0.07, rel=0.1)
    assert not module.pool.bias.any() and not module.words.out.bias.any()
    assert bool((module.trunk.embed.norm.weight == 1).all())
    tuned = Tuned(change(SMALL, width=256, spread=0.01, head=Head("tag", 90)))
    assert float(tuned.head.weight.detach().std()) == pytest.approx(0.01, rel=0.1)


@given(st.permutations(range(len(ROWS))))
def test_a_row_does_not_depend_on_its_neighbours(order):
    torch.manual_seed(0)
    module = build(WHOLE).eval()
    packed = pack_rows([ROWS[i] for i in order])
    said = module(packed.tokens_T, packed.layout)
    for place, i in enumerate(order):
        alone = pack_rows([ROWS[i]])
        wanted = module(alone.tokens_T, alone.layout)
        states = packed.layout.split(said.states_TD)[place]
        torch.testing.assert_close(states, wanted.states_TD, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(said.follows_BV[place], wanted.follows_BV[0])


def test_segments_and_both_directions_count():
    module = build(change(WHOLE, spread=0.5)).eval()
    states = []
    for row in (ROWS[1], ROWS[1]._replace(segments=[0] * 4), TokenRow([1, 2, 9, 2], [0, 0, 1, 1])):
        packed = pack_rows([row])
        states.append(module.encode(packed.tokens_T, packed.layout))
    same, other_segments, other_token = states
    assert not torch.allclose(same, other_segments)
    assert not torch.allclose(same[0], other_token[0])  # a later token is seen


def test_words_only_where_they_are_asked_for():
    module = build(WHOLE).eval()
    packed = pack_rows(ROWS)
    every = module(packed.tokens_T, packed.layout)
    chosen_N = torch.tensor([6, 1])
    some = module(packed.tokens_T, packed.layout, chosen_N=chosen_N)
    assert every.words_NV.shape == (9, 20)
    torch.testing.assert_close(some.words_NV, every.words_NV[chosen_N])


def test_fill_changes_nothing():
    module = build(WHOLE).eval()
    free, fixed = pack_rows(ROWS), pack_rows(ROWS, BatchLimits(tokens=24, rows=4, longest=6))
    one, other = (module(packed.tokens_T, packed.layout) for packed in (free, fixed))
    torch.testing.assert_close(one.states_TD, other.states_TD[:9])
    torch.testing.assert_close(one.pooled_BD, other.pooled_BD[:3])


@pytest.mark.parametrize("task", bert.HEADS)
def test_a_head_judges_rows_or_tokens(task):
    facts = change(SMALL, head=Head(task, 3))
    packed, tape = pack_rows(ROWS), Tape("logits")
    said = build(facts).eval()(packed.tokens_T, packed.layout, tape=tape)
    assert said.shape == ((3, 3) if task in ("classify", "choose") else (9, 3))
    assert tape.kept["logits"] is said


def test_dropout_falls_on_what_a_head_reads():
    still = change(SMALL, dropout=0.0, attention_dropout=0.0)
    facts = change(still, head=Head("tag", 3, dropout=0.5))
    packed, module = pack_rows(ROWS), build(facts).train()
    one, other = (module(packed.tokens_T, packed.layout) for _ in range(2))
    assert not torch.allclose(one, other)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: change(SMALL, pooled=False, follows=True), "pooled: "),
        (lambda: change(SMALL, pooled=False, head=Head("classify", 2)), "pooled: "),
        (lambda: change(SMALL, cross=True), "cross: "),
        (lambda: Head("sing", 2), "task"),
        (lambda: Head("tag", 0), "outputs must be at least 1"),
        (lambda: Head("tag", 2, dropout=1.5), "dropout is a share"),
    ],
)
def test_facts_that_make_no_sense(wrong, said):
    with pytest.raises(BadInput, match=said):
        wrong()


def test_facts_as_json():
    for facts in (BASE, WHOLE, change(SMALL, head=Head("answer", 2))):
        assert from_json(json.loads(json.dumps(to_json(facts))), "x") == facts
    nonsense = {"is": "Head", "task": 1, "outputs": 2}
    for broken in ({"stack": 3}, {"stack": None}, {"head": nonsense}, {"embed": None}):
        with pytest.raises(BadInput, match=r"^x: "):
            from_json({**to_json(BASE), **broken}, "x")
