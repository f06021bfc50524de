"""regard's own folders: config.json (paper, facts, notes), model.safetensors, tokenizer, labels."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from regard.core.errors import BadInput
from regard.core.files import write_files, write_json
from regard.core.reading import Reading
from regard.images.processor import ImageProcessor
from regard.models.facts import from_json, to_json
from regard.models.folders import hf
from regard.models.folders.loaded_model import (
    CONFIG,
    WEIGHTS,
    LoadedModel,
    build_facts,
    check_depth,
    check_tokenizer,
)
from regard.models.formats.config_map import Config
from regard.models.formats.hf_format import HFExtras
from regard.models.paper import Paper
from regard.models.papers import KINDS
from regard.models.papers import paper as paper_named
from regard.text.label_sets import LABELS, load_labels
from regard.text.tokenizers.list import TOKENIZERS
from regard.weights.files import load_weights, read_tensors, weights_of, write_tensors
from regard.weights.tensor_pieces import write_one_by_one
from regard.weights.weight_map import Extras

FORMAT = 2
KEPT = "kept.safetensors"  # unknown tensors of a Hugging Face folder


def write(folder: Path, model: LoadedModel, weights: Mapping[str, Tensor] | None = None) -> None:
    """Write a folder in regard's format.

    With ``weights``, these are written one by one instead of the module's, which may be on the
    meta device.
    """
    (folder / CONFIG).unlink(missing_ok=True)
    (folder / LABELS).unlink(missing_ok=True)
    for value in (model.tokenizer, model.labels):
        if value is not None:
            value.save(folder)
    config = {
        "regard": FORMAT,
        "paper": model.paper.key,
        "facts": to_json(model.facts),
        "tokenizer": None if model.tokenizer is None else model.tokenizer.name,
        "notes": model.notes,
    }
    (folder / KEPT).unlink(missing_ok=True)
    if model.extras is not None:
        config["hf"] = _write_extras(folder, model.extras)
    extras = Extras() if model.extras is None else model.extras.weights
    own = extras.in_file_precision(weights_of(model.module))
    if weights is None:
        write_tensors(folder / WEIGHTS, own)
    else:
        write_one_by_one(folder / WEIGHTS, weights, like=own)
    write_json(folder / CONFIG, config)


def read(folder: Path, config: Config, device: torch.device | str) -> LoadedModel:
    """Read the model in a folder with this config.json."""
    where, notes = str(folder / CONFIG), config.get("notes", {})
    if (format := config.get("regard")) != FORMAT:
        known = f"written in format {format!r} of regard, and this version reads {FORMAT}"
        raise BadInput(f"{where}: {known}: train the model again")
    try:
        paper = paper_named(str(config.get("paper")))
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from None
    if not isinstance(notes, dict):
        raise BadInput(f"{where}: notes is not a table of names and values")
    facts, tensors = from_json(config.get("facts"), KINDS, where), read_tensors(folder / WEIGHTS)
    check_depth(facts, len(tensors), where)
    load_weights(build_facts(facts, "meta", where), tensors, str(folder / WEIGHTS))  # does it fit?
    module = build_facts(facts, device, where)
    load_weights(module, tensors, str(folder / WEIGHTS))
    if "hf" in config and "hf" not in paper.formats:
        raise BadInput(
            f"{where}: the key hf is not allowed: {paper.name} has no Hugging Face format"
        )
    extras = _read_extras(folder, config["hf"], tensors) if "hf" in config else None
    tokenizer, labels = _read_tokenizer(folder, config, paper, extras), load_labels(folder)
    check_tokenizer(tokenizer, labels, facts, folder)
    return LoadedModel(paper, facts, module.eval(), tokenizer, labels, notes, extras)


def _read_tokenizer(
    folder: Path, config: Config, paper: Paper, extras: HFExtras | None
) -> Reading | None:
    if (name := config.get("tokenizer")) is None:
        return None
    known: dict[str, type[Reading]] = {**TOKENIZERS, ImageProcessor.name: ImageProcessor}
    if extras is not None:
        return paper.formats["hf"].load_tokenizer(folder, extras.config)
    if (kind := known.get(str(name))) is None:
        raise BadInput(
            f"{folder / CONFIG}: unknown tokenizer {name!r}; supported: {', '.join(known)}"
        )
    exists = any((folder / file).exists() for file in kind.FILES)
    return kind.load(folder) if exists else None


def _write_extras(folder: Path, extras: HFExtras) -> dict[str, object]:
    write_files(folder, extras.files)
    weights = extras.weights
    if weights.kept:
        write_tensors(folder / KEPT, weights.kept)
    return {"config": extras.config, "bare": weights.bare, "tied": weights.tied, "old": weights.old}


def _read_extras(folder: Path, content: Config, tensors: dict[str, Tensor]) -> HFExtras:
    try:
        config, bare, tied = dict(content["config"]), content["bare"], tuple(content["tied"])
        old = content.get("old", False)
        old = old if isinstance(old, bool) else tuple(map(str, old))
    except (TypeError, KeyError, ValueError):
        raise BadInput(
            f"{folder / CONFIG}: the key hf must be an object with config, bare and tied"
        ) from None
    kept = read_tensors(folder / KEPT) if (folder / KEPT).exists() else {}
    dtypes = {name: tensor.dtype for name, tensor in tensors.items()}
    weights = Extras(bool(bare), tied, old, kept, dtypes)
    return HFExtras(config, hf.files_of(folder), weights)
