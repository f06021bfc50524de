"""BPE of GPT, GPT-2, RoBERTa and of today's models: pieces with their ids, and merges in order.

tokenizer.json writes a merge as two pieces, ``["Ġ", "t"]``, or, before version 0.20 of the library
(2024), as one string, ``"Ġ t"``. Both are read. Without tokenizer.json, vocab.json has the pieces
and merges.txt the merges.

Byte-level BPE (Radford et al., 2019) has pieces of bytes; the first piece of a word has the space
before it. RoBERTa took over the pieces of GPT-2, and put special tokens of its own around texts.
GPT (Radford et al., 2018) reads words in lower case, cut at spaces and signs as BERT does, with
merges of letters; a piece that ends in ``</w>`` ends a word. Its tokenizer is put together as in
``transformers`` 5, which repairs no text (``ftfy``).

In today's models tokenizer.json alone decides the ids. Normaliser, pre-tokenizer, byte fallback,
added tokens, decoder and row template differ from folder to folder: SentencePiece merges with
single bytes for unknown characters (Llama: Touvron et al., 2023; Mistral), byte-level BPE behind a
regular expression (Llama 3, Qwen2), behind single digits (SmolLM2), and BERT's special tokens
(ModernBERT: Warner et al., 2024). So the library's tokenizer is the file's own, and its
post-processor makes the rows. ``transformers`` 5 does the same for the classes
PreTrainedTokenizerFast and TokenizersBackend. For LlamaTokenizer and GPT2Tokenizer it replaces the
file's normaliser and pre-tokenizer by the class's.
"""

import json
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import ClassVar, cast

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers.trainers import BpeTrainer

from regard.core.errors import BadInput, shown
from regard.core.files import JSON, read_json, read_text
from regard.text.templates import TEXTS, RowBuilder, Template
from regard.text.tokenizers.family import Learned, TokenizerFamily, TokenizerSettings, Vocab
from regard.text.tokenizers.subwords import Subwords, learn_in_two_passes, learn_model
from regard.text.tokenizers.wordpiece import SPECIALS

VOCAB, MERGES = "vocab.json", "merges.txt"
SUFFIX, END_OF_TEXT = "</w>", "<|endoftext|>"


class BPEFamily(TokenizerFamily):
    """Base class of families whose vocabulary is BPE."""

    model: ClassVar = "BPE"
    files: ClassVar = (VOCAB, MERGES)

    def read_files(self, folder: Path) -> Vocab:
        path = folder / MERGES
        lines = [line.rstrip("\r") for line in read_text(path).split("\n")]
        merges = [line for line in lines if line and not line.startswith("#version")]
        vocabulary = cast(dict[str, int], read_json(folder / VOCAB))
        return {"vocab": vocabulary, "merges": _pairs(merges, path)}

    def write_files(self, model: Vocab) -> dict[str, str]:
        lines = ["#version: 0.2", *(f"{left} {right}" for left, right in model["merges"]), ""]
        vocabulary = json.dumps(model["vocab"], ensure_ascii=False)
        return {VOCAB: vocabulary, MERGES: "\n".join(lines)}

    def model_in(self, content: Mapping[str, JSON], path: Path) -> Vocab:
        model = self.check(content.get("model"), path)
        return {**super().model_in(content, path), "merges": _pairs(model.get("merges"), path)}


def merges_like(earlier: bytes, content: str) -> str:
    """Return ``content`` (a tokenizer.json), with merges as strings if ``earlier`` has strings."""
    merges = json.loads(earlier or b"{}").get("model", {}).get("merges")
    if not merges or not all(isinstance(merge, str) for merge in merges):
        return content
    written = json.loads(content)
    written["model"]["merges"] = [" ".join(pair) for pair in written["model"]["merges"]]
    return json.dumps(written, indent=2, ensure_ascii=False)


def _pairs(merges: object, path: Path) -> list[tuple[str, str]]:
    """Merges as pairs of pieces; in a string, the only space is between the pieces."""
    if not isinstance(merges, list):
        raise BadInput(f"{path}: has no list of merges")
    pairs = []
    for number, merge in enumerate(merges, start=1):
        match merge.split(" ") if isinstance(merge, str) else merge:
            case [str(left), str(right)] if left and right:
                pairs.append((left, right))
            case _:
                raise BadInput(f"{path}: merge {number}, {shown(merge)}, is not two pieces")
    return pairs


class ByteBPE(BPEFamily):
    """Byte-level BPE of RoBERTa and of models that share its tokenizer."""

    name = kind = "byte-bpe"
    classes = ("RobertaTokenizer",)
    special_tokens: ClassVar = {
        **{"cls_token": "<s>", "pad_token": "<pad>", "sep_token": "</s>"},
        **{"unk_token": "<unk>", "mask_token": "<mask>"},
    }
    template, word_prefix = Template("cls A sep", "cls A sep sep B sep"), " "

    def pre_tokenizer(self, prefix: bool) -> pre_tokenizers.PreTokenizer:
        """Cut at words and write bytes; ``prefix``: with a space before the first word."""
        return pre_tokenizers.ByteLevel(add_prefix_space=prefix)

    def build(self, model: Vocab, unk: str, settings: TokenizerSettings) -> Tokenizer:
        tokenizer = Tokenizer(_model(model))
        prefix = settings.flag("add_prefix_space", False)
        tokenizer.pre_tokenizer = self.pre_tokenizer(prefix)
        tokenizer.decoder = decoders.ByteLevel()
        return tokenizer

    def processor(
        self, names: Mapping[str, str], ids: Mapping[str, int], settings: TokenizerSettings
    ) -> processors.PostProcessor:
        flags = {"add_prefix_space": False, "trim_offsets": True}
        options = {key: settings.flag(key, default) for key, default in flags.items()}
        byte_level = processors.ByteLevel(**options)
        return processors.Sequence([byte_level, super().processor(names, ids, settings)])

    def learn(self, texts: Iterable[str], vocab: int, lower: bool) -> Learned:
        if lower:
            raise BadInput("text.lower: byte-level BPE keeps the case of letters")
        frame, alphabet = Tokenizer(models.BPE()), pre_tokenizers.ByteLevel.alphabet()
        frame.pre_tokenizer = self.pre_tokenizer(prefix=False)
        special = dict.fromkeys(self.special_tokens.values())
        learned = learn_model(frame, texts, BpeTrainer, vocab, special, initial_alphabet=alphabet)
        return {"vocab": learned["vocab"], "merges": learned["merges"]}, {}


class GPT2BPE(ByteBPE):
    """Byte-level BPE of GPT-2: no special tokens around a text, a separator between texts."""

    name, classes = "gpt2-bpe", ("GPT2Tokenizer",)
    special_tokens: ClassVar = dict.fromkeys(("bos_token", "eos_token", "unk_token"), END_OF_TEXT)
    template, separator = Template("A", "A B"), "eos_token"


class GPTBPE(BPEFamily):
    """BPE of GPT, whose only special token is for unknown letters."""

    name = kind = "gpt-bpe"
    classes = ("OpenAIGPTTokenizer",)
    special_tokens: ClassVar = {"unk_token": "<unk>"}
    template = Template("A", "A B")

    def build(self, model: Vocab, unk: str, settings: TokenizerSettings) -> Tokenizer:
        suffix = {"end_of_word_suffix": SUFFIX, "continuing_subword_prefix": ""}
        return _frame(_model(model, unk_token=unk, **suffix))

    def learn(self, texts: Iterable[str], vocab: int, lower: bool) -> Learned:
        if not lower:
            raise BadInput("text.lower: GPT's BPE reads lower case only: set it to true")
        trainer = partial(BpeTrainer, end_of_word_suffix=SUFFIX)
        special = self.special_tokens.values()
        learned = learn_in_two_passes(_new_frame, texts, trainer, vocab, special)
        return {"vocab": learned["vocab"], "merges": learned["merges"]}, {}


def _model(model: Vocab, **options: str) -> models.BPE:
    merges = [(left, right) for left, right in model["merges"]]
    return models.BPE(dict(model["vocab"]), merges, **options)


def _frame(model: models.Model) -> Tokenizer:
    frame = Tokenizer(model)
    frame.normalizer = normalizers.BertNormalizer(lowercase=True)
    frame.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    frame.decoder = decoders.BPEDecoder(suffix=SUFFIX)
    return frame


def _new_frame() -> Tokenizer:
    return _frame(models.BPE(end_of_word_suffix=SUFFIX))


class EncoderBPE(ByteBPE):
    """BPE with BERT's special tokens, as ModernBERT has it.

    ``row_roles`` are the roles by which the special tokens of a row are named.
    """

    name, classes = "encoder-bpe", ("PreTrainedTokenizerFast",)
    unchanged = True
    special_tokens: ClassVar = SPECIALS
    template = Template("cls A sep", "cls A sep B:1 sep:1")
    row_roles: ClassVar[tuple[str, ...]] = ("cls", "sep", "bos", "eos")

    def row_builder(self, words: Subwords, special: Mapping[str, int]) -> RowBuilder:
        """Builder of the rows that the post-processor of tokenizer.json makes."""
        roles = [role for role in self.row_roles if f"{role}_token" in special]
        names = {special[f"{role}_token"]: role for role in reversed(roles)}
        ids, forms = dict[str, int](), []
        for texts in (1, 2):
            parts = []
            for text, number, segment in words.row_parts(texts):
                name = names.get(number, f"token{number}") if text is None else TEXTS[text]
                parts.append(f"{name}:{segment}")
                ids |= {} if name in TEXTS else {name: number}
            forms.append(" ".join(parts))
        template = Template(*forms)
        if (separator := self.separator_in(template, special)) is not None:
            ids["sep"] = separator
        return RowBuilder(template, ids)

    def separator_in(self, template: Template, special: Mapping[str, int]) -> int | None:
        """The id of the token between documents, or None."""
        return special.get(self.separator)


class DecoderBPE(EncoderBPE):
    """BPE of causal models. The token before texts, else eos, is also before each document.

    A new vocabulary is byte-level with single digits, as Llama has them.
    """

    name = "decoder-bpe"
    special_tokens: ClassVar = dict.fromkeys(("bos_token", "eos_token"), END_OF_TEXT)
    template, separator = Template("bos A", "bos A bos:1 B:1"), "eos_token"
    row_roles = ("bos", "eos")

    def pre_tokenizer(self, prefix: bool) -> pre_tokenizers.PreTokenizer:
        digits = pre_tokenizers.Digits(individual_digits=True)
        return pre_tokenizers.Sequence([digits, super().pre_tokenizer(prefix)])

    def separator_in(self, template: Template, special: Mapping[str, int]) -> int | None:
        before = template.parts(1)[0].name == "bos"
        return special.get("bos_token" if before else self.separator)
