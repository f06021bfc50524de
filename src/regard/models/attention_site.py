"""Attention sites: the attention layers of a model, by side and kind."""

from collections.abc import Iterable
from dataclasses import dataclass

from regard.core.errors import BadInput

MAP_NAMES = {("self", False): "encoder", ("self", True): "decoder"}  # by kind and ``causal``


@dataclass(frozen=True)
class AttentionSite:
    """The attention layers of one ``kind`` on one ``side`` of a model.

    The kind is "self", "cross", "alignment" (between the two texts of a row), "pool" or "summary"
    (of each text of a row). The side is "trunk", "source" or "target"; queries are its tokens (a
    pool, or summary, has one query for each row). Keys are tokens of the same side, or of the
    source for cross-attention. ``heads`` has the number of heads of each layer. ``tape_path`` has
    "{layer}" in place of the number of a layer. In ``causal`` attention no key is later than the
    query.
    """

    side: str
    kind: str
    heads: tuple[int, ...]
    tape_path: str
    causal: bool = False

    @property
    def layers(self) -> int:
        """The number of layers."""
        return len(self.heads)

    @property
    def name(self) -> str:
        """The name of the attention map: "encoder", "decoder", or the kind."""
        return MAP_NAMES.get((self.kind, self.causal), self.kind)

    @property
    def query_side(self) -> str:
        """The side whose tokens are the queries; "pool" for one query per row."""
        return {"pool": "pool", "summary": "pool"}.get(self.kind, self.side)

    @property
    def key_side(self) -> str:
        """The side whose tokens are the keys."""
        return {"cross": "source"}.get(self.kind, self.side)

    @property
    def within(self) -> bool:
        """Whether queries and keys are the same tokens: self-attention."""
        return (self.kind, self.causal) in MAP_NAMES

    @property
    def between_texts(self) -> bool:
        """Whether tokens of each text of a row attend to the other text."""
        return {"alignment": True}.get(self.kind, False)

    @property
    def weights(self) -> tuple[str, ...]:
        """The tape paths of the weights of each layer, of shape (rows, heads, queries, keys)."""
        paths = (self.tape_path.format(layer=number) for number in range(self.layers))
        return tuple(f"{path}.weights" for path in paths)

    @property
    def weights_with_heads(self) -> tuple[str, ...]:
        """The tape paths of the weights of the layers that have heads."""
        return tuple(path for path, heads in zip(self.weights, self.heads, strict=True) if heads)


def require_causal(sites: Iterable[AttentionSite]) -> AttentionSite:
    """Return the self-attention of a causal model; raise BadInput if there is none."""
    known = [*sites]
    for site in known:
        if site.causal and site.side == "trunk":
            return site
    if not known:
        raise BadInput("this model has no attention to show")
    raise BadInput("this model is not causal: tokens attend to later tokens")


def require_cross_attention(site: AttentionSite | None) -> AttentionSite:
    """Return the cross-attention of a model; raise BadInput if it has none."""
    if site is None:
        raise BadInput("this model has no attention to a source")
    return site
