"""``regard serve`` on a free port: its description, and the answers of its paths."""

import re
import subprocess
import sys
import time
from typing import Any

import httpx

from net.parts import Place, Probes

GPT, BERT, ONE, TAGS = "hf-gpt2", "hf-bert-base-uncased", "regard-task-one", "regard-task-tags"
MARIAN = "hf-marian"
TEXT = "the old sailor"
BODIES: tuple[tuple[str, Any], ...] = (
    ("/v1/embeddings", {"model": BERT, "input": [TEXT, "a cat"]}),
    ("/v1/embeddings", {"model": BERT, "input": TEXT, "encoding_format": "base64"}),
    ("/v1/completions", {"model": GPT, "prompt": TEXT, "max_tokens": 4, "seed": 1, "logprobs": 1}),
    ("/v1/completions", {"model": GPT, "prompt": TEXT, "max_tokens": 4, "seed": 3, "n": 2}),
    ("/v1/completions", {"model": GPT, "prompt": TEXT, "stream": True, "seed": 1, "max_tokens": 3}),
    ("/v1/chat/completions", {"model": GPT, "messages": [{"role": "user", "content": TEXT}]}),
    ("/v1/classify", {"model": ONE, "text": TEXT}),
    ("/v1/tag", {"model": TAGS, "text": TEXT}),
    ("/v1/translate", {"model": MARIAN, "text": "cow dog", "beam": 3}),
    ("/v1/generate", {"model": GPT, "text": TEXT, "max_new_tokens": 4}),
    ("/v1/fill", {"model": BERT, "text": "the [MASK] sailor"}),
    ("/v1/embed", {"model": BERT, "text": TEXT}),
    ("/v1/score", {"model": GPT, "text": TEXT}),
    ("/v1/look", {"model": BERT, "text": TEXT}),
    (f"/embed?model={BERT}", {"inputs": TEXT}),
    (f"/embed_all?model={BERT}", {"inputs": TEXT}),
    (f"/predict?model={ONE}", {"inputs": TEXT}),
    (f"/rerank?model={ONE}", {"query": TEXT, "texts": ["a", "b"]}),
    (f"/similarity?model={BERT}", {"inputs": {"source_sentence": "a", "sentences": ["b"]}}),
    (f"/tokenize?model={BERT}", {"inputs": TEXT}),
    (f"/tokenize?model={GPT}", {"prompt": TEXT}),
    (f"/decode?model={BERT}", {"ids": [7]}),
    (f"/detokenize?model={GPT}", {"tokens": [7]}),
    (f"/models/{ONE}", {"inputs": TEXT}),
    (f"/models/{GPT}", {"inputs": TEXT, "parameters": {"max_new_tokens": 3}}),
    ("/translate", {"q": "cow dog", "source": "en", "target": "de"}),
    ("/detect", {"q": "the owl"}),
)
UNSTABLE = ("/metrics",)  # counts that depend on time: only the names of figures are kept


def probes(place: Place) -> Probes:
    """The description, each path that is read, the bodies above, and wrong bodies for each path."""
    folders = [str(place.inputs / "models" / name) for name in (GPT, BERT, ONE, TAGS, MARIAN)]
    command = [sys.executable, "-m", "regard", "serve", *folders, "--port", "0", "--device", "cpu"]
    with (place.work / "log").open("w+") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            with httpx.Client(base_url=address(place, process), timeout=60) as client:
                wait(client)
                yield from answers(client)
        finally:
            process.terminate()
            code = process.wait(60)
    lines = (place.work / "log").read_text().splitlines()
    kept = [line for line in lines if "/health/ready" not in line]  # asked until it is ready
    yield "log", "\n".join((f"exit {code}", *kept))


def address(place: Place, process: subprocess.Popen[Any]) -> str:
    """The address that the server writes when it listens."""
    for _ in range(3000):
        found = re.search(r"port (\d+)", (place.work / "log").read_text())
        if found:
            return f"http://127.0.0.1:{found[1]}"
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise RuntimeError(f"no server: {(place.work / 'log').read_text()}")


def wait(client: httpx.Client) -> None:
    """Wait until all models are ready."""
    for _ in range(3000):
        if client.get("/health/ready").status_code == 200:
            return
        time.sleep(0.1)
    raise RuntimeError("the server is not ready")


def answers(client: httpx.Client) -> Probes:
    """Status, type and body of every answer."""
    schema = client.get("/openapi.json").json()
    yield "openapi", schema
    for path, methods in sorted(schema["paths"].items()):
        named = path.replace("{name}", GPT)
        label = path.strip("/").replace("/", "-").replace("{", "").replace("}", "") or "root"
        if "get" in methods:
            answer = client.get(named)
            yield f"get/{label}", names_only(answer) if path in UNSTABLE else plain(answer)
        if "post" in methods and not path.startswith("/admin"):
            yield f"empty/{label}", plain(client.post(named, json={}))
            yield f"damaged/{label}", plain(client.post(named, content=b"{"))
    for number, (path, body) in enumerate(BODIES):
        label = path.partition("?")[0].strip("/").replace("/", "-")
        yield (
            f"post/{number:02}-{label}",
            {"body": body, "answer": plain(client.post(path, json=body))},
        )
    yield "get/unknown-path", plain(client.get("/nowhere"))


def plain(answer: httpx.Response) -> dict[str, Any]:
    """What an answer holds."""
    kind = answer.headers.get("content-type", "")
    value = answer.json() if kind.startswith("application/json") else answer.text
    return {"status": answer.status_code, "type": kind, "content": value}


def names_only(answer: httpx.Response) -> list[str]:
    """The names of the figures of an answer for Prometheus."""
    return sorted(
        {re.split(r"[{ ]", line)[0] for line in answer.text.splitlines() if line[:1] != "#"}
    )
