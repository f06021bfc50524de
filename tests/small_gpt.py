"""A small random GPT-2 as ``transformers`` writes it, with a byte-level vocabulary of its own."""

import json
from pathlib import Path

import torch

from regard.api import Model
from regard.models.facts import change
from regard.models.folders.loaded_model import LoadedModel
from regard.models.heads import NextTokenHead
from regard.models.papers import gpt2
from regard.text.tokenizers.encoder_tokenizer import train_encoder_tokenizer

TEXTS = [
    "The old man reads a book. The girl sees the dog near the house.",
    "A dog barks at the man, and the man laughs.\n\nThe house is old; naïve café €5 🙂 日本.",
] * 3
VOCAB, POSITIONS = 300, 48
SIZES = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": POSITIONS}


def write_gpt2(folder: Path, *, seed: int = 0, scale: float = 3.0, **settings) -> Path:
    """A folder with weights, tokenizer and ``settings`` as its generation_config.json."""
    from transformers import GPT2Config, GPT2LMHeadModel

    tokenizer = train_encoder_tokenizer(TEXTS, "gpt2-bpe", VOCAB, lower=False, longest=POSITIONS)
    ids = {"bos_token_id": tokenizer.words.bos, "eos_token_id": tokenizer.words.eos}
    torch.manual_seed(seed)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer.words), **SIZES, **ids))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        model.transformer.ln_f.weight.mul_(scale)
    model.eval().save_pretrained(folder)
    tokenizer.save(folder)
    (folder / "generation_config.json").write_text(json.dumps({**ids, **settings}))
    return folder


def small_gpt2(seed: int = 0) -> Model:
    """A model of these sizes that needs no ``transformers``."""
    tokenizer = train_encoder_tokenizer(TEXTS, "gpt2-bpe", VOCAB, lower=False, longest=POSITIONS)
    sizes = {"width": 16, "inner": 64, "depth": 2, "heads": 2, "longest": POSITIONS}
    facts = change(gpt2.SMALL, vocab=len(tokenizer.words), init_std=0.5, **sizes)
    facts = facts.with_heads(NextTokenHead())
    torch.manual_seed(seed)
    return Model(LoadedModel(gpt2.PAPER, facts, facts.build().eval(), tokenizer))
