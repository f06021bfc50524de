"""A model on disk: config.json (which paper, which facts), model.safetensors, its tokenizers."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.ground.errors import BadInput
from regard.ground.files import read_json, write_json
from regard.models import hf
from regard.models.facts import EncoderDecoder, from_json, to_json
from regard.models.form import Origin
from regard.models.hf import HF
from regard.models.papers import paper as paper_named
from regard.models.stored import CONFIG, WEIGHTS, Stored, built, check_tokenizer, refuse_depth
from regard.text.ids_only import ids_only
from regard.text.labels import LABELS, load_labels
from regard.text.tokenizers import TOKENIZERS, Tokenizer
from regard.text.train_tokenizer import BOS, EOS, PAD
from regard.text.translation_tokenizer import TranslationTokenizer
from regard.weights.files import load_weights, read_tensors, weights_of, write_tensors
from regard.weights.weight_map import Extras

KEPT = "kept.safetensors"  # tensors that only the folder a model came from needs
MODEL = "model"  # where a run folder keeps what it trained
FORMAT = 2
FORMATS = ("regard", "hf")


def write(folder: Path, stored: Stored, format: str = "regard") -> None:
    """Write a folder; config.json comes last, so that a folder that has it is whole."""
    if format not in FORMATS:
        raise BadInput(f"format is {' or '.join(FORMATS)}, not {format!r}")
    if (folder / CONFIG).exists() and _format_of(folder) != format:
        raise BadInput(f"{folder}: holds a model in another format; choose another folder")
    if format == "hf":
        hf.write(folder, stored)
        return
    (folder / CONFIG).unlink(missing_ok=True)
    (folder / LABELS).unlink(missing_ok=True)
    for value in (stored.tokenizer, stored.labels):
        if value is not None:
            value.save(folder)
    config = {
        "regard": FORMAT,
        "paper": stored.paper.key,
        "facts": to_json(stored.facts),
        "tokenizer": None if stored.tokenizer is None else stored.tokenizer.name,
        "notes": stored.notes,
    }
    (folder / KEPT).unlink(missing_ok=True)
    if stored.origin is not None:
        config["origin"] = _write_origin(folder, stored.origin)
    write_tensors(folder / WEIGHTS, _in_their_precision(stored))
    write_json(folder / CONFIG, config)


def read(folder: Path, device: torch.device | str = "cpu", *, keep_unknown: bool = False) -> Stored:
    """The model in a folder, regard's or Hugging Face's, ready to run.

    With ``keep_unknown``, tensors of a Hugging Face folder that belong to no layer known here are
    kept beside the weights, and ``write`` gives them back; otherwise they are an error.
    """
    if not folder.is_dir():
        raise BadInput(f"{folder}: no such folder")
    if not (folder / CONFIG).exists():
        inner = folder / MODEL
        there = f"; its model is in {inner}" if (inner / CONFIG).is_file() else ""
        raise BadInput(f"{folder}: no model folder: it has no {CONFIG}{there}")
    config = read_json(folder / CONFIG)
    if "regard" not in config and "model_type" in config:
        return hf.read(folder, config, device, keep_unknown)
    if config.get("regard") != FORMAT:
        raise BadInput(f"{folder / CONFIG}: not written by this version of regard; train it again")
    paper = paper_named(str(config.get("paper")))
    where, notes = str(folder / CONFIG), config.get("notes", {})
    if not isinstance(notes, dict):
        raise BadInput(f"{where}: notes is not a table of names and values")
    facts, tensors = from_json(config.get("facts"), where), read_tensors(folder / WEIGHTS)
    try:
        refuse_depth(facts, len(tensors))
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from None
    load_weights(built(facts, "meta", where), tensors, str(folder / WEIGHTS))  # does it fit?
    module = built(facts, device, where)
    load_weights(module, tensors, str(folder / WEIGHTS))
    origin = _read_origin(folder, config["origin"], tensors) if "origin" in config else None
    tokenizer, labels = _read_tokenizer(folder, config, origin), load_labels(folder)
    check_tokenizer(tokenizer, labels, facts, folder)
    return Stored(paper, facts, module.eval(), tokenizer, labels, notes, origin)


def vocabularies(stored: Stored) -> TranslationTokenizer:
    """Those of a translator; where its folder has no tokenizer files, its ids alone."""
    facts = stored.facts
    assert isinstance(facts, EncoderDecoder)
    if isinstance(stored.tokenizer, TranslationTokenizer):
        return stored.tokenizer
    ids = {"pad": PAD, "bos": BOS, "eos": EOS}  # of every vocabulary that regard makes
    if stored.origin is not None and (said := HF[stored.paper.key].special_ids) is not None:
        ids = said(stored.origin.config)
    return ids_only(facts.source.embed.vocab, facts.target.embed.vocab, **ids)


def _format_of(folder: Path) -> str:
    return "regard" if "regard" in read_json(folder / CONFIG) else "hf"


def _read_tokenizer(
    folder: Path, config: dict[str, Any], origin: Origin | None
) -> Tokenizer | None:
    if (name := config.get("tokenizer")) is None:
        return None
    if origin is not None:
        return HF[config["paper"]].tokenizer(folder, origin.config)
    if name not in TOKENIZERS:
        raise BadInput(f"{folder / CONFIG}: tokenizer is {name!r}, not {', '.join(TOKENIZERS)}")
    kind = TOKENIZERS[name]
    there = any((folder / file).exists() for file in kind.FILES)
    return kind.load(folder) if there else None


def _in_their_precision(stored: Stored) -> dict[str, Tensor]:
    """A model's tensors as precise as they were in the folder it came from."""
    dtypes = stored.origin.beside.dtypes if stored.origin is not None else {}
    weights = weights_of(stored.module)
    return {name: one.to(dtypes.get(name, one.dtype)) for name, one in weights.items()}


def _write_origin(folder: Path, origin: Origin) -> dict[str, Any]:
    hf.write_files(folder, origin)
    beside = origin.beside
    if beside.kept:
        write_tensors(folder / KEPT, beside.kept)
    return {"config": origin.config, "bare": beside.bare, "tied": beside.tied, "old": beside.old}


def _read_origin(folder: Path, said: Any, tensors: dict[str, Tensor]) -> Origin:
    try:
        config, bare, tied = dict(said["config"]), said["bare"], tuple(said["tied"])
    except (TypeError, KeyError, ValueError):
        raise BadInput(f"{folder / CONFIG}: origin is no Hugging Face folder") from None
    kept = read_tensors(folder / KEPT) if (folder / KEPT).exists() else {}
    dtypes = {name: tensor.dtype for name, tensor in tensors.items()}
    old = bool(said.get("old", False))
    return Origin(config, hf.files_of(folder), Extras(bool(bare), tied, old, kept, dtypes))
