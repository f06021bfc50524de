import json
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import BadInput
from regard.layers.activation import ACTIVATIONS
from regard.layers.attend import PermutationMask, WindowMask, causal, full
from regard.layers.recurrent.bridge import KINDS as BRIDGES
from regard.layers.recurrent.rnn import DIRECTIONS, KERNELS
from regard.layers.recurrent.rnn_attention import SCORES
from regard.models.conv import ConvEncoderFacts
from regard.models.embedding import Learned
from regard.models.encoder_decoder import TIES, EncoderDecoder
from regard.models.facts import change, difference, from_json, paths, to_json
from regard.models.heads import NextTokenHead
from regard.models.label_heads import (
    ChoiceHead,
    LabelHead,
    MLMHead,
    SentencePairHead,
    SpanHead,
    TokenLabelHead,
)
from regard.models.papers import (
    KINDS,
    bahdanau,
    bert,
    cho,
    gehring,
    lin,
    luong,
    paper,
    sutskever,
    vit,
)
from regard.models.papers.albert import SentenceOrderHead
from regard.models.papers.transformer import BASE, BIG, LAPTOP
from regard.models.pools import QUERIES, AttentionPool, FirstToken, LastToken, MeanPool
from regard.models.positions import Relative, Rotary, Sinusoid
from regard.models.rnn import RNNEncoderFacts
from regard.models.rnn_decoder import CrossAttentionFacts, RNNDecoderFacts
from regard.models.tokens import Tokens
from regard.models.transformer import Stack
from regard.models.trunk import Trunk
from regard.models.trunk_with_heads import TrunkWithHeads

HEADS = (
    MLMHead(),
    NextTokenHead(bias=True),
    SentencePairHead(),
    LabelHead(3, dropout=0.2, dense="tanh"),
    TokenLabelHead(4, dropout=0.1),
    SpanHead(),
    ChoiceHead(dropout=0.3),
)
POOLS = (FirstToken(), FirstToken(dense=False), LastToken(), MeanPool(), AttentionPool(inner=3))
ENCODER = change(bert.TINY, output_heads=(MLMHead(), LabelHead(3)))
SMALL = change(BASE, width=8, heads=2, inner=12, depth=2, vocab=11)


def test_a_change_reaches_every_field_of_that_name():
    changed = change(BASE, depth=2)
    assert changed.source.stack.depth == changed.target.stack.depth == 2
    assert BASE.source.stack.depth == 6
    assert change(changed, depth=6) == BASE


def test_a_change_may_name_one_side():
    for name in ("source.depth", "source.stack.depth"):
        changed = change(BASE, **{name: 12})
        assert (changed.source.stack.depth, changed.target.stack.depth) == (12, 6)


def test_several_changes_are_one_after_the_other():
    changed = change(BASE, position=Learned(512), longest=64)
    assert changed.source.embed.position == changed.target.embed.position == Learned(64)


def test_changes_hold_together_in_any_order():
    """Some values exclude each other, and never meet on the way."""
    asked = {"timing": "previous", "input_feeding": False}
    backwards = dict(reversed(asked.items()))
    assert change(luong.LAPTOP, **asked) == change(luong.LAPTOP, **backwards)
    asked = {"longest": 64, "position": Learned(512)}
    assert change(BASE, **asked).source.embed.position == Learned(64)
    looking = luong.LAPTOP.target.stack.attention
    changed = change(cho.LAPTOP, attention=looking, summary=False, score="dot").target.stack
    assert changed.attention == replace(looking, score="dot") and not changed.summary
    with pytest.raises(BadInput, match="input_feeding"):
        change(luong.LAPTOP, timing="previous")


def test_of_two_changes_of_one_field_the_later_holds():
    for depth, changes in ((12, ("depth", "source.depth")), (2, ("source.depth", "depth"))):
        values = {"depth": 2, "source.depth": 12}
        changed = change(BASE, **{name: values[name] for name in changes})
        assert (changed.source.stack.depth, changed.target.stack.depth) == (depth, 2)


def test_a_field_takes_whatever_its_declaration_allows():
    assert change(BASE, position=None).source.embed.position is None
    assert change(BASE, mask=PermutationMask(True)).target.stack.mask == PermutationMask(True)
    assert change(change(BASE, key=32), key=None) == BASE
    assert change(BASE, dropout=0).source.stack.dropout == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"depht": 2}, "no fact is called 'depht'; did you mean 'depth'?"),
        ({"qqqq": 2}, "no fact is called 'qqqq'; known: .*width"),
        ({"source.dept": 2}, "no fact is called 'source.dept'"),
        ({"depth": "two"}, "depth of Stack must be int, not 'two'"),
        ({"eps": float("inf")}, "eps of Stack must be a finite number, not inf"),
        ({"dropout": float("nan")}, "dropout of Stack must be a finite number, not nan"),
        ({"depth": 2.0}, "depth of Stack must be int"),
        ({"depth": True}, "depth of Stack must be int"),
        ({"depth": None}, "depth of Stack must be int"),
        ({"key": "wide"}, "key of Stack must be int | None"),
        ({"dropout": "0.1"}, "dropout of Stack must be float"),
        ({"scaled": 1}, "scaled of Tokens must be bool"),
        ({"position": 512}, "no position is called '512'; known: learned, none, relative"),
        ({"tie": True}, "tie of EncoderDecoder must be str"),
    ],
)
def test_what_cannot_be_changed_is_reported_in_one_line(changes, message):
    with pytest.raises(BadInput, match=message) as error:
        change(BASE, **changes)
    assert "\n" not in str(error.value)


def test_a_pool_is_given_by_its_name():
    """One of that kind stays as it is."""
    pooled = change(vit.TINY, pool="mean", prefix_tokens=0)
    assert pooled.pool == MeanPool() and change(vit.TINY, pool="first") == vit.TINY
    assert change(lin.LAPTOP, pool="attention") == lin.LAPTOP
    assert change(vit.TINY, pool="attention", query="mean").pool == AttentionPool(query="mean")
    for value in ("meen", {"kind": "mean"}):
        with pytest.raises(BadInput, match=r"no pool is called .*mean"):
            change(vit.TINY, pool=value)


def test_a_difference_says_what_to_change():
    found = difference(BASE, BIG)
    assert set(found) == {
        f"{side}.stack.{name}"
        for side in ("source", "target")
        for name in ("width", "inner", "heads", "dropout")
    }
    assert found["source.stack.width"] == (512, 1024)
    assert change(BASE, **{path: that for path, (_, that) in found.items()}) == BIG
    assert difference(BASE, BASE) == {}


@pytest.mark.parametrize(
    "other", [BIG, LAPTOP, BASE.source, change(BASE, position=None), change(BASE, mask=causal)]
)
def test_a_difference_reads_the_same_both_ways(other):
    mirrored = {path: (that, this) for path, (this, that) in difference(other, BASE).items()}
    assert difference(BASE, other) == mirrored != {}


def test_where_a_paper_has_no_such_field_there_is_none():
    found = difference(BASE, change(BASE, position=Learned(512)))
    assert found["source.embed.position.base"] == (10_000.0, None)
    assert found["source.embed.position.longest"] == (None, 512)


@pytest.mark.parametrize(
    "facts",
    [
        BASE,
        BIG,
        LAPTOP,
        BASE.source,
        change(BASE, position=Learned(512), mask=PermutationMask(False), tie="none"),
        change(BASE, position=None, mask=WindowMask(3, 0), key=7),
    ],
)
def test_facts_survive_json(facts):
    assert from_json(json.loads(json.dumps(to_json(facts))), KINDS, "config.json") == facts


def broken(**changes: Any) -> Any:
    """The JSON of a stack, spoilt."""
    return to_json(BASE.source.stack) | changes


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "None is not an object with the facts"),
        ([1], "is not an object with the facts"),
        ({}, "unknown class None"),
        ({"is": "Stak"}, "unknown class 'Stak'"),
        ({"is": ["Stack"]}, "unknown class"),
        ({"is": "Learned"}, "longest"),
        (broken(colour=3), "colour"),
        (broken(width="512"), "width of Stack must be int, not '512'"),
        (to_json(ENCODER) | {"output_heads": [3]}, "output_heads of TrunkWithHeads must be"),
        (to_json(ENCODER) | {"output_heads": [{"is": "Head"}]}, "unknown class 'Head'"),
        (to_json(ENCODER) | {"trunk": None}, "trunk of TrunkWithHeads must be Trunk"),
        (to_json(LabelHead(2)) | {"name": "x"}, "name"),
        (broken(mask={"is": "Learned", "longest": 3}), "mask of Stack must be .*Window"),
    ],
)
def test_what_is_not_facts_is_reported_with_its_path(data, message):
    with pytest.raises(BadInput, match=f"^config.json: .*{message}"):
        from_json(data, KINDS, "config.json")


@pytest.mark.parametrize("path", ["output_heads.label.dropout", "label.dropout"])
def test_a_change_names_a_head_by_its_name(path):
    changed = change(ENCODER, **{path: 0.4, "depth": 3})
    assert changed.output_heads == (MLMHead(), LabelHead(3, dropout=0.4))
    assert changed.trunk.stack == replace(ENCODER.trunk.stack, depth=3)  # no other dropout


def test_a_change_without_a_path_reaches_heads_too():
    changed = change(ENCODER, dropout=0.4)
    assert changed.head("label").dropout == changed.trunk.stack.dropout == 0.4


def test_heads_come_and_are_changed_at_once():
    changed = change(bert.TINY, output_heads=(SpanHead(), LabelHead(3)), **{"label.outputs": 5})
    assert changed.output_heads == (SpanHead(), LabelHead(5))
    changed = change(ENCODER, **{"output_heads.label": LabelHead(2)})
    assert changed.output_heads == (MLMHead(), LabelHead(2))
    assert change(ENCODER, output_heads=()) == bert.TINY


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"span.dropout": 0.1}, "no fact is called 'span.dropout'"),
        ({"label.dropout": "half"}, "dropout of LabelHead must be float"),
        ({"label.dropout": 1.5}, "dropout must be at least 0"),
        ({"label.outputs": 0}, "outputs must be at least 1"),
        ({"label.dense": "tahn"}, "no activation is called 'tahn'; did you mean 'tanh'"),
        ({"output_heads": (3,)}, "output_heads of TrunkWithHeads must be .*, not"),
        ({"output_heads": LabelHead(2)}, "output_heads of TrunkWithHeads must be"),
        ({"output_heads.label": 3}, r"AnyHead, \.\.\.\], not \(MLMHead\("),
        (
            {"output_heads": (LabelHead(2), LabelHead(3))},
            "output_heads: duplicate names in label, label",
        ),
        ({"pool": None}, "pool: the head label reads whole rows, and there is no pool"),
        ({"pool": "meen"}, "no pool is called .meen.; did you mean .mean."),
    ],
)
def test_heads_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(BadInput, match=message) as error:
        change(ENCODER, **changes)
    assert "\n" not in str(error.value)


def test_a_difference_says_which_heads_differ():
    assert difference(bert.TINY, change(bert.TINY, output_heads=(LabelHead(3, dropout=0.2),))) == {
        "output_heads": ((), None),
        "output_heads.label.outputs": (None, 3),
        "output_heads.label.dropout": (None, 0.2),
        "output_heads.label.last_only": (None, False),
        "output_heads.label.bias": (None, True),
    }
    assert difference(ENCODER, change(ENCODER, **{"label.dropout": 0.2})) == {
        "output_heads.label.dropout": (0.0, 0.2)
    }


SIZE = st.integers(1, 9)
SHARE = st.floats(0, 1, exclude_max=True)
OPTIONAL = st.none() | SIZE
POSITION = st.none() | st.one_of(
    st.builds(Sinusoid, base=st.floats(2, 1e5), halves=st.booleans()),
    st.builds(Learned, SIZE, offset=st.integers(0, 3)),
)
MASK = st.sampled_from([full, causal, PermutationMask(True), PermutationMask(False)]) | st.builds(
    WindowMask, OPTIONAL, OPTIONAL
)
EMBEDDING = st.builds(
    Tokens,
    *(SIZE, POSITION),
    segments=st.integers(0, 3),
    scaled=st.booleans(),
    normed=st.booleans(),
    embedding_size=OPTIONAL,
)
ACTIVATION = st.sampled_from(sorted(ACTIVATIONS))


def stacks(cross: bool) -> st.SearchStrategy[Stack]:
    own = st.builds(
        Stack,
        *(SIZE, SIZE, SIZE, SIZE),
        key=OPTIONAL,
        value=OPTIONAL,
        norm=st.sampled_from(["pre", "post"]),
        final_norm=st.booleans(),
        activation=ACTIVATION,
        eps=st.floats(1e-12, 1e-3),
        dropout=SHARE,
        attention_dropout=SHARE,
        inner_dropout=SHARE,
        mask=MASK,
        cross=st.just(cross),
    )
    shared = st.builds(
        lambda stack, groups, inner: replace(
            stack, depth=stack.depth * groups * inner, shared_groups=groups, group_depth=inner
        ),
        *(own, SIZE, SIZE),
    )
    return own | shared


RECURRENT: dict[str, Any] = {
    "width": SIZE,
    "embedding": SIZE,
    "depth": SIZE,
    "cell": st.sampled_from(sorted(KERNELS)),
    "residual": st.booleans(),
    "dropout": SHARE,
}
ATTENTION = st.builds(
    CrossAttentionFacts,
    st.sampled_from(sorted(SCORES)),
    timing=st.just("current"),
    input_feeding=st.booleans(),
    inner=OPTIONAL,
    positions=SIZE,
)
READS = st.one_of(
    stacks(cross=False),
    st.builds(RNNEncoderFacts, **RECURRENT, direction=st.sampled_from(sorted(DIRECTIONS))),
    st.builds(ConvEncoderFacts, SIZE, SIZE, kernel=st.sampled_from([1, 3, 5]), dropout=SHARE),
)
WRITES = st.one_of(
    stacks(cross=True),
    st.builds(
        RNNDecoderFacts,
        **RECURRENT,
        bridge=st.sampled_from(sorted(BRIDGES)),
        attention=st.none() | ATTENTION,
        maxout=OPTIONAL,
    ),
)
SOME_HEADS = st.tuples(
    st.builds(MLMHead, tied=st.booleans()),
    st.builds(NextTokenHead, tied=st.booleans(), bias=st.booleans()),
    st.sampled_from([SentencePairHead(), SentenceOrderHead(0.2)]),
    st.builds(LabelHead, SIZE, dropout=SHARE, dense=st.none() | ACTIVATION),
    st.builds(TokenLabelHead, SIZE, dropout=SHARE),
    st.just(SpanHead()),
    st.builds(ChoiceHead, dropout=SHARE),
).flatmap(lambda heads: st.lists(st.sampled_from(heads), unique=True).map(tuple))
POOL = st.one_of(
    st.builds(FirstToken, dense=st.booleans()),
    st.sampled_from([LastToken(), MeanPool()]),
    st.builds(
        AttentionPool,
        score=st.sampled_from(sorted(SCORES)),
        query=st.sampled_from(sorted(QUERIES)),
        inner=OPTIONAL,
        positions=SIZE,
    ),
)
ANY_FACTS = st.one_of(
    st.builds(
        TrunkWithHeads,
        st.builds(Trunk, EMBEDDING, READS),
        pool=POOL,
        output_heads=SOME_HEADS,
        init_std=st.none() | st.floats(0, 1),
    ),
    st.builds(
        EncoderDecoder,
        st.builds(Trunk, EMBEDDING, READS),
        st.builds(Trunk, EMBEDDING, WRITES),
        tie=st.sampled_from(TIES),
        head_bias=st.booleans(),
    ),
)


@given(ANY_FACTS)
@settings(max_examples=100)
def test_any_facts_survive_json(facts):
    assert from_json(json.loads(json.dumps(to_json(facts))), KINDS, "config.json") == facts
    assert difference(facts, from_json(to_json(facts), KINDS, "config.json")) == {}


def test_papers_are_found_by_name():
    assert paper("Transformer") is paper("transformer")
    assert paper("transformer").sizes["base"] is BASE
    with pytest.raises(BadInput, match="did you mean 'transformer'"):
        paper("transformers")


def read_by_build(facts: Any) -> set[str]:
    """The dotted paths of the facts that ``build`` reads."""
    seen: set[str] = set()

    def watched(value: Any, path: str = "") -> Any:
        if isinstance(value, tuple):
            return tuple(watched(member, f"{path}{member.name}.") for member in value)
        if not is_dataclass(value) or isinstance(value, WindowMask):
            return value
        names = {field.name for field in fields(value)}

        class Watched(type(value)):
            def __getattribute__(self, name: str) -> Any:
                if name in names:
                    seen.add(path + name)
                return super().__getattribute__(name)

        copy = object.__new__(Watched)
        for name in names:
            object.__setattr__(copy, name, watched(getattr(value, name), f"{path}{name}."))
        return copy

    watched(facts).build()
    return seen


def all_of(facts: Any) -> set[str]:
    """Every path to a field, but for what lies within a mask, which is a value and not facts."""
    heads = {f"output_heads.{head.name}" for head in getattr(facts, "output_heads", ())}
    return {path for path, _ in paths(facts) if ".mask." not in path} - heads


@pytest.mark.parametrize(
    "paper", [cho, sutskever, bahdanau, luong, gehring], ids=lambda one: one.__name__
)
def test_recurrent_papers_have_none_either(paper):
    facts = change(paper.LAPTOP, vocab=11, width=4, embedding=4)
    assert read_by_build(facts) == all_of(facts)


@pytest.mark.parametrize("pool", POOLS, ids=str)
def test_nor_has_a_classifier(pool):
    facts = change(lin.LAPTOP, vocab=11, width=4, embedding=4, pool=pool)
    facts = facts.with_heads(LabelHead(3))
    assert read_by_build(facts) == all_of(facts)
    assert from_json(json.loads(json.dumps(to_json(facts))), KINDS, "config.json") == facts


def test_nor_have_heads():
    facts = change(bert.TINY, vocab=11, width=4, heads=2, inner=4, output_heads=HEADS)
    assert read_by_build(facts) == all_of(facts)
    assert {path.split(".")[1] for path, _ in paths(facts) if path.startswith("output_heads.")} == {
        head.name for head in HEADS
    }


def test_nor_has_a_convolutional_encoder():
    source = Trunk(SMALL.source.embed, ConvEncoderFacts(8, 2))
    facts = replace(SMALL, source=source)
    assert read_by_build(facts) == all_of(facts)


@pytest.mark.parametrize("position", [Sinusoid(), Learned(9), Relative(3), Rotary(9)], ids=str)
def test_there_is_no_fact_that_the_builder_does_not_read(position):
    facts = change(SMALL, position=position)
    assert read_by_build(facts) == all_of(facts)


def test_a_fact_that_nobody_reads_would_be_found():
    @dataclass(frozen=True)
    class Idle(Stack):
        colour: str = "blue"

    stack = SMALL.source.stack
    idle = Idle(**{field.name: getattr(stack, field.name) for field in fields(stack)})
    facts = replace(SMALL, source=replace(SMALL.source, stack=idle))
    assert all_of(facts) - read_by_build(facts) == {"source.stack.colour"}


def test_facts_are_values():
    embed = Tokens(vocab=5, position=None)
    stack = Stack(width=4, depth=1, heads=1, inner=4)
    assert Trunk(embed, stack) == Trunk(embed, replace(stack, mask=full))
    target = replace(stack, cross=True)
    assert hash(EncoderDecoder(Trunk(embed, stack), Trunk(embed, target)))


def test_first_weights_are_drawn_in_one_way():
    """An initialisation that would be ignored is refused."""
    with pytest.raises(BadInput, match='init = "fan-in" cannot be used with init_std'):
        change(bert.TINY, init="fan-in")
    with pytest.raises(BadInput, match="init_cutoff needs init_std"):
        change(bert.TINY, init_std=None, init_cutoff=2.0)
    with pytest.raises(BadInput, match="init_cutoff must be above 0, not 0"):
        change(bert.TINY, init_cutoff=0.0)
    with pytest.raises(BadInput, match="no init is called 'fanin'"):
        change(BASE, init="fanin")
