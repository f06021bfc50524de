"""BPE as GPT has it (Radford et al., 2018): words in lower case, cut at spaces and signs as BERT's
are, and merges of letters; a piece that ends in ``</w>`` ends a word.

The tokenizer is put together as ``transformers`` 5 does it, which repairs no text (``ftfy``).
"""

from collections.abc import Iterable
from typing import Any, ClassVar

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from regard.ground.errors import BadInput
from regard.text.families.merges import BPEFamily
from regard.text.families.tokenizer_family import Model, TokenizerSettings
from regard.text.templates import Template
from regard.text.vocabularies.train_tokenizer import learn_model

SUFFIX = "</w>"


class GPTBPE(BPEFamily):
    """The tokenizers of GPT; only unknown letters have a special token."""

    name = kind = "gpt-bpe"
    classes = ("OpenAIGPTTokenizer",)
    special_tokens: ClassVar = {"unk_token": "<unk>"}
    template = Template("A", "A B")

    def build(self, model: Model, unk: str, settings: TokenizerSettings) -> Tokenizer:
        """BERT's normaliser and its way to cut words, and the merges."""
        merges = [*map(tuple, model["merges"])]
        suffix: dict[str, Any] = {"end_of_word_suffix": SUFFIX, "continuing_subword_prefix": ""}
        return _frame(models.BPE(dict(model["vocab"]), merges, unk_token=unk, **suffix))

    def learn(self, texts: Iterable[str], vocab: int, lower: bool) -> tuple[Model, dict[str, Any]]:
        """Letters, then merges up to ``vocab`` pieces."""
        if not lower:
            raise BadInput("text.lower: GPT's BPE reads lower case only: set it to true")
        special, suffix = self.special_tokens.values(), {"end_of_word_suffix": SUFFIX}
        frame = _frame(models.BPE(**suffix))
        return learn_model(frame, texts, trainers.BpeTrainer, vocab, special, **suffix), {}


def _frame(model: models.Model) -> Tokenizer:
    frame = Tokenizer(model)
    frame.normalizer = normalizers.BertNormalizer(lowercase=True)
    frame.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    frame.decoder = decoders.BPEDecoder(suffix=SUFFIX)
    return frame
