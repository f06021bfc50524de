"""Folders of models in any format: reading, writing, vocabularies."""

from collections.abc import Callable
from pathlib import Path
from typing import cast

import torch

from regard.core.catalogue import Catalogue, Entry
from regard.core.errors import BadInput
from regard.core.files import read_json, writing
from regard.core.lock import is_vacant
from regard.models.folders.loaded_model import (
    CONFIG,
    ELMO_OPTIONS,
    ELMO_WEIGHTS,
    ONNX_GRAPHS,
    WEIGHTS,
    LoadedModel,
    check_scores,
)
from regard.text.tokenizers.translation_tokenizer import TranslationTokenizer
from regard.text.vocabulary import BOS, EOS, PAD, IdVocabulary, Vocabulary

MODEL = "model"  # the folder of the trained model in a run folder
FORMATS = ("regard", "hf", "elmo", "timm", "onnx")


def _functions(name: str, *formats: str) -> dict[str, Entry]:
    return {format: Entry(f"regard.models.folders.{format}:{name}") for format in formats}


READERS = Catalogue[Callable[..., LoadedModel]](_functions("read", *FORMATS[:-1]))
WRITERS = Catalogue[Callable[..., None]](_functions("write", *FORMATS))
# regard's format has every model.
CHECKS = Catalogue[Callable[[LoadedModel], object]](_functions("check", *FORMATS[1:]))
TIMM_KEY = "architecture"  # of a config.json that timm wrote
WITHOUT_HEADS = ("elmo",)  # formats that store no heads


def write(folder: Path, model: LoadedModel, format: str = "regard", **settings: object) -> None:
    """Write a model folder; config.json is written last: its presence marks a complete folder.

    ``settings`` are passed on to ``onnx.write``.
    """
    if format not in FORMATS:
        raise BadInput(f"format must be one of {', '.join(FORMATS)}, not {format!r}")
    if _format_of(folder) not in (None, format):
        raise BadInput(f"{folder}: holds a model in another format; choose another folder")
    if settings and format != "onnx":
        raise BadInput(f"{', '.join(settings)}: only the format onnx has such settings")
    WRITERS[format](folder, model, **settings)


def refusals(model: LoadedModel) -> dict[str, str | None]:
    """For each format, why it cannot express a model and what to change; None: it can."""
    return {name: _refusal(name, model) for name in FORMATS}


def _refusal(format: str, model: LoadedModel) -> str | None:
    try:
        CHECKS.get(format, lambda _: None)(model)
    except BadInput as error:
        return str(error)
    return None


def save(
    folder: Path, model: LoadedModel, format: str, *, overwrite: bool = False, **settings: object
) -> None:
    """Write a model folder; existing files are replaced only with ``overwrite``."""
    with writing(folder):
        if folder.is_file():
            raise BadInput(f"{folder}: is a file, not a folder")
        if not (overwrite or is_vacant(folder)):
            raise BadInput(f"{folder}: already exists; save(..., overwrite=True) replaces it")
        write(folder, model, format, **settings)


def read(
    folder: Path, device: torch.device | str = "cpu", *, keep_unknown: bool = False
) -> LoadedModel:
    """Read the model in a folder of regard, Hugging Face, timm or ELMo.

    With ``keep_unknown``, unknown tensors of a Hugging Face folder are kept beside the weights, and
    ``write`` writes them again; otherwise they are an error.
    """
    if not folder.is_dir():
        raise BadInput(f"{folder}: no such folder")
    loaded = _read(folder, device, keep_unknown)
    check_scores(loaded.module, folder)
    return loaded


def _read(folder: Path, device: torch.device | str, keep_unknown: bool) -> LoadedModel:
    if not (folder / CONFIG).exists():
        if _is_elmo(folder):
            return READERS["elmo"](folder, device)
        inner = folder / MODEL
        hint = f"; its model is in {inner}" if (inner / CONFIG).is_file() else ""
        raise BadInput(f"{folder}: not a model folder: it has no {CONFIG}{hint}")
    if _is_onnx(folder):
        raise BadInput(f"{folder}: has ONNX graphs, which are not read; load what they are made of")
    config = read_json(folder / CONFIG)
    if "regard" in config:
        return READERS["regard"](folder, config, device)
    if "model_type" in config:
        return READERS["hf"](folder, config, device, keep_unknown)
    if TIMM_KEY in config:
        return READERS["timm"](folder, config, device)
    raise BadInput(f"{folder / CONFIG}: unknown format: no key regard, model_type or architecture")


def vocabularies(model: LoadedModel) -> TranslationTokenizer:
    """The vocabularies of a translator; without tokenizer files, vocabularies of ids."""
    if model.tokenizer is not None:
        return cast(TranslationTokenizer, model.tokenizer)
    ids = {"pad": PAD, "bos": BOS, "eos": EOS}  # of every vocabulary that regard makes
    if model.extras is not None:
        ids = model.paper.formats["hf"].special_ids(model.extras.config)
    sizes = model.facts.sizes
    special = ids["pad"], ids["bos"], ids["eos"]
    sides = sizes["source tokens"], sizes["target tokens"]
    return TranslationTokenizer(*(IdVocabulary(size, *special) for size in sides))


def vocabulary_of(model: LoadedModel) -> Vocabulary:
    """The vocabulary of a model with one side; without tokenizer files, a vocabulary of ids."""
    if model.tokenizer is not None:
        (vocabulary,) = model.tokenizer.vocabularies
        return cast(Vocabulary, vocabulary)
    config = {} if model.extras is None else model.extras.config
    ids = (config.get(f"{name}_token_id") for name in ("pad", "bos", "eos"))
    pad, bos, eos = (number if isinstance(number, int) else -1 for number in ids)
    return IdVocabulary(model.facts.sizes["tokens"], pad, bos, eos)


def _format_of(folder: Path) -> str | None:
    if not (folder / CONFIG).exists():
        return "elmo" if _is_elmo(folder) else None
    if _is_onnx(folder):
        return "onnx"
    config = read_json(folder / CONFIG)
    return "regard" if "regard" in config else "timm" if TIMM_KEY in config else "hf"


def _is_elmo(folder: Path) -> bool:
    """Whether a folder has the files of a published ELMo model."""
    return all(any(folder.glob(f"*{name}")) for name in (ELMO_OPTIONS, ELMO_WEIGHTS))


def _is_onnx(folder: Path) -> bool:
    """Whether a folder has graphs, and no weights."""
    return (folder / ONNX_GRAPHS).is_dir() and not (folder / WEIGHTS).exists()
