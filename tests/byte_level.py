"""A second family of tokenizers: byte-level BPE with the template of RoBERTa."""

import json
from collections.abc import Iterable
from typing import Any, ClassVar

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from regard.ground.files import read_json
from regard.text.templates import Template
from regard.text.tokenizer_family import TokenizerFamily

SPACE = "▁"


class ByteLevel(TokenizerFamily):
    """Pieces of bytes; one that begins a word has the space before it."""

    name: ClassVar = "byte-bpe"
    model: ClassVar = "BPE"
    classes: ClassVar = ("RobertaTokenizer",)
    files: ClassVar = ("vocab.json", "merges.txt")
    special_tokens: ClassVar = {
        "cls_token": "<s>",
        "pad_token": "<pad>",
        "sep_token": "</s>",
        "unk_token": "<unk>",
        "mask_token": "<mask>",
    }
    template: ClassVar = Template("cls A sep", "cls A sep sep B sep")
    word_prefix: ClassVar = " "

    def read_files(self, folder) -> dict[str, Any]:
        lines = (folder / "merges.txt").read_text().splitlines()
        merges = [line.split(" ") for line in lines if line and not line.startswith("#version")]
        return {"vocab": read_json(folder / "vocab.json"), "merges": merges}

    def write_files(self, model) -> dict[str, str]:
        merges = "".join(f"{left} {right}\n" for left, right in model["merges"])
        return {
            "vocab.json": json.dumps(model["vocab"], ensure_ascii=False),
            "merges.txt": f"#version: 0.2\n{merges}",
        }

    def build(self, model, unk, settings) -> Tokenizer:
        merges = [tuple(one) for one in model["merges"]]
        tokenizer = Tokenizer(models.BPE(dict(model["vocab"]), merges))
        spaced = settings.flag("add_prefix_space", False)
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=spaced)
        tokenizer.decoder = decoders.ByteLevel()
        return tokenizer

    def processor(self, names, ids, settings) -> processors.PostProcessor:
        spaced = settings.flag("add_prefix_space", False)
        trims = processors.ByteLevel(
            add_prefix_space=spaced, trim_offsets=settings.flag("trim_offsets", True)
        )
        return processors.Sequence([trims, super().processor(names, ids, settings)])

    def learn(self, texts: Iterable[str], vocab: int, lower: bool):
        frame = Tokenizer(models.BPE())
        frame.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(
            vocab_size=vocab,
            special_tokens=list(self.special_tokens.values()),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        frame.train_from_iterator(texts, trainer)
        return json.loads(frame.to_str())["model"], {}

    def continues_word(self, piece: str) -> bool:
        return not piece.startswith(SPACE)

    def join(self, text: str, piece: str) -> str:
        return text.rstrip() + piece.replace(SPACE, " ") if text.strip() else piece.lstrip(SPACE)
