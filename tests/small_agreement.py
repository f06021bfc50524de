"""Small random word-level language models that know the words of agreement tests, or most."""

import torch

from regard.api import Model
from regard.experiments.studies.agreement_data import agreement_sentences
from regard.models.facts import change
from regard.models.folders.loaded_model import LoadedModel
from regard.models.heads import NextTokenHead
from regard.models.papers import zaremba
from regard.text.tokenizers.encoder_tokenizer import train_encoder_tokenizer

TESTS = agreement_sentences(2)


def language_model(cell: str = "lstm", missing: tuple[str, ...] = ()) -> Model:
    """It knows all words of the tests but those that are missing."""
    words = {word for one in TESTS for text in (one.right, one.wrong) for word in text.split()}
    text = " ".join(sorted(words - {*missing}))
    tokenizer = train_encoder_tokenizer([text], "word-level", 99, lower=False, longest=None)
    sizes = {"vocab": len(tokenizer.words), "width": 12, "embedding": 8, "cell": cell}
    facts = zaremba.PAPER.fit_heads(change(zaremba.SMALL, **sizes).with_heads(NextTokenHead()))
    torch.manual_seed(3)
    module = facts.build().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(3)
    return Model(LoadedModel(zaremba.PAPER, facts, module, tokenizer))
