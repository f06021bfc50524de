"""transformers' Marian: it translates by ``generate``, and is trained on padded pairs."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from corpus import Pair, bucketed_pairs, pair_padding, sentence_pairs
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import MarianConfig, MarianMTModel
from worker import System

from peers.common import Step, compile_layers, device, padded, send, training_step
from peers.common import rounds_over as training_rounds
from peers.decoding import Ids, Work, rounds_over

IGNORED = -100


def read_model(folder: str) -> MarianMTModel:
    """The model of a folder; weights that every Marian computes itself may be missing."""
    config = MarianConfig(**json.loads((Path(folder) / "config.json").read_text()))
    model = MarianMTModel(config)
    weights = load_file(Path(folder) / "model.safetensors")
    assert not model.load_state_dict(weights, strict=False).unexpected_keys
    model.tie_weights()
    return model


def translation(form: str, folder: str) -> System:
    """Translations in bf16 on CUDA, else in fp32.

    "eager" has generate's default cache. "static" has its static cache, with which it compiles the
    steps of a greedy search on CUDA, in CUDA graphs. It does not compile those of a beam search:
    "compiled" has the static cache, and its forward pass is compiled before.
    """
    work, place = Work.read(folder), device()
    dtype = torch.bfloat16 if place.type == "cuda" else torch.float32
    model = read_model(folder).eval().to(place, dtype)
    settings = {} if form == "eager" else {"cache_implementation": "static"}
    if form == "compiled" and place.type == "cuda":
        model.forward = torch.compile(model.forward)
    pad = work.marks.pad

    @torch.inference_mode()
    def translate(batch: Ids) -> Ids:
        longest = max(map(len, batch))
        ids = torch.tensor([[*row, *[pad] * (longest - len(row))] for row in batch])
        mask = torch.arange(longest) < torch.tensor([len(row) for row in batch])[:, None]
        out = model.generate(
            input_ids=ids.to(place),
            attention_mask=mask.long().to(place),
            num_beams=work.beam,
            do_sample=False,
            max_new_tokens=work.longest,
            bad_words_ids=[[pad]],
            **settings,
        )
        return [work.until_end(row[1:]) for row in out.tolist()]

    return rounds_over(work.ids, translate)


def training(form: str, folder: str, corpus: dict[str, Any], optimiser: dict[str, Any]) -> System:
    """A step of training, eager or compiled layer by layer for any length.

    As a trainer feeds it, pairs are sorted by length over the whole corpus, cut into batches of as
    many tokens on either side as regard's have, padding included, and taken in random order.
    """
    step = training_step_of(form, folder, optimiser)
    pairs = [pair for batch in sentence_pairs(**corpus) for pair in batch]
    batches = bucketed_pairs(pairs, corpus["tokens"])
    return training_rounds(step, batches, padding=round(pair_padding(batches), 3))


def training_step_of(form: str, folder: str, optimiser: dict[str, Any]) -> Step:
    """A step over pairs, with label smoothing."""
    model, place = read_model(folder), device()
    model = model.to(place).train()
    marks = model.config

    def loss_of(states: Tensor, goals: Tensor) -> Tensor:
        logits = model.lm_head(states) + model.final_logits_bias
        return cross_entropy(logits.flatten(0, 1).float(), goals.flatten(), label_smoothing=0.1)

    if form == "compiled":
        compile_layers(model.model.encoder.layers, model.model.decoder.layers)
        loss_of = torch.compile(loss_of, dynamic=True)

    def forward(goals: Tensor, **inputs: Tensor) -> Tensor:
        return loss_of(model.model(**inputs, use_cache=False).last_hidden_state, goals)

    def collate(pairs: Sequence[Pair]) -> dict[str, Tensor]:
        bos, eos, pad = marks.decoder_start_token_id, marks.eos_token_id, marks.pad_token_id
        sources, targets = zip(*pairs, strict=True)
        tables = {
            "input_ids": padded([np.append(source, eos) for source in sources], pad),
            "attention_mask": padded([np.ones(len(source) + 1) for source in sources], 0),
            "decoder_input_ids": padded([np.insert(target, 0, bos) for target in targets], pad),
            "goals": padded([np.append(target, eos) for target in targets], IGNORED),
        }
        return {name: send(table, place) for name, table in tables.items()}

    return training_step(model, forward, collate, optimiser, place)
