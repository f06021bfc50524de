"""The application around the paths: keys, limits, errors, overload, and the end of the server."""

import asyncio
import json
import logging
import pickle
import re
import signal
import socket
import sys
import threading
import time
from contextlib import contextmanager

import httpx
import pytest
from starlette.responses import Response, StreamingResponse

from regard.api import Model
from regard.cli.verbs.serve import serve
from regard.core.errors import BadInput
from regard.inference.component import Component
from regard.models.edits import read_edits
from regard.serving.apis.json_body import decode_json
from regard.serving.apis.request import API, Endpoint
from regard.serving.request_errors import hide_paths
from regard.serving.serve_options import ServeOptions
from regard.serving.served_model import ServedModel
from regard.serving.server import APIS, JoinedWrites, ModelSource, ServerConfig
from regard.serving.settings import APIKeys, RequestLimits, ServerSettings
from regard.serving.worker import Worker
from regard.text.tokenizers.row_tokenizer import RowTokenizer
from serving.mutated_requests import mutated
from serving.running_server import (
    eventually,
    gate_warm_up,
    running,
    server_process,
    serving_process,
    threads_named,
    translation_model,
    until,
)
from small_bert import SENTENCES
from small_bert import model as small_bert
from small_bert import small_bert as small_bert_files
from small_gpt import small_gpt2

KEY, ADMIN = "a-key-of-a-user-1", "a-key-of-an-admin"


@pytest.fixture(scope="module")
def models():
    return {"one": small_bert("one"), "gpt": small_gpt2()}


@pytest.fixture(scope="module")
def server(models):
    with running(models, ServerSettings(allow_edits=True)) as server:
        yield server


@pytest.fixture
def keys(tmp_path):
    path = tmp_path / "keys"
    path.write_text(f"# ours\n{KEY}\n\nadmin {ADMIN}\n")
    return path


def test_health_metrics_and_docs(server):
    server.post("/v1/classify", {"text": "a"})
    for path in ("/health", "/health/live", "/health/ready"):
        assert server.client.get(path).json() == {"status": "ok"}
    metrics = server.client.get("/metrics").text
    for name in ("queued_tokens", "batch_fill", "tokens_total", "latency_seconds", "rejected"):
        assert f"regard_{name}" in metrics
    described = server.client.get("/openapi.json").json()
    assert "post" in described["paths"]["/v1/translate"]
    schema = described["components"]["schemas"]["GenerateRequest"]
    assert "max_new_tokens" in schema["properties"]
    page = server.client.get("/docs").text
    assert "/v1/tag" in page and "http://" not in page and "https://" not in page


def test_unknown_paths_and_methods(server):
    assert server.client.get("/nowhere").status_code == 404
    refused = server.client.get("/v1/tag")
    assert refused.status_code == 405 and refused.json()["error"]["kind"] == "method_not_allowed"
    assert refused.headers["allow"] == "POST"
    assert server.post("/health", {}).headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize("path", ["/health", "/docs", "/v1/models", "/metrics"])
def test_head_has_the_headers_of_get_alone(server, path):
    whole, head = server.client.get(path), server.client.head(path)
    assert head.status_code == 200 and head.content == b""
    assert head.headers["content-type"] == whole.headers["content-type"]
    assert server.client.head("/v1/classify").status_code == 405


MESSAGES = {
    "/srv/models/x: no such folder": "…: no such folder",
    "no file '/home/ann/a.txt' here": "no file '…' here",
    "../models/x and ~/models/y": "… and …",
    r"C:\Users\ann\model.bin: damaged": "…: damaged",
    r"D:\secrets": "…",
    r"'C:\\Users\\ann' and \\host\share\file": "'…' and …",
    "C:/Users/ann, second": "…, second",
    "ratio 3/4 or a/b": "ratio 3/4 or a/b",
    "either and/or/both, 1/2/3": "either and/or/both, 1/2/3",
    "use /v1/completions; write /models/NAME": "use /v1/completions; write /models/NAME",
    "/v1/completions/of/a/folder": "…",
}


@pytest.mark.parametrize("message", MESSAGES)
def test_paths_of_the_machine_are_hidden_in_messages(server, message):
    assert hide_paths(message, server.app.addresses) == MESSAGES[message]


def test_an_error_has_no_path_but_those_of_the_server(models):
    async def fail(request):
        raise BadInput("/srv/models/x: ratio 3/4; use /v1/completions")

    route = Endpoint("GET", "/fail", fail, "Fail.")
    apis = [*APIS, API("failing", [route], APIS[0].error)]
    with running({"one": models["one"]}, apis=apis) as server:
        error = server.client.get("/fail").json()["error"]
        assert error["message"] == "…: ratio 3/4; use /v1/completions"


def test_every_answer_has_an_id(server):
    assert (
        server.client.get("/health", headers={"x-request-id": "abc"}).headers["x-request-id"]
        == "abc"
    )
    made = server.client.get("/health", headers={"x-request-id": "a b"}).headers["x-request-id"]
    assert len(made) == 32


def test_every_path_but_health_needs_a_key(models, keys):
    with running({"one": models["one"]}, ServerSettings(keys=APIKeys.read(keys))) as server:
        paths = {path for path in server.paths if not path.startswith("/health")}
        for path in paths | {"/nowhere"}:
            for headers in ({}, {"authorization": "Bearer wrong"}, {"x-api-key": KEY[:-1]}):
                for method in ("GET", "POST", "DELETE"):
                    response = server.client.request(method, path, headers=headers, content=b"{}")
                    is_page = (method, path) == ("GET", "/")
                    assert response.status_code == (307 if is_page else 401), path
        assert server.client.get("/health/ready").status_code == 200
        for headers in ({"authorization": f"Bearer {KEY}"}, {"x-api-key": ADMIN}):
            assert server.post("/v1/classify", {"text": "a"}, headers=headers).status_code == 200
        refused = server.client.get("/admin/models", headers={"x-api-key": KEY})
        assert refused.status_code == 403 and refused.json()["error"]["kind"] == "forbidden"
        for headers, message in (({}, "this path needs a key"), ({"x-api-key": "a"}, "wrong key")):
            for path in ("/v1/models", "/admin/models"):
                refused = server.client.get(path, headers=headers)
                assert refused.status_code == 401 and message in refused.json()["error"]["message"]


def test_a_key_cannot_see_or_replace_the_requests_of_another(models, keys):
    other = {"x-api-key": ADMIN}
    mine, id_ = {"authorization": f"Bearer {KEY}"}, {"x-request-id": "first"}
    with running({"one": models["one"]}, ServerSettings(keys=APIKeys.read(keys))) as server:
        own = server.post("/v1/classify", {"text": "mine"}, headers=mine | id_).json()
        assert server.client.get("/inspect/first", headers=other).status_code == 404
        theirs = server.post("/v1/classify", {"inputs": ["a", "b"]}, headers=other | id_).json()
        for headers, answer in ((mine, own), (other, theirs)):
            again = server.client.get("/inspect/first", headers=headers).json()
            assert again["results"] == answer["results"] and again["same"]


@pytest.mark.parametrize("content", ["", "short", "# only a comment", "two words in-one-line"])
def test_files_of_keys_are_checked(tmp_path, content):
    (tmp_path / "keys").write_text(content)
    with pytest.raises(BadInput, match="key"):
        APIKeys.read(tmp_path / "keys")


def test_an_administrator_loads_and_unloads_models(models, keys, tmp_path):
    root = tmp_path / "models"
    small_bert("one", seed=3).save(root / "second")
    small_bert("one", seed=4).save(tmp_path / "outside")  # a model that could be served
    (root / "link").symlink_to(tmp_path / "outside")
    settings = ServerSettings(keys=APIKeys.read(keys), model_roots=(root,), device="cpu")
    admin = {"authorization": f"Bearer {ADMIN}"}
    with running({"one": models["one"]}, settings) as server:
        wrong = ("../outside", str(tmp_path / "outside"), "second/../../outside", "link", "missing")
        for folder in (*wrong, "second\0", "long" * 2_000):
            refused = server.post("/admin/models", {"folder": folder}, headers=admin)
            assert refused.status_code == 400 and str(tmp_path) not in refused.text
            assert "not a folder below those from which models may be loaded" in refused.text
        loaded = server.post("/admin/models", {"folder": "second"}, headers=admin).json()
        assert loaded["name"] == "second" and loaded["components"] == ["embed", "predict"]
        body = {"model": "second", "text": SENTENCES[0]}
        assert server.post("/v1/classify", body, headers=admin).status_code == 200
        listed = server.client.get("/admin/models", headers=admin).json()["models"]
        assert [each["name"] for each in listed] == ["one", "second"]
        swapped = {"folder": "second", "name": "one"}
        assert server.post("/admin/models", swapped, headers=admin).status_code == 200
        assert server.client.delete("/admin/models/second", headers=admin).status_code == 200
        assert server.post("/v1/classify", body, headers=admin).status_code == 404
        assert server.client.delete("/admin/models/second", headers=admin).status_code == 404


@pytest.fixture
def gate(monkeypatch):
    """A gate at which the warm-up of models waits; it is open at first."""
    gate = gate_warm_up(monkeypatch)
    gate.set()
    yield gate
    gate.set()


@pytest.mark.parametrize("name", ["one", "new"])
def test_an_administrator_is_answered_when_the_model_serves(models, keys, tmp_path, gate, name):
    root, admin = tmp_path / "models", {"x-api-key": ADMIN}
    for seed in (3, 4):
        small_bert("one", seed=seed).save(root / f"seed-{seed}")
    settings = ServerSettings(keys=APIKeys.read(keys), model_roots=(root,), device="cpu")

    async def load_twice(server):
        async with server.asynchronous() as client:
            client.headers.update(admin)
            gate.clear()
            loads, arrived = [], gate.arrived
            for seed in (3, 4):
                body = {"folder": f"seed-{seed}", "name": name}
                loads.append(asyncio.ensure_future(client.post("/admin/models", json=body)))
                await eventually(lambda: gate.arrived - arrived == len(loads))
            assert not any(load.done() for load in loads)
            gate.set()
            first, last = await asyncio.gather(*loads)
            body = {"model": name, "text": SENTENCES[0]}
            vector = (await client.post("/v1/embed", json=body)).json()
            listed = (await client.get("/admin/models")).json()["models"]
            return first, last, vector["results"][0]["records"][0]["vector"], listed

    with running({"one": models["one"]}, settings) as server:
        first, last, vector, listed = asyncio.run(load_twice(server))
    if name == "one" or first.status_code != 200:  # a new one may have served between the two
        assert first.status_code == 409 and first.json()["error"]["kind"] == "replaced"
    assert last.status_code == 200 and last.json() in listed
    expected = small_bert("one", seed=4).embed(SENTENCES[:1], as_numpy=True)[0]
    assert vector == expected.tolist()


def test_one_process_of_several_does_not_change_its_models(models, keys, tmp_path):
    small_bert("one", seed=3).save(tmp_path / "second")
    admin, roots = {"x-api-key": ADMIN}, (tmp_path,)
    settings = ServerSettings(keys=APIKeys.read(keys), model_roots=roots, workers=2)
    with running({"one": models["one"]}, settings) as server:
        for refused in (
            server.post("/admin/models", {"folder": "second"}, headers=admin),
            server.client.delete("/admin/models/one", headers=admin),
        ):
            assert refused.status_code == 501
            assert refused.json()["error"]["message"] == (
                "this server has 2 processes with the same models; "
                "to change them while it runs, start it as a single one"
            )
        listed = server.client.get("/admin/models", headers=admin).json()["models"]
        assert [each["name"] for each in listed] == ["one"]


def test_a_model_that_takes_the_place_of_another_keeps_languages_and_edits(keys, tmp_path):
    root, edits = tmp_path / "models", tmp_path / "edits.toml"
    translator = translation_model()
    translator.save(root / "plain")
    small_bert("one").save(root / "bert")
    (root / "linked").symlink_to(root / "plain")
    edits.write_text('[[edit]]\nkind = "layer-off"\nat = "source.blocks.0"\n')
    settings = ServerSettings(keys=APIKeys.read(keys), model_roots=(root,), device="cpu")
    admin, listed = {"x-api-key": ADMIN}, read_edits(edits)
    served = ServedModel(translator, "mt", None, listed, languages=("en", "fr"))

    def load(server, status=200, **body):
        answer = server.post("/admin/models", body, headers=admin)
        assert answer.status_code == status, answer.text
        return answer.json()

    with running([served], settings) as server:
        swapped = load(server, folder="plain", name="mt")
        assert (swapped["source"], swapped["target"]) == ("en", "fr")
        assert swapped["edits"] == listed.hash
        swapped = load(server, folder="plain", name="mt", languages="de-en")
        assert (swapped["source"], swapped["target"]) == ("de", "en")
        assert load(server, folder="linked")["name"] == "linked"
        load(server, 400, folder="plain", languages="german")
        load(server, 400, folder="bert", languages="de-en")


def test_models_cannot_be_loaded_without_keys(server):
    assert server.post("/admin/models", {"folder": "x"}).status_code == 401


def test_pages_of_other_origins_are_refused_unless_named(models, server):
    origin = {"origin": "https://a.example"}
    assert "access-control-allow-origin" not in server.client.get("/health", headers=origin).headers
    with running({"one": models["one"]}, ServerSettings(cors=("https://a.example",))) as other:
        answer = other.client.get("/health", headers=origin)
        assert answer.headers["access-control-allow-origin"] == "https://a.example"
        assert "x-request-id" in answer.headers["access-control-expose-headers"]
        asked = "content-type, X-Stainless-Lang, x-secret"
        asks = origin | {"access-control-request-headers": asked}
        before = other.client.options("/v1/classify", headers=asks)
        allowed = before.headers["access-control-allow-headers"].split(", ")
        assert {"x-request-timeout-seconds", "x-stainless-lang", "x-api-key"} <= {*allowed}
        assert "x-secret" not in allowed
        assert (
            before.status_code == 204 and "POST" in before.headers["access-control-allow-methods"]
        )
        foreign = other.client.get("/health", headers={"origin": "https://b.example"})
        assert "access-control-allow-origin" not in foreign.headers


def test_bodies_are_bounded_in_size_and_time(models):
    limits = RequestLimits(body_bytes=2_000, body_seconds=1.0)
    with running({"one": models["one"]}, ServerSettings(limits=limits)) as server:
        large = {"text": "a" * 3_000}
        assert server.post("/v1/classify", large).status_code == 413
        parts = (b"a" * 500 for _ in range(10))  # without a length
        assert server.client.post("/v1/classify", content=parts).status_code == 413
        address = server.client.base_url.host, server.client.base_url.port
        with socket.create_connection(address, 10) as slow:
            slow.sendall(b"POST /v1/classify HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{")
            assert b" 408 " in slow.recv(4_096)


NESTED = {
    b"[" * 33: "nested",
    b'{"a":' * 33: "nested",
    b'["[[", "\\\\"' + b',["\\"]"' * 32: "nested",
    b"[" + b"[]," * 70_000: "lists and objects",
    b'["' + b"[" * 99 + b'\\"[[[[", "\\\\"]' + b" " * 9: None,
    b"[" * 30 + b"[],[],[[]]" + b"]" * 30: None,
}


@pytest.mark.parametrize("content", NESTED)
def test_brackets_outside_of_strings_are_counted(content):
    try:
        decode_json(content, list)
    except BadInput as error:
        assert NESTED[content] in str(error)
    else:
        assert NESTED[content] is None


def test_a_body_of_brackets_is_refused_fast():
    start = time.process_time()
    with pytest.raises(BadInput, match="lists and objects"):
        decode_json(b"[" + b"[]," * ((8 << 20) // 3), list)
    assert time.process_time() - start < 2


def test_an_idle_connection_is_closed(models, monkeypatch):
    monkeypatch.setattr("regard.serving.server.HEADER_SECONDS", 0.2)
    with running({"one": models["one"]}) as server:
        address = server.client.base_url.host, server.client.base_url.port
        with socket.create_connection(address, 10) as idle:
            idle.sendall(b"POST /v1")
            assert idle.recv(100) == b""


HEAD = b"GET /health HTTP/1.1\r\nHost: x\r\n"


def read_health(connection):
    """Read the whole answer of /health."""
    answer = b""
    while not answer.endswith(b'{"status":"ok"}'):
        more = connection.recv(4_096)
        assert more, answer
        answer += more
    assert b" 200 " in answer


def is_cut_off(connection):
    """Whether headers that arrive byte by byte are cut off."""
    end = time.monotonic() + 60
    connection.settimeout(0.05)
    while time.monotonic() < end:
        try:
            connection.sendall(b"a")
            if connection.recv(100) == b"":
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


@pytest.mark.parametrize("before", [0, 1, 3])
def test_slow_headers_are_cut_off_after_any_number_of_requests(models, monkeypatch, before):
    with running({"one": models["one"]}) as server:
        address = server.client.base_url.host, server.client.base_url.port
        if not before:
            monkeypatch.setattr("regard.serving.server.HEADER_SECONDS", 0.3)
        with socket.create_connection(address, 10) as slow:
            for _ in range(before):
                slow.sendall(HEAD + b"\r\n")
                read_health(slow)
            monkeypatch.setattr("regard.serving.server.HEADER_SECONDS", 0.3)
            slow.sendall(HEAD)
            assert is_cut_off(slow)


def test_requests_in_time_keep_their_connection(models, monkeypatch):
    monkeypatch.setattr("regard.serving.server.HEADER_SECONDS", 2.0)
    with running({"one": models["one"]}) as server:
        address = server.client.base_url.host, server.client.base_url.port
        with socket.create_connection(address, 10) as steady:
            for _ in range(5):
                steady.sendall(HEAD)
                time.sleep(0.25)
                steady.sendall(b"\r\n")
                read_health(steady)
                time.sleep(0.25)
            steady.sendall(HEAD + b"\r\n" + HEAD)  # and the beginning of the next one
            read_health(steady)
            assert is_cut_off(steady)
            assert server.client.get("/health").status_code == 200


LARGE = 24 << 20  # bytes: more than the buffers of a connection


async def large_answer(request):
    return Response(bytes(LARGE))


async def large_stream(request):
    async def parts():
        for _ in range(LARGE >> 16):
            yield bytes(1 << 16)

    return StreamingResponse(parts())


@contextmanager
def asked_for_a_large_answer(server, path):
    """A connection with a small buffer, over which a large answer comes."""
    address = server.client.base_url.host, server.client.base_url.port
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        connection.settimeout(60)
        connection.connect(address)
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        yield connection


@pytest.fixture(scope="module")
def large_apis():
    routes = [
        Endpoint("GET", "/large", large_answer, "Many bytes."),
        Endpoint("GET", "/stream", large_stream, "Many bytes, part by part."),
    ]
    return [*APIS, API("large", routes, APIS[0].error)]


@pytest.mark.parametrize("path", ["/large", "/stream"])
def test_a_client_that_does_not_read_is_cut_off(models, large_apis, monkeypatch, path):
    monkeypatch.setattr("regard.serving.server.READ_SECONDS", 0.2)
    with running({"one": models["one"]}, apis=large_apis) as server:
        with asked_for_a_large_answer(server, path) as idle:
            refused = 'regard_rejected_total{reason="client_does_not_read"} 1.0'
            until(lambda: refused in server.client.get("/metrics").text)
            with pytest.raises(ConnectionResetError):
                while idle.recv(1 << 16):
                    pass
        assert server.client.get("/health").status_code == 200


@pytest.mark.parametrize("path", ["/large", "/stream"])
def test_a_client_that_reads_slowly_gets_its_whole_answer(models, large_apis, monkeypatch, path):
    monkeypatch.setattr("regard.serving.server.READ_SECONDS", 1.5)
    monkeypatch.setattr("regard.serving.server.READ_BYTES", 1)
    with (
        running({"one": models["one"]}, apis=large_apis) as server,
        asked_for_a_large_answer(server, path) as slow,
    ):
        size, start = 0, time.monotonic()
        while size < LARGE:
            part = slow.recv(1 << 20)
            assert part
            size += len(part)
            time.sleep(3 * len(part) / LARGE)
        assert time.monotonic() - start > 2.4
        assert "client_does_not_read" not in server.client.get("/metrics").text


def test_a_full_queue_answers_429(models, monkeypatch):
    gate, step = threading.Event(), Worker._step

    async def ask_all():
        async with server.asynchronous() as client:
            body = {"text": "The old man", "max_new_tokens": 30, "min_new_tokens": 30}
            asks = [
                asyncio.ensure_future(client.post("/v1/generate", json=body)) for _ in range(30)
            ]
            await asyncio.wait(asks, return_when=asyncio.FIRST_COMPLETED)
            gate.set()
            return await asyncio.gather(*asks)

    with running({"gpt": models["gpt"]}, max_queued_tokens=60) as server:
        monkeypatch.setattr(Worker, "_step", lambda worker: gate.wait(60) and step(worker))
        answers = asyncio.run(ask_all())
        assert server.engine.queued_tokens == 0
        rejected = 'regard_rejected_total{reason="overloaded"}'
        assert rejected in server.client.get("/metrics").text
    refused = [answer for answer in answers if answer.status_code == 429]
    assert refused and {answer.status_code for answer in answers} == {200, 429}
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)


def test_a_deadline_answers_504(server):
    body = {"text": "The old man", "max_new_tokens": 40, "min_new_tokens": 40, "deadline": 0.001}
    assert server.post("/v1/generate", body).status_code == 504
    header = {"x-request-timeout-seconds": "0.001"}
    assert server.post("/v1/generate", {**body, "deadline": 9}, headers=header).status_code == 504
    wrong = server.post("/v1/generate", body, headers={"x-request-timeout-seconds": "soon"})
    assert wrong.status_code == 400


LATE = "no answer within 0.1 s"
TOKENIZING = {
    "/v1/embed": ({"text": "a"}, {"error": {"kind": "deadline_exceeded", "message": LATE}}),
    "/embed": ({"inputs": "a"}, {"error": LATE, "error_type": "Backend"}),
    "/embed_all": ({"inputs": "a"}, {"error": LATE, "error_type": "Backend"}),
    "/predict": ({"inputs": "a", "truncate": False}, {"error": LATE, "error_type": "Backend"}),
    "/tokenize": ({"inputs": ["a", "a"]}, {"error": LATE, "error_type": "Backend"}),
    "/detokenize": ({"tokens": [5]}, {"error": LATE, "error_type": "Backend"}),
    "/decode": ({"ids": [5]}, {"error": LATE, "error_type": "Backend"}),
    "/models/one": ({"inputs": "a"}, {"error": LATE, "error_type": "generation"}),
    "/v1/embeddings": (
        {"model": "one", "input": "a"},
        {
            "error": {
                "message": LATE,
                "type": "server_error",
                "param": None,
                "code": "deadline_exceeded",
            }
        },
    ),
}


@pytest.fixture
def slow_tokenizer(models, monkeypatch):
    """The texts that a model has read; it needs some time for each."""
    (words,) = models["one"].tokenizer.vocabularies
    texts = []

    def slow(before):
        def run(*given, **more):
            time.sleep(0.2)
            texts.append(given)
            return before(*given, **more)

        return run

    for kind, name in ((type(words), "decode"), (type(words), "segment"), (RowTokenizer, "rows")):
        monkeypatch.setattr(kind, name, slow(getattr(kind, name)))
    return texts


@pytest.mark.parametrize("path", TOKENIZING)
def test_the_deadline_covers_tokenizers(models, slow_tokenizer, path):
    body, error = TOKENIZING[path]
    with running({"one": models["one"]}) as server:
        slow_tokenizer.clear()
        answer = server.post(path, body, headers={"x-request-timeout-seconds": "0.1"})
        assert (answer.status_code, answer.json()) == (504, error)
        in_time = server.post(path, body, headers={"x-request-timeout-seconds": "20"})
        assert in_time.status_code == 200 and slow_tokenizer


def test_a_client_may_only_ask_for_an_earlier_deadline(models, slow_tokenizer):
    with running({"one": models["one"]}, deadline=0.1) as server:
        for header in ({}, {"x-request-timeout-seconds": "20"}):
            answer = server.post("/tokenize", {"inputs": ["a", "a"]}, headers=header)
            assert (answer.status_code, answer.json()["error"]) == (504, LATE)
        later = {"text": "a", "deadline": 20}
        assert server.post("/v1/embed", later).status_code == 504


def test_no_text_is_read_after_the_deadline(models, monkeypatch):
    (words,), gate, texts = models["one"].tokenizer.vocabularies, threading.Event(), []
    segment = type(words).segment

    def wait_and_segment(*given):
        texts.append(given)
        gate.wait(60)
        return segment(*given)

    with running({"one": models["one"]}) as server:
        monkeypatch.setattr(type(words), "segment", wait_and_segment)
        body = {"inputs": ["a"] * 20, "add_special_tokens": False}
        header = {"x-request-timeout-seconds": "0.1"}
        assert server.post("/tokenize", body, headers=header).status_code == 504
        gate.set()
        until(lambda: not threads_named("request"))
        assert len(texts) <= 1


def test_a_client_that_leaves_frees_its_place(server, monkeypatch):
    gate, step = threading.Event(), Worker._step
    monkeypatch.setattr(Worker, "_step", lambda worker: gate.wait(60) and step(worker))
    body = json.dumps({"inputs": ["The old man"] * 60, "max_new_tokens": 40, "min_new_tokens": 40})
    head = f"POST /v1/generate HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    address = server.client.base_url.host, server.client.base_url.port
    with socket.create_connection(address, 10) as leaving:
        leaving.sendall((head + body).encode())
        until(lambda: server.engine.queued_tokens)
    until(lambda: "client_gone" in server.client.get("/metrics").text)
    gate.set()
    until(lambda: not server.engine.queued_tokens)


@pytest.mark.parametrize("body", [{"inputs": ["a secret text"]}, {"text": "a secret text"}])
def test_the_log_has_texts_only_if_told(models, caplog, body):
    for told in (False, True):
        caplog.clear()
        with (
            caplog.at_level(logging.INFO, "regard.access"),
            running({"one": models["one"]}, ServerSettings(log_texts=told)) as server,
        ):
            server.post("/v1/classify", body)
        records = [record for record in caplog.records if record.name == "regard.access"]
        lines = [json.loads(record.message) for record in records]
        lines = [line for line in lines if line["path"] == "/v1/classify"]
        assert [line["status"] for line in lines] == [200] and lines[0]["inputs"] == 1
        assert ("secret" in caplog.text) == told


@pytest.mark.parametrize(
    ("path", "key"), [("/v1/embeddings", "input"), ("/v1/completions", "prompt")]
)
def test_the_log_has_the_beginning_of_the_name_of_a_user(models, caplog, path, key):
    name = "gpt" if key == "prompt" else "one"
    body = {"model": name, key: "a", "user": "u" * 100_000}
    with caplog.at_level(logging.INFO, "regard.access"), running(models) as server:
        assert server.post(path, body).status_code == 200
    lines = [json.loads(record.message) for record in caplog.records]
    assert [line["user"] for line in lines if line.get("path") == path] == ["u" * 64]


def test_many_clients_get_their_own_answers(models, server):
    """Whatever shares their batches: each answer is that of the same request alone."""
    bodies = [
        ("/v1/embed", {"model": "one", "inputs": [SENTENCES[n % 4], SENTENCES[(n + 1) % 4]]})
        if n % 2
        else ("/v1/generate", {"text": SENTENCES[n % 4][: n + 3], "max_new_tokens": 1 + n % 9})
        for n in range(60)
    ]

    async def ask_all():
        async with server.asynchronous() as client:
            return await asyncio.gather(*(client.post(path, json=body) for path, body in bodies))

    from safety.frozen_folders import differences

    for (path, body), answer in zip(bodies, asyncio.run(ask_all()), strict=True):
        alone = server.post(path, body).json()["results"]
        assert [*differences("", alone, answer.json()["results"], 1e-4, 1e-5)] == []


def test_others_do_not_wait_for_all_texts_of_an_isolated_request(monkeypatch):
    """It runs in the batches of a direct call, with other requests between them."""
    run, batches = Component.run, []
    is_answered = threading.Event()

    def slow(component, rows, *more):
        if len(batches) == 2:
            until(lambda: server.engine._workers["one"].queued_requests == 2)
        if 1 in batches:
            is_answered.wait(60)
        batches.append(len(rows))
        return run(component, rows, *more)

    texts = [SENTENCES[n % 4] for n in range(40)]
    model = Model(small_bert_files("one"), batch_size=4)

    async def ask():
        async with server.asynchronous() as client:
            large = asyncio.ensure_future(client.post("/embed", json={"inputs": texts}))
            await eventually(lambda: len(batches) == 2)
            small = await client.post("/embed", json={"inputs": texts[:1]})
            assert not large.done()
            is_answered.set()
            return (await large).json(), small.json()

    with running({"one": model}, isolate=True) as server:
        monkeypatch.setattr(Component, "run", slow)
        large, small = asyncio.run(ask())
    assert sorted(batches) == [1, *[4] * 10] and batches.index(1) <= 4
    embed = model.component("embed", normalise=True).predict
    assert large == [vector.tolist() for vector in embed(texts)]
    assert small == [vector.tolist() for vector in embed(texts[:1])]


def check_mutated(server, count, seed):
    answers = {}
    for path, content in mutated(count, seed):
        response = server.client.post(path, content=content)
        answers[response.status_code] = answers.get(response.status_code, 0) + 1
        assert response.status_code < 500, (path, content, response.text)
        if response.status_code >= 400:
            message = response.json()["error"]["message"]
            assert message and "\n" not in message and "Traceback" not in message, message
    assert {200, 400} <= answers.keys()
    assert server.client.get("/health/ready").status_code == 200


def test_mutated_requests_are_refused_or_answered(server):
    check_mutated(server, 300, seed=1)


@pytest.mark.slow
def test_ten_thousand_mutated_requests_are_refused_or_answered(server):
    check_mutated(server, 10_000, seed=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, models):
    folder = tmp_path_factory.mktemp("served") / "gpt"
    models["gpt"].save(folder)
    return folder


def test_languages_are_given_by_the_name_of_the_folder(tmp_path, monkeypatch):
    (tmp_path / "first").mkdir()
    (tmp_path / "second").symlink_to(tmp_path / "first")
    configs = []
    monkeypatch.setattr("regard.serving.launch.serve", lambda config, *_: configs.append(config))
    folders = [str(tmp_path / name) for name in ("first", "second")]
    serve(folders, ServeOptions(port=0, languages=["second=en-fr"]))
    sources = configs[0].models
    assert [source.name for source in sources] == ["first", "second"]
    assert [source.languages for source in sources] == [None, ("en", "fr")]
    with pytest.raises(BadInput, match="no model is called third"):
        serve(folders, ServeOptions(port=0, languages=["third=en-fr"]))


class Written:
    """A transport that keeps what is written to it."""

    def __init__(self):
        self.parts, self.is_closed = [], False

    def write(self, data):
        self.parts.append(data)

    def close(self):
        self.is_closed = True


def test_the_head_of_an_answer_is_sent_with_its_content():
    """In one write, unless the content comes later."""

    async def write():
        transport = Written()
        joined = JoinedWrites(transport, asyncio.get_running_loop())
        joined.write(b"HTTP/1.1 200 OK\r\n\r\n")
        assert not transport.parts
        joined.write(b"content")
        joined.write(b"more")
        joined.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.sleep(0)
        joined.write(b"late")
        joined.write(b"HTTP/1.1 204\r\n\r\n")
        joined.close()
        await asyncio.sleep(0)
        return transport

    transport = asyncio.run(write())
    head = b"HTTP/1.1 200 OK\r\n\r\n"
    last = b"HTTP/1.1 204\r\n\r\n"
    assert transport.parts == [head + b"content", b"more", head, b"late", last]
    assert transport.is_closed


def test_a_refused_call_leaves_the_log_as_it_was(tmp_path):
    """Otherwise later requests of the process would be logged to the stream of that call."""
    loggers = [logging.getLogger(name) for name in ("regard.access", "regard.serving")]
    before = [([*logger.handlers], logger.propagate) for logger in loggers]
    with pytest.raises(BadInput, match="no such folder"):
        serve([str(tmp_path / "missing")], ServeOptions(port=0))
    assert [([*logger.handlers], logger.propagate) for logger in loggers] == before


FIGURE = re.compile(r'^regard_(?:queued_requests|requests_total)\{(?!path="/[hm]).*\} (\S+)$', re.M)


async def accepted(client, url, count):
    """Wait until requests are queued or answered, apart from those for health and figures."""
    async with asyncio.timeout(60):
        while sum(map(float, FIGURE.findall((await client.get(f"{url}/metrics")).text))) < count:
            await asyncio.sleep(0.02)


def test_worker_processes_get_a_copy_of_all_endpoints():
    config = ServerConfig((ModelSource("model"),))
    copy = pickle.loads(pickle.dumps(config))
    assert [api.name for api in copy.apis] == [api.name for api in APIS]
    for own, copied in zip(APIS, copy.apis, strict=True):
        names = [[(each.method, each.path) for each in api.routes] for api in (own, copied)]
        assert names[0] == names[1] and names[0]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_server_that_is_terminated_answers_what_it_accepted(folder, workers):
    body = {"text": "The old man", "max_new_tokens": 40, "min_new_tokens": 40}

    async def ask_all(process, url):
        limits = httpx.Limits(max_connections=100)
        async with httpx.AsyncClient(timeout=60, trust_env=False, limits=limits) as client:
            asks = [
                asyncio.ensure_future(client.post(f"{url}/v1/generate", json=body))
                for _ in range(40)
            ]
            await accepted(client, url, 40)
            process.send_signal(signal.SIGTERM)
            return await asyncio.gather(*asks, return_exceptions=True)

    with serving_process(folder, "--workers", workers) as (process, url):
        answers = asyncio.run(ask_all(process, url))
        code = process.wait(30)
    texts = {answer.json()["results"][0]["records"][0]["text"] for answer in answers}
    assert len(answers) == 40 and len(texts) == 1
    assert code == 0


SLOW_SERVER = """
import sys, time, torch
from regard.serving.server import ModelSource, ServerConfig, bind, serve
from regard.tasks.components import Component
run = Component.run
def slow(self, rows, *more):
    if any("slow" in str(row.given) for row in rows):
        x = torch.ones(700, 700)
        while True:
            x = (x @ x).clamp(max=1)
    return run(self, rows, *more)
Component.run = slow
from regard.serving.settings import EngineLimits
config = ServerConfig((ModelSource(sys.argv[1]),), limits=EngineLimits(isolate=True))
with bind("127.0.0.1", 0) as listening:
    number = listening.getsockname()[1]
    message = f"serving on 127.0.0.1, port {number};"
    serve(config, listening, 1, when_loaded=lambda: print(message, file=sys.stderr, flush=True))
"""


@pytest.mark.slow
def test_work_longer_than_the_drain_is_refused_and_the_process_ends_well(folder):
    words = [sys.executable, "-c", SLOW_SERVER, str(folder)]

    async def ask(process, url):
        async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
            body = {"inputs": ["slow"]}
            asking = asyncio.ensure_future(client.post(f"{url}/v1/embed", json=body))
            await accepted(client, url, 1)
            process.send_signal(signal.SIGTERM)
            return await asking

    with server_process(words) as (process, url):
        answer = asyncio.run(ask(process, url))
        code, log = process.wait(30), process.stderr.read()
    assert answer.status_code == 503, answer.text
    assert answer.json() == {"error": {"kind": "unavailable", "message": "the server is stopping"}}
    assert code == 0 and "Traceback" not in log and "terminate" not in log, log
