"""The description of all paths in the format OpenAPI 3.1: keys, bodies, answers and errors.

Starlette's ``SchemaGenerator`` reads YAML of docstrings, and knows no types of msgspec.
"""

import re
from collections.abc import Iterable, Sequence
from http import HTTPStatus

import msgspec
from msgspec import Struct

from regard import __version__
from regard.serving.apis.request import API, Endpoint

REFERENCES = "#/components/schemas/{name}"
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
EVENTS = "text/event-stream"
SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}
OF_KEYS = (401,)  # statuses of errors that only a server with keys has
OF_ADMINS = (401, 403, 409, 501)
OF_ALL = (400, 403, 404, 429, 500, 503, 504)
OF_BODIES = (408, 413)


def openapi(apis: Sequence[API], *, has_keys: bool) -> dict[str, object]:
    """All paths, with the keys that they need."""
    routes = [(api, route) for api in apis for route in api.routes]
    types = {
        str(kind): kind
        for _, route in routes
        for kind in (route.body, route.answer)
        if kind is not None and not isinstance(kind, str)
    }
    _, schemas = msgspec.json.schema_components(
        types.values(), ref_template=REFERENCES, schema_hook=_schema_of_any
    )
    components: dict[str, object] = {
        "schemas": schemas | {_error_name(api): _schema(api.error(400, "", "")) for api in apis}
    }
    if has_keys:
        components["securitySchemes"] = SCHEMES
    paths: dict[str, dict[str, object]] = {}
    for api, route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(api, route, has_keys)
    return {
        "openapi": "3.1.0",
        "info": {"title": "regard", "version": __version__},
        "security": [{name: []} for name in SCHEMES] if has_keys else [],
        "paths": paths,
        "components": components,
    }


def _operation(api: API, route: Endpoint, has_keys: bool) -> dict[str, object]:
    operation: dict[str, object] = {"summary": route.summary, "tags": [api.name]}
    if route.open:
        operation["security"] = []
    if route.body is not None:
        media_types = ("application/json", *(FORMS if route.key_in_body is not None else ()))
        operation["requestBody"] = {"required": True, "content": _content(route.body, media_types)}
    names = re.findall(r"\{(\w+)\}", route.path)
    text = {"type": "string"}
    parameters = [{"name": n, "in": "path", "required": True, "schema": text} for n in names]
    if api.names_model:
        which = "The model, if several fit."
        parameters += [{"name": "model", "in": "query", "description": which, "schema": text}]
    operation["parameters"] = parameters
    answer: dict[str, object] = {"description": "The answer."}
    if isinstance(route.answer, str):
        answer["content"] = {route.answer: {"schema": text}}
    elif route.answer is not None:
        answer["content"] = _content(route.answer, ("application/json",)) | (
            {EVENTS: {"schema": text}} if _streams(route.body) else {}
        )
    error = {"schema": {"$ref": REFERENCES.format(name=_error_name(api))}}
    errors = {
        str(status): {
            "description": HTTPStatus(status).phrase,
            "content": {"application/json": error},
        }
        for status in _statuses(route, has_keys)
    }
    operation["responses"] = {"200": answer, **errors}
    return operation


def _statuses(route: Endpoint, has_keys: bool) -> Iterable[int]:
    """Statuses of the errors of a path."""
    keys = OF_ADMINS if route.admin else OF_KEYS if has_keys and not route.open else ()
    return sorted({*OF_ALL, *OF_BODIES, *keys})


def _streams(body: type[Struct] | None) -> bool:
    return body is not None and "stream" in body.__struct_fields__


def _content(kind: object, media_types: Iterable[str]) -> dict[str, object]:
    (schema,), _ = msgspec.json.schema_components(
        [kind], ref_template=REFERENCES, schema_hook=_schema_of_any
    )
    return {kind: {"schema": schema} for kind in media_types}


def _schema_of_any(kind: type) -> dict[str, object]:
    return {"description": "Any value of JSON."}


def _error_name(api: API) -> str:
    return api.name.replace(" ", "") + "Error"


def _schema(example: object) -> dict[str, object]:
    """The schema of the errors of an API, by one of them."""
    if isinstance(example, dict):
        properties = {name: _schema(value) for name, value in example.items()}
        return {"type": "object", "properties": properties, "required": [*properties]}
    return {"type": "string"} if isinstance(example, str) else {"type": ["string", "null"]}
