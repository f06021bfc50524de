"""Byte-level BPE (Radford et al., 2019): pieces of bytes; a word's piece has the space before it.

RoBERTa took over the pieces of GPT-2, and put special tokens of its own around texts.
"""

from collections.abc import Iterable
from typing import Any, ClassVar

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from regard.ground.errors import BadInput
from regard.text.families.merges import BPEFamily
from regard.text.families.tokenizer_family import Model, TokenizerSettings
from regard.text.templates import Template
from regard.text.vocabularies.train_tokenizer import learn_model


class ByteBPE(BPEFamily):
    """The tokenizers of RoBERTa and of those that took them over."""

    name = kind = "byte-bpe"
    classes = ("RobertaTokenizer",)
    special_tokens: ClassVar = {
        "cls_token": "<s>",
        "pad_token": "<pad>",
        "sep_token": "</s>",
        "unk_token": "<unk>",
        "mask_token": "<mask>",
    }
    template, word_prefix = Template("cls A sep", "cls A sep sep B sep"), " "

    def build(self, model: Model, unk: str, settings: TokenizerSettings) -> Tokenizer:
        """Words with the space before them, as bytes, and the merges."""
        tokenizer = Tokenizer(models.BPE(dict(model["vocab"]), [*map(tuple, model["merges"])]))
        spaced = settings.flag("add_prefix_space", False)
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=spaced)
        tokenizer.decoder = decoders.ByteLevel()
        return tokenizer

    def processor(self, names: Any, ids: Any, settings: TokenizerSettings) -> Any:
        """The template; offsets leave out the space before a word."""
        byte_level = processors.ByteLevel(
            add_prefix_space=settings.flag("add_prefix_space", False),
            trim_offsets=settings.flag("trim_offsets", True),
        )
        return processors.Sequence([byte_level, super().processor(names, ids, settings)])

    def learn(self, texts: Iterable[str], vocab: int, lower: bool) -> tuple[Model, dict[str, Any]]:
        """All bytes, then merges up to ``vocab`` pieces; case is kept."""
        if lower:
            raise BadInput("text.lower: byte-level BPE keeps the case of letters")
        frame, bytes_ = Tokenizer(models.BPE()), pre_tokenizers.ByteLevel(add_prefix_space=False)
        frame.pre_tokenizer = bytes_
        special = dict.fromkeys(self.special_tokens.values())
        alphabet = {"initial_alphabet": bytes_.alphabet()}
        return learn_model(frame, texts, trainers.BpeTrainer, vocab, special, **alphabet), {}


class GPT2BPE(ByteBPE):
    """The tokenizers of GPT-2: nothing stands around a text, and one token separates texts."""

    name, classes = "gpt2-bpe", ("GPT2Tokenizer",)
    special_tokens: ClassVar = dict.fromkeys(
        ("bos_token", "eos_token", "unk_token"), "<|endoftext|>"
    )
    template, separator = Template("A", "A B"), "eos_token"
