"""What every method of every family accepts, and what it refuses: in one line, as ``BadInput``."""

import numpy as np
import pytest
import torch

import regard
from regard import BadInput, Beam, Sample
from regard.generation.diverse import Diverse
from small_bert import model as small_encoder

FAMILIES = ("translator", "pooled", "encoder", "tuned", "tagger", "answerer", "chooser", "words")
ENCODERS = {
    "encoder": "states",
    "tuned": "one",
    "tagger": "tags",
    "answerer": "answer",
    "chooser": "choose",
    "words": "words",
}
# What each family does, with one good input.
TEXTS = "dog cow"
PAIR = ("dog cow", "cow dog")
METHODS = {
    "translator": {
        "encode": TEXTS,
        "embed": TEXTS,
        "translate": TEXTS,
        "logits": PAIR,
        "score": PAIR,
        "align": PAIR,
    },
    "pooled": {"encode": TEXTS, "embed": TEXTS, "logits": TEXTS, "predict": TEXTS},
    "encoder": {"encode": TEXTS, "embed": TEXTS},
    "tuned": {"encode": TEXTS, "embed": TEXTS, "logits": TEXTS, "predict": TEXTS},
    "tagger": {"predict": TEXTS},
    "answerer": {"predict": PAIR},
    "chooser": {"predict": ("dog", ["cow", "hen"])},
    "words": {"fill": "the [MASK]", "logits": "the [MASK]", "encode": TEXTS},
}
CASES = [(family, method) for family in FAMILIES for method in METHODS[family]]
READ_IDS = [
    (family, method)
    for family, method in CASES
    if method in ("encode", "embed", "logits", "translate", "score")
]
ONE = {"one text": "dog", "bytes": b"dog", "nothing": None, "a number": 3, "a table": {"a": "b"}}
WRONG = {
    "nothing": None,
    "a number": 1,
    "bytes": b"dog",
    "a triple": ("a", "b", "c"),
    "a single": ("a",),
    "a half": ("a", None),
    "nested": [["a", "b"]],
    "a set": {"dog"},
    "no letter": "\ud800",
    "no letter in a pair": ("\ud800", "dog"),
}
IDS = {
    "none": [],
    "negative": [5, -1],
    "beyond": [5, 10**9],
    "booleans": [True, False],
    "one boolean": [True, 5],
    "decimals": [5.0, 6.5],
    "an array of decimals": np.array([1.0, 2.0]),
    "a tensor of decimals": torch.tensor([1.0]),
    "an array of booleans": np.array([True, False]),
    "two axes": np.zeros((2, 2), dtype=np.int64),
    "no axis": np.int64(5),
    "a tensor without axis": torch.tensor(5),
    "nested": [[5], [6]],
    "with nothing": [5, None],
}


@pytest.fixture(scope="module")
def models(small_run, owl_run):
    folders = {"translator": small_run, "pooled": owl_run}
    loaded = {name: regard.load(one / "run" / "model", "cpu") for name, one in folders.items()}
    return loaded | {name: small_encoder(kind) for name, kind in ENCODERS.items()}


def call(models, family, method, inputs):
    found = getattr(models[family], method)(inputs)
    return list(found) if method == "align" else found


def refused(do, *given, **options) -> str:
    with pytest.raises(BadInput) as error:
        do(*given, **options)
    message = str(error.value)
    assert message and "\n" not in message and len(message) < 300
    return message


@pytest.mark.thinned
@pytest.mark.parametrize(("family", "method"), CASES)
def test_any_iterable_will_do_and_is_read_once(models, family, method):
    good = METHODS[family][method]
    expected = call(models, family, method, [good, good])
    found = call(models, family, method, (one for one in [good, good]))
    assert len(found) == len(expected) == 2
    assert str(found) == str(expected)
    assert len(call(models, family, method, [])) == 0


@pytest.mark.parametrize(("family", "method"), CASES)
def test_what_is_no_list_is_refused(models, family, method):
    for name, wrong in ONE.items():
        message = refused(call, models, family, method, wrong)
        assert message.startswith("give a list of "), name
    assert refused(call, models, family, method, "dog") == "give a list of texts, not one text"


def test_functions_refuse_one_text_in_the_same_words(models):
    expected = "give a list of texts, not one text"
    assert refused(regard.bleu, "a b", "a b") == expected
    assert refused(models["translator"].translate, ["dog"], prefixes="dog") == expected
    for name in ("train", "dev", "test"):
        data = {"train": [("a", "b")], "dev": [("a", "b")], name: "a b"}
        assert refused(regard.train, "tour", data) == expected


@pytest.mark.parametrize(("family", "method"), CASES)
def test_what_is_no_input_is_refused(models, family, method):
    good = METHODS[family][method]
    for name, wrong in WRONG.items():
        if (family, method, name) in {
            ("tagger", "predict", "a triple"),
            ("tagger", "predict", "a single"),
        }:
            continue  # words
        message = refused(call, models, family, method, [good, wrong])
        assert message.startswith("input 2: "), name


@pytest.mark.parametrize(("family", "method"), READ_IDS)
def test_ids_that_the_model_does_not_know_are_refused(models, family, method):
    pairs = isinstance(METHODS[family][method], tuple)
    for name, wrong in IDS.items():
        both = [(wrong, [5]), ([5], wrong)] if pairs else [wrong]
        for one in both:
            message = refused(call, models, family, method, [METHODS[family][method], one])
            assert message.startswith("input 2: "), name


@pytest.mark.parametrize(("family", "method"), READ_IDS)
@pytest.mark.parametrize(
    "kind",
    [
        tuple,
        np.array,
        torch.tensor,
        lambda ids: np.array(ids, dtype=np.uint8),
        lambda ids: [np.int32(one) for one in ids],
    ],
)
def test_ids_of_any_kind_are_the_same(models, family, method, kind):
    ids = [5, 6, 7, 2]
    pairs = isinstance(METHODS[family][method], tuple)

    def asked(ids):
        return [(ids, ids)] if pairs else [ids]

    found = call(models, family, method, asked(kind(ids)))
    assert str(found) == str(call(models, family, method, asked(ids)))


@pytest.mark.parametrize("layer", ["1", 1.0, None, True, 3, -2, 10**30, [1]])
def test_layers_that_there_are_not(models, layer):
    for family in ("translator", "encoder"):
        assert refused(models[family].encode, ["dog"], layer).startswith("layer ")


@pytest.mark.parametrize("size", [0, -1, 2.5, "3", True])
def test_batches_that_there_are_not(models, size):
    assert refused(models["encoder"].encode, ["dog"], batch_size=size).startswith("batch_size ")


@pytest.mark.parametrize("search", ["beam", Beam, 5, object(), ["beam"]])
def test_a_search_is_a_value(models, search):
    assert "such as Beam(5)" in refused(models["translator"].translate, ["dog"], search)


@pytest.mark.parametrize(
    "prefixes", ["cow", ["cow", "dog"], [None], [1], 3, [("a", "b")], ["\ud800"]], ids=str
)
def test_prefixes_are_texts_one_for_each(models, prefixes):
    refused(models["translator"].translate, ["dog"], prefixes=prefixes)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Beam(2.5),
        lambda: Beam(0),
        lambda: Beam("5"),
        lambda: Beam(True),
        lambda: Beam(None),
        lambda: Beam(100_000),
        lambda: Beam(5, best=0),
        lambda: Beam(5, best=10**9),
        lambda: Beam(5, best=1.0),
        lambda: Beam(5, alpha="a"),
        lambda: Beam(5, alpha=1e308),
        lambda: Beam(5, alpha=-1e308, stop="transformers"),
        lambda: Beam(5, alpha=float("nan")),
        lambda: Beam(5, length=3),
        lambda: Beam(5, length=["gnmt"]),
        lambda: Beam(5, stop=3),
        lambda: Beam(5, stop=["default"]),
        lambda: Beam(5, coverage="much"),
        lambda: Beam(5, finished=2.5),
        lambda: Beam(5, no_repeat=1.5),
        lambda: Diverse(Beam(2), groups=1.5),
        lambda: Diverse(Beam(2), groups=10**6),
        lambda: Diverse(Beam(2), strength="strong"),
        lambda: Diverse(5),
        lambda: Sample(temperature="hot"),
        lambda: Sample(temperature=0),
        lambda: Sample(top_k=1.5),
        lambda: Sample(top_p="all"),
        lambda: Sample(count=0),
        lambda: Sample(count=10**9),
        lambda: Sample(seed="x"),
        lambda: Sample(seed=-1),
    ],
)
def test_searches_of_wrong_values(make):
    refused(make)


def test_wrong_input_is_a_value_error():
    assert issubclass(BadInput, ValueError)


def test_long_values_are_not_repeated_whole(models):
    assert len(refused(models["encoder"].encode, [("a" * 100_000,) * 3])) < 200
    assert len(refused(models["translator"].translate, ["a"], "x" * 100_000)) < 200


@pytest.mark.parametrize("wrong", [None, 3, b"dog", ["dog"], "\ud800"])
def test_one_text_is_looked_at(models, wrong):
    for family in ("translator", "pooled", "encoder", "tuned"):
        refused(models[family].look, wrong)
    refused(models["translator"].look, "dog", wrong if wrong is not None else 1)


@pytest.mark.parametrize("wrong", [0, 1.5, "3", None, 10**6])
def test_words_to_fill_in_are_counted(models, wrong):
    refused(models["words"].fill, ["the [MASK]"], wrong)


def test_what_is_no_tape_is_refused(models):
    refused(models["tuned"].logits, ["dog"], tape="*.weights")


@pytest.mark.parametrize("pool", ["mean", "max", "first", "pooled"])
def test_a_text_without_tokens_has_a_vector_of_zeros(owl_run, pool):
    model = regard.load(owl_run / "run" / "model", "cpu")
    for texts in (["", "owl"], ["owl", ""]):
        vectors_ND = model.embed(texts, pool, normalise=True)
        assert [bool(vector_D.any()) for vector_D in vectors_ND] == [bool(text) for text in texts]
        assert vectors_ND.isfinite().all()
    assert not model.embed([""], pool).any()


def test_folders_that_are_none_are_refused(owl_run, tmp_path):
    model = regard.load(owl_run / "run" / "model", "cpu")
    (tmp_path / "file").write_text("mine")
    for folder in (None, 5):
        with pytest.raises(BadInput, match="folder: give a str or a Path"):
            regard.load(folder)
        with pytest.raises(BadInput, match="folder: give a str or a Path"):
            model.save(folder)
    with pytest.raises(BadInput, match="is a file, not a folder"):
        model.save(tmp_path / "file", overwrite=True)
    with pytest.raises(BadInput, match="file"):
        model.save(tmp_path / "file" / "inside")
    assert (tmp_path / "file").read_text() == "mine"
