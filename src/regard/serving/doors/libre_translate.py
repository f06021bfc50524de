"""The door of LibreTranslate's clients: /translate, /languages, /detect, /frontend/settings.

A text is translated line by line, an HTML document text by text between its tags. Translators
state their languages (regard serve --languages); a classifier whose labels are codes of languages
detects them.
"""

import io
import re
import tomllib
from collections.abc import Sequence
from functools import partial
from importlib.resources import files
from typing import Annotated, Literal, TypeVar
from urllib.parse import parse_qs

import msgspec
from msgspec import Meta, Struct
from python_multipart import parse_form
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import Field, File
from starlette.responses import Response

from regard.ground.errors import BadInput
from regard.serving.doors.door import Door, DoorRoute, Exchange, decode_json, json_response
from regard.serving.doors.label_scores import best_first, classifies, label_scores
from regard.serving.errors import TooLarge
from regard.serving.html_text import HTMLTexts
from regard.serving.searches import method_of
from regard.serving.served_model import ServedModel

Body = TypeVar("Body")
Value = TypeVar("Value")
NAMES: dict[str, str] = tomllib.loads(
    (files("regard.serving") / "languages.toml").read_text(encoding="utf-8")
)
MOST_FIELDS = 2_048  # of a form
MOST_TAGS = 65_536  # of the HTML documents of a request
LINE = re.compile(r"\S(?:[^\n]*\S)?")  # without spaces at its edges


class TranslateRequest(Struct, forbid_unknown_fields=True, kw_only=True):
    """One text or several, with the codes of their languages."""

    q: str | list[str] | None = None
    source: str | None = None
    target: str | None = None
    format: Literal["text", "html"] = "text"
    alternatives: Annotated[int, Meta(ge=0, le=63)] = 0
    api_key: str | None = None


class DetectRequest(Struct, forbid_unknown_fields=True, kw_only=True):
    q: str | None = None
    api_key: str | None = None


class APIKeyField(Struct):
    """The key in the body of any request."""

    api_key: str | None = None


class DetectedLanguage(Struct):
    confidence: float
    language: str


def _fields(content: bytes) -> dict[str, str | list[str]]:
    """Fields of a form; a field that occurs several times is a list."""
    if content.startswith(b"--"):
        return _parts(content)
    try:
        text = content.decode()
        form = parse_qs(text, keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
    except ValueError:
        raise BadInput("the body is neither JSON nor a form") from None
    return _joined(form)


def _joined(form: dict[str, list[str]]) -> dict[str, str | list[str]]:
    return {name: values[0] if len(values) == 1 else values for name, values in form.items()}


def _parts(content: bytes) -> dict[str, str | list[str]]:
    """Fields of a form of the type multipart/form-data, whose first line is its boundary."""
    boundary = content.partition(b"\r\n")[0]
    if content.count(boundary) > MOST_FIELDS:
        raise BadInput(f"the form has more than {MOST_FIELDS} fields")
    fields, files = list[Field](), list[File]()
    kind = b"multipart/form-data; boundary=" + boundary.removeprefix(b"--")
    form: dict[str, list[str]] = {}
    try:
        parse_form({"Content-Type": kind}, io.BytesIO(content), fields.append, files.append)
        for each in fields:
            form.setdefault((each.field_name or b"").decode(), []).append(
                (each.value or b"").decode()
            )
    except (FormParserError, ValueError):
        raise BadInput("the body is neither JSON nor a form") from None
    finally:
        for file in files:
            file.close()
    if files:
        raise BadInput("the form has a file; this server translates texts")
    return _joined(form)


def read_request(exchange: Exchange, of: type[Body]) -> Body:
    """The body of a request, which is JSON or a form."""
    if exchange.body.lstrip().startswith((b"{", b"[")):
        return exchange.json(of)
    try:
        return msgspec.convert(_fields(exchange.body), of, strict=False)
    except msgspec.ValidationError as error:
        raise BadInput(f"the form is not what this path reads: {error}") from None


def key_in_body(content: bytes) -> str | None:
    """The API key of a request."""
    try:
        if content.lstrip().startswith(b"{"):
            return decode_json(content, APIKeyField).api_key
        key = _fields(content).get("api_key")
    except BadInput:
        return None
    return key if isinstance(key, str) else None


def required(value: Value | None, name: str) -> Value:
    """A value that a request must have."""
    if value is None:
        raise BadInput(f"Invalid request: missing {name} parameter")
    return value


def translators(exchange: Exchange) -> list[ServedModel]:
    """Translators whose languages are known."""
    return [served for served in exchange.engine.models.values() if served.languages is not None]


def detects(served: ServedModel) -> bool:
    """Whether the labels of a model are codes of languages."""
    return classifies(served) and served.labels is not None and {*served.labels.names} <= {*NAMES}


async def detected(exchange: Exchange, texts: Sequence[str]) -> list[list[DetectedLanguage]]:
    """Languages of each text with their confidence in percent, the most probable first."""
    served = exchange.choose_model(None, detects, "/detect")
    scores = await label_scores(exchange, served, texts)
    return [
        [DetectedLanguage(100 * each.score, each.label) for each in best_first(of_text)]
        for of_text in scores
    ]


async def translate(exchange: Exchange) -> Response:
    """Translate one text or several."""
    body = read_request(exchange, TranslateRequest)
    given, target = required(body.q, "q"), required(body.target, "target")
    source = required(body.source, "source")
    texts = [given] if isinstance(given, str) else given
    if not texts:
        raise BadInput("q: there is no text")
    answer: dict[str, Sequence[object]] = {}
    languages = [source] * len(texts)
    if source == "auto":
        if not any(map(detects, exchange.engine.models.values())):
            known = ", ".join(sorted({str(model.source) for model in translators(exchange)}))
            raise BadInput(f"source: no model here detects languages; write one of {known}")
        likely = [best[0] for best in await detected(exchange, texts)]
        answer["detectedLanguage"], languages = likely, [each.language for each in likely]
    is_html = body.format == "html"
    documents = await _documents(exchange, texts, is_html=is_html)
    translations: list[list[str]] = [[] for _ in texts]
    for language in dict.fromkeys(languages):
        numbers = [number for number, each in enumerate(languages) if each == language]
        own = [documents[number] for number in numbers]
        for number, best in zip(
            numbers, await _translated(exchange, own, language, target, body), strict=True
        ):
            translations[number] = best
    answer["translatedText"] = [best for best, *_ in translations]
    if body.alternatives:
        answer["alternatives"] = [others for _, *others in translations]
    if isinstance(given, str):
        return json_response({name: values[0] for name, values in answer.items()})
    return json_response(answer)


class Document(Struct):
    """Texts to translate, and what lies between them: one more part than texts."""

    texts: list[str]
    html: HTMLTexts | None = None
    between: list[str] = []

    def replaced(self, texts: list[str]) -> str:
        """The document with other texts."""
        if self.html is not None:
            return self.html.replaced(texts)
        ends = self.between[1:]
        return self.between[0] + "".join(map(str.__add__, texts, ends))


async def _documents(exchange: Exchange, texts: Sequence[str], *, is_html: bool) -> list[Document]:
    if is_html and sum(text.count("<") for text in texts) > MOST_TAGS:
        raise TooLarge(f"q: more than the {MOST_TAGS} tags of a request")
    read = partial(_document, is_html=is_html)
    return await exchange.services.threads.run(lambda: [*map(read, texts)])


def _document(text: str, *, is_html: bool) -> Document:
    if is_html:
        read = HTMLTexts(text)
        return Document(read.texts, read)
    spans = [match.span() for match in LINE.finditer(text)]
    ends = [0, *(end for _, end in spans)]
    starts = [*(start for start, _ in spans), len(text)]
    between = [text[end:start] for end, start in zip(ends, starts, strict=True)]
    return Document([text[slice(*span)] for span in spans], None, between)


async def _translated(
    exchange: Exchange,
    documents: Sequence[Document],
    source: str,
    target: str,
    body: TranslateRequest,
) -> list[list[str]]:
    """The best translation of each document, and its alternatives."""
    served = _translator(exchange, source, target)
    texts = [text for document in documents for text in document.texts]
    if served is None or not texts:  # the languages are the same, or there is nothing to translate
        return [[document.replaced(document.texts)] for document in documents]
    count = 1 + body.alternatives
    method = method_of(served.model.translator, {}, count)
    results = await exchange.results(served, "translate", texts, {"method": method, "best": count})
    nbests = iter([[each.text for each in result.value.texts] for result in results])
    return [_variants(document, [next(nbests) for _ in document.texts]) for document in documents]


def _variants(document: Document, nbests: list[list[str]]) -> list[str]:
    """Documents of the best translations, of the second best, and so on, all different."""
    count = max(map(len, nbests), default=1)
    ranks = ([best[min(rank, len(best) - 1)] for best in nbests] for rank in range(count))
    return [*dict.fromkeys(map(document.replaced, ranks))]


def _translator(exchange: Exchange, source: str, target: str) -> ServedModel | None:
    """The translator of two languages; None if they are the same."""
    known = translators(exchange)
    for code, codes in ((source, {each.source for each in known}), (target, _targets(known))):
        if code not in codes and not (source == target and code in _codes(known)):
            raise BadInput(f"{code} is not supported")
    if source == target:
        return None
    for served in known:
        if served.languages == (source, target):
            return served
    raise BadInput(f"{target} is not supported as a target of {source}")


def _targets(known: Sequence[ServedModel]) -> set[str | None]:
    return {served.target for served in known}


def _codes(known: Sequence[ServedModel]) -> set[str | None]:
    return {served.source for served in known} | _targets(known)


async def languages(exchange: Exchange) -> Response:
    """Source languages, with the targets of each."""
    targets: dict[str, list[str]] = {}
    for served in translators(exchange):
        targets.setdefault(str(served.source), []).append(str(served.target))
    return json_response(
        [
            {"code": code, "name": NAMES.get(code, code), "targets": [*dict.fromkeys(own)]}
            for code, own in targets.items()
        ]
    )


async def detect(exchange: Exchange) -> Response:
    """The language of a text."""
    body = read_request(exchange, DetectRequest)
    (candidates,) = await detected(exchange, [required(body.q, "q")])
    return json_response(candidates)


async def settings(exchange: Exchange) -> Response:
    """Settings of a page that translates."""
    pairs = [served.languages for served in translators(exchange) if served.languages]
    source, target = pairs[0] if pairs else ("auto", "auto")
    has_keys = exchange.services.settings.keys is not None
    return json_response(
        {
            "apiKeys": has_keys,
            "keyRequired": has_keys,
            "charLimit": -1,
            "frontendTimeout": 500,
            "filesTranslation": False,
            "supportedFilesFormat": [],
            "suggestions": False,
            "language": {"source": _named(source), "target": _named(target)},
        }
    )


def _named(code: str) -> dict[str, str]:
    return {"code": code, "name": NAMES.get(code, code)}


def error(status: int, kind: str, message: str) -> dict[str, str]:
    """The body of an error."""
    return {"error": message}


ROUTES = [
    DoorRoute(
        "POST", "/translate", translate, "Translate.", TranslateRequest, key_in_body=key_in_body
    ),
    DoorRoute("GET", "/languages", languages, "Languages.", key_in_body=key_in_body),
    DoorRoute(
        "POST", "/detect", detect, "Detect a language.", DetectRequest, key_in_body=key_in_body
    ),
    DoorRoute("GET", "/frontend/settings", settings, "Settings of a page that translates."),
]
DOOR = Door("LibreTranslate", ROUTES, error)
