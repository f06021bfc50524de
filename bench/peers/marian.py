"""transformers' Marian, which translates by ``generate``."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import MarianConfig, MarianMTModel
from worker import System

from peers.common import device
from peers.decoding import Ids, Work, rounds_over

FORMS = ("eager", "static", "compiled")


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
