"""Values of a model on one input, recorded by a tape once, for every view and report.

``record`` runs the model; only the layers whose attention weights or scores are recorded leave
their fast kernels. A record is saved in 8 bits a number, and read layer by layer.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.core.batch import ImageRow
from regard.core.checks import check_whole
from regard.core.errors import BadInput, shown
from regard.core.tape import Tape
from regard.inference.model_runner import ModelRunner
from regard.inside import record_file
from regard.inside.attention.attention_map import MOST_DRAWN, AttentionMap, RolloutMap
from regard.inside.attention.attention_record import attention_record
from regard.models.attention_site import AttentionSite
from regard.models.trunk_with_heads import Outputs
from regard.text.segmentation import LabelledImage, LabelledRows, TokenLabels
from regard.views.matrix_svg import draw_attention
from regard.views.pages import RecordPage
from regard.views.view_record import ViewRecord

VALUES = {
    "scores": "{site}.scores",
    "weights": "{site}.weights",
    "queries": "{site}.queries",
    "keys": "{site}.keys",
    "values": "{site}.values",
    "head_outputs": "{site}.head_outputs",
    "attention_outputs": "{block}.attention.output",
    "cross_outputs": "{block}.cross.output",
    "mlp_outputs": "{block}.mlp.output",
    "states": "{block}.output",
    "embeddings": "{side}.embed.output",
    "logits": "*logits",
}
"""Names on the tape of each kind of value, by attention site, block or side of the model."""

BY_INPUT = (".scores", ".mask", ".weights")
"""Ends of the names of values with an axis of inputs; other values have an axis of tokens."""

PIXELS = "image.pixels"
BACK = "-back"  # ends the name of the map of the second text to the first


class SiteRecord(NamedTuple):
    """Attention weights of one site, (heads, queries, keys) for each layer, with labels.

    A layer that was not recorded has no heads. With ``rollout``, ``map`` returns the attention
    rollout through all layers.
    """

    site: AttentionSite
    queries: TokenLabels
    keys: TokenLabels
    layers: tuple[np.ndarray, ...]
    rollout: bool = False

    @property
    def allowed(self) -> np.ndarray | None:
        """Attention mask (queries, keys); None: every query may attend to every key."""
        lengths = len(self.queries.subwords), len(self.keys.subwords)
        return np.tri(*lengths, dtype=bool) if self.site.causal else None

    def map(self, *, subwords: bool = False) -> AttentionMap:
        """Attention map over words, or over subwords."""
        queries, keys = self.queries, self.keys
        labels = self.site.name, queries.subwords, keys.subwords
        specials = queries.specials, keys.specials
        tokens = AttentionMap(*labels, self.layers, self.allowed, *specials)
        if self.rollout:
            tokens = RolloutMap.of(tokens)
        if subwords:
            return tokens
        return tokens.merged(queries.words, keys.words, queries.groups, keys.groups)

    def maps(self, *, subwords: bool = False) -> tuple[AttentionMap, ...]:
        """The attention map; of an alignment of two texts, a map of each text to the other."""
        whole, (first, second) = self.map(subwords=subwords), self.keys.texts(subwords=subwords)
        if not self.site.between_texts or not second:
            return (whole,)
        back = whole.crop(f"{whole.name}{BACK}", second, first)
        return whole.crop(whole.name, first, second), back


Records = Sequence[SiteRecord]


@dataclass(frozen=True, eq=False)
class Record(RecordPage, Mapping[str, np.ndarray]):
    """Values of one input by their names on a tape, with the labels of its tokens by side.

    Attention weights and scores are (heads, queries, keys), values of tokens (tokens, …).
    ``image`` is the image of a vision model. ``difference`` is the largest difference between the
    outputs of the recorded and of a plain run; None: they were not compared. In a notebook a record
    shows its attention weights over tokens.
    """

    query_labels: Mapping[str, TokenLabels]
    key_labels: Mapping[str, TokenLabels]
    sites: tuple[AttentionSite, ...]
    recorded: Mapping[str, np.ndarray] = field(repr=False)
    image: LabelledImage | None = field(default=None, repr=False)
    difference: float | None = None

    def __repr__(self) -> str:
        tokens = ", ".join(f"{len(of.subwords)} {side}" for side, of in self.key_labels.items())
        compared = "" if self.difference is None else f", difference {self.difference:.1e}"
        return f"Record({tokens} tokens, {len(self)} values{compared})"

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self:
            raise BadInput(f"record: {name} was not recorded; there are: {', '.join(self)}")
        return self.recorded[name]

    def __contains__(self, name: object) -> bool:
        return name in self.recorded

    def __iter__(self) -> Iterator[str]:
        return iter(self.recorded)

    def __len__(self) -> int:
        return len(self.recorded)

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def get(self, name: str, default: Any = None) -> Any:
        """Value of this name, or the default if it was not recorded."""
        return self.recorded.get(name, default)

    def save(self, path: str | Path) -> None:
        """Write the record to a safetensors file, in 8 bits a number."""
        image, values = None, dict(self.recorded)
        if self.image is not None:
            image = self.image.grid, self.image.tokens
            values[PIXELS] = self.image.pixels_HWC
        described = {
            "names": [*self],
            "queries": self.query_labels,
            "keys": self.key_labels,
            "sites": [asdict(site) for site in self.sites],
            "image": image,
            "difference": self.difference,
        }
        record_file.write(Path(path), values, described)

    @classmethod
    def load(cls, path: str | Path) -> "Record":
        """Open a file that ``save`` wrote; a value is read when it is asked for."""
        saved, described = record_file.read(Path(path))
        try:
            recorded = saved.choose(described.get("names") or [n for n in saved if n != PIXELS])
            return cls(recorded=recorded, **_labels(described), **_picture(described, saved))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise BadInput(f"{path}: a damaged record ({error!r})") from None

    def attention(self, name: str | None = None) -> SiteRecord:
        """Weights of a site ("encoder", "decoder", "cross", "pool"); default: the first."""
        for site in self.sites:
            if name in (None, site.name):
                if not any(path in self for path in site.weights):
                    raise BadInput(
                        f"record: the weights of the {site.name} attention were not recorded"
                    )
                return self._of_site(site)
        names = ", ".join(site.name for site in self.sites)
        raise BadInput(f"record: no attention called {name!r}, only: {names or 'none'}")

    @property
    def by_site(self) -> list[SiteRecord]:
        """Weights of all sites that have heads."""
        return [self._of_site(site) for site in self.sites if any(site.heads)]

    @property
    def title(self) -> str:
        """Tokens of each side as a text, or "image"."""
        if self.image is not None:
            return "image"
        return " / ".join(" ".join(labels.words) for labels in self.key_labels.values())

    @property
    def maps(self) -> list[AttentionMap]:
        """Attention maps over tokens, of the sites whose weights were recorded."""
        recorded = [site for site in self.sites if any(name in self for name in site.weights)]
        return [self._of_site(site).map(subwords=True) for site in recorded]

    def view_record(self) -> ViewRecord:
        maps = self.maps
        if not maps:
            raise BadInput("record: no attention weights were recorded: add values='weights'")
        return attention_record("attention", maps, title=self.title, caption=repr(self))

    def svg(self) -> str:
        """Standalone SVG file of the first map; empty if no weights were recorded."""
        for first in self.maps:
            labels = first.queries, first.keys
            return draw_attention(
                self.title, first.describe(), *labels, first.select(), first.allowed
            )
        return ""

    def static_drawing(self) -> str:
        return self.svg() if all(each.select().size <= MOST_DRAWN for each in self.maps[:1]) else ""

    def _repr_html_(self) -> str | None:
        return super()._repr_html_() if self.maps else None

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return super()._repr_mimebundle_() if self.maps else {"text/plain": repr(self)}

    def _of_site(self, site: AttentionSite) -> SiteRecord:
        queries = self.query_labels.get(site.query_side, TokenLabels.special("pool"))
        keys = self.key_labels[site.key_side]
        none = np.zeros((0, len(queries.subwords), len(keys.subwords)), np.float32)
        layers = tuple(self.get(name, none) for name in site.weights)
        return SiteRecord(site, queries, keys, layers)


def _labels(described: Mapping[str, Any]) -> dict[str, Any]:
    """Labels, sites and difference of a saved record."""
    queries, keys = (
        {side: TokenLabels.of_lists(*lists) for side, lists in described[end].items()}
        for end in ("queries", "keys")
    )
    sites = [{**site, "heads": tuple(site["heads"])} for site in described["sites"]]
    known = tuple(AttentionSite(**site) for site in sites)
    labels = {"query_labels": queries, "key_labels": keys}
    return {**labels, "sites": known, "difference": described["difference"]}


def _picture(described: Mapping[str, Any], values: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Image of a saved record, without the pixel values that a model reads."""
    if described["image"] is None:
        return {}
    pixels_HWC, (grid, names) = values[PIXELS], map(tuple, described["image"])
    row = ImageRow(lambda: pixels_HWC.transpose(2, 0, 1))
    return {"image": LabelledImage(row, pixels_HWC, grid, names)}


def record(
    model: ModelRunner,
    rows: LabelledRows,
    *,
    layers: Sequence[int] | None = None,
    values: Sequence[str] = ("weights",),
    compare: bool = False,
) -> tuple[Record, Outputs]:
    """Run a model on one input; return the values asked for and the outputs.

    ``values`` are among ``VALUES``, ``layers`` numbers of layers (default: all). With ``compare``,
    the outputs are compared with the outputs of a run without a tape.
    """
    patterns = tape_patterns(model, layers, values)
    tape = Tape(*(pattern for kind in patterns.values() for pattern in kind))
    with torch.inference_mode():
        outputs = model.run([rows], tape)
        plain = model.run([rows]) if compare else None
    for kind, names in patterns.items():
        if not any(fnmatchcase(name, each) for name in tape.records for each in names):
            raise BadInput(f"values: this model has no {kind}")
    recorded = {name: of_one_input(name, value) for name, value in tape.records.items()}
    image = next((row for row in rows.values() if isinstance(row, LabelledImage)), None)
    return Record(
        {side: row.queries for side, row in rows.items()},
        {side: row.keys for side, row in rows.items()},
        model.facts.attention_sites,
        recorded,
        image,
        None if plain is None else _difference(outputs, plain),
    ), outputs


def tape_patterns(
    model: ModelRunner, layers: Sequence[int] | None, values: Sequence[str]
) -> dict[str, list[str]]:
    """Patterns of the tape by kind of value, for these layers."""
    for kind in values:
        if kind not in VALUES:
            raise BadInput(f"values: {shown(kind)} is not one of {', '.join(VALUES)}")
    sides = model.facts.sides
    depth = max(getattr(model.facts, side).stack.depth for side in sides)
    if layers is None:
        layers = range(depth)
    if not layers:
        raise BadInput("layers: empty; leave it out for all")
    numbers = [check_whole("layers", number, -depth, depth - 1) % depth for number in layers]
    sites = model.facts.attention_sites
    places = {
        "site": [site.tape_path.format(layer=number) for site in sites for number in numbers],
        "block": [f"{side}.blocks.{number}" for side in sides for number in numbers],
        "side": [*sides],
    }

    def expand(template: str) -> list[str]:
        for place, paths in places.items():
            if f"{{{place}}}" in template:
                return [template.format(**{place: path}) for path in paths]
        return [template]

    return {kind: expand(VALUES[kind]) for kind in values}


def of_one_input(name: str, value: Tensor) -> np.ndarray:
    """Value of a run of one input as an array; weights and scores without the axis of inputs."""
    array: np.ndarray = value.float().cpu().numpy()
    return array[0] if name.endswith(BY_INPUT) else array


def _difference(outputs: Outputs, plain: Outputs) -> float:
    """Largest difference between the logits of two runs, or between their states without any."""
    pairs = [(outputs.by_head[name], plain.by_head[name]) for name in outputs.by_head]
    pairs = pairs or [(outputs.encoded.states_TD, plain.encoded.states_TD)]
    return max(float((one.float() - other.float()).abs().max()) for one, other in pairs)


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
