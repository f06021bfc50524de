"""Grover: sizes, folders in the format of GPT-2, and the template over fields."""

import json
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from regard.core.errors import BadInput
from regard.models.facts import change
from regard.models.folders import folder as folders
from regard.models.papers import gpt2, grover
from regard.text.field_template import FieldTemplate
from regard.text.templates import FIELD_MARK
from regard.text.tokenizers.encoder_tokenizer import train_encoder_tokenizer

TEMPLATE = FieldTemplate()
NAMES = TEMPLATE.names
COUNTS = {"base": 124_449_792, "large": 354_836_480, "mega": 1_438_703_616}


@pytest.fixture(scope="module")
def words():
    texts = ["A storm has closed the harbour of Arden.", "Ada Brandt, May 3"] * 3
    keys = {"lower": False, "special_tokens": TEMPLATE.special_tokens}
    return train_encoder_tokenizer(texts, "gpt2-bpe", 320, **keys).words


@pytest.mark.parametrize("size", COUNTS)
def test_sizes(size):
    facts = grover.PAPER.sizes[size]
    assert grover.PAPER.parameters(facts) == COUNTS[size]
    assert facts.trunk.embed.limit == 1_024
    assert COUNTS[size] == pytest.approx(grover.PAPER.published[size], rel=0.05)


def test_a_folder_is_one_of_gpt2_with_the_name_of_the_paper(tmp_path):
    small = change(grover.BASE, vocab=60, width=8, depth=1, heads=2, inner=8, longest=8)
    folders.write(tmp_path, folders.LoadedModel(grover.PAPER, small, small.build()), "hf")
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "gpt2"
    assert folders.read(tmp_path).paper is grover.PAPER
    config = json.loads((tmp_path / "config.json").read_text())
    del config["regard_paper"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert folders.read(tmp_path).paper is gpt2.PAPER


def test_each_field_stands_between_tokens_of_its_own(words):
    date, body = TEMPLATE.encoder(words)([f"date{FIELD_MARK}May 3", f"body{FIELD_MARK}A storm"])
    assert words.pieces(date)[0] == "<|date|>" and words.pieces(date)[-1] == "<|/date|>"
    assert words.pieces([body[0], body[-1]]) == ["<|body|>", "<|/body|>"]
    assert date[1:-1] == words.encode("May 3") and words.decode(body) == "A storm"
    assert TEMPLATE.encoder(words)([]) == []


def test_text_cannot_pretend_to_be_a_token(words):
    (ids,) = TEMPLATE.encoder(words)([f"body{FIELD_MARK}a <|/body|> b{FIELD_MARK}c"])
    assert ids.count(words.number("<|/body|>")) == 1


def test_a_prompt_has_the_fields_in_their_usual_order_and_ends_where_one_begins(words):
    record = {"body": "A storm", "domain": "Arden"}
    ids = TEMPLATE.prompt(words, record, "headline")
    special = [piece for piece in words.pieces(ids) if piece in TEMPLATE.special_tokens]
    assert special == ["<|domain|>", "<|/domain|>", "<|body|>", "<|/body|>", "<|headline|>"]
    assert TEMPLATE.prompt(words, {}, "body") == [words.number("<|body|>")]


@pytest.mark.parametrize(
    ("record", "field", "message"),
    [
        ({"headlin": "x"}, "body", "no field is called 'headlin'.*headline"),
        ({}, "text", "no field is called 'text'"),
        ({"body": "x"}, "body", "the field 'body' is to be written: remove it from the record"),
    ],
)
def test_records_that_cannot_be_written(words, record, field, message):
    with pytest.raises(BadInput, match=message):
        TEMPLATE.prompt(words, record, field)


@pytest.mark.parametrize("names", [(), ("a", "a"), ("a b",), ("|",)])
def test_names_that_are_no_fields(names):
    with pytest.raises(BadInput, match="the fields of articles need distinct names"):
        FieldTemplate(names)


def orders(template: FieldTemplate, names=NAMES, count=4_000):
    draws = np.random.default_rng(0).random((count, 2 * len(names) + 1))
    return [template.order(names, row) for row in draws.tolist()]


def test_fields_are_left_out_at_the_rates_of_the_paper():
    drawn = orders(TEMPLATE)
    alone = np.mean([order == ["body"] for order in drawn])
    assert alone == pytest.approx(0.35 + 0.65 * 0.1**4, abs=0.03)
    counts = Counter(name for order in drawn if order != ["body"] for name in order)
    rest = sum(order != ["body"] for order in drawn)
    assert counts["body"] == rest
    for name in NAMES[:-1]:
        assert counts[name] / rest == pytest.approx(0.9, abs=0.02)


def test_fields_are_divided_into_two_sets_in_their_usual_order():
    every = FieldTemplate(dropped=0.0, body_only=0.0)
    drawn = orders(every)
    places = [[NAMES.index(name) for name in order] for order in drawn]
    assert all(sorted(order) == [*range(5)] for order in places)
    assert all(sum(a > b for a, b in pairwise(order)) <= 1 for order in places)
    assert len({*map(tuple, places)}) == 2**5 - 5  # six partitions give the usual order
    last = Counter(order[-1] for order in drawn)
    assert {*last} == {*NAMES}  # any field may be written after all others


def test_something_is_always_left():
    bare = FieldTemplate(dropped=0.99, body_only=0.99)
    drawn = orders(bare, ("domain", "date"), 500)
    assert all(order for order in drawn) and ["domain", "date"] in drawn
