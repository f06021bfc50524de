"""The requests of lm-evaluation-harness (local-completions), and its figures from their answers."""

import importlib.util

import pytest

from regard.generation.greedy import Greedy
from serving.running_server import running
from small_gpt import POSITIONS, small_gpt2

PAIRS = [
    ("The old man", " reads a book."),
    ("A dog barks at the", " man, and the man laughs."),
    ("The girl sees", " the dog near the house."),
]


@pytest.fixture(scope="module")
def model():
    return small_gpt2()


@pytest.fixture(scope="module")
def server(model):
    with running({"gpt": model}) as server:
        yield server


def scored(server, prompts):
    """Answers to a request for scores, with the keys and values that the harness sends."""
    body = {"model": "gpt", "prompt": prompts, "temperature": 0, "max_tokens": 1}
    response = server.post("/v1/completions", body | {"logprobs": 1, "seed": 1234, "echo": True})
    assert response.status_code == 200, response.text
    return sorted(response.json()["choices"], key=lambda choice: choice["index"])


def loglikelihood(choice, context):
    """Sum of log-probabilities and whether they are greedy, as the harness computes them."""
    logprobs = choice["logprobs"]
    tokens = logprobs["token_logprobs"][context:-1]
    tops = logprobs["top_logprobs"][context:-1]
    greedy = all(token == max(top.values()) for token, top in zip(tokens, tops, strict=True))
    return sum(tokens), greedy


def test_log_likelihoods_are_those_of_the_model(server, model):
    words = model.tokenizer.words
    rows = [(words.encode(context), words.encode(rest)) for context, rest in PAIRS]
    choices = scored(server, [[*context, *rest] for context, rest in rows])
    for (context, rest), choice in zip(rows, choices, strict=True):
        (scores,) = model.score([[*context, *rest]])
        total, _ = loglikelihood(choice, len(context))
        assert total == pytest.approx(sum(scores[len(context) - 1 :]), abs=1e-4)
        assert len(choice["logprobs"]["token_logprobs"]) == len(context) + len(rest) + 1


def test_what_the_model_would_write_is_greedy(server, model):
    context = model.tokenizer.words.encode(PAIRS[0][0])
    ((best,),) = model.generate([context], Greedy(), max_new_tokens=5)
    written = [*best.hypothesis.tokens]
    other = [*written[:-1], (written[-1] + 1) % 250]
    (own, changed) = scored(server, [[*context, *written], [*context, *other]])
    assert loglikelihood(own, len(context))[1] is True
    assert loglikelihood(changed, len(context))[1] is False


def test_the_last_token_is_there_if_the_text_ends(server, model):
    """The harness leaves out the last token: that must be the new one, even if it is EOS."""
    eos = model.tokenizer.words.eos
    bias = {str(eos): 100}
    body = {"model": "gpt", "prompt": [[5, 9, 40]], "temperature": 0, "max_tokens": 1}
    body |= {"logprobs": 1, "echo": True, "logit_bias": bias}
    (choice,) = server.post("/v1/completions", body).json()["choices"]
    assert len(choice["logprobs"]["token_logprobs"]) == 4 and choice["finish_reason"] == "stop"


def test_text_prompts_and_the_longest_row(server, model):
    (choice,) = scored(server, "".join(PAIRS[0]))
    ids = model.tokenizer.words.encode("".join(PAIRS[0]))
    (scores,) = model.score([ids])
    assert loglikelihood(choice, 1)[0] == pytest.approx(sum(scores), abs=1e-4)
    row = [7 + n % 40 for n in range(POSITIONS - 1)]  # one position is left for the new token
    (choice,) = scored(server, [row])
    assert loglikelihood(choice, 1)[0] == pytest.approx(sum(model.score([row])[0]), abs=1e-3)


def test_generation_until_a_string(server, model):
    ((best,),) = model.generate(["A dog"], Greedy(), max_new_tokens=12, stop_strings=["e"])
    body = {"prompt": ["A dog"], "model": "gpt", "max_tokens": 12, "temperature": 0}
    answer = server.post("/v1/completions", body | {"stop": ["e"], "seed": 1234}).json()
    assert answer["choices"][0]["text"] == best.text


def test_special_tokens_are_found_by_their_names(server, model):
    """The harness asks /tokenize for the id of the token that it puts before a text."""
    words = model.tokenizer.words
    name = server.client.get("/tokenizer_info").json()["eos_token"]
    body = {"prompt": name, "add_special_tokens": False}
    assert server.post("/tokenize", body).json()["tokens"] == [words.eos]
    text = {"prompt": f"{name} dog", "add_special_tokens": False}
    assert server.post("/tokenize", text).json()["tokens"] == words.encode(f"{name} dog")


@pytest.mark.skipif(importlib.util.find_spec("lm_eval") is None, reason="needs lm_eval")
def test_the_harness_itself(server, model):
    from lm_eval.api.instance import Instance
    from lm_eval.models.openai_completions import LocalCompletionsAPI

    harness = LocalCompletionsAPI(
        model="gpt",
        base_url=f"{server.url}/v1/completions",
        tokenizer_backend="remote",
        max_length=POSITIONS,
    )
    requests = [Instance("loglikelihood", {}, pair, number) for number, pair in enumerate(PAIRS)]
    words = model.tokenizer.words
    for (total, _), (context, rest) in zip(harness.loglikelihood(requests), PAIRS, strict=True):
        ids = words.encode(context + rest)
        begin = len(words.encode(context)) - 1
        assert total == pytest.approx(sum(model.score([ids])[0][begin:]), abs=1e-3)
    text = "".join(PAIRS[0])
    (total,) = harness.loglikelihood_rolling([Instance("loglikelihood_rolling", {}, (text,), 0)])
    assert total == pytest.approx(sum(model.score([text])[0]), abs=1e-3)
