"""Files of sentence-transformers: how the states of a text are pooled."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from regard.core.checks import is_whole
from regard.core.errors import BadInput, shown
from regard.core.files import parse_json, read_bytes, read_json

MODULES, READING, PROMPTS = (
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
)
POOLS = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_cls_token": "first",
}
MODES = (*POOLS, "pooling_mode_mean_sqrt_len_tokens")  # written, as every version has them
PLACES = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
_FOLDER = re.compile(r"\w[\w.-]{,62}")  # at most 255 bytes, as file systems take them


def files_of(folder: Path) -> dict[str, bytes]:
    """The contents of all files of sentence-transformers, by relative path."""
    if not (folder / MODULES).exists():
        return {}
    paths = [folder / name for name in (MODULES, READING, PROMPTS)]
    for place in {place for _, place in _modules(folder) if place}:
        paths += sorted((folder / place).glob("*"))
    return {
        path.relative_to(folder).as_posix(): read_bytes(path) for path in paths if path.is_file()
    }


def new_files(embedding: Mapping[str, object], width: int, longest: int) -> dict[str, bytes]:
    """Files for a model whose sentence vectors have these settings, by relative path."""
    kinds = [*PLACES][: 3 if embedding.get("normalise") else 2]
    modules = [
        {
            "idx": number,
            "name": str(number),
            "path": PLACES[kind],
            "type": f"sentence_transformers.models.{kind}",
        }
        for number, kind in enumerate(kinds)
    ]
    modes = {mode: POOLS.get(mode) == embedding["pool"] for mode in MODES}
    contents: dict[str, object] = {
        MODULES: modules,
        f"{PLACES['Pooling']}/config.json": {"word_embedding_dimension": width, **modes},
        READING: {
            "max_seq_length": embedding.get("longest") or longest,
            "do_lower_case": embedding.get("lower", False),
        },
    }
    return {path: json.dumps(content, indent=2).encode() for path, content in contents.items()}


def embedding_of(folder: Path) -> dict[str, object] | None:
    """Settings pool, normalise, longest and lower; or ``hinders``: why they are unsupported.

    If there are ``prompts``, texts by name that are put before an input, it has them, too, and the
    name of the default one (``prompt``).
    """
    if not (folder / MODULES).exists():
        return None
    embedding: dict[str, object] = {"pool": None, "normalise": False}
    pools_prompts = True
    for kind, place in _modules(folder):
        match kind:
            case "Transformer" if not place:
                pass
            case "Pooling":
                pooling = read_json(folder / place / "config.json")
                embedding["pool"] = _pool(pooling)
                pools_prompts = pooling.get("include_prompt") is not False
            case "Normalize":
                embedding["normalise"] = True
            case _:
                return {"hinders": f"{MODULES}: a module {kind} is not supported"}
    if embedding["pool"] is None:
        return {"hinders": f"{MODULES}: this kind of pooling is not supported"}
    prompts = _prompts(read_json(folder / PROMPTS)) if (folder / PROMPTS).exists() else {}
    if not pools_prompts and any(cast(Mapping[str, str], prompts.get("prompts", {})).values()):
        return {"hinders": "include_prompt = false, of the Pooling, is not supported"}
    if isinstance(prompts.get("hinders"), str):
        return prompts
    reading = read_json(folder / READING) if (folder / READING).exists() else {}
    longest = reading.get("max_seq_length")
    return {
        **embedding,
        "longest": longest if is_whole(longest, 3) else None,
        "lower": reading.get("do_lower_case") is True,
        **prompts,
    }


def _prompts(config: Mapping[str, object]) -> dict[str, object]:
    """Settings prompts and prompt, as far as there are any; or ``hinders``."""
    prompts, default = config.get("prompts") or {}, config.get("default_prompt_name")
    if not isinstance(prompts, dict) or not all(isinstance(v, str) for v in prompts.values()):
        return {"hinders": f"{PROMPTS}: prompts must be texts by name"}
    if default is not None and default not in prompts:
        return {"hinders": f"{PROMPTS}: default_prompt_name {shown(default)} is none of prompts"}
    settings: dict[str, object] = {"prompts": prompts} if prompts else {}
    return settings if default is None else {**settings, "prompt": default}


def _modules(folder: Path) -> list[tuple[str, str]]:
    """List (class, folder) of each module; all folders lie inside the model folder."""
    path = folder / MODULES
    listed = parse_json(path)
    try:
        modules = [(str(entry["type"]).rsplit(".", 1)[-1], str(entry["path"])) for entry in listed]
    except (TypeError, KeyError):
        raise BadInput(f"{path}: must be a list of modules with type and path") from None
    for _, place in modules:
        if place and not _FOLDER.fullmatch(place):
            raise BadInput(f"{path}: path {place!r} must be the short name of a folder beside it")
    return modules


def _pool(config: Mapping[str, object]) -> str | None:
    """The pool of a Pooling module; None if it is not supported."""
    modes = [mode for mode, on in config.items() if mode.startswith("pooling_mode_") and on]
    return POOLS.get(modes[0]) if len(modes) == 1 else None
