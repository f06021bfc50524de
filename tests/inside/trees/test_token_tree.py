"""What else could have come: greedy search and samples as trees of tokens."""

import json
import math
from dataclasses import replace

import pytest
import torch

import regard
from regard.core.errors import BadInput
from regard.generation import Beam, Greedy, Sample
from regard.inference.generator import Ending
from regard.inside.trees.token_tree import record_tokens
from regard.inside.trees.tree_text import token_lines
from regard.views.pages import records_in
from small_gpt import write_gpt2
from verb import run

PROMPT = "The old man"
SEARCHES = {
    "greedy": Greedy(),
    "greedy without repetition": Greedy(no_repeat=2),
    "sample": Sample(seed=3),
    "nucleus": Sample(temperature=0.8, top_k=20, top_p=0.7, seed=1),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_gpt2(tmp_path_factory.mktemp("tree") / "gpt2")


@pytest.fixture(scope="module")
def generator(folder):
    return replace(regard.load(folder, "cpu").generator, ending=Ending(8))


@pytest.mark.parametrize("name", SEARCHES)
def test_the_chosen_path_is_what_generate_gives(generator, name):
    tree = record_tokens(generator, PROMPT, SEARCHES[name], 3, number=2)
    ((expected,),) = generator.generate([PROMPT], SEARCHES[name], first=2)
    path = [tree.nodes[number] for number in tree.winner[1:]]
    end = [generator.eos] if expected.hypothesis.finished else []
    assert [node.token for node in path] == [*expected.hypothesis.tokens, *end]
    assert [node.logprob for node in path] == pytest.approx(expected.hypothesis.logprobs, abs=1e-5)
    assert tree.hypotheses[0].text == expected.text and tree.ended == expected.ended
    assert tree.why(tree.winner[-1]).startswith("chosen: ")


@pytest.mark.parametrize("name", ["greedy", "sample", "nucleus"])
def test_probabilities_are_the_softmax_of_the_model(generator, name):
    search = SEARCHES[name]
    tree = record_tokens(generator, PROMPT, search, 4)
    (prompt,) = generator.read_prompts([PROMPT])
    for step, before in enumerate(tree.winner[:-1], 1):
        tokens = [tree.nodes[number].token for number in tree.path(before)[1:]]
        (logits,) = generator.logits([[*prompt, *tokens]])
        logprobs = torch.log_softmax(logits[-1].float(), -1)
        ranked = logprobs.argsort(descending=True).tolist()
        numbers = tree.at(step)
        assert [tree.nodes[number].token for number in numbers][:4] == ranked[:4]
        chances = search.probabilities(logprobs[None])[0]
        for number in numbers:
            node = tree.nodes[number]
            assert node.parent == before and ranked[node.rank - 1] == node.token
            expected = math.exp(logprobs[node.token])
            assert tree.probability(number) == pytest.approx(expected, abs=1e-5)
            assert tree.sampling[number] == pytest.approx(float(chances[node.token]), abs=1e-4)
            assert tree.sampling[number] > 0 or number not in tree.winner
        assert sum(number in tree.winner for number in numbers) == 1


@pytest.mark.parametrize("search", SEARCHES.values())
def test_chances_are_how_often_a_token_is_chosen(search):
    logprobs = torch.log_softmax(torch.tensor([[2.0, 1.0, 0.5, -1.0, 0.0]]), -1)
    chances = search.probabilities(logprobs)[0]
    assert float(chances.sum()) == pytest.approx(1)
    draws = (torch.arange(2_000, dtype=torch.float64) + 0.5) / 2_000
    chosen = search.choose(logprobs.expand(2_000, -1), draws)
    counted = torch.bincount(chosen, minlength=5) / 2_000
    torch.testing.assert_close(counted, chances, atol=2e-3, rtol=0)


def test_a_rare_token_stands_beside_the_most_probable_ones(generator):
    tree = record_tokens(generator, PROMPT, Sample(temperature=5.0, seed=4), 1)
    ranks = [tree.nodes[number].rank for number in tree.winner[1:]]
    assert max(ranks) > 1
    for step, rank in enumerate(ranks, 1):
        assert [tree.nodes[number].rank for number in tree.at(step)] == sorted({1, rank})


def test_what_branches_is_refused(generator):
    for search in (Beam(2), Sample(count=2)):
        with pytest.raises(BadInput, match="greedy search, or sampling with one sample"):
            record_tokens(generator, PROMPT, search, 3)


def test_a_tree_names_its_search(generator):
    search = Sample(top_k=7, top_p=0.9, no_repeat=2, repetition_penalty=1.2)
    expected = "1 sample at temperature 1, top-k 7, top-p 0.9"
    rules = "no 2-gram twice, repetition penalty 1.2"
    assert record_tokens(generator, PROMPT, search, 3).to_json()["search"] == f"{expected}, {rules}"
    assert str(Sample(count=3)) == "3 samples at temperature 1"
    assert str(Greedy(2, 1.2)) == f"greedy search, {rules}"


def test_lines_and_page(generator):
    tree = record_tokens(generator, PROMPT, Greedy(), 3)
    lines = [line.plain for line in token_lines(tree, 60)]
    assert lines[0] == PROMPT and lines[2].startswith("greedy search; 8 steps, 24 candidates")
    assert sum(" ┃ " in line for line in lines) == 8 and max(map(len, lines)) <= 60
    page = tree.html()
    (record,) = records_in(page)
    assert page.startswith("<!doctype html>") and record.kind == "token_tree"
    assert record.json == tree.view_record().json


def test_the_verb(folder, tmp_path):
    page = tmp_path / "tree.html"
    asked = ("generate", folder, "--tree", 3, "--max-new-tokens", 4)
    done = run(*asked, "--html", page, stdin=f"{PROMPT}\n")
    assert "chosen: the length limit is reached" in done.stdout and f"wrote {page}" in done.stderr
    said = run(*asked, "--json", "--temperature", 0.9, "--seed", 5, stdin=f"{PROMPT}\n").stdout
    record = json.loads(said)
    plain = ("generate", folder, "--json", "--max-new-tokens", 4, "--temperature", 0.9, "--seed", 5)
    expected = json.loads(run(*plain, stdin=f"{PROMPT}\n").stdout)
    assert record["text"] == expected["text"] and len(record["steps"]) == 4
    assert all(sum(one["chosen"] for one in step) == 1 for step in record["steps"])
    for option in (("--stream",), ("--best", 2, "--search", "sample")):
        refused = run(*asked, *option, stdin="a\n", code=2).stderr
        assert "cannot be used with --tree" in refused
    refused = run(*asked, "--html", page, stdin="a\nb\n", code=2).stderr
    assert "a page shows one prompt" in refused
    assert "needs --tree" in run("generate", folder, "--html", page, stdin="a\n", code=2).stderr
