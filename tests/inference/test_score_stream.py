"""Scores of recurrent models: long texts in parts, with carried state; perplexity of test sets."""

import json
import math

import pytest
import torch

import regard
from regard.core.errors import BadInput
from regard.data.readers.document_files import TextFile
from regard.models.facts import change
from regard.models.folders.loaded_model import LoadedModel
from regard.models.heads import NextTokenHead
from regard.models.papers import zaremba
from regard.text.tokenizers.encoder_tokenizer import train_encoder_tokenizer
from small_rnn import write_streams
from verb import run

TEXTS = ("a b c a b c a", "b", "c c a b a b a c b a c a b a c")


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(3)
    tokenizer = train_encoder_tokenizer(TEXTS, "word-level", 300, lower=False, longest=None)
    facts = change(zaremba.SMALL, width=8, embedding=6, vocab=len(tokenizer.words))
    facts = zaremba.PAPER.fit_heads(facts.with_heads(NextTokenHead()))
    facts = change(facts, initial="learned")
    module = facts.build().eval()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    return regard.Model(LoadedModel(zaremba.PAPER, facts, module, tokenizer))


def expected(model, ids):
    logprobs = torch.log_softmax(model.logits([ids])[0].double(), -1)
    return [logprobs[at, token].item() for at, token in enumerate(ids[1:])]


@pytest.mark.parametrize("window", [2, 3, 1024])
@pytest.mark.parametrize("batch_size", [1, 8])
def test_parts_of_any_size_are_the_whole_text(model, window, batch_size):
    scorer = model.runner.with_limits(batch_size).scorer(window)
    found = scorer.predict([*TEXTS, [4, 3, 2, 3, 2]])
    rows = [[1, *model.tokenizer.words.encode(text)] for text in TEXTS]
    for score, ids in zip(found, [*rows, [4, 3, 2, 3, 2]], strict=True):
        assert score.logprobs == pytest.approx(expected(model, ids), abs=1e-5)


def test_a_stride_is_refused(model):
    with pytest.raises(BadInput, match="recurrent and carries its state"):
        model.score(TEXTS, stride=2)


def test_the_whole_file_is_one_text(model, tmp_path):
    model.save(tmp_path / "model", "regard")
    (tmp_path / "a.txt").write_text("\n".join(TEXTS) + "\n")
    options = ("score", tmp_path / "model", tmp_path / "a.txt", "--whole", "--json")
    records = [json.loads(run(*options, *window).stdout) for window in ((), ("--window", "4"))]
    ids = [1, *model.tokenizer.words.encode("\n".join(TEXTS) + "\n")]
    for record in records:
        assert record["logprob"] == pytest.approx(sum(expected(model, ids)), abs=1e-4)
        assert record["tokens"].count("<eos>") == 3


@pytest.mark.parametrize("end", ["\n", "", "\r\n", "\n\n"])
def test_the_whole_file_has_as_many_tokens_as_a_test_set(end, model, tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("\r\n".join([*TEXTS, f"the otter{end}"]).encode())
    model.save(tmp_path / "model", "regard")
    whole = run("score", tmp_path / "model", path, "--whole", "--json")
    (text,) = TextFile(str(path)).texts(None)
    assert text == "\n".join([*TEXTS, "the otter"]) + end.replace("\r", "")
    assert json.loads(whole.stdout)["text"] == text
    assert len(json.loads(whole.stdout)["tokens"]) == len(model.tokenizer.words.encode(text))


def test_a_file_without_text_is_one_line(model, tmp_path):
    (tmp_path / "a.txt").write_text("")
    model.save(tmp_path / "model", "regard")
    refused = run("score", tmp_path / "model", tmp_path / "a.txt", "--whole", code=2)
    assert refused.output == f"regard: {tmp_path}/a.txt: no text\n"


def test_evaluate_prints_the_perplexity_of_test_sets(tmp_path):
    corpus = write_streams(tmp_path)
    lines = "the otter is swimming .\n\nthe seal is swimming .\n"
    (corpus / "test.txt").write_text(lines)
    tests = 'test = { text = "test.txt" }\nmore_tests = { b = { documents = "test.txt" } }\n'
    recipe = corpus / "tested.toml"
    recipe.write_text((corpus / "lstm.toml").read_text().replace("dev = {", f"{tests}dev = {{"))
    files, folder = ("--data", corpus), tmp_path / "run" / "model"
    trained = run("train", recipe, *files, "--out", tmp_path / "run", "--set", "train.steps=2")
    found = run("evaluate", folder, recipe, *files, "--json")
    records = {one["set"]: one for one in map(json.loads, found.stdout.splitlines())}
    assert records["test"]["signatures"] == {"perplexity": "tokens:13|state:carried"}
    assert records["b"]["signatures"] == {"perplexity": "tokens:11|state:carried"}
    loaded = regard.load(folder)
    mean = sum(expected(loaded, [1, *loaded.tokenizer.words.encode(lines)])) / 13
    assert records["test"]["perplexity"] == pytest.approx(math.exp(-mean), rel=1e-4)
    assert f"perplexity {records['test']['perplexity']:.2f}" in trained.output
    refused = run("evaluate", folder, recipe, *files, "--interval", code=2)
    assert "perplexity has no confidence interval" in refused.output
