"""Tokens of texts and texts of tokens, in the shapes of TEI and of evaluation harnesses."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, groupby, islice, product
from typing import TypeVar

from msgspec import Struct
from starlette.responses import Response

from regard.core.cancellation import check_wanted
from regard.core.errors import BadInput
from regard.serving.apis.json_body import MANY, encode_json
from regard.serving.apis.request import APIRequest
from regard.serving.engine import size_of
from regard.serving.served_model import ServedModel
from regard.text.vocabulary import MISSING, Vocabulary
from regard.text.words import Span

ROLES = ("bos_token", "eos_token", "pad_token", "unk_token", "mask_token", "sep_token", "cls_token")
BETWEEN = {"wordpiece": " "}  # special tokens and texts, by kind of vocabulary
BEGINNING = 64  # characters of a text, for the special tokens around it
Value = TypeVar("Value")


class TokenizeRequest(Struct, forbid_unknown_fields=True, kw_only=True):
    """Texts under ``inputs`` (TEI), or one under ``prompt`` (evaluation harnesses)."""

    inputs: str | list[str] | None = None
    prompt: str | None = None
    add_special_tokens: bool = True
    prompt_name: str | None = None
    model: str | None = None


class DecodeRequest(Struct, forbid_unknown_fields=True):
    """Token ids of one text, or of several."""

    ids: list[int | list[int]]
    skip_special_tokens: bool = True


class DetokenizeRequest(Struct, forbid_unknown_fields=True):
    """Token ids of one text."""

    tokens: list[int]
    model: str | None = None


class Token(Struct):
    """A token, with the positions of its characters unless it is special."""

    id: int
    text: str
    special: bool
    start: int | None = None
    stop: int | None = None


class PromptTokens(Struct):
    """Token ids of a prompt."""

    count: int
    max_model_len: int | None
    tokens: list[int]


class DecodedPrompt(Struct):
    prompt: str


def reads_text(served: ServedModel) -> bool:
    """Whether a model has a tokenizer."""
    return served.model.tokenizer is not None and not served.model.facts.encoder.embed.reads_images


def tokenizing_model(request: APIRequest, name: str | None = None) -> ServedModel:
    """The model whose tokenizer a request means: its name may be in the address (?model=NAME)."""
    name = name or request.http.query_params.get("model")
    return request.choose_model(name, reads_text, "tokens")


async def tokenize(request: APIRequest, body: TokenizeRequest) -> object:
    """Tokens of texts."""
    if (body.inputs is None) == (body.prompt is None):
        raise BadInput("write inputs (one text or a list), or one prompt")
    served = tokenizing_model(request, body.model)
    if body.prompt is not None:
        if body.prompt_name is not None:
            raise BadInput("prompt_name: only with inputs")
        read = partial(_prompt_ids, served, body.prompt, special=body.add_special_tokens)
        ids = await _beside(request, size_of(body.prompt), read)
        return PromptTokens(len(ids), served.max_length, ids)
    texts = [body.inputs] if isinstance(body.inputs, str) else body.inputs or []
    _check_count(request, len(texts))
    if body.prompt_name is not None:
        embedder = served.model.runner.embedder(prompt_name=body.prompt_name)
        texts = [embedder.prompt.text + text for text in texts]
    write = partial(_written_tokens, served, texts, special=body.add_special_tokens)
    content = await _beside(request, size_of(texts), write)
    return Response(content, media_type="application/json")


async def _beside(request: APIRequest, size: int, function: Callable[[], Value]) -> Value:
    """The value of a function that reads ``size`` bytes or ids: other requests do not wait.

    A request for more than there is room for is refused before any is read.
    """
    with request.services.texts.reserved(size):
        return await request.services.threads.run(function)


def _prompt_ids(served: ServedModel, prompt: str, *, special: bool) -> list[int]:
    """Ids of a prompt; the name of a special token, by which harnesses ask for it, is its id."""
    ids = _special_ids(served)
    named = [ids[role] for role, name in _special_names(served).items() if name == prompt]
    if named:
        return named[:1]
    before, after = _marks(served, prompt) if special else ([], [])
    inner = _vocabulary(served).segment(prompt).ids
    return [*(mark.id for mark in before), *inner, *(mark.id for mark in after)]


def _written_tokens(served: ServedModel, texts: Sequence[str], *, special: bool) -> bytes:
    """Tokens of each text as JSON; other threads run between two parts of it."""
    return b"[" + b",".join(_written(_tokens(served, text, special)) for text in texts) + b"]"


def _written(tokens: Iterator[Token]) -> bytes:
    parts = list[bytes]()
    while some := [*islice(tokens, MANY)]:
        check_wanted()
        parts.append(encode_json(some)[1:-1])
    return b"[" + b",".join(parts) + b"]"


def _check_count(request: APIRequest, count: int) -> None:
    most = request.engine.limits.max_inputs
    if not 1 <= count <= most:
        raise BadInput(f"{count} texts: a request has from 1 to {most}")


def _tokens(served: ServedModel, text: str, special: bool) -> Iterator[Token]:
    """All tokens of a text, also those after the last that the model reads."""
    check_wanted()
    cut = _vocabulary(served).segment(text)
    own = (
        Token(id_, text[start:stop], False, start, stop)
        for id_, (start, stop) in zip(cut.ids, with_spaces(text, cut.spans), strict=True)
    )
    before, after = _marks(served, text) if special else ([], [])
    return chain(before, own, after)


def _marks(served: ServedModel, text: str) -> tuple[list[Token], list[Token]]:
    """The special tokens before and after a text, which are those of its beginning."""
    (read,) = served.model.tokens([text.lstrip()[:BEGINNING]])
    marks = [
        Token(int(id_), name, True) if span is None else None
        for id_, name, span in zip(read.ids, read.tokens, read.spans, strict=True)
    ]
    inner = [at for at, mark in enumerate(marks) if mark is None]
    first, last = (inner[0], inner[-1] + 1) if inner else (len(marks), len(marks))
    return [*filter(None, marks[:first])], [*filter(None, marks[last:])]


def with_spaces(text: str, spans: Iterable[Span]) -> Iterator[Span]:
    """Spans of tokens; an empty one after spaces, of a token of spaces alone, covers them."""
    last = 0
    for span in spans:
        is_spaces = span.start == span.end and text[last : span.start].isspace()
        yield Span(last, span.end) if is_spaces else span
        last = max(last, span.end)


def _vocabulary(served: ServedModel, side: int = 0) -> Vocabulary:
    if served.model.tokenizer is None or not reads_text(served):
        raise BadInput(MISSING)
    return served.model.tokenizer.vocabularies[side]


def decode(served: ServedModel, ids: Sequence[int], *, skip_special: bool = True) -> str:
    """The text of ids; special tokens are left out, or have their names."""
    words = _vocabulary(served, -1)
    if not all(0 <= id_ < len(words) for id_ in ids):
        raise BadInput(f"ids: the ids of the vocabulary are 0 to {len(words) - 1}")
    if skip_special:
        return words.decode(ids)
    special_ids = {id_ for id_ in {*ids} if _is_special(words, id_)}
    parts = list[str]()
    for special, run in groupby(ids, special_ids.__contains__):
        check_wanted()
        own = [*run]
        parts += words.pieces(own) if special else [words.decode(own)]
    return BETWEEN.get(words.kind, "").join(parts)


def _is_special(words: Vocabulary, id_: int) -> bool:
    """Whether decoding leaves out a token that is more than a space."""
    return not words.decode([id_]) and bool(words.pieces([id_])[0].strip("▁ "))


async def decode_all(request: APIRequest, body: DecodeRequest) -> object:
    """Texts of token ids."""
    served = tokenizing_model(request)
    ids = [each for each in body.ids if isinstance(each, int)]
    rows = [each for each in body.ids if isinstance(each, list)]
    if ids and rows:
        raise BadInput("ids: write the ids of one text, or a list for each text")
    rows = rows or [ids]
    _check_count(request, len(rows))
    skip = body.skip_special_tokens
    texts = partial(_decoded, served, rows, skip_special=skip)
    return await _beside(request, sum(map(len, rows)), texts)


def _decoded(
    served: ServedModel, rows: Sequence[Sequence[int]], *, skip_special: bool
) -> list[str]:
    texts = list[str]()
    for row in rows:
        check_wanted()
        texts.append(decode(served, row, skip_special=skip_special))
    return texts


async def detokenize(request: APIRequest, body: DetokenizeRequest) -> object:
    """The text of token ids."""
    served = tokenizing_model(request, body.model)
    text = await _beside(request, len(body.tokens), partial(decode, served, body.tokens))
    return DecodedPrompt(text)


def _special_names(served: ServedModel) -> dict[str, str]:
    """Special tokens by role."""
    words = _vocabulary(served, -1)
    return {role: words.pieces([id_])[0] for role, id_ in _special_ids(served).items()}


def _special_ids(served: ServedModel) -> dict[str, int]:
    """Ids of special tokens by role, of the tokenizer, else of its vocabulary."""
    words, tokenizer = _vocabulary(served, -1), served.model.tokenizer
    ids = {} if tokenizer is None else dict(tokenizer.special_ids)
    for role, owner in product(ROLES, (tokenizer, words)):
        with suppress(BadInput):
            id_ = getattr(owner, role.removesuffix("_token"), None)
            if id_ is not None:
                ids.setdefault(role, id_)
    return {role: id_ for role, id_ in ids.items() if role in ROLES and id_ >= 0}


async def tokenizer_info(request: APIRequest) -> object:
    """Special tokens by role."""
    served = tokenizing_model(request)
    words, names = _vocabulary(served, -1), _special_names(served)
    more = {"vocab_size": len(words), "model_max_length": served.max_length, "chat_template": None}
    return dict.fromkeys(ROLES) | names | more
