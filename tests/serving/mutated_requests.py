"""Requests that were damaged at random, from good ones."""

import json
import random
from collections.abc import Iterator, Sequence

GOOD = [
    ("/v1/classify", {"text": "The storm came in.", "model": "one"}),
    ("/v1/classify", {"inputs": ["a", {"first": "a", "second": "b"}], "model": "one"}),
    ("/v1/embed", {"text": "a", "model": "one", "pool": "mean", "inspect": {"layers": [0]}}),
    ("/v1/generate", {"text": "The old", "max_new_tokens": 3, "top_k": 3, "seed": 1, "best": 2}),
    ("/v1/generate", {"text": "A", "beam": 2, "max_new_tokens": 2, "stop_strings": ["e"]}),
    ("/v1/embed", {"text": "a", "model": "one", "edits": [{"kind": "head-off", "at": "x"}]}),
]
OF_OTHER_APIS = [
    ("/v1/embeddings", {"model": "one", "input": ["a", "b"], "encoding_format": "base64"}),
    ("/v1/embeddings", {"model": "one", "input": [5, 6], "dimensions": 3, "user": "me"}),
    ("/v1/completions", {"model": "gpt", "prompt": "A", "max_tokens": 2, "n": 2, "best_of": 3}),
    ("/v1/completions", {"model": "gpt", "prompt": [[5, 6], [7]], "echo": True, "logprobs": 2}),
    ("/v1/completions", {"model": "gpt", "prompt": "A", "stream": True, "stop": ["e"], "seed": 1}),
    ("/v1/completions", {"model": "gpt", "prompt": [5], "logit_bias": {"5": 1}, "temperature": 0}),
    ("/embed?model=one", {"inputs": ["a", "b"], "normalize": False, "truncate": False}),
    ("/embed_all?model=one", {"inputs": "a"}),
    ("/predict?model=one", {"inputs": [["a"], ["a", "b"]], "raw_scores": True}),
    ("/similarity?model=one", {"inputs": {"source_sentence": "a", "sentences": ["b"]}}),
    ("/rerank", {"query": "a", "texts": ["b", "c"], "return_text": True}),
    ("/tokenize?model=one", {"inputs": ["a"], "add_special_tokens": False}),
    ("/tokenize", {"prompt": "a b", "model": "gpt"}),
    ("/decode?model=gpt", {"ids": [[5, 6], [7]], "skip_special_tokens": False}),
    ("/detokenize", {"tokens": [5, 6], "model": "gpt"}),
    ("/models/one", {"inputs": ["a"], "parameters": {"top_k": 2}}),
    ("/models/one", {"inputs": {"text": "a", "text_pair": "b"}}),
    ("/models/one", {"inputs": ["a", "b"], "normalize": True, "truncate": True}),
    ("/models/gpt", {"inputs": "a", "parameters": {"max_new_tokens": 2, "temperature": 0.5}}),
    ("/translate", {"q": "the owl", "source": "en", "target": "de", "format": "html"}),
    ("/translate", {"q": ["the owl"], "source": "auto", "target": "de", "alternatives": 2}),
    ("/detect", {"q": "a"}),
]
VALUES = [
    None, True, -1, 0, 1, 2**63, -(2**70), 1e308, 0.5, "", "a", "\x00", "é" * 50, "\ud83d", [], {},
    [[[]]], {"a": 1}, ["x"], [None], float("inf"),
]  # fmt: skip


def mutated(count: int, seed: int, good: Sequence = GOOD) -> Iterator[tuple[str, bytes]]:
    """Paths and bodies; most are wrong in one or two places."""
    draw = random.Random(seed)
    for _ in range(count):
        path, body = draw.choice(good)
        for _ in range(draw.randint(1, 2)):
            body = _changed(body, draw)
        content = json.dumps(body).encode(errors="replace")
        if draw.random() < 0.4:
            content = _damaged(content, draw)
        if draw.random() < 0.1:
            path = draw.choice(["/v1/", "/v1/none", "/inspect/x", path + "/", "/%00", "/v1/fill"])
        yield path, content


def _changed(body: dict, draw: random.Random) -> dict:
    changed = dict(body)
    key = draw.choice([*body, "model", "colour", "prefix", "deadline", "length", "alpha"])
    if draw.random() < 0.2:
        changed.pop(key, None)
    else:
        changed[key] = draw.choice(VALUES)
    return changed


def _damaged(content: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(content) + 1)
    match draw.randrange(4):
        case 0:
            return content[:at]
        case 1:
            return content[:at] + draw.randbytes(draw.randint(1, 4)) + content[at:]
        case 2:
            return content[:at] + content[at + 1 :]
        case _:
            return content[:at] + b"[{" * draw.randint(1, 60) + content[at:]
