"""A small random translator with learned positions."""

import torch

from regard.api import Model
from regard.models.embedding import Learned
from regard.models.facts import change
from regard.models.folders.loaded_model import LoadedModel
from regard.models.papers.transformer import BASE, PAPER
from regard.text.tokenizers.plain_tokenizer import train_subwords
from regard.text.tokenizers.translation_tokenizer import TranslationTokenizer
from small import WORDS

PLACES = 12


def placed(at_source=PLACES, at_target=PLACES, device="cpu"):
    """A random translator that learned vectors for so many positions, and never ends by itself."""
    words = train_subwords([" ".join(WORDS)], "bpe", 300)
    sizes = {"vocab": len(words), "width": 16, "heads": 2, "inner": 16, "depth": 1}
    tables = {"source.position": Learned(at_source), "target.position": Learned(at_target)}
    facts = change(BASE, **sizes, tie="none", head_bias=True, **tables)
    torch.manual_seed(3)
    model = facts.build().eval().to(device)
    with torch.no_grad():
        model.head.bias[words.eos] = -100
    return Model(LoadedModel(PAPER, facts, model, TranslationTokenizer(words, words)))
