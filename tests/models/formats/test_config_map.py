"""config.json and facts in two columns: what is written is read back, and nothing more is."""

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from regard.core.errors import BadInput
from regard.models.facts import change
from regard.models.formats import Architectures, Constant, HFHead, Key, Presence
from regard.models.formats.config_map import read_facts, write_config
from regard.models.heads import NextTokenHead
from regard.models.label_heads import (
    ChoiceHead,
    LabelHead,
    MLMHead,
    SentencePairHead,
    SpanHead,
    TokenLabelHead,
)
from regard.models.papers import LINEAGE, bert, marian
from regard.models.pools import FirstToken
from regard.text.label_sets import SingleLabelSet

sizes, shares = st.integers(1, 9), st.sampled_from([0.0, 0.1, 0.25, 0.5])
activations = st.sampled_from(["gelu", "relu", "swish", "gelu-tanh"])
heads = st.tuples(
    st.none() | st.builds(MLMHead, tied=st.booleans()),
    st.none() | st.just(SentencePairHead()),
    st.none() | st.just(SpanHead()),
    st.none()
    | st.builds(LabelHead, sizes, dropout=shares)
    | st.builds(TokenLabelHead, sizes, dropout=shares)
    | st.builds(ChoiceHead, dropout=shares),
).map(lambda some: tuple(head for head in some if head is not None))


@st.composite
def berts(draw):
    some = draw(heads)
    pooled = any(head.per_row for head in some) or draw(st.booleans())
    return change(
        bert.BASE,
        **{name: draw(sizes) for name in ("vocab", "width", "depth", "heads", "inner", "longest")},
        **{"stack.dropout": draw(shares), "attention_dropout": draw(shares)},
        activation=draw(activations),
        segments=draw(st.integers(0, 3)),
        init_std=draw(st.floats(0, 1)),
        eps=draw(st.floats(1e-12, 1e-3)),
        pool=FirstToken() if pooled else None,
        output_heads=some,
    )


@st.composite
def marians(draw):
    tie = draw(st.sampled_from(["all", "target", "none"]))
    source, target = draw(sizes), draw(sizes)
    sides = {
        f"{side}.{name}": draw(sizes)
        for side in ("source", "target")
        for name in ("depth", "heads", "inner")
    }
    return change(
        marian.BASE,
        **sides,
        **{"source.vocab": source, "target.vocab": source if tie == "all" else target},
        **{name: draw(shares) for name in ("dropout", "attention_dropout", "inner_dropout")},
        width=draw(sizes),
        activation=draw(activations),
        scaled=draw(st.booleans()),
        head_bias=draw(st.booleans()),
        tie=tie,
    )


def names_of(format, facts):
    """The names of tensors by which a reader knows these facts."""
    return [start for row in format.config_map for start in row.tensors(facts)]


@given(berts() | marians())
def test_what_is_written_is_read_back(facts):
    format = bert.HF if facts.encoder_path == "trunk" else marian.HF
    config = format.config_of(facts)
    assert format.facts_of(config, names_of(format, facts)) == facts
    assert format.config_of(format.facts_of(config, names_of(format, facts))) == config


@given(berts() | marians(), st.data())
def test_an_update_writes_what_changed_and_no_more(facts, data):
    format, others = (bert.HF, berts()) if facts.encoder_path == "trunk" else (marian.HF, marians())
    whole = format.config_of(facts)
    drop = data.draw(st.lists(st.sampled_from(sorted(whole)), unique=True))
    sparse = {key: value for key, value in whole.items() if key not in drop} | {"ours": [1]}
    names = names_of(format, facts)
    try:
        before = format.facts_of(sparse, names)
    except BadInput:  # embeddings that are shared, of two sizes
        reject()
    assert format.update(sparse, names, before, format.labels_of(sparse, before)) == sparse
    other = change(data.draw(others), **_shape(before))
    updated = format.update(sparse, names, other, None)
    assert format.facts_of(updated, names) == other and updated["ours"] == [1]


def _shape(facts):
    """What only tensors tell."""
    if facts.encoder_path == "source":
        return {"head_bias": facts.head_bias}
    return {"pool": facts.pool, "output_heads": facts.output_heads}


def test_a_key_that_follows_another_is_written_once_they_differ():
    """A classifier has the dropout of the trunk unless it says otherwise."""
    facts = change(bert.BASE, output_heads=(LabelHead(2, dropout=0.1),))
    names, labels = names_of(bert.HF, facts), SingleLabelSet(("LABEL_0", "LABEL_1"))
    silent = {"hidden_dropout_prob": 0.1, "architectures": ["BertForSequenceClassification"]}
    assert bert.HF.facts_of(silent, names) == facts
    other = change(facts, **{"stack.dropout": 0.3})
    updated = bert.HF.update(silent, names, other, labels)
    assert updated["hidden_dropout_prob"] == 0.3 and updated["classifier_dropout"] == 0.1
    assert bert.HF.facts_of(updated, names) == other


def test_names_of_labels_are_rewritten_when_they_changed():
    facts = change(bert.BASE, output_heads=(LabelHead(2, dropout=0.1),))
    config = bert.HF.config_of(facts, SingleLabelSet(("bad", "good")))
    names = names_of(bert.HF, facts)
    again = bert.HF.update(config, names, facts, SingleLabelSet(("good", "bad")))
    changed = {key for key in config if again[key] != config[key]}
    assert changed == {"id2label", "label2id"} and again["id2label"] == {"0": "good", "1": "bad"}


def test_every_key_of_a_table_stands_for_a_fact():
    every = change(
        bert.BASE, output_heads=(MLMHead(), SentencePairHead(), SpanHead(), LabelHead(2))
    )
    for format, facts in ((bert.HF, every), (marian.HF, marian.BASE)):
        for row in format.config_map:
            constant = isinstance(row, Constant | Presence)
            assert bool(row.write(facts)) != constant, row.key


def test_papers_have_formats_of_their_own_or_share_one():
    found = {paper.key: paper.formats["hf"].model_type for paper in LINEAGE if paper.formats}
    shared = {"transformer": "marian", "spanbert": "bert", "gpt": "openai-gpt", "gpt-2": "gpt2"}
    shared["grover"] = "gpt2"
    assert {"marian", "bert", "roberta"} < found.keys()
    assert found == {key: shared.get(key, key) for key in found}


KEYS = (
    Key("wide", "width"),
    Key("act", "activation", {"relu": "relu", "ReLU": "relu", "silu": "swish"}),
    Key("places", "longest"),
    Key("drop", "stack.dropout"),
    Key("attention_drop", "attention_dropout", fallback="drop"),
    Constant("decoder", False),
)


@pytest.mark.parametrize(
    ("config", "changes"),
    [
        ({}, {}),
        ({"wide": 24, "other": 1}, {"width": 24}),
        ({"act": "ReLU"}, {"activation": "relu"}),
        ({"places": 64}, {"longest": 64}),
        ({"drop": 0.3}, {"dropout": 0.3, "attention_dropout": 0.3}),
        ({"drop": 0.3, "attention_drop": None}, {"dropout": 0.3, "attention_dropout": 0.3}),
        ({"drop": 0.3, "attention_drop": 0.0}, {"dropout": 0.3, "attention_dropout": 0.0}),
        ({"attention_drop": 0.5}, {"attention_dropout": 0.5}),
        ({"decoder": False}, {}),
    ],
)
def test_rows_give_facts(config, changes):
    assert read_facts(KEYS, bert.BASE, config, ()) == change(bert.BASE, **changes)


def test_rows_give_keys():
    written = write_config(KEYS, change(bert.BASE, activation="relu"))
    assert written == {
        "wide": 768,
        "act": "relu",
        "places": 512,
        "drop": 0.1,
        "attention_drop": 0.1,
    }
    assert "act" not in write_config(KEYS, bert.BASE)  # which has no word there
    assert "places" not in write_config(KEYS, change(bert.BASE, position="none"))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"wide": "x"}, "wide: width of Stack must be int, not 'x'"),
        ({"wide": 0}, "wide: width must be at least 1, not 0"),
        ({"places": 0}, "places: longest must be at least 1, not 0"),
        ({"places": "x"}, "places: longest of Learned must be int, not 'x'"),
        ({"drop": 2}, "drop: dropout must be at least 0 and below 1, not 2"),
        ({"act": "mish"}, "act is 'mish'; supported: relu, ReLU, silu"),
        ({"act": ["relu"]}, "act is ['relu']; supported: relu, ReLU, silu"),
        ({"decoder": True}, "decoder is True, and only False is supported"),
        ({"decoder": {}}, "decoder is {}, and only False is supported"),
    ],
)
def test_a_refusal_names_the_key(config, message):
    with pytest.raises(BadInput) as caught:
        read_facts(KEYS, bert.BASE, config, ())
    assert str(caught.value).startswith(message)


def test_a_head_without_tensors_is_recognised_by_the_architecture():
    """As GPT-2's, whose only matrix is that of the embedding."""
    head = HFHead(NextTokenHead(), "")
    row = Architectures({"GPT2Model": (), "GPT2LMHeadModel": (head,)})
    read = {"pool": None, "output_heads": (NextTokenHead(),)}
    assert row.read({"architectures": ["GPT2LMHeadModel"]}, {"wte.weight"}) == read
    assert row.read({"architectures": ["GPT2Model"]}, {"wte.weight"})["output_heads"] == ()
    facts = change(bert.BASE, **read)
    assert row.write(facts) == {"architectures": ["GPT2LMHeadModel"]}


@pytest.mark.parametrize(
    ("architecture", "tensors", "heads"),
    [
        (None, ("classifier.weight", "pooler.dense.bias"), ["label"]),
        (None, ("classifier.weight",), ["token_label"]),
        ("BertForTokenClassification", ("classifier.weight", "pooler.dense.bias"), ["token_label"]),
        ("BertForMultipleChoice", ("classifier.weight", "pooler.dense.bias"), ["choice"]),
        (
            "BertForMaskedLM",
            ("cls.predictions.bias", "cls.seq_relationship.bias", "pooler.x"),
            ["mlm", "sentence_pair"],
        ),
        ("BertForMaskedLM", (), []),
        ("Unknown", ("qa_outputs.bias",), ["span"]),
        (["odd"], ("qa_outputs.bias",), ["span"]),
    ],
)
def test_heads_are_known_by_their_tensors(architecture, tensors, heads):
    config = {} if architecture is None else {"architectures": [architecture]}
    facts = bert.HF.facts_of(config, tensors)
    assert [head.name for head in facts.output_heads] == heads
    prefixed = bert.HF.facts_of(config, [f"bert.{name}" for name in tensors])
    assert prefixed == facts
