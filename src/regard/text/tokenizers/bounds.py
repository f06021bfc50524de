"""Bounds of a tokenizer.json, checked before the library reads it, and errors of the library.

The file is a small program: its normaliser may multiply a text, its row template repeat tokens, and
its regular expressions may backtrack for ever. The library has no limits of its own; it panics if a
match takes too many steps.
"""

import json
import re
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import permutations
from math import prod
from pathlib import Path

from tokenizers import Tokenizer

from regard.core.errors import BadInput, reason_of, shown
from regard.core.files import JSON

STEPS = 256  # of a normaliser, pre-tokenizer, decoder or post-processor
GROWTH = 64  # times as long as a text may become by them
ADDED = 1_024  # characters or tokens that they may put around a text
WORD = 1_000  # letters of a word that WordPiece cuts: its time is quadratic in them
PATTERN = 4_096  # characters of a regular expression
SPACES = 1 << 22  # white-space characters in a row; at ten million the library panics
CHARSMAP = 256  # bytes that replace a character; in the rules of SentencePiece 33 at most
PARTS = ("normalizer", "pre_tokenizer", "decoder", "post_processor")
INNER = ("normalizers", "pretokenizers", "decoders", "processors")  # steps of a Sequence
Step = dict[str, JSON]

PROBED = 150_000  # characters of a text that an unknown regular expression is tried on
PROBE_SECONDS = 4  # of CPU for all these texts, of which usual expressions need 0.9
PROBE_LIMIT = 120  # seconds, on a busy machine
_SPACES = r"\s+(?!\S)|\s+"
_WORDS = rf" ?\p{{L}}+| ?\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+|{_SPACES}"
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|{_SPACES}"
)
KNOWN = {  # regular expressions of T5, GPT-2, Llama 3 and Qwen2, whose time is linear
    *(" {2,}", r"\p{N}{1,3}", _LLAMA3, _LLAMA3.replace("{1,3}", "")),
    *(rf"'(?:[sdmt]|ll|ve|re)|{_WORDS}", rf"'s|'t|'re|'ve|'m|'ll|'d|{_WORDS}"),
}
PROBE = """
import json, sys
paths, pattern, texts, seconds = json.load(sys.stdin)
sys.path[:] = paths
try:
    import resource
except ImportError:  # not on Windows
    pass
else:
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
from tokenizers import Regex, pre_tokenizers
try:
    cut = pre_tokenizers.Split(Regex(pattern), "removed").pre_tokenize_str
except Exception:  # not a regular expression: whoever reads the file says so
    sys.exit()
for text in texts:
    cut(text)
"""


def parse_tokenizer(content: Mapping[str, JSON], path: Path) -> Tokenizer:
    """The tokenizer of a tokenizer.json, which is refused if texts could hang or kill it."""
    check_content(content, path)
    with library_errors(f"{path}: not a tokenizer.json", Exception):
        return Tokenizer.from_str(json.dumps(content))


@contextmanager
def library_errors(fault: str, kind: type[Exception] | None = None) -> Iterator[None]:
    """Report errors of the library in this block as a fault: bare ``Exception``, and panics.

    With a ``kind``, also errors of this kind.
    """
    try:
        yield
    except BadInput:
        raise
    except BaseException as error:  # a panic of Rust is no Exception
        raised = type(error)
        panics = raised.__name__ == "PanicException"
        if not panics and raised is not Exception and not (kind and issubclass(raised, kind)):
            raise
        raise BadInput(f"{fault} ({reason_of(error)})") from None


def check_content(content: Mapping[str, JSON], path: Path) -> None:
    """Refuse a tokenizer.json that makes long texts or rows of short ones, or takes for ever."""
    steps = {part: [*_steps(content.get(part))] for part in PARTS}
    for part, every in steps.items():
        if len(every) > STEPS:
            raise BadInput(f"{path}: {part} has {len(every):,} steps; at most {STEPS} are read")
        if any(step.get("type") == "FixedLength" and not step.get("length") for step in every):
            raise BadInput(f"{path}: {part} cuts texts into parts of length 0")
        added = sum(len(text) for step in every if isinstance(text := step.get("prepend"), str))
        growth = prod(_growth(step, part) for step in every)
        if growth > GROWTH:
            most = f"times as long; at most {GROWTH} times is read"
            raise BadInput(f"{path}: {part} can make a text {growth:.3g} {most}")
        if added > ADDED:
            most = f"characters before a text; at most {ADDED:,} are read"
            raise BadInput(f"{path}: {part} puts {added:,} {most}")
        maps = [step["precompiled_charsmap"] for step in every if "precompiled_charsmap" in step]
        if len(maps) > 1:
            raise BadInput(f"{path}: {part} has {len(maps)} tables of characters; one is read")
        for table in map(_decoded, maps):
            check_charsmap(table, path)
    if (tokens := prod(map(_template_size, steps["post_processor"]))) > ADDED:
        raise BadInput(f"{path}: post_processor has rows of {tokens:,} tokens; at most {ADDED:,}")
    model = content.get("model")
    letters = model.get("max_input_chars_per_word") if isinstance(model, dict) else None
    if isinstance(letters, int | float) and letters > WORD:
        raise BadInput(f"{path}: max_input_chars_per_word is {letters}; at most {WORD:,} is read")
    for part, every in steps.items():
        for pattern in filter(None, map(_pattern, every)):
            if len(pattern) > PATTERN or not _is_fast(pattern):
                advice = "it takes too long on some texts"
                raise BadInput(f"{path}: {part} has the pattern {shown(pattern)}: {advice}")


def check_charsmap(table: bytes, path: Path) -> None:
    """Refuse normalisation rules of SentencePiece that make long texts of single characters."""
    start = 4 + int.from_bytes(table[:4], "little")  # of the texts, after the trie
    longest = max(map(len, table[start:].split(b"\0")))
    if longest > CHARSMAP:
        long = f"its table of characters replaces one by {longest:,} bytes"
        raise BadInput(f"{path}: {long}; at most {CHARSMAP} are read")


def check_text(text: str, number: int | None = None) -> None:
    """Refuse a text with more white space in a row than regular expressions can match."""
    if len(text) <= SPACES:
        return
    longest = max((len(run[0]) for run in re.finditer(r"\s+", text)), default=0)
    if longest > SPACES:
        where = "the text" if number is None else f"text {number}"
        most = f"at most {SPACES:,} can be tokenised"
        raise BadInput(f"{where} has {longest:,} white-space characters in a row; {most}")


def _steps(part: JSON) -> Iterator[Step]:
    """The steps of a part of a tokenizer.json, without the sequences that contain them."""
    stack = [part]
    while stack:
        step = stack.pop()
        if not isinstance(step, dict):
            continue
        inner = [steps for name in INNER if isinstance(steps := step.get(name), list)]
        stack += [each for steps in inner for each in steps]
        if not inner:
            yield step


def _growth(step: Step, part: str) -> float:
    """How many times as long a step can make a text.

    Normal forms of Unicode are no longer if they are taken twice, so they count for nothing.
    """
    match step:
        case {"type": "Replace", "pattern": {"String": str(old)}, "content": str(new)} if old:
            return max(1.0, len(new) / len(old))
        case {"type": "Replace", "content": str(new)}:
            return 1.0 + len(new)
        case {"type": "ByteLevel"} if part in ("normalizer", "pre_tokenizer"):
            return 4.0  # bytes of a character
    return 1.0


def _template_size(step: Step) -> int:
    """The number of parts of the longest row of a template: special tokens and texts."""
    special = step.get("special_tokens")
    sizes = dict[str, int]()
    for name, token in special.items() if isinstance(special, dict) else ():
        ids = token.get("ids") if isinstance(token, dict) else None
        sizes[name] = len(ids) if isinstance(ids, list) else 1

    def size(part: JSON) -> int:
        match part:
            case {"SpecialToken": {"id": str(name)}}:
                return sizes.get(name, 1)
        return 1

    forms = [form for name in ("single", "pair") if isinstance(form := step.get(name), list)]
    return max((sum(map(size, form)) for form in forms), default=1) or 1


def _decoded(table: JSON) -> bytes:
    with suppress(ValueError):  # not base64: the library says so
        return b64decode(str(table))
    return b""


def _pattern(step: Step) -> str:
    """The regular expression of a step; "": none."""
    match step:
        case {"pattern": {"Regex": str(pattern)}}:
            return pattern
    return ""


@lru_cache(maxsize=256)
def _is_fast(pattern: str) -> bool:
    """Whether a regular expression is fast on repetitions of its letters, signs and words.

    Another process finds out, as the library cannot be interrupted.
    """
    if pattern in KNOWN:
        return True
    letters = [*dict.fromkeys(letter for letter in pattern if letter.isalnum())]
    signs = [*dict.fromkeys(sign for sign in pattern if not sign.isalnum())]
    repeated = [*dict.fromkeys([*letters[:16], *signs[:8], *"aA1. \n\té中"])]
    repeated += ["".join(pair) for pair in permutations(letters[:4], 2)]
    repeated += re.findall(r"[\w ]{2,32}", pattern)[:8]
    end = "!" + "".join([*letters, *signs])  # without it, a match may be given up at once
    texts = [(part * PROBED)[:PROBED] + end for part in repeated]
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROBE],
            input=json.dumps([sys.path, pattern, texts, PROBE_SECONDS]).encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=PROBE_LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0
