"""Records of attention maps for views in a browser, rounded until a page has room for them.

Weights are ten-thousandths in 16 bits or, of long texts, steps from 0 to the largest weight of each
row in 8 bits. Steps are finer near 0, where most weights are: level = steps · share ** POWER.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from regard.core.errors import BadInput
from regard.inside.attention.attention_map import AttentionMap
from regard.views.view_record import ViewRecord

UNIT = 10_000
POWER = 0.75
FINEST = 255
STEPS = (FINEST, 180, 127, 90, 63, 45, 31, 22, 15, 11, 7, 5, 3)
SAMPLE = 6  # heads that are packed to estimate the size of all
MOST = 14_000_000  # bytes of all weights of a page; base64 makes them a third longer
SMALL = 1_250_000  # bytes that the weights of every page may have
SHARE = 0.5  # bytes for each weight of larger pages
AVERAGED = "heads are averaged here, for there are too many weights"

Weights = dict[str, Any]


def attention_record(
    kind: str, maps: Sequence[AttentionMap], *, lazy: bool = False, **fields: object
) -> ViewRecord:
    """Record of maps, with further fields; rounded, and heads are averaged, if it were too large.

    With ``lazy``, layers have no weights, which ``layer_record`` returns, but the mean of all has.
    """
    count = sum(weights_HLS.size for each in maps for weights_HLS in each.layers)
    most = min(MOST, max(SMALL, int(SHARE * count)))
    steps: int | None = FINEST if lazy else _fitting_steps(maps, most)
    if steps == 0:
        maps = [each.mean_of_heads() for each in maps]
        steps = _fitting_steps(maps, most)
        fields = {**fields, "note": AVERAGED}
    if steps == 0:
        size = max(len(each.queries) * len(each.keys) for each in maps)
        raise BadInput(f"too many weights for a page (up to {size:,} in a head): shorten the input")
    return ViewRecord.of(kind, maps=[map_fields(each, steps, lazy=lazy) for each in maps], **fields)


def layer_record(shown: AttentionMap, layer: int, steps: int | None = FINEST) -> ViewRecord:
    """Record of the weights of one layer, in 8 bits."""
    return ViewRecord.of("layer", weights=pack_weights(shown.layers[layer], steps))


def map_fields(shown: AttentionMap, steps: int | None, *, lazy: bool = False) -> dict[str, Any]:
    """Fields of one map: labels, mask and weights by layer."""
    heads = sum(map(len, shown.layers))
    return {
        "name": shown.name,
        "queries": shown.queries,
        "keys": shown.keys,
        "allowed": shown.allowed,
        "unchosen": shown.without_layer,
        "special": {"queries": shown.special_queries, "keys": shown.special_keys},
        "layers": [
            {
                "heads": len(weights_HLS),
                "weights": None if lazy else pack_weights(weights_HLS, steps),
            }
            for weights_HLS in shown.layers
        ],
        "mean": pack_weights(shown.select()[None], steps) if heads > 1 else None,
    }


def pack_weights(weights_HLS: np.ndarray, steps: int | None) -> Weights:
    """Weights in ten-thousandths, or in ``steps`` of the largest weight of each row."""
    if steps is None:
        return {"units": np.rint(weights_HLS * UNIT).clip(0, 65_535).astype("<u2")}
    peaks_HL = weights_HLS.max(axis=-1, initial=0.0).astype("<f4")
    shares_HLS = weights_HLS / np.where(peaks_HL > 0, peaks_HL, 1)[..., None]
    levels_HLS = np.rint(steps * shares_HLS.clip(0, 1) ** POWER).astype(np.uint8)
    return {"levels": levels_HLS, "peaks": peaks_HL, "steps": steps}


def unpack_weights(record: ViewRecord, weights: Mapping[str, Any]) -> np.ndarray:
    """Weights (heads, queries, keys) of a record, as a view reads them."""
    if "units" in weights:
        return record.array(weights["units"]) / np.float32(UNIT)
    levels_HLS, peaks_HL = record.array(weights["levels"]), record.array(weights["peaks"])
    return peaks_HL[..., None] * (levels_HLS / np.float32(weights["steps"])) ** (1 / POWER)


def _fitting_steps(maps: Sequence[AttentionMap], most: int) -> int | None:
    """Steps of the finest packing that fits into ``most`` bytes; None: units; 0: none fits."""
    heads = [weights_LS[None] for each in maps for layer in each.layers for weights_LS in layer]
    sample = heads[:: max(1, len(heads) // SAMPLE)][:SAMPLE]
    for steps in (None, *STEPS):
        if sum(_sizes(sample, steps)) * len(heads) <= most * max(len(sample), 1):
            return steps
    return 0


def _sizes(heads: Sequence[np.ndarray], steps: int | None) -> Iterator[int]:
    for weights_1LS in heads:
        packed = pack_weights(weights_1LS, steps).items()
        parts = (array.tobytes() for name, array in packed if name != "steps")
        yield len(zlib.compress(b"".join(parts), 6))
