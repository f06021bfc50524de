"""What a stranger on the network can do: keys first, then sizes, then the work; nothing is kept."""

import asyncio
import ctypes
import gc
import json
import logging
import math
import socket
import threading
import time
import weakref
from contextlib import contextmanager

import pytest
from msgspec import Struct

from regard.core.cancellation import check_wanted
from regard.core.errors import BadInput
from regard.core.machine import trim_heap
from regard.generation.logit_bias import LogitBias
from regard.inference.generator import Ending
from regard.serving import app as application
from regard.serving import server as serving
from regard.serving.apis import inspection, libre_translate, tokenization
from regard.serving.apis.json_body import MOST_ITEMS, decode_json
from regard.serving.apis.request import API, Endpoint
from regard.serving.budgets import Budget
from regard.serving.request_errors import Overloaded, TooLarge, Unavailable
from regard.serving.request_threads import RequestThreads
from regard.serving.served_model import ServedModel
from regard.serving.server import APIS
from regard.serving.settings import (
    APIKeys,
    RequestLimits,
    ServerSettings,
    is_allowed,
    is_this_machine,
)
from regard.tasks.components import MOST_OPTION_BYTES
from regard.text.tokenizers.row_tokenizer import RowTokenizer
from serving.running_server import running, threads_named, until
from small_bert import SENTENCES
from work import ends

KEY = "a-key-of-a-user-1"


@pytest.fixture(scope="module")
def locked(models, tmp_path_factory):
    """A server with a key, whose rooms are small."""
    path = tmp_path_factory.mktemp("keys") / "keys"
    path.write_text(KEY)
    limits = RequestLimits(200_000, 300_000, 50_000, 120_000)
    settings = ServerSettings(keys=APIKeys.read(path), limits=limits)
    with running({"bert": models["bert"]}, settings) as server:
        yield server


def raw(server, head, body=b"", end=True):
    """The answer to a raw request; without ``end``, its open connection."""
    address = server.client.base_url
    connection = socket.create_connection((address.host, address.port), 20)
    connection.sendall(head.replace("\n", "\r\n").encode() + b"\r\n" + body)
    if not end:
        return connection
    with connection:
        answer = b""
        while part := connection.recv(65_536):
            answer += part
    return answer.decode()


HOSTS = ["x/health?", "x/health#", "localhost/health/live?a=", "x/health/ready/", "[", "a b"]


@pytest.mark.parametrize("host", HOSTS)
def test_no_header_but_the_key_opens_a_path(locked, host):
    body = json.dumps({"model": "bert", "input": "a"})
    head = f"POST /v1/embeddings HTTP/1.1\nHost: {host}\nConnection: close\n"
    answer = raw(locked, f"{head}Content-Length: {len(body)}\n", body.encode())
    assert answer.split(" ", 2)[1] in ("400", "401")


def test_paths_are_asked_of_the_scope_alone(monkeypatch, locked):
    """Starlette before 1.1 makes the path of ``url`` from the header Host."""

    class OldRequest(application.Request):
        @property
        def url(self):
            raise AssertionError("request.url is the client's")

    monkeypatch.setattr(application, "Request", OldRequest)
    for path, status in (("/health", 200), ("/v1/models", 401), ("/nowhere", 401)):
        assert locked.client.get(path).status_code == status
    headers = {"x-api-key": KEY}
    assert locked.client.get("/v1/models?a=b", headers=headers).status_code == 200


@pytest.mark.parametrize("path", ["/v1/classify", "/health", "/nowhere"])
def test_a_request_of_two_lengths_is_refused_and_its_connection_closed(server, path):
    """A proxy that goes by the other header would take its end for another request."""
    second = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    head = f"POST {path} HTTP/1.1\nHost: localhost\nContent-Length: 5\nTransfer-Encoding: chunked\n"
    answer = raw(server, head, b"0\r\n\r\n" + second)
    assert answer.startswith("HTTP/1.1 400") and answer.count("HTTP/1.1") == 1
    assert "write Content-Length or Transfer-Encoding, not both" in answer


LONE = [r"\ud800", r"\udc00x", r"\ud800A", r"\uD83D and \uDE00", r"\ud83d\ud83d\ude00", r"\\\ud800"]


@pytest.mark.parametrize("text", LONE)
def test_half_of_a_surrogate_pair_is_called_so(server, text):
    answer = server.client.post("/v1/classify", content=f'{{"text": "{text}"}}')
    assert answer.status_code == 400
    assert "half of a surrogate pair" in answer.json()["error"]["message"]


WHOLE = [r"\ud83d\ude00", r"\\ud800", r"\\\ud83d\ude00", "\U0001f600"]


@pytest.mark.parametrize("text", WHOLE)
def test_whole_surrogate_pairs_are_characters(server, text):
    assert server.client.post("/v1/classify", content=f'{{"text": "{text}"}}').status_code == 200
    cut = server.client.post("/v1/classify", content=f'{{"text": "{text}')
    assert cut.status_code == 400 and "truncated" in cut.json()["error"]["message"]


NAMES = {
    "localhost": True,
    "LOCALHOST:80": True,
    "a.localhost": True,
    "127.0.0.1:8080": True,
    "127.5.6.7": True,
    "[::1]:80": True,
    "::1": True,
    "[::ffff:127.0.0.1]:80": True,
    "[::FFFF:7f00:1]": True,
    "[::ffff:10.0.0.1]": False,
    "[::ffff:0.0.0.0]": False,
    "[::127.0.0.1]": False,
    "[64:ff9b::127.0.0.1]": False,
    "[2002:7f00:1::]": False,
    "[::ffff:127.0.0.1": False,
    "evil.example": False,
    "localhost.evil.example": False,
    "127.0.0.1.evil.example": False,
    "0.0.0.0": False,
    "10.0.0.1": False,
    "": False,
    "[": False,
    "evil.example@localhost:x": False,
}


@pytest.mark.parametrize("host", NAMES)
def test_names_of_this_machine(host):
    assert is_this_machine(host) is NAMES[host]
    assert is_allowed(host, ["mine.example"]) is NAMES[host]


def test_a_name_that_was_bound_to_this_machine_is_refused(models):
    settings = ServerSettings(hosts=("mine.example",))
    with running({"bert": models["bert"]}, settings) as server:
        for host in ("mine.example", "Mine.Example:99", "localhost", "127.0.0.1:1"):
            assert server.client.get("/v1/models", headers={"host": host}).status_code == 200
        for host in ("evil.example", "mine.example.evil.example", "10.0.0.1"):
            for path in ("/v1/models", "/docs", "/nowhere"):
                refused = server.client.get(path, headers={"host": host})
                assert refused.status_code == 403
                assert "allowed host" in refused.text
            assert server.client.get("/health", headers={"host": host}).status_code == 200
            refused = server.post("/v1/classify", {"text": "a"}, headers={"host": host})
            assert refused.json()["error"]["kind"] == "unknown_host"


def test_budgets_count_what_requests_hold():
    budget = Budget("bytes", each=100, most=150, small=10)
    first, second, third = budget.reservation(), budget.reservation(), budget.reservation()
    first.grow(60)
    first.grow(40)
    with pytest.raises(TooLarge, match="101 bytes are more than the 100 of a request"):
        first.grow(1)
    assert budget.used == 90
    with pytest.raises(Overloaded, match="other requests hold too many bytes"):
        second.grow(71)
    second.grow(70)
    third.grow(10)  # small ones always have room
    with pytest.raises(Overloaded):
        third.grow(1)
    for reservation in (first, second, third, first):
        reservation.release()
    assert budget.used == 0
    with pytest.raises(ValueError, match="inside"), budget.reserved(100):
        assert budget.used == 90
        raise ValueError("inside")
    assert budget.used == 0


UNFINISHED = "POST {path} HTTP/1.1\nHost: localhost\nContent-Length: {length}\n{more}"


@pytest.mark.parametrize(
    ("path", "more", "budget", "most"),
    [
        ("/translate", "", "unknown", 120_000),
        ("/v1/classify", f"X-API-Key: {KEY}\n", "bodies", 300_000),
    ],
)
def test_unfinished_bodies_have_their_bytes_together(locked, path, more, budget, most):
    services, length = locked.app.services, 49_000
    head = UNFINISHED.format(path=path, length=length, more=more)
    connections = [raw(locked, head, b"a" * (length - 1), end=False) for _ in range(30)]
    try:
        with ends(60):
            while not getattr(services, budget).used > most - length:
                time.sleep(0.01)
        time.sleep(0.2)
        assert getattr(services, budget).used <= most
        answers = [each.recv(16) for each in connections[-3:]]
        assert answers == [b"HTTP/1.1 429 Too"] * 3
        assert locked.client.get("/health").status_code == 200
        small = locked.post("/v1/classify", {"text": "a"}, headers={"x-api-key": KEY})
        assert small.status_code == 200
    finally:
        for each in connections:
            each.close()
    with ends(60):
        while services.unknown.used or services.bodies.used:
            time.sleep(0.01)


def is_closed(connection):
    """Whether the server has closed a connection on which it has nothing to say."""
    connection.settimeout(0.2)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_of_many_idle_connections_the_oldest_are_closed(server, monkeypatch):
    monkeypatch.setattr(serving, "MOST_CONNECTIONS", 20)
    head = UNFINISHED.format(path="/v1/classify", length=30, more="")
    body = b'{"text": "The storm came in."}'
    busy = raw(server, head, body[:-1], end=False)
    with ends(60):
        while not server.app.working:
            time.sleep(0.01)
    begun = [raw(server, "GET /health", end=False) for _ in range(5)]
    silent = [
        socket.create_connection((server.client.base_url.host, server.client.base_url.port), 20)
        for _ in range(60)
    ]
    try:
        for path in ("/health", "/v1/models", "/health"):
            head = f"GET {path} HTTP/1.1\nHost: localhost\nConnection: close\n"
            assert raw(server, head).startswith("HTTP/1.1 200")
        assert all(map(is_closed, [*begun, *silent[:30]]))
        assert not any(map(is_closed, silent[-10:]))
        busy.sendall(body[-1:])
        assert busy.recv(64).startswith(b"HTTP/1.1 200")
    finally:
        for each in (busy, *begun, *silent):
            each.close()


def test_working_requests_are_bounded_and_health_answers(server, monkeypatch):
    monkeypatch.setattr(application, "MOST_REQUESTS", 4)
    head = UNFINISHED.format(path="/v1/classify", length=30, more="")
    busy = [raw(server, head, b"{", end=False) for _ in range(4)]
    idle = [raw(server, "GET", end=False) for _ in range(10)]
    try:
        with ends(60):
            while server.app.working < 4:
                time.sleep(0.01)
        for _ in range(2):
            assert server.client.get("/health").status_code == 200
            refused = server.post("/v1/classify", {"text": "a"})
            assert refused.status_code == 429 and refused.headers["retry-after"] == "1"
            assert "too many requests at a time" in refused.json()["error"]["message"]
        busy.pop().close()
        with ends(60):
            while server.app.working > 3:
                time.sleep(0.01)
        assert server.post("/v1/classify", {"text": "a"}).status_code == 200
    finally:
        for each in (*busy, *idle):
            each.close()
    with ends(60):
        while server.app.working:
            time.sleep(0.01)


def test_bodies_are_bounded_more_closely_before_the_key_is_known(locked):
    text, fields = "a" * 60_000, {"source": "en", "target": "de"}
    for sent in ({"data": fields | {"q": text}}, {"json": fields | {"q": text, "api_key": KEY}}):
        refused = locked.client.post("/translate", **sent)
        assert refused.status_code == 413
        assert "more than 50000 bytes" in refused.json()["error"]
    answer = locked.client.post("/translate", data={"q": text}, headers={"x-api-key": KEY})
    assert answer.status_code == 400 and "target" in answer.json()["error"]
    rooms = locked.app.services  # hold nothing once the request has ended
    until(lambda: not (rooms.unknown.used or rooms.bodies.used))


def test_a_form_is_not_parsed_before_its_key_is_known(locked, monkeypatch):
    def parse(content):
        raise AssertionError("work before the key")

    monkeypatch.setattr(libre_translate, "_fields", parse)
    for key in ({}, {"api_key": "wrong"}):
        for sent in (
            {"data": {"q": "a", **key}},
            {"files": {n: (None, v) for n, v in key.items()}},
        ):
            assert locked.client.post("/translate", **sent).status_code == 401


FORMS = {
    "": None,
    "q=a": None,
    "api_key=abc": "abc",
    "q=a&api_key=a%2Bb+c&source=en": "a+b c",
    "q=my_api_key=abc": None,
    "xapi_key=abc": None,
    "q=a&api%5Fkey=abc": "abc",
    "%61%70%69%5f%6B%65%79=abc&q=a": "abc",
    "api%255Fkey=abc": None,
    "api_key=" + "a" * 257: None,
    "q=a&" * 2_048 + "api_key=abc": None,
    '{"q": "a", "api_key": "abc"}': "abc",
    '{"api_key": 5}': None,
}


@pytest.mark.parametrize("form", FORMS)
def test_the_key_of_a_form(form):
    assert libre_translate.key_in_body(form.encode()) == FORMS[form]


NAMED = "Content-Disposition: form-data; name=api_key"
PARTS = {
    'Content-Disposition: form-data; name="api_key"': True,
    'content-disposition:form-data;name="api_key"': True,
    NAMED: True,
    f"{NAMED}\r\nContent-Type: text/plain; charset=utf-8": True,
    f"Content-Type: text/plain\r\n{NAMED}": True,
    f'{NAMED}; other="\u00e9"': True,
    f"X: {'a' * 2_000}\r\n{NAMED}": False,
    'Content-Disposition: form-data; name="xapi_key"': False,
    'Content-Disposition: form-data; name="q"; other="api_key"': False,
    "Content-Disposition: attachment; name=api_key": False,
    "Content-Type: text/plain; name=api_key": False,
    f"Content-Disposition: form-data; name=q\r\n\r\n{NAMED}": False,
    "api_key": False,
    "": False,
}


@pytest.mark.parametrize("head", PARTS)
@pytest.mark.parametrize("before", [0, 30])
def test_the_key_of_a_form_in_parts(head, before):
    text = '--x\r\nContent-Disposition: form-data; name="q"\r\n\r\n--y\r\n' * before
    form = f"{text}--x\r\n{head}\r\n\r\nabc\r\n--x--\r\n".encode()
    assert libre_translate.key_in_body(form) == ("abc" if PARTS[head] else None)
    assert libre_translate.key_in_body(form.replace(b"\r\n--x--", b"")) is None


def test_the_heads_of_few_parts_are_parsed_for_a_key(monkeypatch):
    heads, name_of = [], libre_translate._name_of_part
    monkeypatch.setattr(libre_translate, "_name_of_part", lambda h: heads.append(h) or name_of(h))
    part = b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\nabc\r\n'
    many = [part % name * 3_000 for name in (b"q", b"xapi_key")]
    for form in many:
        assert libre_translate.key_in_body(form + part % b"api_key" + b"--x--\r\n") is None
    assert len(heads) == libre_translate.MOST_KEYS


def test_large_forms_are_parsed_beside_the_event_loop(server, monkeypatch):
    threads, whole = [], libre_translate._fields

    def noted(content):
        threads.append(threading.current_thread().name)
        return whole(content)

    monkeypatch.setattr(libre_translate, "_fields", noted)
    for text in ("a", "a" * 100_000):
        server.client.post("/detect", data={"q": text})
    assert threads[0] != "request" and threads[1:] == ["request"]


class AnyBody(Struct):
    values: list[object]


def test_items_of_a_body_are_counted_before_it_is_parsed():
    good = b'{"values": ["%s", [%s]]}' % (b"," * 2 * MOST_ITEMS, b"1," * 100_000 + b"1")
    assert len(decode_json(good, AnyBody).values[1]) == 100_001
    with pytest.raises(BadInput, match="more than 266240 items"):
        decode_json(b'{"values": [%s1]}' % (b"1," * (MOST_ITEMS + 1)), AnyBody)


def refuse(*given, **options):
    raise AssertionError("work before it is allowed")


READERS = {
    "/tokenize": lambda size: {"inputs": ["a" * (size // 2)] * 2, "add_special_tokens": False},
    "/tokenize#": lambda size: {"prompt": "a" * size},
    "/tokenize##": lambda size: {"prompt": "\u00e9" * (size // 2)},
    "/tokenize###": lambda size: {"inputs": ["\U0001f600" * (size // 4), "a" * (size % 4)]},
    "/decode": lambda size: {"ids": [[5] * (size // 2)] * 2},
    "/detokenize": lambda size: {"tokens": [5] * size},
}


@pytest.mark.parametrize("path", READERS)
def test_bytes_and_ids_are_counted_before_any_is_read(models, monkeypatch, path):
    with running({"gpt": models["gpt"]}, max_request_tokens=1_000) as server:
        budget = server.app.services.texts
        assert server.post(path.strip("#"), READERS[path](1_000)).status_code == 200
        for name in ("_written_tokens", "_prompt_ids", "decode"):
            monkeypatch.setattr(tokenization, name, refuse)
        refused = server.post(path.strip("#"), READERS[path](1_002))
        assert refused.status_code == 413
        assert "1002 bytes or ids are more than the 1000" in refused.json()["error"]
        budget.used = budget.most
        assert server.post(path.strip("#"), READERS[path](10)).status_code == 429
        budget.used = 0


def test_tokens_of_a_text_are_the_same_in_any_number_of_parts(server, monkeypatch):
    body = {"inputs": SENTENCES[:3]}
    whole = server.post("/tokenize?model=bert", body).json()
    monkeypatch.setattr(tokenization, "MANY", 2)
    assert server.post("/tokenize?model=bert", body).json() == whole
    assert [row[0]["text"] for row in whole] == ["[CLS]"] * 3


TEXTS = {
    "/embed?model=bert": lambda text: {"inputs": [text, "a"]},
    "/similarity?model=bert": lambda text: {
        "inputs": {"source_sentence": "a", "sentences": [text]}
    },
    "/v1/classify": lambda text: {"inputs": [{"first": "a", "second": text}]},
    "/v1/embeddings": lambda text: {"model": "bert", "input": [text]},
    "/v1/completions": lambda text: {"model": "gpt", "prompt": [5] * len(text.encode())},
    "/models/bert": lambda text: {"inputs": text},
}


@pytest.mark.parametrize("path", TEXTS)
def test_bytes_of_every_api_are_counted_before_any_is_read(models, monkeypatch, path):
    with running(models, max_bytes=500) as server:
        monkeypatch.setattr(RowTokenizer, "count", refuse)
        for text in ("a" * 501, "\u00e9" * 251, "\U0001f600" * 126):
            refused = server.post(path, TEXTS[path](text))
            assert refused.status_code == 413 and "more than the 500 of a request" in refused.text


def test_reading_that_nobody_waits_for_ends(models, monkeypatch):
    reads, gate = [], threading.Event()

    def noted(component, given, keys):
        reads.append(len(given))
        if len(reads) > 1:
            gate.wait(60)
        return whole(component, given, keys)

    with running({"bert": models["bert"]}) as server:
        kind = type(server.engine.models["bert"].component("embed"))
        whole = kind.prepare
        monkeypatch.setattr(kind, "prepare", noted)
        body, late = {"inputs": ["a" * 70_000] * 14}, {"x-request-timeout-seconds": "0.2"}
        assert server.post("/v1/embed", body, headers=late).status_code == 504
        gate.set()
        until(lambda: not threads_named("prepare-bert"))
        assert 1 <= len(reads) <= 2 and {*reads} == {1}


def test_work_beside_the_event_loop_ends_with_its_request_and_with_the_server():
    ended = threading.Event()

    def work():
        try:
            while True:
                check_wanted()
                time.sleep(0.01)
        finally:
            ended.set()

    async def run(end):
        threads = RequestThreads(1)
        task = asyncio.ensure_future(threads.run(work))
        await asyncio.sleep(0.05)
        end(threads, task)
        await asyncio.gather(task, return_exceptions=True)
        while not ended.is_set():
            await asyncio.sleep(0.01)
        ended.clear()
        return task, threads

    with ends(20):
        task, _ = asyncio.run(run(lambda threads, task: task.cancel()))
        assert task.cancelled()
        task, threads = asyncio.run(run(lambda threads, task: threads.abandon()))
        assert isinstance(task.exception(), Unavailable)
        with pytest.raises(Unavailable):
            asyncio.run(threads.run(work))


class Panic(BaseException):
    """As a library in Rust raises it."""


@pytest.mark.parametrize("path", ["/v1/embed", "/v1/embeddings", "/tokenize?model=bert", "/embed"])
@pytest.mark.parametrize("length", [10, 1_000])
def test_a_tokenizer_that_panics_is_an_error_in_the_shape_of_the_api(
    models, monkeypatch, path, length
):
    def panic(*given, **options):
        raise Panic

    with running({"bert": models["bert"]}) as server:
        for name in ("encode", "encode_all", "segment", "cut"):
            monkeypatch.setattr(type(models["bert"].tokenizer.vocabularies[0]), name, panic)
        key = {"/v1/embed": "text", "/v1/embeddings": "input"}.get(path, "inputs")
        body = {key: "a" * length} | ({"model": "bert"} if "v1" in path else {})
        with ends(20):
            failed = server.post(path, body | ({"truncate": True} if path == "/embed" else {}))
        assert failed.status_code == 500 and "log of the server" in failed.text
        assert "error" in failed.json()
        monkeypatch.undo()
        assert server.post("/v1/embed", {"text": "a"}).status_code == 200


PROMPT = {"model": "gpt", "prompt": "A"}
LISTS = [
    ("/v1/completions", PROMPT, "logit_bias", {str(n): 1 for n in range(1_025)}),
    ("/v1/completions", PROMPT, "stop", ["a" * 257]),
    ("/v1/completions", PROMPT, "stop", ["a"] * 17),
    ("/v1/generate", {"text": "A"}, "stop_strings", ["a"] * 17),
    ("/v1/generate", {"text": "A"}, "stop_strings", ["a" * 257]),
    ("/v1/classify", {"text": "A"}, "inspect", {"names": ["a"] * 65}),
    ("/v1/classify", {"text": "A"}, "inspect", {"names": ["a" * 257]}),
    ("/v1/classify", {"text": "A"}, "inspect", {"layers": [0] * 1_025}),
    ("/models/gpt", {"inputs": "A"}, "parameters", {"stop": ["a"] * 17}),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(LISTS)))
def test_lists_of_a_request_are_bounded(server, number):
    path, body, name, value = LISTS[number]
    refused = server.post(path, body | {name: value})
    assert refused.status_code == 400, refused.text
    assert "more than" in refused.text or "length <=" in refused.text


def test_an_id_has_one_name_in_a_logit_bias(server):
    body = {"model": "gpt", "prompt": "A", "max_tokens": 1, "temperature": 0}
    assert server.post("/v1/completions", body | {"logit_bias": {"0": 1, "10": 1}}).is_success
    for name in ("0001", "+1", " 1", "1.0", "٣"):
        refused = server.post("/v1/completions", body | {"logit_bias": {"1": 1, name: 1}})
        assert "is not a token id" in refused.json()["error"]["message"]
    with pytest.raises(BadInput, match="each token once"):
        LogitBias(((1, 1.0), (1, 2.0)))


def test_components_are_kept_by_the_bytes_of_their_options(models):
    served = ServedModel(models["gpt"]._limited(7), "gpt")
    kept_components = served.model._components

    def component(stop, **more):
        return served.component("generate", {"ending": Ending(5, 0, (stop,)), **more})

    kept = component("a")
    assert component("a") is kept and component("a", best=None) is kept
    for number in range(40):
        stop = f"{number} {'a' * 9_000}"
        assert component(stop) is component(stop)
        assert kept_components.option_bytes <= MOST_OPTION_BYTES
    assert 1 < len(kept_components) < 20
    component("a" * MOST_OPTION_BYTES)
    assert not len(kept_components) and not kept_components.option_bytes


def test_values_are_counted_before_they_are_recorded(models, monkeypatch):
    runs, body = [], {"text": SENTENCES[0], "inspect": {"layers": [0]}}
    with running({"bert": models["bert"]}) as server:
        (inside,) = server.post("/v1/classify", body).json()["inspect"]
        (weights,) = inside["values"].values()
        monkeypatch.setattr(inspection, "INSPECTED", 4 * math.prod(weights["shape"]))
        assert server.post("/v1/classify", body).status_code == 200
        kind = type(server.engine.models["bert"].component("predict"))
        results = kind.results
        monkeypatch.setattr(kind, "results", lambda *given: runs.append(1) or results(*given))
        long = body | {"text": " ".join(SENTENCES)}
        kinds = ["states", "mlp_outputs", "queries", "keys", "values", "head_outputs"]
        everything = body | {"inspect": {"values": kinds}}
        for asked, begun in ((long, 0), (everything, 1)):
            refused = server.post("/v1/classify", asked)
            assert refused.status_code == 400
            assert "the values have more than" in refused.json()["error"]["message"]
            assert len(runs) == begun
        budget = server.app.services.values
        budget.used = budget.most
        assert server.post("/v1/classify", body).status_code == 429


def test_cut_inputs_are_named_in_the_answer(server):
    body = {"model": "bert", "input": ["a", "storm " * 200, "b", "storm " * 300]}
    assert server.post("/v1/embeddings", body).json()["truncated"] == [1, 3]
    assert "truncated" not in server.post("/v1/embeddings", body | {"input": ["a"]}).json()


def test_ids_of_another_vocabulary_are_refused(server, models):
    last = len(models["bert"].tokenizer.vocabularies[0]) - 1
    for ids in ([5, 100_256], [last + 1], [-1]):
        refused = server.post("/v1/embeddings", {"model": "bert", "input": ids})
        assert refused.status_code == 400
        assert "is not in the vocabulary" in refused.json()["error"]["message"]
    assert server.post("/v1/embeddings", {"model": "bert", "input": [5, last]}).is_success


class Large:
    """What a request holds."""


ERRORS = {
    "input": lambda: BadInput("a line"),
    "refusal": lambda: Overloaded("full", 1),
    "panic": Panic,
    "fault": KeyError,
}


@pytest.mark.parametrize("error", ERRORS)
def test_a_request_that_failed_leaves_nothing_behind(models, error):
    left = []

    def hold():
        large = Large()
        left.append(weakref.ref(large))
        raise ERRORS[error]()

    async def fail(request):
        hold()

    async def fail_beside(request):
        await request.beside(hold, large=True)

    async def fail_in_the_model(request):
        await request.engine.call("bert", lambda served: hold())

    handlers = {"/loop": fail, "/beside": fail_beside, "/model": fail_in_the_model}
    routes = [Endpoint("GET", path, handler, "Fail.") for path, handler in handlers.items()]
    apis = [*APIS, API("failing", routes, APIS[0].error)]
    with running({"bert": models["bert"]}, apis=apis) as server, without_collector():
        for path in handlers:
            with ends(20):
                assert server.client.get(path).status_code in (400, 429, 500)
        server.client.get("/health")
        assert [each() for each in left] == [None] * 3


@contextmanager
def without_collector():
    """No search for circles, and no log, which keeps the errors of a test."""
    gc.disable()
    logging.disable()
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        gc.enable()


def test_memory_of_large_requests_is_given_back(models, monkeypatch):
    trimmed = []
    monkeypatch.setattr(application, "trim_heap", lambda: trimmed.append(1))
    monkeypatch.setattr(application, "TRIM_SECONDS", 0.05)
    with running({"bert": models["bert"]}) as server, ends(60):
        server.post("/v1/embed", {"text": "a"})
        time.sleep(0.2)
        assert not trimmed
        for number in (1, 2):
            for _ in range(2):
                server.post("/v1/embed", {"inputs": ["a" * 9_000] * 10})
            while len(trimmed) < number:
                time.sleep(0.01)


def test_memory_of_requests_that_end_during_a_trim_is_given_back(models, monkeypatch):
    begun, going, trimmed = threading.Event(), threading.Event(), []

    def trim():
        trimmed.append(1)
        begun.set()
        going.wait(20)

    monkeypatch.setattr(application, "trim_heap", trim)
    monkeypatch.setattr(application, "TRIM_SECONDS", 0.05)
    large = {"inputs": ["a" * 9_000] * 10}
    with running({"bert": models["bert"]}) as server, ends(60):
        server.post("/v1/embed", large)
        begun.wait(20)
        server.post("/v1/embed", large)
        going.set()
        while len(trimmed) < 2:
            time.sleep(0.01)
        time.sleep(0.3)
        assert len(trimmed) == 2


def test_memory_can_be_given_back_on_any_machine(monkeypatch):
    trim_heap()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    trim_heap()
