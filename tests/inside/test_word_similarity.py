"""Word similarity and analogies, against scipy and plain loops; embedding layers of models."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from closeness import VALUES
from regard.core.errors import BadInput
from regard.data.readers.static_vectors import StaticVectors
from regard.inside.neighbours import word_vectors
from regard.inside.word_similarity import TOTAL, Analogies, WordPairs, read_word_test
from regard.models.facts import change
from regard.models.features import Features
from regard.models.papers import elmo, lin
from regard.text.tokenizers.word_level import CharacterVocabulary, WordTokenizer, WordVocabulary
from regard.text.vocabulary import Lexicon
from small_bert import model as small_bert
from small_elmo import SlowELMo, write_elmo
from small_gpt import write_gpt2

WORDS = ("king", "queen", "man", "woman", "cat", "dog", "athens", "greece")
DRAW = np.random.default_rng(3)
VECTORS = StaticVectors(WORDS, DRAW.normal(size=(8, 5)).astype(np.float32))


def cosine(a: str, b: str) -> float:
    x, y = (VECTORS.vectors_ND[WORDS.index(word)].astype(float) for word in (a, b))
    return float(x @ y / np.linalg.norm(x) / np.linalg.norm(y))


def test_similarity_is_the_rank_correlation_of_known_pairs(tmp_path):
    from scipy.stats import spearmanr  # takes a second

    path = tmp_path / "pairs.txt"
    path.write_text("king queen 9\nman cow 3\n\nCat\tdog\t7.5\nman,woman,9\nking cat 1e0\n")
    test = read_word_test(path)
    assert isinstance(test, WordPairs) and "cow" in test.words
    (score,) = test.scores(VECTORS)
    pairs = [("king", "queen"), ("cat", "dog"), ("man", "woman"), ("king", "cat")]
    expected = spearmanr([9, 7.5, 9, 1], [cosine(*pair) for pair in pairs]).statistic
    assert score.score == pytest.approx(100 * expected)
    assert (score.test, score.metric, score.known, score.total) == ("pairs.txt", "Spearman", 4, 5)


def slow_answer(a: str, b: str, c: str) -> str:
    unit = VECTORS.vectors_ND / np.linalg.norm(VECTORS.vectors_ND, axis=1, keepdims=True)
    a_D, b_D, c_D = (unit[WORDS.index(word)] for word in (a, b, c))
    others = [word for word in WORDS if word not in (a, b, c)]
    return max(others, key=lambda word: float((b_D - a_D + c_D) @ unit[WORDS.index(word)]))


def test_analogies_by_section(tmp_path):
    threes = [("man", "king", "woman"), ("cat", "dog", "queen"), ("dog", "cat", "king")]
    right = [" ".join((*three, slow_answer(*three))) for three in threes]
    wrong = next(w for w in WORDS if w not in threes[0] and w != slow_answer(*threes[0]))
    path = tmp_path / "questions.txt"
    path.write_text(
        f": family\n{right[0]}\n{' '.join((*threes[0], wrong))}\nman cow king woman\n"
        f": capitals\n{right[1].upper()}\n{right[2]}\n: unknown\nman x y z\n"
    )
    test = read_word_test(path)
    assert isinstance(test, Analogies)
    found = {one.test: (one.score, one.known, one.total) for one in test.scores(VECTORS)}
    assert found == {
        "questions.txt: family": (50.0, 2, 3),
        "questions.txt: capitals": (100.0, 2, 2),
        "questions.txt: unknown": (None, 0, 1),
        f"questions.txt: {TOTAL}": (75.0, 4, 6),
    }


def test_too_few_known_pairs_have_no_score(tmp_path):
    (tmp_path / "pairs").write_text("king queen 9\ncow pig 3\n")
    (score,) = read_word_test(tmp_path / "pairs").scores(VECTORS)
    assert score.score is None and score.known == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a b 1\na b\n", "test:2: not two words and a number"),
        ("a b c\n", "test:1: not two words and a number"),
        (": one\na b c\n", "test:2: 3 words, not the four of an analogy"),
        ("\n", "test: has no words"),
    ],
)
def test_bad_tests_are_refused(tmp_path, content, message):
    (tmp_path / "test").write_text(content)
    with pytest.raises(BadInput, match=message):
        read_word_test(tmp_path / "test")


def test_a_word_of_a_model_is_the_mean_of_its_tokens():
    model = small_bert("states")
    vectors = word_vectors(model.module, model.tokenizer, ["storm", "lighthouse", "storm", "日本"])
    assert vectors.words == ("storm", "lighthouse")
    table = model.module.trunk.embed.token.weight
    for word, vector_D in zip(vectors.words, vectors.vectors_ND, strict=True):
        mean_D = table[model.tokenizer.words.encode(word)].mean(0).detach()
        np.testing.assert_allclose(vector_D, mean_D, **VALUES)
    with pytest.raises(BadInput, match="knows none of these words"):
        word_vectors(model.module, model.tokenizer, ["日本"])


def test_words_of_byte_level_models_are_read_after_a_space(tmp_path):
    model = regard.load(write_gpt2(tmp_path), "cpu")
    (vector_D,) = word_vectors(model.module, model.tokenizer, ["dog"]).vectors_ND
    ids = model.tokenizer.words.encode("the dog")[len(model.tokenizer.words.encode("the")) :]
    expected = model.module.trunk.embed.token.weight[ids].mean(0)
    torch.testing.assert_close(torch.from_numpy(vector_D), expected.detach())


def test_words_of_elmo_are_those_of_its_characters(tmp_path):
    model = regard.load(write_elmo(tmp_path), "cpu")
    (vector_D,) = word_vectors(model.module, model.tokenizer, ["Bank"]).vectors_ND
    np.testing.assert_allclose(vector_D, SlowELMo(tmp_path).word("Bank"), atol=1e-5)


def test_words_of_models_with_features_are_those_of_their_lexicon():
    elmo_facts = change(elmo.SMALL, width=4, cells=6, filters=((1, 4), (2, 8)), longest=8)
    facts = change(lin.LAPTOP, width=8, embedding=16, vocab=5)
    model = change(facts, features=Features(elmo_facts.trunk)).build().eval()
    lexicon = Lexicon(("<UNK>", "<S>", "</S>", "dog", "owl"))
    tokenizer = WordTokenizer(WordVocabulary(lexicon, spelling=CharacterVocabulary(8)))
    vectors = word_vectors(model, tokenizer, ["owl", "yak", "dog"])
    assert vectors.words == ("owl", "dog")
    expected = model.trunk.embed.token.weight[[4, 3]].detach()
    torch.testing.assert_close(torch.from_numpy(vectors.vectors_ND), expected)


def test_words_of_a_translator(small_run):
    model = regard.load(small_run / "run" / "model", "cpu")
    vectors = word_vectors(model.module, model.tokenizer, ["dog", "cow"])
    assert vectors.words == ("dog", "cow")
    assert vectors.width == model.module.source.embed.token.embedding_dim


def test_the_published_vectors_reach_their_scores():
    if "REGARD_DATA" not in os.environ:
        pytest.skip("REGARD_DATA names no folder with data")
    folder = Path(os.environ["REGARD_DATA"]) / "words"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    vectors = StaticVectors.read(folder / "glove.6B.50d.top40k.txt.gz", 20_000)
    (score,) = read_word_test(folder / "EN-SIMLEX-999.txt.gz").scores(vectors)
    assert score.total == 999 and 20 < score.score < 35
