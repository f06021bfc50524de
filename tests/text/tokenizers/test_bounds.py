"""Hostile tokenizer.json files and texts: one line, and no text can hang or kill the process."""

import json
import subprocess
from base64 import b64encode
from pathlib import Path

import pytest

from regard.core.errors import BadInput
from regard.text import vocabulary
from regard.text.tokenizers import bounds
from regard.text.tokenizers.bounds import KNOWN, check_content, check_text, parse_tokenizer
from regard.text.tokenizers.bpe import DecoderBPE, EncoderBPE
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer
from regard.text.tokenizers.plain_tokenizer import train_subwords
from regard.text.tokenizers.subwords import Subwords
from regard.text.vocabulary import encode_beginnings, token_count
from small_tokenizers import SHAPES, TEXTS, content_of, write_tokenizer

PATH = Path("tokenizer.json")
GROWING = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
TOKEN = {"SpecialToken": {"id": "<s>", "type_id": 0}}
TEXT = {"Sequence": {"id": "A", "type_id": 0}}
STRIP = {"type": "Strip", "strip_left": True, "strip_right": True}


def sequence(kind: str, steps: list[dict]) -> dict:
    return {"type": "Sequence", kind: steps}


def nested(steps: list[dict]) -> dict:
    return sequence("normalizers", [sequence("normalizers", steps)])


def split(pattern: str) -> dict:
    cut = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return sequence("pretokenizers", [cut])


def table(text: bytes) -> dict:
    """A compiled table of characters that may replace one by a text."""
    content = b64encode((8).to_bytes(4, "little") + bytes(8) + text + b"\0").decode()
    return {"type": "Precompiled", "precompiled_charsmap": content}


def template(form: list[dict], ids: int = 1) -> dict:
    tokens = {"<s>": {"id": "<s>", "ids": [1] * ids, "tokens": ["<s>"] * ids}}
    return {"type": "TemplateProcessing", "single": form, "pair": form, "special_tokens": tokens}


HOSTILE = {
    "replacements": ("normalizer", nested([GROWING] * 40), r"text 1\.1e\+12 times as long"),
    "replacements of tokens": (
        *("decoder", sequence("decoders", [GROWING] * 40)),
        r"decoder can make a text 1\.1e\+12 times as long",
    ),
    "insertions": (
        *("normalizer", {"type": "Replace", "pattern": {"Regex": "x*"}, "content": "y" * 1_000}),
        "normalizer can make a text 1e.03 times as long",
    ),
    "bytes of bytes": (
        *("pre_tokenizer", sequence("pretokenizers", [{"type": "ByteLevel"}] * 20)),
        r"pre_tokenizer can make a text 1\.1e\+12 times",
    ),
    "many steps": ("normalizer", nested([STRIP] * 257), "normalizer has 257 steps"),
    "a long prefix": (
        *("normalizer", {"type": "Prepend", "prepend": "x" * 2_000}),
        "puts 2,000 characters before",
    ),
    "a long replacement of a character": (
        *("normalizer", table(b"x" * 300)),
        "replaces one by 300 bytes",
    ),
    "several tables": ("normalizer", nested([table(b"x")] * 2), "has 2 tables of characters"),
    "a long template": (
        *("post_processor", template([TOKEN, TEXT] * 600)),
        "rows of 1,200 tokens; at most 1,024",
    ),
    "a long token": (
        *("post_processor", template([TOKEN] * 2_000, ids=1_000)),
        "rows of 2,000,000 tokens",
    ),
    "templates of templates": (
        *("post_processor", sequence("processors", [template([TEXT, TEXT])] * 30)),
        "rows of 1,073,741,824 tokens",
    ),
    "an exponential pattern": ("pre_tokenizer", split("(x+x+)+y"), "pattern '(x+x+)+y'"),
    "a pattern of a normalizer": (
        *("normalizer", {"type": "Replace", "pattern": {"Regex": "(z|z)*y"}, "content": ""}),
        r"normalizer has the pattern '\(z\|z\)\*y': it takes too long",
    ),
    "a quadratic pattern": ("pre_tokenizer", split("q+w|."), r"'q\+w\|\.': it takes too long"),
    "a quadratic pattern of words": ("pre_tokenizer", split("(?:the )+q"), "it takes too long"),
    "a long pattern": ("pre_tokenizer", split("x" * 5_000), "it takes too long"),
    "parts without characters": (
        *("pre_tokenizer", {"type": "FixedLength", "length": 0}),
        "pre_tokenizer cuts texts into parts of length 0",
    ),
    "long words": (
        *("model", {"type": "WordPiece", "max_input_chars_per_word": 10**9}),
        "max_input_chars_per_word is 1000000000; at most 1,000",
    ),
}


@pytest.mark.parametrize(("part", "value", "reason"), HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_parts_are_refused_before_the_library_reads_them(part, value, reason, monkeypatch):
    if "q+w" not in reason:  # others take for ever
        monkeypatch.setattr(bounds, "PROBE_SECONDS", 1)
    with pytest.raises(BadInput, match=reason.replace("(x+x+)+y", r"\(x\+x\+\)\+y")):
        check_content({part: value}, PATH)


@pytest.mark.parametrize("name", [name for name in SHAPES if name != "llama2"])
@pytest.mark.parametrize("hostile", ["replacements", "an exponential pattern", "a long token"])
def test_hostile_folders_are_refused(tmp_path, name, hostile):
    part, value, _ = HOSTILE[hostile]
    folder = write_tokenizer(tmp_path / name, name, tokenizer_class="PreTrainedTokenizerFast")
    path = folder / "tokenizer.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), part: value}))
    family = EncoderBPE() if name == "modernbert" else DecoderBPE()
    with pytest.raises(BadInput, match=rf"tokenizer\.json: {part} "):
        EncoderTokenizer.load(folder, family=family)
    with pytest.raises(BadInput, match=rf"tokenizer\.json: {part} "):
        Subwords.load(path)


@pytest.mark.parametrize("name", SHAPES)
def test_published_shapes_are_read_without_a_probe(name, monkeypatch):
    monkeypatch.delattr(bounds.subprocess, "run")
    parse_tokenizer(json.loads(content_of(name)), PATH)


@pytest.mark.parametrize("kind", ["bpe", "byte-bpe", "unigram", "wordpiece"])
def test_learned_vocabularies_are_read_without_a_probe(kind, tmp_path, monkeypatch):
    monkeypatch.delattr(bounds.subprocess, "run")
    words = train_subwords(TEXTS, kind, 400)
    words.save(tmp_path / "tokenizer.json")
    assert Subwords.load(tmp_path / "tokenizer.json").encode(TEXTS[0]) == words.encode(TEXTS[0])


@pytest.mark.slow
@pytest.mark.parametrize("pattern", [*sorted(KNOWN), r"\p{Han}|\w+|[^\w\s]+", r"(?=[0-9])|\s?\S+"])
def test_usual_patterns_pass_the_probe(pattern, monkeypatch):
    monkeypatch.setattr(bounds, "KNOWN", set())
    bounds._is_fast.cache_clear()
    assert bounds._is_fast(pattern)
    bounds._is_fast.cache_clear()


def test_a_probe_that_does_not_end_is_a_refusal(monkeypatch):
    def hang(command, *, timeout, **_):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(bounds.subprocess, "run", hang)
    bounds._is_fast.cache_clear()
    with pytest.raises(BadInput, match=r"the pattern '\\\\w\+x': it takes too long"):
        check_content({"pre_tokenizer": split(r"\w+x")}, PATH)
    bounds._is_fast.cache_clear()


@pytest.fixture
def panicking(monkeypatch) -> Subwords:
    """A vocabulary whose pattern the bounds do not know to be slow."""
    monkeypatch.setattr(bounds, "_is_fast", lambda pattern: True)
    content = json.loads(content_of("qwen2"))
    content["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(x+x+)+y"
    return Subwords(parse_tokenizer(content, PATH))


@pytest.mark.parametrize(
    "use",
    [
        lambda words, text: words.encode(text),
        lambda words, text: words.encode_all(["ok", text]),
        lambda words, text: words.cut(text),
        lambda words, text: words.segment(text),
        lambda words, text: words.encode_dropped(text, 0.5, (1,)),
    ],
    ids=["encode", "encode_all", "cut", "segment", "encode_dropped"],
)
def test_panics_are_one_line(panicking, use):
    with pytest.raises(BadInput, match=r"cannot read th.* \(Onig: Regex search error: retry-limit"):
        use(panicking, "x" * 60)
    assert use(panicking, "x")  # and other texts are read


def test_errors_of_the_library_are_one_line(tmp_path):
    """Of a model without a token for unknown words, for example."""
    content = {"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "none"}}
    words = Subwords(parse_tokenizer({"version": "1.0", **content}, PATH))
    with pytest.raises(BadInput, match=r"cannot read this text \(WordLevel error: Missing \[UNK\]"):
        words.encode("b")


def test_white_space_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(bounds, "SPACES", 1_000)
    words = Subwords(parse_tokenizer(json.loads(content_of("llama3")), PATH))
    text = ("x" + " " * 900) * 10
    assert words.encode(text)
    for number, use in ((None, words.encode), (2, lambda text: words.encode_all(["a", text]))):
        where = "the text" if number is None else "text 2"
        with pytest.raises(BadInput, match=f"{where} has 1,100 white-space characters in a row"):
            use("x" + " \n" * 550 + "y")
    check_text("x" * 5_000)


class Counted:
    """A vocabulary that notes the longest text that it tokenises."""

    def __init__(self, words: Subwords):
        self.words, self.longest = words, 0

    def encode_all(self, texts):
        self.longest = max([self.longest, *map(len, texts)])
        return self.words.encode_all(texts)

    def encode(self, text):
        return self.encode_all([text])[0]


@pytest.mark.parametrize("name", SHAPES)
def test_of_an_enormous_text_the_beginning_is_tokenised(name, monkeypatch):
    monkeypatch.setattr(vocabulary, "PART", 100)
    words = Subwords(parse_tokenizer(json.loads(content_of(name)), PATH))
    texts = [TEXTS[number % 3] * 40 for number in range(3)] + [
        "short",
        "",
        " " * 3_000,
        "x \n" * 900,
    ]
    for longest in (1, 4, 32):
        counted = Counted(words)
        rows = encode_beginnings(counted, texts, longest)
        assert [ids[:longest] for ids in rows] == [words.encode(text)[:longest] for text in texts]
        dense = encode_beginnings(Counted(words), texts[:3], longest)
        assert all(
            longest <= len(ids) < len(words.encode(text))
            for ids, text in zip(dense, texts, strict=False)
        )
    assert encode_beginnings(words, texts, None) == words.encode_all(texts)


def test_a_cell_of_millions_of_letters_is_not_tokenised_whole():
    words = Counted(Subwords(parse_tokenizer(json.loads(content_of("qwen2")), PATH)))
    (ids,) = encode_beginnings(words, ["abcdefghij" * 1_000_000], 32)
    assert len(ids) > 32 and words.longest <= vocabulary.PART
    assert token_count(["ab cd " * 100_000], words, 2, 32) == pytest.approx(500_000, rel=1e-3)
    assert words.longest <= vocabulary.PART
