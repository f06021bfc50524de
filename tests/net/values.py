"""Probes as files: values in plain form, with times, dates, paths and ports masked."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import torch

# What differs from run to run: pattern, and what stands for it. In this order.
MASKS: tuple[tuple[str, str], ...] = (
    (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?", "DATE"),
    (r"\b\d{4}-\d\d-\d\d\b", "DATE"),
    (r'("(?:[a-z_]*_)?(?:seconds|per_second|minutes|created|pid)": ?)-?[\d.e+-]+', r"\1TIME"),
    (r"(?<=[\s(,=])\d{1,2}:\d\d(?::\d\d)?\b", "CLOCK"),
    (r"\b[0-9a-f]{32}\b", "ID"),
    (r'"ms":[\d.]+', '"ms":TIME'),
    (r"(127\.0\.0\.1|localhost):\d+", r"\1:PORT"),
    (r"\bport \d+", "port PORT"),
    (r"\bprocess \d+", "process PID"),
    (
        r" *(?<![\w.])\d[\d,]*(?:\.\d+)?k? ?"
        r"(?:tok|tokens|images|lines|texts|pairs|inputs|steps)?(?:/s\b| (?:per|a) second\b)",
        " RATE",
    ),
    (r" *(?<![\w.])\d[\d,]*(?:\.\d+)? (?:GFLOP/s|TFLOP/s|FLOP/s|%? of peak)", " RATE"),
    (r" *(?<![\w.])\d[\d,]* device-seconds", " TIME"),
    (r" *(?<![\w.])\d+(?:\.\d+)? ?(?:µs|ms|seconds?|minutes?|hours?|s|min|h)(?![\w%])", " TIME"),
)  # fmt: skip
TIME_KEYS = re.compile(
    r"(.*_)?(seconds|tokens_per_second|rate_per_second|created|created_at|date|time|minutes"
    r"|elapsed|duration|latency|started|pid|id)"
)
PATTERNS = [(re.compile(pattern), text) for pattern, text in MASKS]
FIRST = 3  # numbers of a tensor that are shown beside its digest


class Masks:
    """Replaces what differs from run to run, and the folders of a capture."""

    def __init__(self, folders: Mapping[str, Path]):
        names = {str(path): f"<{name}>" for name, path in folders.items()}
        self.folders = sorted(names.items(), key=lambda pair: -len(pair[0]))

    def text(self, text: str) -> str:
        """A text without what differs from run to run."""
        for path, name in self.folders:
            text = text.replace(path, name)
        for pattern, name in PATTERNS:
            text = pattern.sub(name, text)
        return text

    def value(self, value: Any) -> Any:
        """A value as JSON, floats by their bits, tensors by the digest of theirs."""
        match value:
            case str():
                return self.text(value)
            case None | bool() | int():
                return value
            case float():
                return value.hex()
            case torch.Tensor() | np.ndarray():
                return digest(value)
            case np.generic():
                return self.value(value.item())
            case Enum():
                return value.name
            case Path():
                return self.text(str(value))
            case bytes():
                return f"{len(value)} bytes, {hashlib.sha256(value).hexdigest()}"
            case Mapping():
                return {
                    str(key): "TIME" if _is_time(key, inner) else self.value(inner)
                    for key, inner in value.items()
                }
            case set() | frozenset():
                return sorted(map(str, value))
        if is_dataclass(value) and not isinstance(value, type):
            named = {field.name: getattr(value, field.name) for field in fields(value)}
            return {"": type(value).__name__, **self.value(named)}
        if hasattr(value, "_asdict"):
            return {"": type(value).__name__, **self.value(value._asdict())}
        if isinstance(value, Sequence) or hasattr(value, "__next__"):
            return [self.value(inner) for inner in value]
        return self.text(re.sub(r" at 0x[0-9a-f]+", "", str(value)))


def _is_time(key: Any, value: Any) -> bool:
    """Whether a key tells a time; identifiers are masked where they are random words."""
    if not TIME_KEYS.fullmatch(str(key)):
        return False
    if str(key) == "id":
        return isinstance(value, str) and re.search(r"-[0-9a-f]{8,}", value) is not None
    return isinstance(value, int | float | str)


def digest(value: Any) -> str:
    """Type, shape, first numbers and SHA-256 of a tensor or array."""
    tensor = value if isinstance(value, torch.Tensor) else torch.from_numpy(np.array(value))
    tensor = tensor.detach().cpu().contiguous()
    data = tensor.reshape(-1).view(torch.uint8) if tensor.numel() else tensor.reshape(-1)
    code = hashlib.sha256(data.numpy().tobytes()).hexdigest()[:20]
    shape = "×".join(map(str, tensor.shape))
    first = " ".join(f"{one:.6g}" for one in tensor.reshape(-1)[:FIRST].tolist())
    return f"{str(tensor.dtype).removeprefix('torch.')} {shape} {code} ({first})"


def file_value(path: Path) -> Any:
    """The content of a file: tensors, JSON, lines of JSON, text or bytes."""
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return {name: digest(tensor) for name, tensor in sorted(load_file(path).items())}
    if path.suffix == ".npy":
        return digest(np.load(path))
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return path.read_bytes()
    try:
        if path.suffix == ".json":
            return json.loads(text)
        if path.suffix == ".jsonl":
            return [json.loads(line) for line in text.splitlines()]
    except ValueError:
        pass
    return text


def write_probe(folder: Path, name: str, value: Any, masks: Masks) -> None:
    """Write a probe: text as it is, anything else as JSON, one value a line."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(value, str):
        path.with_name(f"{path.name}.txt").write_text(masks.text(value), encoding="utf-8")
    else:
        text = json.dumps(masks.value(value), indent=1, sort_keys=True, ensure_ascii=False)
        path.with_name(f"{path.name}.json").write_text(f"{text}\n", encoding="utf-8")
