"""Hugging Face folders: config.json, safetensors or pickled tensors, generation settings, text."""

from pathlib import Path
from typing import cast
from warnings import warn

import torch

from regard.core.errors import BadInput, DataWarning
from regard.core.files import JSON, read_bytes, read_json, write_files, write_json
from regard.models.encoder_decoder import ModelFacts
from regard.models.folders import sentence_transformers
from regard.models.folders.loaded_model import (
    CONFIG,
    WEIGHTS,
    LoadedModel,
    build_facts,
    check_depth,
    check_tokenizer,
)
from regard.models.formats.hf_format import HFExtras, HFFormat
from regard.models.paper import Paper
from regard.models.papers import PAPERS, paper_of_folder
from regard.text.tokenizers.row_tokenizer import RowTokenizer
from regard.weights.files import load_weights, read_folder, weights_of, write_tensors

GENERATION = "generation_config.json"
IMAGES = "preprocessor_config.json"
NO_LIMIT = 512  # tokens of a text, where neither model nor notes limit them
# Prediction settings for which transformers has no key, under a key of ours.
NOTES = "regard_notes"
PREDICTION_KEYS = (
    *("longest", "long", "stride", "question", "longest_answer", "threshold"),
    *("mark", "predicates"),
    *("segment", "single_above"),
)
COLUMN_KEYS = ("columns", "tag_column")  # of the files of the training set
NOTED = (*PREDICTION_KEYS, *COLUMN_KEYS, "prompt", "decode")
# Search settings, which old folders have in config.json.
GENERATION_KEYS = (
    "num_beams",
    "length_penalty",
    "early_stopping",
    "max_length",
    "max_new_tokens",
    "min_length",
    "min_new_tokens",
    "repetition_penalty",
    "no_repeat_ngram_size",
    "renormalize_logits",
    "forced_eos_token_id",
    "bad_words_ids",
)


def read(
    folder: Path, config: dict[str, JSON], device: torch.device | str, keep_unknown: bool = False
) -> LoadedModel:
    """Read the model in a folder with this config.json.

    The note "generation" has its generation settings, "embedding" its pool for ``embed``.
    """
    where = str(folder / CONFIG)
    paper = paper_of_folder(config, where)
    format = paper.formats["hf"]
    file = read_folder(folder)
    try:
        facts = format.facts_of(config, file.keys())
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from None
    for remark in format.unknown_keys(config):
        warn(f"{where}: {remark}", DataWarning, stacklevel=2)
    check_depth(facts, len(file), where)
    shapes = weights_of(build_facts(facts, "meta", where))  # a misfit costs no memory
    tensors, extras = format.weight_map(facts).read(file, shapes, str(folder), keep_unknown)
    module = build_facts(facts, device, where)
    load_weights(module, tensors, str(folder))
    tokenizer, labels = format.load_tokenizer(folder, config), format.labels_of(config, facts)
    check_tokenizer(tokenizer, labels, facts, folder)
    hf = HFExtras(config, files_of(folder), extras)
    notes = _read_notes(folder, config)
    return LoadedModel(paper, facts, module.eval(), tokenizer, labels, notes, hf)


def check(model: LoadedModel) -> tuple[HFFormat, dict[str, object], HFExtras]:
    """The format of a model, its config.json and the rest of its folder.

    Models that the format cannot express are refused, with what to change in their recipe.
    """
    if (format := model.paper.formats.get("hf")) is None:
        unknown = "the hf format does not support this paper"
        raise BadInput(f"{model.paper.name}: {unknown}; {_advice(model)}")
    try:
        config = format.config_of(model.facts, model.labels)
    except BadInput as error:
        raise BadInput(f"{error}; {_advice(model)}") from None
    return format, config, model.extras or format.new_extras(model.tokenizer, model.notes)


def _advice(model: LoadedModel) -> str:
    """What to change in a recipe: the facts, or the paper if the format has no model of it."""
    papers = PAPERS.values()
    known = [entry for entry in papers if _has_such(entry, model.facts) and _is_expressible(entry)]
    if model.paper in known or not known:
        return "train with the other values (model.change)"
    keys = [(entry.key, entry.formats["hf"].recipe_keys) for entry in known]
    names = (f'"{paper}"{needed and f" ({needed})"}' for paper, needed in keys)
    return f"train with another model.paper: {', '.join(names)}"


def _has_such(paper: Paper, facts: ModelFacts) -> bool:
    """Whether the models of a paper read and write what a model of these facts does."""
    own, other = (
        (model.sides, model.encoder.embed.reads_images, model.encoder.stack.causal)
        for model in (paper.sizes[paper.default_size], facts)
    )
    return own == other


def _is_expressible(paper: Paper) -> bool:
    """Whether the hf format has the default size of a paper."""
    try:
        return bool(paper.formats["hf"].config_of(paper.sizes[paper.default_size]))
    except (BadInput, LookupError):
        return False


def write(folder: Path, model: LoadedModel) -> None:
    """Write a folder for ``transformers``; refuse models that the format cannot express."""
    format, config, extras = check(model)
    tensors = format.weight_map(model.facts).write(weights_of(model.module), extras.weights)
    if model.extras is not None:
        config = format.update(extras.config, tensors, model.facts, model.labels)
    (folder / CONFIG).unlink(missing_ok=True)
    if model.tokenizer is not None:
        model.tokenizer.save(folder)
    write_files(folder, {**extras.files, **sentence_files(model)})
    write_tensors(folder / WEIGHTS, tensors)
    notes = {name: model.notes[name] for name in NOTED if name in model.notes}
    write_json(folder / CONFIG, {**extras.config, **config, **({NOTES: notes} if notes else {})})


def sentence_files(model: LoadedModel) -> dict[str, bytes]:
    """New files of sentence-transformers for a sentence encoder; none for other models.

    There are none for a model from a Hugging Face folder, whose files are written again, nor for a
    summary token that is not first, which its Pooling does not read.
    """
    embedding, facts = model.notes.get("embedding"), model.facts
    if model.extras is not None or model.tokenizer is None:
        return {}
    if not isinstance(embedding, dict) or "pool" not in embedding:
        return {}
    summary = cast(RowTokenizer, model.tokenizer).template.template.summary
    if embedding["pool"] == "first" and summary != "first":
        return {}
    longest = facts.encoder.embed.limit or NO_LIMIT
    return sentence_transformers.new_files(embedding, facts.encoder.width, longest)


def _read_notes(folder: Path, config: dict[str, JSON]) -> dict[str, object]:
    """Read the notes of a folder: generation, embedding and prediction settings."""
    generation = {name: config[name] for name in GENERATION_KEYS if config.get(name) is not None}
    if isinstance(ends := config.get("eos_token_id"), list):
        generation["eos_token_id"] = ends
    if (folder / GENERATION).exists():
        settings = read_json(folder / GENERATION)
        generation = {name: value for name, value in settings.items() if value is not None}
    embedding = sentence_transformers.embedding_of(folder)
    content = {"generation": generation, "embedding": embedding}
    notes: dict[str, object] = {name: value for name, value in content.items() if value}
    if isinstance(ours := config.get(NOTES), dict):
        notes |= {name: ours[name] for name in NOTED if name in ours}
    return notes


def files_of(folder: Path) -> dict[str, bytes]:
    """Files of a folder that are copied unchanged."""
    paths = (path for name in (GENERATION, IMAGES) if (path := folder / name).exists())
    return {path.name: read_bytes(path) for path in paths} | sentence_transformers.files_of(folder)
