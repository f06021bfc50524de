"""BERT: its sizes, what it ties, what is read off its states."""

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from closeness import VALUES
from regard.core.batch import BatchLimits, TokenRow, pack_rows
from regard.core.errors import BadInput
from regard.core.tape import Tape
from regard.models.facts import change, difference, from_json, to_json
from regard.models.label_heads import (
    ChoiceHead,
    LabelHead,
    MLMHead,
    SentencePairHead,
    SpanHead,
    TokenLabelHead,
)
from regard.models.papers import KINDS, LINEAGE, paper
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
WHOLE = SMALL.with_heads(MLMHead(), SentencePairHead())
ROWS = [TokenRow([1, 5, 6, 2], [0] * 4), TokenRow([1, 2, 7, 2], [0, 0, 1, 1]), TokenRow([1], [0])]


def by_formula(facts) -> int:
    stack, embed = facts.trunk.stack, facts.trunk.embed
    d, f = stack.width, stack.inner
    tables = (embed.vocab + embed.position.longest + embed.segments) * d + 2 * d
    layer = 4 * (d * d + d) + 2 * d + (d * f + f) + (f * d + d) + 2 * d
    return tables + stack.depth * layer + (d * d + d)


@pytest.mark.parametrize("size", SIZES)
def test_sizes_have_exactly_so_many_parameters(size):
    facts = PAPER.sizes[size]
    assert PAPER.parameters(facts) == SIZES[size] == by_formula(facts)


@pytest.mark.parametrize("size", SIZES)
def test_the_reference_counts_the_same(size):
    transformers = pytest.importorskip("transformers")
    stack = PAPER.sizes[size].trunk.stack
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
        "trunk.stack.width": (768, 1_024),
        "trunk.stack.depth": (12, 24),
        "trunk.stack.heads": (12, 16),
        "trunk.stack.inner": (3_072, 4_096),
    }
    allowed = {"trunk.stack.width", "trunk.stack.depth", "trunk.stack.heads", "trunk.stack.inner"}
    for facts in PAPER.sizes.values():
        assert difference(BASE, facts).keys() <= allowed
        assert (
            facts.trunk.stack.width == 64 * facts.trunk.stack.heads
        )  # heads of one width throughout
        assert facts.trunk.stack.inner == 4 * facts.trunk.stack.width


def test_papers_prints_them():
    records = [json.loads(line) for line in run("papers", "--json").stdout.splitlines()]
    found = {one["size"]: one["parameters"] for one in records if one["paper"] == "BERT"}
    assert found == SIZES
    assert "109,482,240" in run("papers").stdout
    assert "trunk.stack.depth" in run("papers", "bert:base", "bert:large").stdout


def test_heads_add_exactly_their_layers():
    d, vocab = 8, 20
    plain = PAPER.parameters(SMALL)
    words = d * d + d + 2 * d + vocab
    assert PAPER.parameters(SMALL.with_heads(MLMHead())) == plain + words
    assert PAPER.parameters(SMALL.with_heads(MLMHead(tied=False))) == plain + words + vocab * d
    assert PAPER.parameters(SMALL.with_heads(SentencePairHead())) == plain + 2 * d + 2
    assert PAPER.parameters(SMALL.with_heads(TokenLabelHead(5))) == plain + 5 * d + 5
    assert PAPER.parameters(change(SMALL, pool=None)) == plain - d * d - d


def test_words_are_tied_where_facts_say_so():
    for tied in (True, False):
        module = SMALL.with_heads(MLMHead(tied=tied)).build()
        assert (module.heads.mlm.out.weight is module.trunk.embed.token.weight) is tied


def test_new_weights_have_the_spread_of_the_facts():
    module = change(WHOLE, vocab=4_000, width=64, init_std=0.07).build().requires_grad_(False)
    block = module.trunk.blocks[0]
    for part in (module.trunk.embed.token, block.attention.qkv, block.mlp.up, module.pool.dense):
        assert float(part.weight.std()) == pytest.approx(0.07, rel=0.1)
    assert not module.pool.dense.bias.any() and not module.heads.mlm.out.bias.any()
    assert bool((module.trunk.embed.norm.weight == 1).all())
    tuned = change(SMALL, width=256, init_std=0.01, output_heads=(TokenLabelHead(90),)).build()
    assert float(tuned.heads.token_label.out.weight.detach().std()) == pytest.approx(0.01, rel=0.1)


@given(st.permutations(range(len(ROWS))))
def test_a_row_does_not_depend_on_its_neighbours(order):
    torch.manual_seed(0)
    module = WHOLE.build().eval()
    packed = pack_rows([ROWS[i] for i in order])
    outputs = module(packed)
    for place, i in enumerate(order):
        wanted = module(pack_rows([ROWS[i]]))
        states = packed.layout.split(outputs.encoded.states_TD)[place]
        torch.testing.assert_close(states, wanted.encoded.states_TD, **VALUES)
        pairs, alone = (one.by_head["sentence_pair"] for one in (outputs, wanted))
        torch.testing.assert_close(pairs[place], alone[0])


def test_segments_and_both_directions_count():
    module = change(WHOLE, init_std=0.5).build().eval()
    states = []
    for row in (ROWS[1], ROWS[1]._replace(segments=[0] * 4), TokenRow([1, 2, 9, 2], [0, 0, 1, 1])):
        states.append(module.encode(pack_rows([row])).states_TD)
    same, other_segments, other_token = states
    assert not torch.allclose(same, other_segments)
    assert not torch.allclose(same[0], other_token[0])  # a later token is seen


def test_the_sentence_pair_head_has_no_dropout_to_change():
    assert change(WHOLE, dropout=0.5).head("sentence_pair") == SentencePairHead()


def test_logits_only_at_the_given_positions():
    module = WHOLE.build().eval()
    packed, chosen_N = pack_rows(ROWS), torch.tensor([6, 1])
    every, some = module(packed), module(packed, positions={"mlm": chosen_N})
    assert every.by_head["mlm"].shape == (9, 20)
    torch.testing.assert_close(some.by_head["mlm"], every.by_head["mlm"][chosen_N])


def test_fill_changes_nothing():
    module = WHOLE.build().eval()
    free, fixed = pack_rows(ROWS), pack_rows(ROWS, BatchLimits(tokens=24, rows=4, longest=6))
    one, other = map(module, (free, fixed))
    torch.testing.assert_close(one.encoded.states_TD, other.encoded.states_TD[:9])
    torch.testing.assert_close(one.pooled_BD, other.pooled_BD[:3])


@pytest.mark.parametrize(
    ("head", "shape"),
    [
        (LabelHead(3), (3, 3)),
        (ChoiceHead(), (3, 1)),
        (TokenLabelHead(3), (9, 3)),
        (SpanHead(), (9, 2)),
    ],
    ids=str,
)
def test_a_head_judges_rows_or_tokens(head, shape):
    tape = Tape("heads.*")
    outputs = SMALL.with_heads(head).build().eval()(pack_rows(ROWS), tape=tape)
    assert outputs.by_head[head.name].shape == shape
    assert tape.records == {f"heads.{head.name}.logits": outputs.by_head[head.name]}


def test_dropout_falls_on_what_a_head_reads():
    still = change(SMALL, dropout=0.0, attention_dropout=0.0)
    packed, module = pack_rows(ROWS), still.with_heads(TokenLabelHead(3, dropout=0.5)).build()
    one, other = (module.train()(packed).by_head["token_label"] for _ in range(2))
    assert not torch.allclose(one, other)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: change(WHOLE, pool=None), "pool: the head sentence_pair reads whole rows"),
        (lambda: change(SMALL, pool=None, output_heads=(LabelHead(2),)), "pool: the head label"),
        (lambda: change(SMALL, cross=True), "cross = true"),
        (lambda: TokenLabelHead(0), "outputs must be at least 1"),
        (lambda: TokenLabelHead(2, dropout=1.5), "dropout must be at least 0"),
    ],
)
def test_facts_that_make_no_sense(wrong, said):
    with pytest.raises(BadInput, match=said):
        wrong()


def test_facts_as_json():
    for facts in (BASE, WHOLE, SMALL.with_heads(SpanHead())):
        assert from_json(json.loads(json.dumps(to_json(facts))), KINDS, "x") == facts
    nonsense = [{"is": "LabelHead", "outputs": "2"}]
    for broken in ({"trunk": 3}, {"trunk": None}, {"output_heads": nonsense}, {"pool": 1}):
        with pytest.raises(BadInput, match=r"^x: "):
            from_json({**to_json(BASE), **broken}, KINDS, "x")
