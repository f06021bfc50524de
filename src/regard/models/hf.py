"""Hugging Face folders: config.json, safetensors or pickled tensors, generation settings, text."""

from pathlib import Path
from typing import Any

import torch

from regard.ground.errors import BadInput
from regard.ground.files import read_bytes, read_json, replacing, write_json
from regard.models import bert_folder, sentence_files
from regard.models.form import Form, Origin
from regard.models.papers import bert, marian, transformer
from regard.models.stored import CONFIG, WEIGHTS, Stored, built, check_tokenizer, refuse_depth
from regard.weights.files import load_weights, read_folder, weights_of, write_tensors

GENERATION = "generation_config.json"
# How a tuned encoder is to be asked, which configurations have no word for: under a key of ours.
NOTES, ASKED = "regard_notes", ("longest", "stride", "question", "longest_answer", "threshold")
# How a folder searches; an old one says it in its config.json.
NOTED = (
    "num_beams",
    "length_penalty",
    "early_stopping",
    "max_length",
    "max_new_tokens",
    "min_length",
    "no_repeat_ngram_size",
    "renormalize_logits",
    "forced_eos_token_id",
    "bad_words_ids",
)

HF: dict[str, Form] = {
    transformer.PAPER.key: marian.HF,
    marian.PAPER.key: marian.HF,
    bert.PAPER.key: bert_folder.HF,
}
"""The form in which Hugging Face keeps the models of a paper."""


def read(
    folder: Path, config: dict[str, Any], device: torch.device | str, keep_unknown: bool = False
) -> Stored:
    """The model in a folder that says ``config``; how it generates is noted as "generation",
    how it gives one vector for a text as "embedding".
    """
    form, where = _form(folder, config), str(folder / CONFIG)
    file = read_folder(folder)
    try:
        facts = form.facts(config, file.keys())
        refuse_depth(facts, len(file))
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from None
    shapes = weights_of(built(facts, "meta", where))  # a misfit costs no memory
    tensors, beside = form.names(facts).read(file, shapes, str(folder), keep_unknown)
    module = built(facts, device, where)
    load_weights(module, tensors, str(folder))
    tokenizer, labels = form.tokenizer(folder, config), form.labels(config)
    check_tokenizer(tokenizer, labels, facts, folder)
    generation = {name: config[name] for name in NOTED if config.get(name) is not None}
    if (folder / GENERATION).exists():
        said = read_json(folder / GENERATION)
        generation = {name: value for name, value in said.items() if value is not None}
    noted = {"generation": generation, "embedding": sentence_files.embedding_of(folder)}
    notes = {name: said for name, said in noted.items() if said}
    if isinstance(own := config.get(NOTES), dict):
        notes |= {name: own[name] for name in ASKED if name in own}
    origin = Origin(config, files_of(folder), beside)
    return Stored(form.paper, facts, module.eval(), tokenizer, labels, notes, origin)


def write(folder: Path, stored: Stored) -> None:
    """Write a folder that ``transformers`` reads; what it cannot express is refused beforehand."""
    if stored.paper.key not in HF:
        raise BadInput(f"{stored.paper.name}: Hugging Face has no form for such models")
    form = HF[stored.paper.key]
    config = form.config(stored.facts)
    origin = stored.origin or form.fresh(stored.facts, stored.tokenizer, stored.labels)
    tensors = form.names(stored.facts).write(weights_of(stored.module), origin.beside)
    if stored.origin is not None:  # it keeps its own words for what has not changed
        before = form.config(form.facts(origin.config, tensors.keys()))
        config = {key: value for key, value in config.items() if value != before[key]}
    (folder / CONFIG).unlink(missing_ok=True)
    if stored.tokenizer is not None:
        stored.tokenizer.save(folder)
    write_files(folder, origin)
    write_tensors(folder / WEIGHTS, tensors)
    own = {name: stored.notes[name] for name in ASKED if name in stored.notes}
    write_json(folder / CONFIG, {**origin.config, **config, **({NOTES: own} if own else {})})


def files_of(folder: Path) -> dict[str, bytes]:
    """The files of a folder that are only handed on."""
    path = folder / GENERATION
    generation = {path.name: read_bytes(path)} if path.exists() else {}
    return generation | sentence_files.files_of(folder)


def write_files(folder: Path, origin: Origin) -> None:
    """Hand them on, byte for byte."""
    for name, content in origin.files.items():
        with replacing(folder / name) as temporary:
            temporary.write_bytes(content)


def _form(folder: Path, config: dict[str, Any]) -> Form:
    known = {form.model_type: form for form in HF.values()}
    if (kind := str(config.get("model_type"))) not in known:
        names = ", ".join(known)
        raise BadInput(f"{folder / CONFIG}: model_type {kind!r} is not supported, only {names}")
    return known[kind]
