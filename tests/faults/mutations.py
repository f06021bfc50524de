"""Changes to the files of a folder such as disks, editors and people with bad intentions make."""

import json
import math
import os
import pickle
import random
import re
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from regard.core.errors import BadInput
from regard.weights.files import read_pickled, read_tensors, write_tensors

DEEP = 100_000
HOLE = 1 << 40
TOKENIZER = "tokenizer.json"
PATTERNS = (
    *(
        "(x+x+)+y",
        "(a|a)*b",
        "(a*)*b",
        "a+b|.",
        r"\s+$",
        r"(\w+\s?)*z",
        "x*",
        "",
        "(",
        r"\p{L}+|\s",
    ),
    *("a{1,9999}{1,9999}", r"(?<=a+)b", r"(.*)\1+z"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 7, 10**5, 10**9, 2**31, 2**63, 2**64, 10**30),
    *(0.0, 0.5, -0.5, 1e308, -1e308, 5e-324, math.nan, math.inf, -math.inf),
    *("", "x", "0", "x" * 100_000, "\ud800", "\n", "\0", "../../etc", "/dev/zero", "é日本"),
    *([], {}, [None], [[]], {"": None}, {"a": {"b": [1, "c"]}}, ["x"] * 1000, [1e400]),
)


class Harm:
    """Unpickled by a reader that runs code, it makes a folder."""

    def __init__(self, place: Path):
        self.place = str(place)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.place,)


def mutate(folder: Path, draw: random.Random, harm: Path) -> str:
    """Change one file of a folder; says how. ``harm`` must never come to be."""
    files = sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink() and path.stat().st_size < HOLE
    )
    if not files:
        return "no file left"
    path = draw.choice(files)
    ways: list[Callable[[Path, random.Random], str]] = [*PLAIN]
    ways += BY_SUFFIX.get(path.suffix, []) * 4  # those that get further than to the parser
    if path.name == TOKENIZER:
        ways += [change_tokenizer] * 8
    if path.suffix == ".bin":
        ways += [lambda path, draw: harmful(path, draw, harm)] * 2
    way = draw.choice(ways)
    return f"{path.relative_to(folder)}: {way(path, draw)}"


def flip_bits(path: Path, draw: random.Random) -> str:
    content = bytearray(path.read_bytes())
    for _ in range(draw.choice((1, 1, 1, 4, 64)) if content else 0):
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    path.write_bytes(content)
    return "bits flipped"


def flip_bits_ahead(path: Path, draw: random.Random) -> str:
    """In the first bytes, where headers are."""
    content = bytearray(path.read_bytes())
    for _ in range(draw.choice((1, 2, 8)) if content else 0):
        content[draw.randrange(min(512, len(content)))] ^= 1 << draw.randrange(8)
    path.write_bytes(content)
    return "first bits flipped"


def cut(path: Path, draw: random.Random) -> str:
    content = path.read_bytes()
    path.write_bytes(content[: draw.randint(0, len(content))])
    return "cut"


def take_out(path: Path, draw: random.Random) -> str:
    content = path.read_bytes()
    start = draw.randint(0, len(content))
    path.write_bytes(content[:start] + content[start + draw.choice((1, 8, 100)) :])
    return "bytes taken out"


def put_in(path: Path, draw: random.Random) -> str:
    content = path.read_bytes()
    start = draw.randint(0, len(content))
    path.write_bytes(content[:start] + draw.randbytes(draw.choice((1, 8, 100))) + content[start:])
    return "bytes put in"


def repeat(path: Path, draw: random.Random) -> str:
    content = path.read_bytes()
    start, end = sorted(draw.randint(0, len(content)) for _ in range(2))
    path.write_bytes(content[:end] + content[start:])
    return "a part repeated"


def zero_out(path: Path, draw: random.Random) -> str:
    content = bytearray(path.read_bytes())
    start = draw.randint(0, len(content))
    end = min(len(content), start + draw.choice((8, 512, 4096)))
    content[start:end] = bytes(end - start)
    path.write_bytes(content)
    return "a part zeroed"


def replace_by_bytes(path: Path, draw: random.Random) -> str:
    path.write_bytes(draw.choice((b"", b"\0" * 64, b"{}", b"[]", b"null", draw.randbytes(500))))
    return "replaced by other bytes"


def replace_by_neighbour(path: Path, draw: random.Random) -> str:
    others = [one for one in path.parent.iterdir() if one.is_file() and one != path]
    if others:
        shutil.copyfile(other := draw.choice(sorted(others)), path)
        return f"replaced by {other.name}"
    return "left"


def remove(path: Path, draw: random.Random) -> str:
    path.unlink()
    return "removed"


def replace_by_another_kind(path: Path, draw: random.Random) -> str:
    path.unlink()
    match kind := draw.choice(("folder", "pipe", "zeros", "null", "loop", "nowhere", "hole")):
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "zeros" | "null":
            path.symlink_to("/dev/zero" if kind == "zeros" else "/dev/null")
        case "loop" | "nowhere":
            path.symlink_to(path.name if kind == "loop" else "not-there")
        case _:
            with path.open("wb") as file:
                file.truncate(HOLE)
    return f"replaced by a {kind}"


def change_json(path: Path, draw: random.Random) -> str:
    """One value anywhere inside, or one key."""
    try:
        content = json.loads(path.read_bytes())
        said = _change_value(content, draw)
        path.write_text(json.dumps(content))
    except (ValueError, RecursionError):
        return flip_bits(path, draw)
    return said


def _change_value(content: Any, draw: random.Random) -> str:
    at, place = content, "content"
    while isinstance(at, dict | list) and at:
        key = draw.choice([*at.keys()] if isinstance(at, dict) else range(len(at)))
        inner, place = at[key], f"{place}[{key!r:.40}]"
        if isinstance(inner, dict | list) and inner and draw.random() < 0.75:
            at = inner
            continue
        match draw.choice(("value", "value", "value", "remove", "rename", "type", "swap")):
            case "remove":
                del at[key]
                return f"{place} removed"
            case "rename" if isinstance(at, dict):
                at[draw.choice(("", "x", f"{key} ", key.upper(), "is"))] = at.pop(key)
                return f"{place} renamed"
            case "swap":
                other = draw.choice([*at.keys()] if isinstance(at, dict) else range(len(at)))
                at[key], at[other] = at[other], at[key]
                return f"{place} swapped with {other!r:.40}"
            case "type":
                at[key] = draw.choice(([inner], {"a": inner}, str(inner), [inner] * 50))
            case _:
                at[key] = _other_value(inner, draw)
        return f"{place} = {at[key]!r:.40}"
    return "nothing to change"


def _other_value(value: Any, draw: random.Random) -> Any:
    if type(value) in (int, float) and draw.random() < 0.5:
        near = (value + 1, value - 1, -value, value * 2, value * 10**6, float(value), value + 0.5)
        return draw.choice(near)
    return draw.choice(VALUES)


def change_tokenizer(path: Path, draw: random.Random) -> str:
    """A part of a tokenizer.json that hangs, fills the memory or lets the library panic."""
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return flip_bits(path, draw)
    if not isinstance(content, dict):
        return flip_bits(path, draw)
    many = draw.choice((1, 3, 40, 5_000))
    pattern = draw.choice(PATTERNS)
    replaced = {"String": draw.choice("aeo ")} if draw.random() < 0.5 else {"Regex": pattern}
    replace = {"type": "Replace", "pattern": replaced, "content": draw.choice(("", "aa", "a" * 99))}
    cut = {"type": "Split", "pattern": {"Regex": pattern}, "invert": draw.random() < 0.5}
    tokens = {"x": {"id": "x", "ids": [1] * many, "tokens": ["x"] * many}}
    form = [{"SpecialToken": {"id": "x", "type_id": 0}}] * many + [
        {"Sequence": {"id": "A", "type_id": 0}}
    ] * draw.choice((1, 2))
    template = {"type": "TemplateProcessing", "single": form, "pair": form}
    steps: dict[str, tuple[str, list[dict[str, Any]]]] = {
        "normalizer": ("normalizers", [replace] * many),
        "decoder": ("decoders", [replace] * many),
        "pre_tokenizer": ("pretokenizers", [{**cut, "behavior": "Isolated"}] * min(many, 40)),
        "post_processor": (
            *("processors",),
            [{**template, "special_tokens": tokens}] * draw.choice((1, 2, 30)),
        ),
    }
    part = draw.choice([*steps])
    name, every = steps[part]
    if draw.random() < 0.5 and isinstance(before := content.get(part), dict):
        every = [*every, before]
    content[part] = {"type": "Sequence", name: every}
    path.write_text(json.dumps(content))
    return f"{part}: {many} × {json.dumps(every[0]):.200}"


def nest_json(path: Path, draw: random.Random) -> str:
    deep = draw.choice(("[" * DEEP + "]" * DEEP, '{"a":' * DEEP + "1" + "}" * DEEP, "[" * DEEP))
    text = path.read_text(encoding="utf-8", errors="replace")
    start = text.find(":") + 1 if draw.random() < 0.5 else 0
    path.write_text(text[:start] + deep + ("," + text[start:] if start else ""))
    return "nested deeply"


def double_key(path: Path, draw: random.Random) -> str:
    """The same key twice in one object, with another value."""
    text = path.read_text(encoding="utf-8", errors="replace")
    keys = re.findall(r'"[^"\\]*"(?=\s*:)', text)
    if not keys:
        return "left"
    value = json.dumps(draw.choice(VALUES))
    path.write_text(text.replace("{", f"{{{draw.choice(keys)}: {value}, ", 1))
    return "a key doubled"


def change_tensors(path: Path, draw: random.Random) -> str:
    """One tensor: its values, shape, type or name."""
    reads = read_pickled if path.suffix == ".bin" else read_tensors
    try:
        tensors = reads(path)
    except BadInput:
        return flip_bits(path, draw)
    if not tensors:
        return "no tensors"
    name = draw.choice(sorted(tensors))
    one = tensors[name]
    way = draw.choice(("nan", "inf", "huge", "zero", "dtype", "shape", "remove", "name", "more"))
    match way:
        case "nan" | "inf" | "huge" | "zero":
            value = {"nan": math.nan, "inf": math.inf, "huge": 1e30, "zero": 0.0}[way]
            tensors[name] = torch.full_like(one, value) if one.is_floating_point() else one * 0
        case "dtype":
            kinds = (torch.int8, torch.float64, torch.bool, torch.half, torch.bfloat16, torch.int64)
            tensors[name] = one.to(draw.choice(kinds))
        case "shape":
            shapes = (
                one[None],
                one.flatten(),
                one[:0] if one.ndim else one,
                torch.zeros(()),
                one.T,
            )
            tensors[name] = draw.choice(shapes).contiguous()
        case "remove":
            del tensors[name]
        case "name":
            tensors[draw.choice(("", "x", name + "x", "../" + name, "é"))] = tensors.pop(name)
        case _:
            tensors["more"] = one.clone()
    if path.suffix == ".bin":
        torch.save(tensors, path)
    else:
        write_tensors(path, tensors)
    return f"tensor {name}: {way}"


def change_header(path: Path, draw: random.Random) -> str:
    """What a safetensors file says of its tensors, their bytes as they are."""
    content = path.read_bytes()
    try:
        (size,) = struct.unpack("<Q", content[:8])
        header = json.loads(content[8 : 8 + size])
        said = _change_value(header, draw)
        written = json.dumps(header).encode()
    except (struct.error, ValueError, RecursionError):
        return flip_bits(path, draw)
    length = draw.choice((len(written),) * 6 + (2**63, 0, len(written) + 1))
    path.write_bytes(struct.pack("<Q", length) + written + content[8 + size :])
    return f"header: {said}"


def harmful(path: Path, draw: random.Random, harm: Path) -> str:
    """A pickle that runs code."""
    if draw.random() < 0.5:
        torch.save({"a.weight": Harm(harm)}, path)
    else:
        path.write_bytes(pickle.dumps({"a.weight": Harm(harm)}))
    return "code to run"


def change_line(path: Path, draw: random.Random) -> str:
    """One line of a text: its value, its place, or whether it is there."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    if not lines:
        return "left"
    number = draw.randrange(len(lines))
    match way := draw.choice(("value", "value", "remove", "repeat", "swap", "number")):
        case "value" if "=" in lines[number]:
            key = lines[number].partition("=")[0]
            value = draw.choice((*VALUES, *TOML_VALUES))
            lines[number] = f"{key}= {value if isinstance(value, Raw) else json.dumps(value)}"
        case "remove":
            del lines[number]
        case "repeat":
            lines.insert(draw.randrange(len(lines)), lines[number])
        case "swap":
            other = draw.randrange(len(lines))
            lines[number], lines[other] = lines[other], lines[number]
        case _:
            way = "number"
            lines[number] = re.sub(r"\d+", lambda _: str(draw.choice(VALUES)), lines[number])
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="backslashreplace")
    return f"line {number + 1}: {way}"


class Raw(str):
    """A value as TOML writes it."""


TOML_VALUES = tuple(
    Raw(one)
    for one in ("1979-05-27", "nan", "-inf", "{ a = 1 }", "[" * DEEP, "'''", "0x10", '"../x"')
)
PLAIN = [
    *(flip_bits, flip_bits_ahead, cut, take_out, put_in, repeat, zero_out),
    *(replace_by_bytes, replace_by_neighbour, remove, replace_by_another_kind),
]
BY_SUFFIX: dict[str, list[Callable[[Path, random.Random], str]]] = {
    ".json": [change_json, change_json, change_json, nest_json, double_key],
    ".jsonl": [change_line],
    ".safetensors": [change_tensors, change_header],
    ".bin": [change_tensors],
    ".txt": [change_line],
    ".toml": [change_line],
}
