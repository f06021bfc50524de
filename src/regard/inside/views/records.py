"""Records for views of plain values: alignments, neighbours, forward paths, vectors."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from regard.ground.errors import BadInput
from regard.inside.forward_path import PathStep, count_lines
from regard.inside.record import Record
from regard.inside.views.view_record import ViewRecord
from regard.metrics.alignment import GoldLinks, Links


def alignment_record(
    title: str,
    source: Sequence[str],
    target: Sequence[str],
    weights_LS: np.ndarray,
    links: Links = frozenset(),
    gold: GoldLinks | None = None,
) -> ViewRecord:
    """Cross-attention (target words, source words) with links, and those of a gold standard."""
    known = {} if gold is None else {"sure": gold.sure, "possible": gold.possible - gold.sure}
    return ViewRecord.of(
        "alignment",
        title=title,
        source_words=source,
        target_words=target,
        weights=weights_LS.astype(np.float32),
        **{name: sorted(pairs) for name, pairs in {"links": links, **known}.items()},
    )


def neighbours_record(
    title: str, neighbours: Mapping[str, Iterable[tuple[str, float]]]
) -> ViewRecord:
    """Neighbours of each query: their texts and cosines, the nearest first."""
    groups = [
        {"query": query, "rows": [{"text": text, "cosine": cosine} for text, cosine in rows]}
        for query, rows in neighbours.items()
    ]
    return ViewRecord.of("neighbours", title=title, groups=groups)


def forward_path_record(title: str, steps: Sequence[PathStep]) -> ViewRecord:
    """Functions that run in one forward pass, in order of their first call."""
    lines = count_lines(step.file for step in steps)
    path = [step._asdict() for step in steps]
    return ViewRecord.of("forward_path", title=title, steps=path, lines=lines)


def queries_keys_record(
    record: Record, layer: int, head: int, site: str | None = None, title: str = ""
) -> ViewRecord:
    """Queries, keys and weights of one head, and its scores if the record has them.

    The record must have ``queries`` and ``keys``.
    """
    attention = record.attention(site)
    if not 0 <= layer < len(attention.layers):
        raise BadInput(f"no layer {layer}; there are 0 to {len(attention.layers) - 1}")
    weights_HLS = attention.layers[layer]
    if not 0 <= head < len(weights_HLS):
        raise BadInput(f"no head {head} in layer {layer}; there are 0 to {len(weights_HLS) - 1}")
    path = attention.site.tape_path.format(layer=layer)
    q_LHK, k_SHK = record[f"{path}.queries"], record[f"{path}.keys"]
    shared = q_LHK.shape[1] // k_SHK.shape[1]  # heads of queries that share a head of keys
    q_LK, k_SK = q_LHK[:, head], k_SHK[:, head // shared]
    scores_HLS = record.get(f"{path}.scores")
    return ViewRecord.of(
        "queries_keys",
        title=title or f"{attention.site.name}, layer {layer}, head {head}",
        layer=layer,
        head=head,
        queries=attention.queries.subwords,
        keys=attention.keys.subwords,
        q=q_LK,
        k=k_SK,
        weights=weights_HLS[head],
        scores=None if scores_HLS is None else scores_HLS[head],
        scale=q_LK.shape[-1] ** -0.5,
    )
