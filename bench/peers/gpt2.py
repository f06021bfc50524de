"""Causal models as peers: GPT-2 in the manner of nanoGPT, and transformers' models (sdpa).

Both are trained; transformers' continues prompts, too.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from corpus import batches_of, blocks
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from peers.common import System, compiled, device, rounds_over, send, training_step
from peers.decoding import Ids, Work
from peers.decoding import rounds_over as decoding_rounds
from peers.plain_gpt import PlainGPT

FORMS = {  # whether it is the plain one, and the mode in which it is compiled
    "plain": (True, ""),
    "plain-eager": (True, None),
    "plain-graphs": (True, "reduce-overhead"),
    "eager": (False, None),
    "compiled": (False, ""),
    "graphs": (False, "reduce-overhead"),
}


class TransformersGPT(nn.Module):
    """transformers' model and the mean loss of the next tokens."""

    def __init__(self, folder: Path):
        from transformers import AutoModelForCausalLM

        super().__init__()
        self.model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="sdpa")

    def forward(self, tokens_BL: Tensor, targets_BL: Tensor) -> Tensor:
        logits_BLV = self.model(tokens_BL, use_cache=False).logits
        return cross_entropy(logits_BLV.flatten(0, 1), targets_BL.flatten())


def causal_lm(
    form: str, folder: str, corpus: dict[str, Any], rows: int, optimiser: dict[str, Any]
) -> System:
    """A step of causal LM over batches of ``rows``, from the weights of a folder."""
    (plain, mode), place = FORMS[form], device()
    model = (PlainGPT.from_folder if plain else TransformersGPT)(Path(folder)).to(place).train()
    forward = compiled(model, mode)

    def collate(batch: np.ndarray) -> dict[str, Tensor]:
        tables = {"tokens_BL": batch[:, :-1].copy(), "targets_BL": batch[:, 1:].copy()}
        return {name: send(table, place) for name, table in tables.items()}

    captured = mode == "reduce-overhead" and place.type == "cuda"
    step = training_step(model, forward, collate, optimiser, place, captured=captured)
    return rounds_over(step, batches_of(blocks(**corpus), rows))


def generation(form: str, folder: str) -> System:
    """Greedy continuations, in bf16 on CUDA, else in fp32.

    "eager" has generate's default cache; "static" its static cache, with which it compiles steps on
    CUDA, in CUDA graphs.
    """
    from transformers import AutoModelForCausalLM

    work, place = Work.read(folder), device()
    dtype = torch.bfloat16 if place.type == "cuda" else torch.float32
    model = AutoModelForCausalLM.from_pretrained(folder).eval().to(place, dtype)
    settings = {"eager": {}, "static": {"cache_implementation": "static"}}[form]
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = work.marks.eos

    @torch.inference_mode()
    def continued(batch: Ids) -> Ids:
        ids = torch.tensor(batch, device=place)
        out = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=work.longest,
            suppress_tokens=[work.marks.eos],
            **settings,
        )
        return out[:, ids.shape[1] :].tolist()

    return decoding_rounds(work.ids, continued)
