"""What methods share: batch sizes, lengths, arrays, devices and precisions."""

import inspect

import numpy as np
import pytest
import torch

import regard
from regard import BadInput, Beam, Model
from regard.core.batch import BatchLimits
from regard.inference import component, embed, model_runner
from small_bert import SENTENCES
from small_bert import model as small_encoder

READ = ("encode", "embed", "logits", "translate", "predict", "fill")
SIZES = dict.fromkeys(READ, "max_length") | {"score": "window"}  # in tokens
LONG = " ".join(SENTENCES)


@pytest.fixture(scope="module")
def translator(small_run):
    return regard.load(small_run / "run" / "model", "cpu")


def test_methods_that_read_texts_have_the_same_options():
    for method, size in SIZES.items():
        options = inspect.signature(getattr(Model, method)).parameters
        assert {"batch_size", size} <= options.keys(), method
        assert len({*SIZES.values()} & options.keys()) == 1, method
        assert ("as_numpy" in options) == (method in ("encode", "embed", "logits")), method


def test_results_do_not_depend_on_the_batch_size(translator):
    pairs = [("dog cow owl", "owl cow"), ("pig", "pig"), ("hen dog", "dog hen")]
    texts = [source for source, _ in pairs]
    search = Beam(3)
    wanted = translator.translate(texts, search)
    for one, two in zip(translator.translate(texts, search, batch_size=1), wanted, strict=True):
        assert [found.text for found in one] == [found.text for found in two]
    for one, two in zip(
        translator.score(pairs, batch_size=2), translator.score(pairs), strict=True
    ):
        assert one == pytest.approx(two, abs=1e-5)
    tuned = small_encoder("one")
    for one, two in zip(
        tuned.predict(SENTENCES, batch_size=1), tuned.predict(SENTENCES), strict=True
    ):
        assert one.probabilities == pytest.approx(two.probabilities, abs=1e-5)


def test_a_batch_size_reaches_the_model(monkeypatch):
    sizes = []

    def counted(tokens, rows, longest):
        sizes.append(rows)
        return BatchLimits(tokens, rows, longest)

    for module in (component, embed, model_runner):
        monkeypatch.setattr(module, "BatchLimits", counted)
    model, filler = small_encoder("one"), small_encoder("words")
    of_its_own = Model(model._loaded, batch_size=6)
    calls = {
        2: lambda: model.embed(SENTENCES, batch_size=2),
        3: lambda: model.predict(SENTENCES, batch_size=3),
        4: lambda: model.logits(SENTENCES, batch_size=4),
        5: lambda: filler.fill(["the [MASK]"], batch_size=5),
        6: lambda: of_its_own.encode(SENTENCES),
    }
    for size, call in calls.items():
        sizes.clear()
        call()
        assert {*sizes} == {size}


def test_an_encoder_reads_the_beginning_of_a_long_text():
    model, tokenizer = small_encoder("one"), small_encoder("one").tokenizer
    ids = tokenizer.row(tokenizer.words.encode(LONG), longest=9).tokens.tolist()
    assert len(ids) == 9
    (states,) = model.encode([LONG], max_length=9)
    assert torch.equal(states, model.encode([ids])[0])
    assert torch.equal(model.embed([LONG], max_length=9), model.embed([ids]))
    assert torch.equal(model.logits([LONG], max_length=9)[0], model.logits([ids])[0])
    (label,) = model.predict([LONG], max_length=9)
    assert label.probabilities != model.predict([LONG])[0].probabilities
    with pytest.raises(BadInput, match=r"is truncated: only 5 tokens are read"):
        small_encoder("words").fill([f"{SENTENCES[0]} [MASK]"], max_length=5)


def test_a_classifier_without_special_tokens_is_truncated_only_on_request(owl_run):
    model = regard.load(owl_run / "run" / "model", "cpu")
    start = "dog cow owl"
    length = len(model.tokenizer.words.encode(start))
    (short,), (cut,) = (
        model.predict([start]),
        model.predict([f"{start} hen pig"], max_length=length),
    )
    assert cut == short and model.predict([f"{start} hen pig"])[0] != short


def test_a_translator_refuses_a_long_text(translator):
    count = len(translator.tokenizer.source.encode("dog cow owl")) + 1  # with its end
    assert translator.translate(["dog cow owl"], max_length=count)
    given = {"translate": "dog cow owl", "encode": "dog cow owl", "embed": "dog cow owl"}
    pair = ("dog cow owl", "dog")
    for method, one in {**given, "logits": pair, "logits ": pair[::-1]}.items():
        short = "dog" if isinstance(one, str) else ("dog", "dog")
        with pytest.raises(BadInput, match=rf"input 2: {count} tokens, more than {count - 1} "):
            getattr(translator, method.strip())([short, one], max_length=count - 1)


def test_a_translator_has_one_head(translator):
    pair = ("dog cow", "cow dog")
    assert torch.equal(
        translator.logits([pair], head="next_token")[0], translator.logits([pair])[0]
    )
    with pytest.raises(BadInput, match=r"^head: this model has only next_token, not 'mlm'$"):
        translator.logits([pair], head="mlm")


def test_a_precision_that_the_device_lacks_is_refused_at_load(small_run):
    for precision in ("fp16", "", "float32"):
        with pytest.raises(BadInput, match=r"^precision must be int8, fp32, bf16 or auto, not "):
            regard.load(small_run / "run" / "model", "cpu", precision=precision)


@pytest.mark.parametrize("wrong", [0, -1, 2.5, "3", True])
def test_limits_are_whole_numbers(wrong):
    for method, size in SIZES.items():
        kind = "words" if method == "fill" else "one"
        for option in ("batch_size", size):
            with pytest.raises(BadInput, match=f"^{option} "):
                getattr(small_encoder(kind), method)(["the [MASK]"], **{option: wrong})


def test_arrays_on_request(translator):
    texts = ["dog cow", "pig"]
    for model, given in (
        (translator, [(one, one) for one in texts]),
        (small_encoder("one"), texts),
    ):
        for method, inputs in (("encode", texts), ("embed", texts), ("logits", given)):
            tensors = getattr(model, method)(inputs)
            arrays = getattr(model, method)(inputs, as_numpy=True)
            for tensor, array in zip(tensors, arrays, strict=True):
                assert isinstance(array, np.ndarray) and array.dtype == np.float32
                assert np.array_equal(array, tensor.numpy())
        assert isinstance(model.embed([], as_numpy=True), np.ndarray)
    model = small_encoder("states")
    model.module.bfloat16()
    assert model.encode(["cat"], as_numpy=True)[0].dtype == np.float32


def test_a_model_moves(translator, small_run):
    model = regard.load(small_run / "run" / "model", "cpu", precision="int8")
    before, runner = model.translate(["dog cow"]), model.runner
    assert model.to("cpu") is model and model.device == torch.device("cpu")
    assert model.runner is not runner and model.translate(["dog cow"]) == before
    assert model.to(torch.device("cpu")).precision == "int8"
    with pytest.raises(BadInput, match="device moon"):
        model.to("moon")


@pytest.mark.gpu
def test_a_model_moves_to_the_gpu_and_back(small_run):
    texts, pairs = ["dog cow owl", "pig"], [("dog cow", "cow dog")]
    model = regard.load(small_run / "run" / "model", "cpu")
    scores, states = model.score(pairs), model.encode(texts)
    for _ in range(2):
        assert model.to("cuda").device.type == "cuda"
        for _ in range(4):  # more often than it takes to capture
            found = model.translate(texts)
        assert model.encode(texts)[0].device.type == "cuda"
        assert model.score(pairs)[0] == pytest.approx(scores[0], abs=1e-3)
        assert model.to("cpu").translate(texts)[0][0].text == found[0][0].text
        assert torch.equal(model.encode(texts)[0], states[0])
