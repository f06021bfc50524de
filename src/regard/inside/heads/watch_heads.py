"""Reports on heads while a model is trained: the same inputs at every step.

They are the beginnings of a few development inputs. A causal model also reads random tokens twice,
for its previous-token, duplicate-token and induction scores (Olsson et al., 2022).
"""

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from regard.core.batch import TokenRow
from regard.core.errors import BadInput
from regard.core.files import JSON
from regard.inference.inputs import InputLimits
from regard.inference.model_runner import ModelRunner
from regard.inside.heads.head_weights import fits
from regard.inside.heads.report_heads import report_heads
from regard.tasks.components import Runner
from regard.text.segmentation import LabelledRow, LabelledRows, TokenLabels
from regard.text.tokenizers.row_tokenizer import require_tokenizer

LONGEST = 128  # tokens of a text
SPECIAL = 4  # tokens that a row has beside its texts, at most
REPEATED, ONCE = 8, 32  # rows of random tokens, and tokens of each before they follow again


def watch_heads(model: Runner, inputs: Sequence[tuple[object, ...]]) -> dict[str, JSON]:
    """Report on the heads of a model, for ``regard.train(..., watch={"heads": watch_heads})``.

    ``inputs`` are texts, pairs of texts or images; long texts are truncated. Figures have six
    digits.
    """
    inspected = model.runner
    if not model.facts.attention_sites:
        raise BadInput("watch heads: this model has no attention to report on")
    rows = [*_read(inspected, inputs)]
    if not rows:
        raise BadInput("watch heads: the model can read no input of the development set")
    repeated = None
    if any(site.causal and site.side == "trunk" for site in inspected.sites):
        repeated = random_rows(inspected, rows)
    report = report_heads(inspected, "", rows, repeated=repeated)
    names = report.figure_names
    heads: list[JSON] = [
        {
            "site": head.site,
            "layer": head.layer,
            "head": head.head,
            "roles": [*head.roles],
            **{name: _rounded(head.figures.get(name)) for name in names},
        }
        for head in report.heads
    ]
    return {"heads": heads, "notes": [*report.notes]}


def random_rows(model: ModelRunner, rows: Sequence[LabelledRows]) -> list[LabelledRows]:
    """Rows of random tokens that follow twice: tokens of these rows, each at most once.

    Tokens that no text has would have vectors that were never trained.
    """
    tokenizer = require_tokenizer(model.tokenizer)
    labelled = [(row["trunk"].row.tokens, {*row["trunk"].keys.specials}) for row in rows]
    texts = ([x for at, x in enumerate(ids) if at not in special] for ids, special in labelled)
    known = np.unique(np.array([*chain.from_iterable(texts)], dtype=np.int64))
    size, draw = min(ONCE, _limit(model, "trunk") // 2, len(known)), np.random.default_rng(0)
    repeated: list[LabelledRows] = []
    for _ in range(REPEATED):
        ids = draw.permutation(known)[:size].tolist()
        pieces = tuple(tokenizer.words.pieces(ids))
        labels = TokenLabels(pieces, pieces, tuple((at,) for at in range(size)))
        repeated.append(
            {"trunk": LabelledRow(TokenRow(ids, [0] * size), labels, labels).repeated()}
        )
    return repeated


def _read(model: ModelRunner, inputs: Sequence[tuple[object, ...]]) -> Iterator[LabelledRows]:
    """Rows of inputs, truncated to what the model reads; others are left out."""
    for parts in inputs:
        texts = parts if model.reads_images else _truncated(model, parts)
        try:
            rows = model.read(*texts)
        except BadInput:
            continue
        if fits(model, rows):
            yield rows


def _truncated(model: ModelRunner, texts: Sequence[object]) -> list[str]:
    """The beginnings of one text or two, of at most ``LONGEST`` tokens in each row."""
    tokenizer, sides = require_tokenizer(model.tokenizer), model.facts.sides
    if len(sides) == 1 and tokenizer.template.template.pair is None:
        texts = texts[:1]
    shorter = []
    for number, text in enumerate(map(str, texts)):
        side = sides[min(number, len(sides) - 1)]
        room = _limit(model, side) - SPECIAL
        room = room if len(sides) > 1 else room // len(texts)
        beginning = text[: 20 * LONGEST]
        spans = tokenizer.of_side(side).words.segment(beginning).spans
        shorter.append(beginning if len(spans) <= room else beginning[: spans[room - 1].end])
    return shorter


def _limit(model: ModelRunner, side: str) -> int:
    """Tokens that a row of a side may have."""
    longest = InputLimits.of(getattr(model.module, side)).longest
    return LONGEST if longest is None else min(LONGEST, longest)


def _rounded(value: float | None) -> float | None:
    """A figure with six digits."""
    return value if value is None or isinstance(value, int) else float(f"{value:.6g}")
