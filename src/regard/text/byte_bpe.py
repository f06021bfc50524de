"""Byte-level BPE as RoBERTa has it: pieces of bytes, with the space before a word in its piece."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from regard.ground.errors import BadInput
from regard.ground.files import read_bytes, read_json
from regard.text.templates import Template
from regard.text.tokenizer_family import Model, TokenizerFamily, TokenizerSettings
from regard.text.train_tokenizer import learn_model


class ByteBPE(TokenizerFamily):
    """The tokenizers of RoBERTa and of those that took them over."""

    name, model, classes = "byte-bpe", "BPE", ("RobertaTokenizer",)
    files: ClassVar = ("vocab.json", "merges.txt")
    special_tokens: ClassVar = {
        **{"cls_token": "<s>", "pad_token": "<pad>", "sep_token": "</s>"},
        **{"unk_token": "<unk>", "mask_token": "<mask>"},
    }
    template, word_prefix = Template("cls A sep", "cls A sep sep B sep"), " "

    def read_files(self, folder: Path) -> Model:
        """Pieces with their ids, and merges in order, one in each line."""
        lines = read_bytes(folder / "merges.txt").decode().splitlines()
        merges = [line.split(" ") for line in lines if line and not line.startswith("#version")]
        return {"vocab": read_json(folder / "vocab.json"), "merges": merges}

    def write_files(self, model: Model) -> dict[str, str]:
        """The same files."""
        lines = ["#version: 0.2", *(f"{left} {right}" for left, right in model["merges"]), ""]
        vocabulary = json.dumps(model["vocab"], ensure_ascii=False)
        return {"vocab.json": vocabulary, "merges.txt": "\n".join(lines)}

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
        special, alphabet = self.special_tokens.values(), {"initial_alphabet": bytes_.alphabet()}
        return learn_model(frame, texts, trainers.BpeTrainer, vocab, special, **alphabet), {}
