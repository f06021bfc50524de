"""Texts of a search as lines, or as JSON lines that another score can rank again."""

from collections.abc import Mapping, Sequence
from typing import Any

from regard.cli.io.console import print_json, print_line
from regard.text.vocabularies.vocabulary import Vocabulary

ONE_LINE = str.maketrans("\r\n", "  ")


def print_texts(nbest: Sequence[Any], best: int) -> None:
    """Exactly ``best`` lines, so that files stay parallel; line breaks in a text are spaces."""
    for one in nbest:
        print_line(one.text.translate(ONE_LINE))
    for _ in range(best - len(nbest)):
        print_line("")


def print_records(
    line: int, nbest: Sequence[Any], vocabulary: Vocabulary, chosen: Mapping[str, str]
) -> None:
    """Everything that another score needs to rank the texts of a line, and what was ``chosen``."""
    for one in nbest:
        hypothesis = one.hypothesis
        record: dict[str, Any] = {
            "line": line,
            "text": one.text,
            "score": one.score,
            "logprob": hypothesis.logprob,
            "n": len(hypothesis.logprobs),
            "ids": hypothesis.tokens,
            "tokens": vocabulary.pieces(hypothesis.tokens),
            "logprobs": hypothesis.logprobs,
            "finished": hypothesis.finished,
        }
        if hypothesis.coverage is not None:
            record["coverage"] = hypothesis.coverage
        print_json({**record, **one.remarks, **chosen})
