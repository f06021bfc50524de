"""Tokens of texts and texts of tokens, in the shapes of TEI and of evaluation harnesses."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby, product

from msgspec import Struct
from starlette.responses import Response

from regard.ground.errors import BadInput
from regard.serving.doors.door import Exchange, json_response
from regard.serving.served_model import ServedModel
from regard.text.vocabulary import MISSING, Vocabulary
from regard.text.words import Span

ROLES = ("bos_token", "eos_token", "pad_token", "unk_token", "mask_token", "sep_token", "cls_token")
BETWEEN = {"wordpiece": " "}  # special tokens and texts, by kind of vocabulary


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


def reads_text(served: ServedModel) -> bool:
    """Whether a model has a tokenizer."""
    return served.tokenizer is not None and not served.facts.encoder.embed.reads_images


def tokenizing_model(exchange: Exchange, name: str | None = None) -> ServedModel:
    """The model whose tokenizer a request means: its name may be in the address (?model=NAME)."""
    name = name or exchange.request.query_params.get("model")
    return exchange.choose_model(name, reads_text, "tokens")


async def tokenize(exchange: Exchange) -> Response:
    """Tokens of texts, in the shape of the request."""
    body = exchange.json(TokenizeRequest)
    if (body.inputs is None) == (body.prompt is None):
        raise BadInput("write inputs (one text or a list), or one prompt")
    if body.prompt_name is not None:
        raise BadInput("prompt_name: models here have no named prompts")
    served = tokenizing_model(exchange, body.model)
    if body.prompt is not None:
        ids = await _prompt_ids(served, body.prompt, special=body.add_special_tokens)
        return json_response({"count": len(ids), "max_model_len": served.max_length, "tokens": ids})
    texts = [body.inputs] if isinstance(body.inputs, str) else body.inputs or []
    _check_count(exchange, len(texts))
    return json_response(await _all_tokens(served, texts, special=body.add_special_tokens))


async def _prompt_ids(served: ServedModel, prompt: str, *, special: bool) -> list[int]:
    """Ids of a prompt; the name of a special token, by which harnesses ask for it, is its id."""
    ids = _special_ids(served)
    named = [ids[role] for role, name in _special_names(served).items() if name == prompt]
    if named:
        return named[:1]
    (tokens,) = await _all_tokens(served, [prompt], special=special)
    return [token.id for token in tokens]


async def _all_tokens(served: ServedModel, texts: list[str], *, special: bool) -> list[list[Token]]:
    """Tokens of each text, in a thread of their own: other requests do not wait.

    After the deadline no further text is read.
    """
    return [await asyncio.to_thread(_tokens, served, text, special=special) for text in texts]


def _check_count(exchange: Exchange, count: int) -> None:
    most = exchange.engine.limits.max_inputs
    if not 1 <= count <= most:
        raise BadInput(f"{count} texts: a request has from 1 to {most}")


def _tokens(served: ServedModel, text: str, *, special: bool) -> list[Token]:
    """All tokens of a text, also those after the last that the model reads."""
    cut = _vocabulary(served).segment(text)
    own = [
        Token(id_, text[start:stop], False, start, stop)
        for id_, (start, stop) in zip(cut.ids, with_spaces(text, cut.spans), strict=True)
    ]
    if not special:
        return own
    (read,) = served.model.tokens([text])
    marks = [
        Token(int(id_), name, True) if span is None else None
        for id_, name, span in zip(read.ids, read.tokens, read.spans, strict=True)
    ]
    inner = [at for at, mark in enumerate(marks) if mark is None]
    first, last = (inner[0], inner[-1] + 1) if inner else (len(marks), len(marks))
    return [*filter(None, marks[:first]), *own, *filter(None, marks[last:])]


def with_spaces(text: str, spans: Iterable[Span]) -> Iterator[Span]:
    """Spans of tokens; an empty one after spaces, of a token of spaces alone, covers them."""
    last = 0
    for span in spans:
        is_spaces = span.start == span.end and text[last : span.start].isspace()
        yield Span(last, span.end) if is_spaces else span
        last = max(last, span.end)


def _vocabulary(served: ServedModel, side: int = 0) -> Vocabulary:
    if served.tokenizer is None or not reads_text(served):
        raise BadInput(MISSING)
    return served.tokenizer.vocabularies[side]


def decode(served: ServedModel, ids: Sequence[int], *, skip_special: bool = True) -> str:
    """The text of ids; special tokens are left out, or have their names."""
    words = _vocabulary(served, -1)
    if not all(0 <= id_ < len(words) for id_ in ids):
        raise BadInput(f"ids: the ids of the vocabulary are 0 to {len(words) - 1}")
    if skip_special:
        return words.decode(ids)
    runs = groupby(ids, lambda id_: _is_special(words, id_))
    parts = [
        part
        for special, run in runs
        for part in (words.pieces([*run]) if special else [words.decode([*run])])
    ]
    return BETWEEN.get(words.kind, "").join(parts)


def _is_special(words: Vocabulary, id_: int) -> bool:
    """Whether decoding leaves out a token that is more than a space."""
    return not words.decode([id_]) and bool(words.pieces([id_])[0].strip("▁ "))


async def decode_all(exchange: Exchange) -> Response:
    """The text of each row of ids."""
    body = exchange.json(DecodeRequest)
    served = tokenizing_model(exchange)
    ids = [each for each in body.ids if isinstance(each, int)]
    rows = [each for each in body.ids if isinstance(each, list)]
    if ids and rows:
        raise BadInput("ids: write the ids of one text, or a list for each text")
    rows = rows or [ids]
    _check_count(exchange, len(rows))
    skip = body.skip_special_tokens
    texts = [await asyncio.to_thread(decode, served, row, skip_special=skip) for row in rows]
    return json_response(texts)


async def detokenize(exchange: Exchange) -> Response:
    """The text of ids."""
    body = exchange.json(DetokenizeRequest)
    served = tokenizing_model(exchange, body.model)
    return json_response({"prompt": await asyncio.to_thread(decode, served, body.tokens)})


def _special_names(served: ServedModel) -> dict[str, str]:
    """Special tokens by role."""
    words = _vocabulary(served, -1)
    return {role: words.pieces([id_])[0] for role, id_ in _special_ids(served).items()}


def _special_ids(served: ServedModel) -> dict[str, int]:
    """Ids of special tokens by role, of the tokenizer, else of its vocabulary."""
    words, tokenizer = _vocabulary(served, -1), served.tokenizer
    ids = {} if tokenizer is None else dict(tokenizer.special_ids)
    for role, owner in product(ROLES, (tokenizer, words)):
        with suppress(BadInput):
            id_ = getattr(owner, role.removesuffix("_token"), None)
            if id_ is not None:
                ids.setdefault(role, id_)
    return {role: id_ for role, id_ in ids.items() if role in ROLES and id_ >= 0}


async def tokenizer_info(exchange: Exchange) -> Response:
    """Special tokens by role."""
    served = tokenizing_model(exchange)
    words, names = _vocabulary(served, -1), _special_names(served)
    info = dict.fromkeys(ROLES) | names
    return json_response(
        info
        | {"vocab_size": len(words), "model_max_length": served.max_length, "chat_template": None}
    )
