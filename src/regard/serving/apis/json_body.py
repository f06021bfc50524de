"""JSON of requests and answers: bounded before it is parsed, and encoded in short parts."""

import base64
import re
from collections.abc import AsyncIterator, Iterable
from typing import Annotated, TypeVar, cast

import msgspec
import numpy as np
from msgspec import UNSET, Meta, Struct
from starlette.responses import Response

from regard.core.errors import BadInput

Body = TypeVar("Body")
StopStrings = Annotated[list[Annotated[str, Meta(max_length=256)]], Meta(max_length=16)]
"""Strings at which a text ends; each is looked for after every token."""
TextsOrIds = str | list[str | int | list[int]]
"""One text, several, the token ids of one text, or of several."""
TOO_LONG = re.compile(r"Expected `(str|array|object)` of length <= (\d+) - at `\$\.(.+)`$")
LONE_SURROGATE = re.compile(
    rb"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(?=[^\\]|\\(?!u[dD][c-fC-F]))"
    rb"|(?<!\\u[dD][89abAB]..\\u[dD])[c-fC-F][0-9a-fA-F]{2})"
)
UNITS = {"str": "characters", "array": "items", "object": "entries"}
MANY = 8_192  # numbers of an answer, which are encoded beside the event loop
WORD = 16  # characters of a text for which it counts like a number
MOST_BRACKETS = 65_536  # lists and objects of a body
MOST_ITEMS = (1 << 18) + 4_096  # of all lists and objects of a body
KEPT = b'"[]{},'
OTHERS = bytes({*range(256)} - {*KEPT})
STEPS = np.zeros(256, np.int8)  # of the depth, by character
STEPS[[*b"[{"]], STEPS[[*b"]}"]] = 1, -1


def decode_json(content: bytes, kind: type[Body], depth: int = 32) -> Body:
    """JSON as a value of a type; deep nesting is refused before it is parsed."""
    if not content.strip():
        raise BadInput("the body is empty: write JSON")
    if content.count(b"[") + content.count(b"{") > depth or content.count(b",") > MOST_ITEMS:
        _check_brackets(content, depth)
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        if long := TOO_LONG.search(str(error)):
            container, most, name = long.groups()
            raise BadInput(f"{name}: more than {int(most):,} {UNITS[container]}") from None
        if LONE_SURROGATE.search(content.replace(rb"\\", b"")):
            raise BadInput(
                "a text of the body has half of a surrogate pair, which is no character"
            ) from None
        raise BadInput(f"the body is not what this path reads: {error}") from None


def _check_brackets(content: bytes, depth: int) -> None:
    """Refuse deep nesting, and many brackets or items, without a loop over them in Python."""
    unescaped = content.replace(rb"\\", b"").replace(rb"\"", b"")
    marks = np.frombuffer(unescaped.translate(None, OTHERS), np.uint8)
    is_outside = np.cumsum(marks == ord('"'), dtype=np.uint8) % 2 == 0  # of strings
    steps = STEPS[marks[is_outside]]
    if np.cumsum(steps, dtype=np.int32).max(initial=0) > depth:
        raise BadInput(f"the body has more than {depth} nested brackets")
    if (steps > 0).sum() > MOST_BRACKETS:
        raise BadInput(f"the body has more than {MOST_BRACKETS} lists and objects")
    if (marks[is_outside] == ord(",")).sum() > MOST_ITEMS:
        raise BadInput(f"the lists and objects of the body have more than {MOST_ITEMS} items")


def texts_or_ids(items: TextsOrIds, name: str) -> list[str] | list[list[int]]:
    """Inputs of a request: one text, several, the token ids of one text, or of several."""
    if isinstance(items, str):
        return [items]
    if not items:
        raise BadInput(f"{name}: there is no input")
    texts = [each for each in items if isinstance(each, str)]
    ids = [each for each in items if isinstance(each, int)]
    rows = [each for each in items if isinstance(each, list)]
    if len(items) not in (len(texts), len(ids), len(rows)):
        raise BadInput(f"{name}: write texts, or token ids, not both")
    if not all(rows):
        raise BadInput(f"{name}: input {rows.index([]) + 1} has no token ids")
    return texts or ([ids] if ids else rows)


def encode_json(content: object) -> bytes:
    """A value as JSON; arrays of numpy are lists."""
    return msgspec.json.encode(content, enc_hook=_plain)


def encode_in_parts(content: object) -> bytes:
    """A value as JSON, of which each part is short work: other threads run between two of them."""
    if not has_many(content):
        return encode_json(content)
    content = _with_fields(content)
    if isinstance(content, dict):
        pairs = (encode_json(key) + b":" + encode_in_parts(each) for key, each in content.items())
        return b"{" + b",".join(pairs) + b"}"
    if isinstance(content, list | tuple) or (isinstance(content, np.ndarray) and content.ndim > 1):
        return b"[" + b",".join(map(encode_in_parts, content)) + b"]"
    return encode_json(content)


def has_many(content: object) -> bool:
    """Whether encoding a value takes so long that it is done beside the event loop."""
    return count_leaves(content, MANY) >= MANY


def count_leaves(content: object, most: int) -> int:
    """Numbers and texts of a value of JSON; the count ends at ``most``, without a look at more."""
    if isinstance(content, np.ndarray):
        return min(content.size, most)
    if isinstance(content, str):
        return min(1 + len(content) // WORD, most)
    content = _with_fields(content)
    parts = content.values() if isinstance(content, dict) else content
    count = 1
    for part in parts if isinstance(parts, Iterable) else ():
        if count >= most:
            break
        count += count_leaves(part, most - count)
    return count


def _with_fields(content: object) -> object:
    """A struct as the dictionary of its fields, and any other value as it is."""
    try:
        fields = msgspec.structs.asdict(cast(Struct, content))
    except TypeError:
        return content
    return {name: value for name, value in fields.items() if value is not UNSET}


def base64_of(value: np.ndarray) -> str:
    """The numbers of an array as little-endian float32 in base64."""
    return base64.b64encode(np.ascontiguousarray(value, "<f4").tobytes()).decode()


def json_response(content: object, status: int = 200) -> Response:
    """A small value as a JSON response."""
    return Response(encode_json(content), status, media_type="application/json")


def _plain(value: np.ndarray | np.generic) -> object:
    return value.tolist()


def event(content: object) -> bytes:
    """A value as an event of a stream."""
    return b"data: " + encode_json(content) + b"\n\n"


async def resumed(first: Body, rest: AsyncIterator[Body]) -> AsyncIterator[Body]:
    """A stream whose first value has been taken, from its beginning."""
    yield first
    async for each in rest:
        yield each
