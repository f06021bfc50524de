"""Only ``attend`` and its kernels take a softmax over keys.

Elsewhere nobody calls another's attention, and a softmax is one over words or classes: of something
named ``logits…``, or with the vocabulary's V among its axis letters. Search may take any, for it
knows no keys.

Compiled code takes its softmax over keys in one header, which tests/generation/test_cpp.py compares
with ``attend``, forward (there is no backward). Elsewhere it may use the exponential function for
the logistic function of an activation only.
"""

import ast
import re
from pathlib import Path

import pytest

from syntax import nodes

PACKAGE = Path(__file__).parents[2] / "src" / "regard"
ATTENTION = {
    "scaled_dot_product_attention",
    "MultiheadAttention",
    "multi_head_attention_forward",
    "flex_attention",
    "varlen_attn",
    "masked_softmax",
    "Softmax",
    "LogSoftmax",
}
SOFTMAX = {"softmax", "log_softmax", "gumbel_softmax", "_softmax", "_log_softmax"}
SOURCES = ("*.c", "*.cc", "*.cpp", "*.cu", "*.cuh", "*.h", "*.hpp")
MAY_ATTEND_COMPILED = {"layers/cpp/attention.h"}
EXPONENTIAL = re.compile(
    r"\b(?:__)?v?\w*exp(?:f|2f?|m1f?|_ps|onential)?\s*\(|softmax", re.IGNORECASE
)
LOGISTIC = re.compile(r"1 \+ (?:std::exp|exponential)\(-x\)|^inline float exponential\(float x\)")
OVER_WORDS = re.compile(r"logits|.*_[A-Z]*V[A-Z]*$")


def may_attend(path: str) -> bool:
    return path == "layers/attend.py" or path.startswith("layers/kernels/")


def identifiers(node: ast.AST) -> set[str]:
    names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    return names | {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}


def over_words(call: ast.Call) -> bool:
    """Whether what is under the softmax says that it is about words."""
    what = call.func.value if isinstance(call.func, ast.Attribute) else None
    operands = [*call.args[:1], *([what] if what is not None else [])]
    return any(OVER_WORDS.match(name) for one in operands for name in identifiers(one))


def wrong(source: str, path: str) -> list[str]:
    """Each call that the rule forbids at that place."""
    if may_attend(path):
        return []
    found = []
    for node in nodes(source):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
        allowed = path.startswith("generation/") or over_words(node)
        if name in ATTENTION or (name in SOFTMAX and not allowed):
            found.append(f"{path}:{node.lineno}: {ast.unparse(node)}")
    return found


def test_no_softmax_over_keys_elsewhere():
    found = []
    for path in PACKAGE.rglob("*.py"):
        found += wrong(path.read_text(encoding="utf-8"), path.relative_to(PACKAGE).as_posix())
    assert found == []


def wrong_compiled(source: str, path: str) -> list[str]:
    """Each line of compiled code that takes an exponential where no softmax over keys may be."""
    if path in MAY_ATTEND_COMPILED:
        return []
    found = []
    for number, line in enumerate(source.splitlines(), 1):
        code = LOGISTIC.sub("", line.split("//")[0]).replace("frexp(", "(").replace("ldexp(", "(")
        if EXPONENTIAL.search(code):
            found.append(f"{path}:{number}: {line.strip()}")
    return found


def test_no_softmax_over_keys_in_other_compiled_code():
    found = []
    for path in (one for pattern in SOURCES for one in PACKAGE.rglob(pattern)):
        name = path.relative_to(PACKAGE).as_posix()
        found += wrong_compiled(path.read_text(encoding="utf-8"), name)
    assert found == []


@pytest.mark.parametrize(
    ("path", "line", "forbidden"),
    [
        ("layers/cpp/decoder.cpp", "total += w[s] = std::exp(w[s] - top);", True),
        ("layers/cpp/decoder.cpp", "total += w[s] = expf(w[s] - top);", True),
        ("layers/cpp/decoder.cpp", "const auto w = _mm512_exp_ps(s);", True),
        ("layers/cpp/activation.h", "w[s] = exponential(w[s] - top);", True),
        ("layers/cpp/activation.h", "inline float exponential(float x) {", False),
        ("layers/cpp/activation.h", "return 1 / (1 + exponential(-x));", False),
        ("layers/cpp/other.h", "masked_softmax(scores, n);", True),
        ("layers/cpp/decoder.cpp", "return x / (1 + std::exp(-x));", False),
        ("layers/cpp/linear.h", "std::frexp(largest, &exponent);  // exp(x)", False),
        ("layers/cpp/attention.h", "total += w[s] = std::exp(w[s] - top);", False),
    ],
)
def test_the_rule_would_notice_compiled_code(path, line, forbidden):
    assert bool(wrong_compiled(line, path)) == forbidden


def test_the_places_that_may_are_there():
    for path in ("layers/attend.py", "layers/kernels/call.py"):
        assert wrong((PACKAGE / path).read_text(encoding="utf-8"), f"elsewhere/{path}")
    for path in MAY_ATTEND_COMPILED:
        assert wrong_compiled((PACKAGE / path).read_text(encoding="utf-8"), f"elsewhere/{path}")


@pytest.mark.parametrize(
    ("path", "source", "forbidden"),
    [
        ("models/seq2seq.py", "weights = F.softmax(scores, dim=-1)", True),
        ("models/seq2seq.py", "weights = scores_BHLS.softmax(-1)", True),
        ("models/seq2seq.py", "weights = torch.softmax(scores_BL, -1)", True),
        ("models/seq2seq.py", "x = F.scaled_dot_product_attention(q, k, v)", True),
        ("models/seq2seq.py", "x = nn.MultiheadAttention(8, 2)", True),
        ("models/seq2seq.py", "x = masked_softmax(scores, allowed)", True),
        ("models/seq2seq.py", "p = torch.log_softmax(logits_RV.float(), dim=-1)", False),
        ("models/seq2seq.py", "p = logits.log_softmax(-1)", False),
        ("layers/losses.py", "p = states_TV.softmax(-1)", False),
        ("generation/sample.py", "p = torch.softmax(values, dim=1)", False),
        ("generation/sample.py", "x = F.scaled_dot_product_attention(q, k, v)", True),
        ("layers/kernels/new.py", "x = F.scaled_dot_product_attention(q, k, v)", False),
    ],
)
def test_the_rule_would_notice(path, source, forbidden):
    assert bool(wrong(source, path)) == forbidden
