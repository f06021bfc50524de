"""A BERT of five layers, with words of the small documents and of the small classification data."""

from pathlib import Path

import torch

from regard.models.facts import change
from regard.models.folders import folder as folders
from regard.models.label_heads import MLMHead
from regard.models.papers import bert
from regard.models.pools import FirstToken
from regard.text.tokenizers.encoder_tokenizer import train_encoder_tokenizer
from small_documents import KINDS
from small_tuning import OTHERS

SIZES = {"width": 16, "heads": 2, "inner": 32, "longest": 48, "init_std": 0.2, "depth": 5}


def write_teacher(folder: Path, seed: int = 5, **changes: int) -> Path:
    """A random one with a pool and a masked-LM head."""
    words = [*OTHERS, "owl", *(word for kind in KINDS.values() for word in kind)]
    text = train_encoder_tokenizer([" ".join(words)], "wordpiece", 120, longest=48)
    sizes = {**SIZES, **changes, "vocab": len(text.words)}
    facts = change(bert.TINY, pool=FirstToken(), output_heads=(MLMHead(),), **sizes)
    torch.manual_seed(seed)
    folders.write(folder, folders.LoadedModel(bert.PAPER, facts, facts.build(), text))
    return folder
