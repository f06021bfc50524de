"""Fields of articles in any order (Grover: Zellers et al., 2019, section 3.2).

Causal language modelling over articles whose fields stand between tokens of their own. In every
epoch the fields of an article are divided into two sets and some are left out, by a draw that
depends on (seed, epoch, index of the row) alone.
"""

from dataclasses import dataclass, field

import numpy as np
from pydantic import Field

from regard.core.config import Config
from regard.data.counter_rng import streams, uniform
from regard.objectives.causal_lm import CausalLM
from regard.objectives.rows import Annotate, AnnotatedRow, Rows
from regard.text.field_template import FieldTemplate
from regard.text.tokenizers.row_tokenizer import RowTokenizer

ORDERING = 11  # appended to the key, which other draws use too


class FieldsConfig(Config):
    """The table ``[objective.fields]``."""

    names: tuple[str, ...] = FieldTemplate().names
    """The fields of an article in their usual order, which are keys of JSON lines; the last one is
    the body."""
    dropped: float = Field(0.1, ge=0, lt=1)
    """The probability that a field before the body is left out."""
    body_only: float = Field(0.35, ge=0, lt=1)
    """The probability that all fields before the body are left out."""
    weight: float = Field(1.0, ge=0)
    """The weight of the loss in the sum of all objectives."""


@dataclass(frozen=True)
class FieldsLM(CausalLM):
    """Causal LM over the fields of articles; a row is an article, or a part of a long one."""

    name, config = "fields", FieldsConfig
    whole_texts, scores_texts = False, False
    fields: FieldTemplate = field(default_factory=FieldTemplate)

    @classmethod
    def from_config(cls, config: FieldsConfig, smoothing: float) -> "FieldsLM":
        template = FieldTemplate(config.names, config.dropped, config.body_only)
        return cls(smoothing=smoothing, loss_weight=config.weight, fields=template)

    def annotator(self, tokenizer: RowTokenizer) -> Annotate:
        borders = self.fields.borders(tokenizer.words)
        names = {first: name for name, (first, _) in borders.items()}
        add_targets, draws = super().annotator(tokenizer), np.arange(2 * len(names) + 1)

        def arrange(example: AnnotatedRow, draws: list[float]) -> AnnotatedRow:
            """Order the fields of a row; a field that is cut off stays at its end."""
            tokens = np.asarray(example.row.tokens)
            begins = np.flatnonzero(np.isin(tokens, [*names]))
            before, *parts = np.split(tokens, begins)
            cut = [part for part in parts[-1:] if part[-1] != borders[names[int(part[0])]][1]]
            whole = {names[int(part[0])]: part for part in parts[: len(parts) - len(cut)]}
            ordered = [whole[name] for name in self.fields.order([*whole], draws)]
            arranged = np.concatenate([before, *ordered, *cut])
            segments = np.zeros(len(arranged), np.int32)
            return example._replace(row=example.row._replace(tokens=arranged, segments=segments))

        def annotate(rows: Rows, indices: np.ndarray, key: tuple[int, ...]) -> list[AnnotatedRow]:
            stream_N = streams((*key, ORDERING), indices)
            draws_NK = uniform(stream_N[:, None], draws)
            pairs = zip(rows, draws_NK.tolist(), strict=True)
            return add_targets([arrange(*pair) for pair in pairs], indices, key)

        return annotate
