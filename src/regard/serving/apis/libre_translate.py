"""The API of LibreTranslate's clients: /translate, /languages, /detect, /frontend/settings, /.

A text is translated line by line, an HTML document text by text between its tags. Translators
state their languages (regard serve --languages). A classifier whose labels are codes of languages
detects them; without one, they are guessed among those of the translators.
"""

import io
import re
import tomllib
from base64 import b64encode
from collections.abc import Sequence
from contextlib import suppress
from email.parser import HeaderParser
from functools import partial
from hashlib import sha256
from importlib.resources import files
from itertools import islice
from typing import Annotated, Literal, TypeVar
from urllib.parse import parse_qs, unquote_plus

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from python_multipart import parse_form
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import Field, File, parse_options_header
from starlette.responses import HTMLResponse, RedirectResponse

from regard.core.errors import BadInput
from regard.serving.apis.json_body import decode_json
from regard.serving.apis.label_scores import best_first, classifies, label_scores
from regard.serving.apis.request import API, LARGE_BODY, APIRequest, Routes
from regard.serving.html_text import HTMLTexts
from regard.serving.languages_by_words import guess_languages
from regard.serving.request_errors import TooLarge, UnknownModel
from regard.serving.searches import method_of
from regard.serving.served_model import ServedModel

Body = TypeVar("Body")
Value = TypeVar("Value")
NAMES: dict[str, str] = tomllib.loads(
    (files("regard.serving") / "languages.toml").read_text(encoding="utf-8")
)
MOST_FIELDS = 2_048  # of a form
LARGEST_FORM = 1 << 20  # bytes: libraries take many times as many to parse it
MOST_TAGS = 65_536  # of the HTML documents of a request, and the most lines of its texts
LONGEST_HEAD = 1_024  # bytes of the headers of a part of a form, in which a key is looked for
LONGEST_KEY, MOST_KEYS = 256, 16  # characters, and parts of a form that may have the key
LONGEST_NAME = 3 * len("api_key")  # characters of the name of a field, if all are escaped
PAGE = (files("regard.serving") / "translate.html").read_text(encoding="utf-8")
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


class TranslateAnswer(Struct):
    """A translation, or those of several texts; with the language of each, if it was detected."""

    translatedText: str | list[str]
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | UnsetType = UNSET
    alternatives: list[str | list[str]] | UnsetType = UNSET


class Language(Struct):
    code: str
    name: str


class SourceLanguage(Language):
    """A language with the codes of those into which it is translated."""

    targets: list[str]


class FrontendLanguages(Struct):
    source: Language
    target: Language


class FrontendSettings(Struct):
    """Settings of a page that translates."""

    apiKeys: bool
    keyRequired: bool
    language: FrontendLanguages
    charLimit: int = -1
    frontendTimeout: int = 500
    filesTranslation: bool = False
    supportedFilesFormat: list[str] = []
    suggestions: bool = False


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


async def read_request(request: APIRequest, kind: type[Body]) -> Body:
    """The body of a request, which is JSON or a form."""
    if request.body.lstrip().startswith((b"{", b"[")):
        return await request.json(kind)
    large = len(request.body) > LARGE_BODY
    if len(request.body) > LARGEST_FORM:
        raise TooLarge(f"a form has at most {LARGEST_FORM} bytes; write JSON")
    fields = await request.beside(partial(_fields, request.body), large=large)
    try:
        return msgspec.convert(fields, kind, strict=False)
    except msgspec.ValidationError as error:
        raise BadInput(f"the form is not what this path reads: {error}") from None


def key_in_body(content: bytes) -> str | None:
    """The API key of a request; of a form, only the names of its fields are read for it."""
    if content.lstrip().startswith(b"{"):
        with suppress(BadInput):
            return decode_json(content, APIKeyField).api_key
        return None
    find = _key_of_parts if content.startswith(b"--") else _key_of_fields
    key = find(content)
    return key if key is not None and len(key) <= LONGEST_KEY else None


def _key_of_fields(content: bytes) -> str | None:
    """The field of the key of a form whose fields are escaped; the others are not read."""
    for field in content.split(b"&", MOST_FIELDS)[:MOST_FIELDS]:
        name, _, value = field.partition(b"=")
        if len(name) <= LONGEST_NAME and unquote_plus(name.decode("latin-1")) == "api_key":
            return unquote_plus(value[: 3 * LONGEST_KEY + 1].decode(errors="replace"))
    return None


def _key_of_parts(content: bytes) -> str | None:
    """The field of the key of a form in parts; of the others, only the headers are read."""
    boundary = content.partition(b"\r\n")[0]
    parts = (b"\r\n" + content).split(b"\r\n" + boundary, MOST_FIELDS + 1)[1:-1]
    named = (part for part in parts if b"api_key" in part[:LONGEST_HEAD])
    for part in islice(named, MOST_KEYS):
        head, _, value = part[: LONGEST_HEAD + LONGEST_KEY + 1].partition(b"\r\n\r\n")
        if _name_of_part(head) == b"api_key":
            return value.decode(errors="replace")
    return None


def _name_of_part(head: bytes) -> bytes | None:
    """The name of a field, by the headers of its part."""
    headers = HeaderParser().parsestr(head.decode("latin-1").lstrip())
    disposition, options = parse_options_header(headers.get("content-disposition"))
    return options.get(b"name") if disposition == b"form-data" else None


ROUTES = Routes(read_request)


def required(value: Value | None, name: str) -> Value:
    """A value that a request must have."""
    if value is None:
        raise BadInput(f"Invalid request: missing {name} parameter")
    return value


def translators(request: APIRequest) -> list[ServedModel]:
    """Translators whose languages are known."""
    return [served for served in request.engine.models.values() if served.languages is not None]


def detects(served: ServedModel) -> bool:
    """Whether the labels of a model are codes of languages."""
    return classifies(served) and served.labels is not None and {*served.labels.names} <= {*NAMES}


async def detected(request: APIRequest, texts: Sequence[str]) -> list[list[DetectedLanguage]]:
    """Languages of each text with their confidence in percent, the most probable first."""
    if not any(map(detects, request.engine.models.values())):
        return await _guessed(request, texts)
    served = request.choose_model(None, detects, "/detect")
    scores = await label_scores(request, served, texts)
    return [
        [DetectedLanguage(100 * each.score, each.label) for each in best_first(of_text)]
        for of_text in scores
    ]


async def _guessed(request: APIRequest, texts: Sequence[str]) -> list[list[DetectedLanguage]]:
    """Languages of each text among those of the translators, the most probable first."""
    pairs = [served.languages for served in translators(request) if served.languages]
    codes = [*dict.fromkeys(code for side in zip(*pairs, strict=True) for code in side)]
    if not codes:
        raise UnknownModel("no model here translates or detects languages")
    request.engine.check_inputs(texts)
    guess = partial(guess_languages, codes=codes)
    guesses = await request.services.threads.run(lambda: [*map(guess, texts)])
    return [[DetectedLanguage(100 * p, code) for code, p in each.items()] for each in guesses]


def _policy() -> str:
    """What the page may do: run its own script, and ask this server."""
    parts = {tag: re.findall(f"<{tag}>(.*?)</{tag}>", PAGE, re.S) for tag in ("script", "style")}
    hashes = {
        tag: " ".join(
            f"'sha256-{b64encode(sha256(part.encode()).digest()).decode()}'" for part in own
        )
        for tag, own in parts.items()
    }
    allowed = [f"{tag}-src {own}" for tag, own in hashes.items()]
    return "; ".join(
        ["default-src 'none'", *allowed, "connect-src 'self'", "img-src data:"]
        + [f"{name} 'none'" for name in ("base-uri", "form-action", "frame-ancestors")]
    )


POLICY = {"content-security-policy": _policy(), "x-content-type-options": "nosniff"}


@ROUTES.get("/", "text/html", open=True)
async def page(request: APIRequest) -> object:
    """A page, or the list of paths."""
    if translators(request):
        return HTMLResponse(PAGE, headers=POLICY)
    return RedirectResponse("docs", 307)


@ROUTES.post("/translate", TranslateRequest, TranslateAnswer, key_in_body=key_in_body)
async def translate(request: APIRequest, body: TranslateRequest) -> object:
    """Translate."""
    query, target = required(body.q, "q"), required(body.target, "target")
    source = required(body.source, "source")
    texts = [query] if isinstance(query, str) else query
    if not texts:
        raise BadInput("q: there is no text")
    answer: dict[str, Sequence[object]] = {}
    languages = [source] * len(texts)
    if source == "auto":
        likely = [best[0] for best in await detected(request, texts)]
        answer["detectedLanguage"], languages = likely, [each.language for each in likely]
    is_html = body.format == "html"
    documents = await _documents(request, texts, is_html=is_html)
    translations: list[list[str]] = [[] for _ in texts]
    for language in dict.fromkeys(languages):
        numbers = [number for number, each in enumerate(languages) if each == language]
        own = [documents[number] for number in numbers]
        for number, best in zip(
            numbers, await _translated(request, own, language, target, body), strict=True
        ):
            translations[number] = best
    answer["translatedText"] = [best for best, *_ in translations]
    if body.alternatives:
        answer["alternatives"] = [alternatives for _, *alternatives in translations]
    if isinstance(query, str):
        return {name: values[0] for name, values in answer.items()}
    return answer


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


async def _documents(request: APIRequest, texts: Sequence[str], *, is_html: bool) -> list[Document]:
    request.engine.check_inputs(texts)
    mark, name = ("<", "tags") if is_html else ("\n", "lines")
    if sum(text.count(mark) for text in texts) > MOST_TAGS:
        raise TooLarge(f"q: more than the {MOST_TAGS} {name} of a request")
    read = partial(_document, is_html=is_html)
    return await request.services.threads.run(lambda: [*map(read, texts)])


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
    request: APIRequest,
    documents: Sequence[Document],
    source: str,
    target: str,
    body: TranslateRequest,
) -> list[list[str]]:
    """The best translation of each document, and its alternatives."""
    served = _translator(request, source, target)
    texts = [text for document in documents for text in document.texts]
    if served is None or not texts:  # the languages are the same, or there is nothing to translate
        return [[document.replaced(document.texts)] for document in documents]
    count = 1 + body.alternatives
    method = method_of(served.model.translator, {}, count)
    results = await request.results(served, "translate", texts, {"method": method, "best": count})
    nbests = iter([[each.text for each in result.value.texts] for result in results])
    return [_variants(document, [next(nbests) for _ in document.texts]) for document in documents]


def _variants(document: Document, nbests: list[list[str]]) -> list[str]:
    """Documents of the best translations, of the second best, and so on, all different."""
    count = max(map(len, nbests), default=1)
    ranks = ([best[min(rank, len(best) - 1)] for best in nbests] for rank in range(count))
    return [*dict.fromkeys(map(document.replaced, ranks))]


def _translator(request: APIRequest, source: str, target: str) -> ServedModel | None:
    """The translator of two languages; None if they are the same."""
    known = translators(request)
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


@ROUTES.get("/languages", list[SourceLanguage], key_in_body=key_in_body)
async def languages(request: APIRequest) -> object:
    """Languages."""
    targets: dict[str, list[str]] = {}
    for served in translators(request):
        targets.setdefault(str(served.source), []).append(str(served.target))
    return [
        SourceLanguage(code, NAMES.get(code, code), [*dict.fromkeys(own)])
        for code, own in targets.items()
    ]


@ROUTES.post("/detect", DetectRequest, list[DetectedLanguage], key_in_body=key_in_body)
async def detect(request: APIRequest, body: DetectRequest) -> object:
    """Detect a language."""
    (candidates,) = await detected(request, [required(body.q, "q")])
    return candidates


@ROUTES.get("/frontend/settings", FrontendSettings)
async def settings(request: APIRequest) -> object:
    """Settings of a page that translates."""
    pairs = [served.languages for served in translators(request) if served.languages]
    source, target = pairs[0] if pairs else ("auto", "auto")
    has_keys = request.services.settings.keys is not None
    languages = FrontendLanguages(_named(source), _named(target))
    return FrontendSettings(has_keys, has_keys, languages)


def _named(code: str) -> Language:
    return Language(code, NAMES.get(code, code))


def error(status: int, kind: str, message: str) -> dict[str, str]:
    """The body of an error."""
    return {"error": message}


LIBRE_TRANSLATE = API("LibreTranslate", ROUTES, error)
