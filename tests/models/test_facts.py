import json
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import pytest

from regard.ground.errors import BadInput
from regard.models.facts import (
    ConvEncoderFacts,
    EncoderDecoder,
    Stack,
    Tokens,
    Trunk,
    change,
    did_you_mean,
    difference,
    from_json,
    paths,
    to_json,
)
from regard.models.facts.positions import Learned, Relative, Sinusoid
from regard.models.papers import bahdanau, cho, gehring, luong, paper, sutskever
from regard.models.papers.transformer import BASE, BIG, LAPTOP, Transformer
from regard.parts.mask import PermutationMask, WindowMask, causal, full

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
    asked = {"timing": "previous", "feeding": False}
    backwards = dict(reversed(asked.items()))
    assert change(luong.LAPTOP, **asked) == change(luong.LAPTOP, **backwards)
    asked = {"longest": 64, "position": Learned(512)}
    assert change(BASE, **asked).source.embed.position == Learned(64)
    looking = luong.LAPTOP.target.stack.attention
    changed = change(cho.LAPTOP, attention=looking, summary=False, score="dot").target.stack
    assert changed.attention == replace(looking, score="dot") and not changed.summary
    with pytest.raises(BadInput, match="feeding"):
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
        ({"depth": "two"}, "depth of Stack is int, so it cannot be 'two'"),
        ({"depth": 2.0}, "depth of Stack is int"),
        ({"depth": True}, "depth of Stack is int"),
        ({"depth": None}, "depth of Stack is int"),
        ({"key": "wide"}, "key of Stack is int | None"),
        ({"dropout": "0.1"}, "dropout of Stack is float"),
        ({"scaled": 1}, "scaled of Tokens is bool"),
        ({"position": 512}, "position of Tokens is .*Learned"),
        ({"tie": True}, "tie of EncoderDecoder is str"),
    ],
)
def test_what_cannot_be_changed_is_said_in_one_line(changes, message):
    with pytest.raises(BadInput, match=message) as error:
        change(BASE, **changes)
    assert "\n" not in str(error.value)


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
    assert from_json(json.loads(json.dumps(to_json(facts))), "config.json") == facts


def broken(**changes: Any) -> Any:
    """The JSON of a stack, spoilt."""
    return to_json(BASE.source.stack) | changes


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "None is not a set of facts"),
        ([1], "is not a set of facts"),
        ({}, "unknown kind None"),
        ({"is": "Stak"}, "unknown kind 'Stak'"),
        ({"is": ["Stack"]}, "unknown kind"),
        ({"is": "Learned"}, "longest"),
        (broken(colour=3), "colour"),
        (broken(width="512"), "width of Stack is int, so it cannot be '512'"),
        (broken(mask={"is": "Learned", "longest": 3}), "mask of Stack is .*Window"),
    ],
)
def test_what_is_not_facts_is_said_with_its_place(data, message):
    with pytest.raises(BadInput, match=f"^config.json: .*{message}"):
        from_json(data, "config.json")


def test_a_name_that_is_near_is_offered():
    assert did_you_mean("widht", ["width", "depth"]) == "; did you mean 'width'?"
    assert did_you_mean("x", ["width", "depth"]) == "; known: depth, width"


def test_papers_are_found_by_name():
    assert paper("Transformer") is paper("transformer")
    assert paper("transformer").sizes["base"] is BASE
    with pytest.raises(BadInput, match="did you mean 'transformer'"):
        paper("transformers")


def read_by(build, facts: Any) -> set[str]:
    """The dotted paths of the facts that ``build`` reads."""
    seen: set[str] = set()

    def watched(value: Any, path: str = "") -> Any:
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

    build(watched(facts))
    return seen


def all_of(facts: Any) -> set[str]:
    """Every path, but for what lies within a mask, which is a value and not facts."""
    return {path for path, _ in paths(facts) if ".mask." not in path}


@pytest.mark.parametrize(
    "paper", [cho, sutskever, bahdanau, luong, gehring], ids=lambda one: one.__name__
)
def test_recurrent_papers_have_none_either(paper):
    facts = change(paper.LAPTOP, vocab=11, width=4, embedding=4)
    assert read_by(Seq2Seq, facts) == all_of(facts)


def test_nor_has_a_classifier():
    facts = change(pooled.LAPTOP, vocab=11, width=4, embedding=4, inner=3)
    assert read_by(pooled.Pooled, facts) == all_of(facts)
    assert from_json(json.loads(json.dumps(to_json(facts))), "config.json") == facts


def test_nor_has_a_convolutional_encoder():
    source = Trunk(SMALL.source.embed, ConvEncoderFacts(8, 2))
    facts = replace(SMALL, source=source)
    assert read_by(Seq2Seq, facts) == all_of(facts)


@pytest.mark.parametrize("position", [Sinusoid(), Learned(9), Relative(3)], ids=str)
def test_there_is_no_fact_that_the_builder_does_not_read(position):
    facts = change(SMALL, position=position)
    assert read_by(Transformer, facts) == all_of(facts)


def test_a_fact_that_nobody_reads_would_be_found():
    @dataclass(frozen=True)
    class Idle(Stack):
        colour: str = "blue"

    stack = SMALL.source.stack
    idle = Idle(**{field.name: getattr(stack, field.name) for field in fields(stack)})
    facts = replace(SMALL, source=replace(SMALL.source, stack=idle))
    assert all_of(facts) - read_by(Transformer, facts) == {"source.stack.colour"}


def test_facts_are_values():
    embed = Tokens(vocab=5, position=None)
    stack = Stack(width=4, depth=1, heads=1, inner=4)
    assert Trunk(embed, stack) == Trunk(embed, replace(stack, mask=full))
    target = replace(stack, cross=True)
    assert hash(EncoderDecoder(Trunk(embed, stack), Trunk(embed, target)))
