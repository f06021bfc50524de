"""Neighbours in context, against cosines of states that are found word by word."""

import numpy as np
import pytest

import regard
from regard.api import Model
from regard.data.readers.static_vectors import StaticVectors
from regard.inside import neighbours
from regard.inside.neighbours import ContextualWords, LineOfText, WordInContext, static_neighbours
from small_bert import model as small_bert
from small_elmo import SlowELMo, write_elmo
from small_gpt import write_gpt2

TEXTS = (
    "The storm came in.",
    "The sailor mended the nets before the storm.",
    "Storm! The cat came in, and the storm came in.",
    "Reading and singing",
)
LINES = [LineOfText(number, text) for number, text in enumerate(TEXTS, start=1)]


def reader_of(model: Model, layer: int = -1) -> ContextualWords:
    path = model.facts.encoder.state_path(model.facts.encoder_path, layer)
    return ContextualWords(model.runner, model.tokenizer, path)


def slow_words(model: Model, layer: int) -> list[tuple[int, str, np.ndarray]]:
    """Line, word and vector, where a row is [CLS] and the tokens of one word after the other."""
    found = []
    for number, text in LINES:
        (states_TD,) = model.encode([text], layer=layer)
        at = 1
        for word in regard.text.words.words(text):
            size = len(model.tokenizer.words.encode(word))
            vector_D = states_TD[at : at + size].mean(0).numpy()
            at += size
            if word.isalnum():
                found.append((number, word, vector_D / np.linalg.norm(vector_D)))
        assert at == len(states_TD) - 1
    return found


@pytest.mark.parametrize("layer", [-1, 1])
@pytest.mark.parametrize("at_once", [1, 256])
def test_neighbours_have_the_largest_cosines(monkeypatch, layer, at_once):
    monkeypatch.setattr(neighbours, "AT_ONCE", at_once)
    model = small_bert("states")
    reader, words = reader_of(model, layer), slow_words(model, layer)
    found = list(reader.find("storm", LINES, 9))
    at = [n for n, (_, word, _) in enumerate(words) if word.lower() == "storm"]
    assert [(one.line, one.word) for one, _ in found] == [words[n][:2] for n in at]
    queries_BD = np.stack([vector for _, vector in found])
    np.testing.assert_allclose(queries_BD, [words[n][2] for n in at], atol=1e-5)
    words_found = [one for one, _ in found]
    nearest = neighbours.nearest(words_found, queries_BD, reader.read(LINES), 4)
    for n, of_query in zip(at, nearest, strict=True):
        others = [
            (float(words[n][2] @ vector), *rest) for *rest, vector in words[:n] + words[n + 1 :]
        ]
        best = sorted(others, key=lambda one: -one[0])[:4]
        np.testing.assert_allclose([x.cosine for x in of_query], [x[0] for x in best], atol=1e-5)
        assert [(x.item.line, x.item.word) for x in of_query] == [tuple(x[1:]) for x in best]


def test_only_so_many_occurrences():
    assert len(list(reader_of(small_bert("states")).find("THE", LINES, 2))) == 2


def test_words_of_elmo_have_the_states_of_the_words_alone(tmp_path):
    reader = reader_of(regard.load(write_elmo(tmp_path), "cpu"))
    ((words, vectors_ND),) = reader.read(LINES[3:])
    expected = SlowELMo(tmp_path).layers(["Reading", "and", "singing"])[-1]
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert [one.word for one in words] == ["Reading", "and", "singing"]
    np.testing.assert_allclose(vectors_ND, expected, atol=1e-5)


def test_any_model_can_read_words(tmp_path, small_run):
    causal = regard.load(write_gpt2(tmp_path), "cpu")
    ((words, vectors_ND),) = reader_of(causal).read([LineOfText(1, "A dog sees the dog.")])
    assert [one.word for one in words] == ["A", "dog", "sees", "the", "dog"]
    (states_TD,) = causal.encode(["A dog sees the dog."])
    assert states_TD.shape[1] == vectors_ND.shape[1]
    translator = regard.load(small_run / "run" / "model", "cpu")
    ((words, vectors_ND),) = reader_of(translator).read([LineOfText(1, "dog cow")])
    (states_TD,) = translator.encode(["dog cow"])
    assert len(words) == 2 and vectors_ND.shape[1] == states_TD.shape[1]


def test_a_word_shows_its_context():
    words = tuple(f"w{n}" for n in range(20))
    assert str(WordInContext(1, words[:3], 1)) == "w0 [w1] w2"
    shown = str(WordInContext(1, words, 10))
    assert shown == "… w4 w5 w6 w7 w8 w9 [w10] w11 w12 w13 w14 w15 w16 …"


def test_static_neighbours_leave_out_the_word_itself():
    vectors = StaticVectors(
        ("Bank", "bank", "shore", "yak"), np.float32([[1, 0], [1, 0.1], [1, 1], [0, 1]])
    )
    assert [word for word, _ in static_neighbours(vectors, "BANK", 5)] == ["shore", "yak"]
    assert static_neighbours(vectors, "owl", 5) == []
