"""Small tokenizer folders in the shapes of today's models: Llama 2, Llama 3, Qwen2, SmolLM2 and
ModernBERT, with a vocabulary of a few sentences.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)
from tokenizers.trainers import BpeTrainer

TEXTS = (
    "The old man reads a book. The girl sees the dog near the house, and the house is old.",
    "A dog barks at the man, and the man laughs: it's 2024, don't we'll they're 12345?",
    "naïve café; the storm came in, the sailor mended his nets.\n\n  def read(book):\n\treturn 1",
) * 3
AWKWARD = (
    "",
    " ",
    "   ",
    "The old man",
    " The old man",
    "  two  spaces   three ",
    "lines\n\n\nand\r\n\ttabs\x85\u2028 \n ",
    "naïve cafe\u0301 東京の猫 🐋👩‍👩‍👧🇩🇪",
    "don't WE'LL I'm 12,345.6 ½² 1234567890 _under_score--dash…",
    "\u200b\xa0\x00\x1f\x7f\ufffd\u00ad",
    "İstanbul ǅ ſ ﬁ ß 𝔘𝔫𝔦 عربي עברית हिन्दी",
    "<s></s> <unk> <|endoftext|> [CLS][MASK] [PAD]",  # special: as text
    "a <tool>b</tool> |||IP_ADDRESS||| <tool> ",  # added, but not special
    "x" + " " * 9 + "y",
    "▁the▁old <0x0A> Ġthe",
)
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace("{1,3}", "")
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def byte_level(*before: pre_tokenizers.PreTokenizer, regex: bool = False) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    byte = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=regex)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*before, byte]) if before else byte
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def learn(tokenizer: Tokenizer, size: int, special: Sequence[str] = ()) -> Tokenizer:
    alphabet = pre_tokenizers.ByteLevel.alphabet() if "ByteLevel" in tokenizer.to_str() else []
    options = {"initial_alphabet": alphabet, "special_tokens": [*special], "show_progress": False}
    tokenizer.train_from_iterator(TEXTS, BpeTrainer(vocab_size=size, **options))
    return tokenizer


def template(single: str, pair: str, *special: tuple[str, int]) -> processors.PostProcessor:
    return processors.TemplateProcessing(single=single, pair=pair, special_tokens=[*special])


def split(pattern: str) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def llama2() -> Tokenizer:
    """SentencePiece merges with byte fallback; ``<s>`` before texts; the legacy normaliser."""
    steps = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("▁[^▁]*|[^▁]+"), "isolated")
    special = ["<unk>", "<s>", "</s>"]
    learned = json.loads(learn(tokenizer, 430, [*special, *BYTES]).to_str())["model"]
    known = {piece: n for piece, n in learned["vocab"].items() if piece not in "\n\té"}
    vocabulary = {piece: n for n, piece in enumerate(sorted(known, key=known.__getitem__))}
    merges = [tuple(pair) for pair in learned["merges"] if {*pair, "".join(pair)} <= {*vocabulary}]
    options = {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}
    made = Tokenizer(models.BPE(vocabulary, merges, **options))
    made.normalizer = normalizers.Sequence(steps)
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    made.decoder = decoders.Sequence([*parts, decoders.Strip(" ", 1, 0)])
    pair = "<s> $A <s>:1 $B:1"
    made.add_special_tokens(special)
    made.post_processor = template("<s> $A", pair, ("<s>", 1))
    return made


def mistral() -> Tokenizer:
    """As ``llama2``, but with Metaspace in place of the normaliser."""
    made = llama2()
    made.normalizer = None
    made.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme="first", split=False)
    made.add_tokens([AddedToken("<tool>", normalized=False)])
    return made


def llama3() -> Tokenizer:
    tokenizer = byte_level(split(LLAMA3))
    learned = json.loads(learn(tokenizer, 380).to_str())["model"]
    merges = [tuple(pair) for pair in learned["merges"]]
    tokenizer.model = models.BPE(learned["vocab"], merges, ignore_merges=True)
    names = ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"]
    tokenizer.add_special_tokens(names)
    bos = (names[0], tokenizer.token_to_id(names[0]))
    form = template(f"{bos[0]} $A", f"{bos[0]} $A {bos[0]}:1 $B:1", bos)
    byte = processors.ByteLevel(trim_offsets=False)
    tokenizer.post_processor = processors.Sequence([byte, form])
    return tokenizer


def qwen2() -> Tokenizer:
    tokenizer = learn(byte_level(split(QWEN2)), 380)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False), AddedToken("</tool>")])
    return tokenizer


def smollm2() -> Tokenizer:
    """Single digits, though there are merges of digits: with GPT-2's pre-tokenizer ids differ."""
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokenizer = learn(byte_level(regex=True), 380, names)
    digits = pre_tokenizers.Digits(individual_digits=True)
    tokenizer.pre_tokenizer = byte_level(digits, regex=True).pre_tokenizer
    return tokenizer


def modernbert() -> Tokenizer:
    tokenizer = learn(byte_level(regex=True), 380, ["|||IP_ADDRESS|||", "<|padding|>"])
    content = json.loads(tokenizer.to_str())
    content["added_tokens"][0] |= {"special": False, "normalized": True}
    tokenizer = Tokenizer.from_str(json.dumps(content))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_tokens([AddedToken(" " * n, normalized=True) for n in (9, 4, 2)])
    tokenizer.add_special_tokens(["<|endoftext|>", "[UNK]", "[CLS]", "[SEP]", "[PAD]"])
    tokenizer.add_special_tokens([AddedToken("[MASK]", lstrip=True, normalized=False)])
    cls, sep = ((name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]"))
    pair = "[CLS] $A [SEP] $B:1 [SEP]:1"
    tokenizer.post_processor = template("[CLS] $A [SEP]", pair, cls, sep)
    return tokenizer


def added(name: str) -> dict[str, Any]:
    """A special token as special_tokens_map.json has it."""
    flags = dict.fromkeys(("lstrip", "normalized", "rstrip", "single_word"), False)
    return {"content": name, **flags}


@dataclass(frozen=True)
class Shape:
    """A published tokenizer in small: tokenizer.json, tokenizer_config.json, other files.

    ``auto``: AutoTokenizer of ``transformers`` uses tokenizer.json unchanged.
    """

    make: Callable[[], Tokenizer]
    model_type: str
    settings: Mapping[str, Any]
    files: Mapping[str, Any] = field(default_factory=dict)
    auto: bool = True


LLAMA2_NAMES = {"bos_token": added("<s>"), "eos_token": added("</s>"), "unk_token": added("<unk>")}
SHAPES = {
    "llama2": Shape(
        llama2,
        "llama",
        {
            **{"tokenizer_class": "LlamaTokenizer", "model_max_length": int(1e30)},
            **{role: {"__type": "AddedToken", **name} for role, name in LLAMA2_NAMES.items()},
            **{"add_bos_token": False, "add_eos_token": True, "pad_token": None, "legacy": False},
        },
        {"special_tokens_map.json": LLAMA2_NAMES},
        auto=False,
    ),
    "mistral": Shape(
        mistral,
        "mistral",
        {
            **{"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": False},
            **{"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": None},
        },
    ),
    "llama3": Shape(
        llama3,
        "llama",
        {
            **{"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 131072},
            **{"bos_token": "<|begin_of_text|>", "eos_token": "<|end_of_text|>"},
            "clean_up_tokenization_spaces": True,
        },
        {"special_tokens_map.json": {"bos_token": added("<|begin_of_text|>")}},
    ),
    "qwen2": Shape(
        qwen2,
        "qwen2",
        {
            **{"tokenizer_class": "Qwen2Tokenizer", "add_prefix_space": False, "bos_token": None},
            **{"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "unk_token": None},
            "additional_special_tokens": ["<|im_start|>", "<|im_end|>"],
        },
    ),
    "smollm2": Shape(
        smollm2,
        "llama",
        {
            **{"tokenizer_class": "GPT2Tokenizer", "bos_token": "<|endoftext|>"},
            **{"eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>", "vocab_size": 380},
        },
        auto=False,
    ),
    "modernbert": Shape(
        modernbert,
        "modernbert",
        {
            **{f"{role}_token": f"[{role.upper()}]" for role in ("cls", "sep", "pad", "unk")},
            **{"mask_token": "[MASK]", "tokenizer_class": "PreTrainedTokenizerFast"},
            **{"model_max_length": 8192, "model_input_names": ["input_ids", "attention_mask"]},
        },
        {"special_tokens_map.json": {"mask_token": {**added("[MASK]"), "lstrip": True}}},
    ),
}


@cache
def content_of(name: str) -> str:
    return SHAPES[name].make().to_str(pretty=True)


def write_tokenizer(folder: Path, name: str, **settings: Any) -> Path:
    """A folder with the tokenizer files of a shape; ``settings`` change tokenizer_config.json."""
    shape = SHAPES[name]
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text(content_of(name), encoding="utf-8")
    files = {"tokenizer_config.json": {**shape.settings, **settings}, **shape.files}
    for file, content in files.items():
        (folder / file).write_text(json.dumps(content))
    return folder
