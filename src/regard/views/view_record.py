"""Records for views in a browser: JSON with arrays beside it, for pages, the studio and notebooks.

A view is an ES module in ``modules``: ``render(element, record, options) → {update, destroy}``. Its
record is the JSON of a ``ViewRecord``; an array in it is ``{"buffer": index, "dtype", "shape"}``,
which ``arrayOf`` of base.js reads. On the wire a record is

1. the length of the header in bytes, as an unsigned integer of 32 bits (little-endian), and four
   zero bytes;
2. the header, JSON in UTF-8: ``{"kind", "record", "lengths"}``, with the lengths of buffers;
3. the buffers, in order.

Header and buffers are filled up with spaces and zeros to a multiple of 8 bytes. ``decode`` of
base.js reads it.
"""

import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from regard.views.markup import escape_controls

if TYPE_CHECKING:
    import numpy as np  # records of curves need no arrays, and numpy takes time to load

ALIGNED = 8  # bytes
DTYPES = {"|u1": "u1", "<u2": "u2", "<f4": "f4"}  # of numpy, and in a record


@dataclass(frozen=True, eq=False)
class ViewRecord:
    """Record of the view ``kind``: ``json`` refers to ``buffers`` by their index."""

    kind: str
    json: Mapping[str, Any]
    buffers: tuple[bytes, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, kind: str, **fields: object) -> "ViewRecord":
        """Record of these fields, in which arrays (8 or 16 bits, or floats) become buffers."""
        buffers: list[bytes] = []
        return cls(kind, _plain(fields, buffers), tuple(buffers))

    def with_source(self, **source: str) -> "ViewRecord":
        """Record that names its ``command``, ``model`` or ``data`` in the captions of exports."""
        before = self.json.get("source", {})
        return replace(self, json={**self.json, "source": {**before, **source}})

    def view_record(self) -> "ViewRecord":
        """The record itself, where a result may stand."""
        return self

    def static_drawing(self) -> str:
        """Drawing of the record: there is none."""
        return ""

    def to_bytes(self) -> bytes:
        """The record as it travels: header and buffers."""
        lengths = [len(each) for each in self.buffers]
        header = {"kind": self.kind, "record": self.json, "lengths": lengths}
        text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
        text += b" " * (-len(text) % ALIGNED)
        parts = (each + bytes(-len(each) % ALIGNED) for each in self.buffers)
        return b"".join([struct.pack("<II", len(text), 0), text, *parts])

    @classmethod
    def from_bytes(cls, data: bytes) -> "ViewRecord":
        """Read what ``to_bytes`` has written."""
        length, _ = struct.unpack_from("<II", data)
        header = json.loads(data[ALIGNED : ALIGNED + length])
        buffers, start = [], ALIGNED + length
        for size in header["lengths"]:
            buffers.append(data[start : start + size])
            start += size + -size % ALIGNED
        return cls(header["kind"], header["record"], tuple(buffers))

    def array(self, reference: Mapping[str, Any]) -> "np.ndarray":
        """Array that a reference in ``json`` stands for."""
        import numpy as np

        dtype = {name: numpy for numpy, name in DTYPES.items()}[reference["dtype"]]
        return np.frombuffer(self.buffers[reference["buffer"]], dtype).reshape(reference["shape"])


def _plain(value: object, buffers: list[bytes]) -> Any:
    """Value for JSON; numbers that are not finite are null, control characters are visible."""
    if isinstance(value, str):
        return escape_controls(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, Mapping):
        return {str(name): _plain(each, buffers) for name, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [_plain(each, buffers) for each in value]
    if isinstance(value, bytes):
        return _reference(value, "u1", (len(value),), buffers)
    import numpy as np

    array = np.asarray(value)
    if not array.ndim:
        return _plain(array.item(), buffers)
    if array.dtype == bool:
        array = array.astype("|u1")
    elif array.dtype.kind == "f" or array.dtype.str not in DTYPES:
        array = array.astype("<f4")
    return _reference(array.tobytes(), DTYPES[array.dtype.str], array.shape, buffers)


def _reference(
    data: bytes, dtype: str, shape: Sequence[int], buffers: list[bytes]
) -> dict[str, object]:
    buffers.append(data)
    return {"buffer": len(buffers) - 1, "dtype": dtype, "shape": [*shape]}
