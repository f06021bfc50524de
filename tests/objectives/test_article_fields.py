"""The objective "fields": articles with their fields in drawn orders, the same for each key."""

import numpy as np
import pytest

from regard.core.batch import IGNORED, TokenRow
from regard.core.errors import BadInput
from regard.objectives.article_fields import FieldsConfig, FieldsLM
from regard.objectives.rows import AnnotatedRow
from regard.objectives.sum import Sum
from regard.text.field_template import FieldTemplate
from regard.text.templates import FIELD_MARK
from regard.text.tokenizers.encoder_tokenizer import train_encoder_tokenizer

NAMES = ("date", "headline", "body")
TEMPLATE = FieldTemplate(NAMES)
TEXTS = ("May 3", "A storm", "The waves damaged two boats in Arden")


@pytest.fixture(scope="module")
def tokenizer():
    keys = {"lower": False, "special_tokens": TEMPLATE.special_tokens}
    return train_encoder_tokenizer(TEXTS, "gpt2-bpe", 300, **keys)


@pytest.fixture(scope="module")
def parts(tokenizer):
    marked = [f"{name}{FIELD_MARK}{text}" for name, text in zip(NAMES, TEXTS, strict=True)]
    return TEMPLATE.encoder(tokenizer.words)(marked)


def annotated(tokenizer, tokens, key=(1, 0), count=200, after=7, first=0):
    row = AnnotatedRow(TokenRow.of(tokens), {}, {"next_token": after})
    annotate = FieldsLM(fields=TEMPLATE).annotator(tokenizer)
    return annotate([row] * count, np.arange(first, first + count), key)


def test_rows_have_whole_fields_in_several_orders(tokenizer, parts):
    separator = tokenizer.template.separator
    rows = annotated(tokenizer, [separator, *parts[0], *parts[1], *parts[2]])
    known = {tuple(part): name for part, name in zip(parts, NAMES, strict=True)}
    begins = {part[0]: part for part in parts}
    seen = set()
    for example in rows:
        first, *tokens = example.row.tokens.tolist()
        assert first == separator and len(example.row.segments) == len(example.row.tokens)
        order = []
        while tokens:
            part = begins[tokens[0]]
            assert tokens[: len(part)] == part
            order.append(known[tuple(part)])
            tokens = tokens[len(part) :]
        assert "body" in order
        seen.add(tuple(order))
        targets = example.targets["next_token"].tolist()
        assert targets == [*example.row.tokens[1:].tolist(), 7]
    assert {("body",), NAMES, ("body", "headline"), ("headline", "body", "date")} <= seen


def test_a_field_that_is_cut_off_stays_last(tokenizer, parts):
    tokens = [*parts[0], *parts[1], *parts[2][:-3]]
    for example in annotated(tokenizer, tokens, after=parts[2][-3]):
        kept = example.row.tokens.tolist()
        assert kept[-len(parts[2]) + 3 :] == parts[2][:-3]
        assert example.targets["next_token"][-1] == parts[2][-3]


def test_the_rest_of_a_long_body_is_unchanged(tokenizer, parts):
    rest = parts[2][3:]
    for example in annotated(tokenizer, rest, after=IGNORED, count=5):
        assert example.row.tokens.tolist() == rest


def test_orders_depend_on_the_key_and_the_row_alone(tokenizer, parts):
    tokens = [*parts[0], *parts[1], *parts[2]]
    whole = [row.row.tokens.tolist() for row in annotated(tokenizer, tokens)]
    part = annotated(tokenizer, tokens, count=10, first=30)
    assert [row.row.tokens.tolist() for row in part] == whole[30:40]
    other = [row.row.tokens.tolist() for row in annotated(tokenizer, tokens, key=(1, 1))]
    assert other != whole


def test_a_table_gives_the_template():
    made = FieldsLM.from_config(FieldsConfig(names=("a", "b"), dropped=0.2, body_only=0.0), 0.1)
    assert made.fields == FieldTemplate(("a", "b"), 0.2, 0.0) and made.smoothing == 0.1
    assert Sum(made).row_maker.fields is made.fields and not made.joins_documents
    with pytest.raises(BadInput, match="the fields of articles need distinct names"):
        FieldsLM.from_config(FieldsConfig(names=("a", "a")), 0.0)
