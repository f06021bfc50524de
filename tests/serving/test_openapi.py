"""The description of all paths, compared with what the paths answer."""

import msgspec
import pytest

from regard.serving.apis.request import Endpoint
from regard.serving.server import APIS
from regard.serving.settings import APIKeys, ServerSettings
from serving.running_server import running, translation_model
from small_bert import model as small_bert
from small_gpt import small_gpt2

KEY = {"x-api-key": "a-key-of-an-admin"}
PLAIN = {"/health", "/health/live", "/health/ready", "/metrics", "/docs", "/openapi.json", "/"}
ROUTES = [(api, route) for api in APIS for route in api.routes]
KNOWN = {(route.method, route.path): route for _, route in ROUTES}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    path = tmp_path_factory.mktemp("keys") / "keys"
    path.write_text(f"admin {KEY['x-api-key']}")
    models = {
        "one": small_bert("one"),
        "ranker": small_bert("number"),
        "states": small_bert("states"),
        "gpt": small_gpt2(),
        "mt-en-de": translation_model(),
    }
    settings = ServerSettings(keys=APIKeys.read(path), model_roots=(path.parent,))
    with running(models, settings) as server:
        server.client.headers.update(KEY)
        yield server


@pytest.fixture(scope="module")
def description(server):
    return server.client.get("/openapi.json").json()


ANSWERED = {
    "/v1/embeddings": [
        {"model": "states", "input": "a", "encoding_format": form} for form in ("float", "base64")
    ],
    "/v1/completions": [{"model": "gpt", "prompt": "a", "max_tokens": 2, "logprobs": 1}],
    "/v1/classify": [{"model": "one", "text": "a"}],
    "/embed?model=states": [{"inputs": "a"}],
    "/embed_all?model=states": [{"inputs": "a"}],
    "/predict?model=one": [{"inputs": "a"}, {"inputs": [["a"], ["a", "b"]]}],
    "/rerank?model=ranker": [
        {"query": "a", "texts": ["b", "c"]},
        {"query": "a", "texts": ["b"], "return_text": True},
    ],
    "/similarity?model=states": [{"inputs": {"source_sentence": "a", "sentences": ["b"]}}],
    "/tokenize?model=states": [{"inputs": "a"}, {"prompt": "a"}],
    "/decode?model=states": [{"ids": [7]}],
    "/detokenize?model=states": [{"tokens": [7]}],
    "/translate": [
        {"q": "the owl", "source": "en", "target": "de"},
        {"q": ["the owl"], "source": "auto", "target": "de", "alternatives": 1},
    ],
    "/detect": [{"q": "the owl"}],
}
ASKED = ("/v1/models", "/v1/models/gpt", "/languages", "/frontend/settings", "/admin/models")
ASKED += ("/info?model=states", "/info?model=one", "/tokenizer_info?model=gpt", "/health")


def route_of(method: str, path: str) -> Endpoint:
    path = path.partition("?")[0]
    return KNOWN.get((method, path)) or KNOWN[method, path.rpartition("/")[0] + "/{name}"]


def check(answer, route):
    """An answer is of the type that is described, without other keys."""
    assert answer.status_code == 200, answer.text
    value = msgspec.json.decode(answer.content, type=route.answer)
    again = msgspec.to_builtins(value)
    assert sorted_keys(again) == sorted_keys(answer.json())


def sorted_keys(value):
    """The keys of all objects of a value."""
    if isinstance(value, dict):
        return {key: sorted_keys(each) for key, each in sorted(value.items())}
    return [sorted_keys(each) for each in value] if isinstance(value, list) else None


@pytest.mark.parametrize("path", [*ANSWERED, *ASKED])
def test_answers_are_as_described(server, path):
    if path in ANSWERED:
        for body in ANSWERED[path]:
            check(server.post(path, body), route_of("POST", path))
    else:
        check(server.client.get(path), route_of("GET", path))


def test_every_answer_is_described(description):
    for path, operations in description["paths"].items():
        for operation in operations.values():
            assert "content" in operation["responses"]["200"], path
            assert {"400", "404", "429", "500"} <= operation["responses"].keys()
    references = set(find_references(description))
    schemas = {f"#/components/schemas/{name}" for name in description["components"]["schemas"]}
    assert references <= schemas
    completions = description["paths"]["/v1/completions"]["post"]
    assert "text/event-stream" in completions["responses"]["200"]["content"]
    forms = description["paths"]["/translate"]["post"]["requestBody"]["content"]
    assert "application/x-www-form-urlencoded" in forms
    described = {
        kind
        for kinds in (description["paths"]["/metrics"],)
        for kind in kinds["get"]["responses"]["200"]["content"]
    }
    assert described == {"text/plain"}


def find_references(value):
    if isinstance(value, dict):
        yield from [value["$ref"]] if "$ref" in value else []
        value = [*value.values()]
    for each in value if isinstance(value, list) else []:
        yield from find_references(each)


@pytest.mark.parametrize("path", [route.path for _, route in ROUTES if route.method == "POST"])
def test_errors_are_as_described(server, description, path):
    responses = description["paths"][path]["post"]["responses"]
    address = path.replace("{", "").replace("}", "")
    contents = (b"", b"{", b'{"colour": 1}', b'{"model": "nobody"}', b"[" * 99)
    statuses = set()
    for headers in ({}, {"x-api-key": "wrong"}):
        for content in contents:
            answer = server.client.post(address, content=content, headers=headers)
            statuses.add(answer.status_code)
            schema = responses[str(answer.status_code)]["content"]["application/json"]["schema"]
            name = schema["$ref"].rpartition("/")[2]
            fits(answer.json(), description["components"]["schemas"][name])
    assert 401 in statuses and len(statuses) > 1


def fits(value, schema):
    """Compare a value with a schema of objects and strings."""
    kinds = schema["type"]
    if kinds == "object":
        assert value.keys() == {*schema["required"]} == schema["properties"].keys()
        for name, each in value.items():
            fits(each, schema["properties"][name])
    else:
        assert isinstance(value, str) or (value is None and "null" in kinds)


def test_the_address_may_name_a_model_where_it_is_described(server, description):
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            named = any(each["name"] == "model" for each in operation["parameters"])
            if path in PLAIN or "{" in path or path.startswith("/admin"):
                assert not named
                continue
            bodies = [
                b for p, bs in ANSWERED.items() if p.partition("?")[0] == path for b in bs[:1]
            ]
            send = {"json": bodies[0]} if bodies else {}
            answer = server.client.request(method, f"{path}?model=nobody", **send)
            assert ("no model 'nobody'" in answer.text) == named, (path, answer.text)


def test_keys_are_described_where_they_are_needed(server, description):
    assert [*description["components"]["securitySchemes"]] == ["bearer", "key"]
    assert description["security"] == [{"bearer": []}, {"key": []}]
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            address = path.replace("{", "").replace("}", "")
            answer = server.client.request(method, address, headers={"x-api-key": ""})
            is_open = operation.get("security") == []
            assert (answer.status_code == 401) == (not is_open), path
            assert ("401" in operation["responses"]) == (not is_open)


def test_a_server_without_keys_describes_none():
    with running({"one": small_bert("one")}) as server:
        description = server.client.get("/openapi.json").json()
        assert "securitySchemes" not in description["components"] and description["security"] == []
        assert "401" not in description["paths"]["/v1/classify"]["post"]["responses"]
        assert "401" in description["paths"]["/admin/models"]["get"]["responses"]
