"""``architectures`` in config.json: the classes of ``transformers``, and the heads of each."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from regard.ground.errors import BadInput
from regard.models.facts import values_named
from regard.models.formats.config_map import (
    Config,
    ConfigRow,
    Names,
    begins,
    read_facts,
    write_config,
)
from regard.models.heads import AnyHead, PaperHead
from regard.models.pools import FirstToken


@dataclass(frozen=True)
class HFHead(PaperHead):
    """A head as ``transformers`` stores it.

    ``head`` is what an empty config.json means, ``config_map`` the keys that change it. ``tensors``
    is the prefix of its tensor names, by which it is recognised; a head without tensors of its own
    ("") is recognised by the architecture; so is one that is ``tied``, for it may have none. Beside
    tensors of the prefix ``unless`` they are another head's.
    """

    tensors: str
    config_map: tuple[ConfigRow, ...] = ()
    unless: str = ""
    tied: bool = False

    def is_in(self, tensors: Names, named: bool) -> bool:
        """Whether a model of these tensors has it; ``named``: its architecture does."""
        if self.unless and begins(tensors, self.unless):
            return False
        if named and (self.tied or not self.tensors):
            return True
        return bool(self.tensors) and begins(tensors, self.tensors)

    def is_of(self, heads: Mapping[str, AnyHead]) -> bool:
        """Whether a model with these heads, by name, has it: one of its name in its form."""
        return heads.get(self.head.name).__class__ is self.head.__class__


@dataclass(frozen=True)
class Architectures(ConfigRow):
    """The row of config.json that decides the heads: architecture → its heads.

    Reading: a model has the heads whose tensors the checkpoint has. If several heads share a prefix
    it is the one of the named architecture, else the first for which the checkpoint has a pool (if
    the head needs one). A head of the named architecture that lacks its tensors because of a key
    that is not supported is an error. Writing: the last architecture all of whose heads the model
    has.
    """

    heads: Mapping[str, tuple[HFHead, ...]]
    pooler: str = "pooler."
    key: str = field(default="architectures", init=False)

    def read(self, config: Config, tensors: Names) -> dict[str, object]:
        named, pooled = self._named(config), begins(tensors, self.pooler)
        chosen: dict[str, HFHead] = {}
        for entry in sorted(self._entries, key=named.__contains__, reverse=True):
            fits = pooled or entry.pool is not None or not entry.head.per_row or entry in named
            if fits and entry.is_in(tensors, entry in named):
                chosen.setdefault(entry.tensors, entry)
        for entry in named:
            if entry not in chosen.values():
                self._refuse_unsupported(entry, config, tensors)
        entries = [entry for entry in self._entries if entry in chosen.values()]
        heads = [read_facts(entry.config_map, entry.head, config, tensors) for entry in entries]
        pool = FirstToken() if pooled else next((one.pool for one in entries if one.pool), None)
        return {"pool": pool, "output_heads": tuple(heads)}

    def write(self, facts: object) -> dict[str, object]:
        config, heads = dict[str, object](), _heads_of(facts)
        for entry in self._entries:
            if entry.is_of(heads):
                config |= write_config(entry.config_map, heads[entry.head.name])
        fitting = [
            name
            for name, entries in self.heads.items()
            if all(entry.is_of(heads) for entry in entries)
        ]
        return {**config, self.key: fitting[-1:]}

    def tensors(self, facts: object) -> tuple[str, ...]:
        entries = (entry for entry in self._entries if entry.is_of(_heads_of(facts)))
        pooler = (self.pooler,) if FirstToken() in values_named(facts, "pool") else ()
        return (*pooler, *(entry.tensors for entry in entries))

    def has_labels(self, config: Config) -> bool:
        return any(values_named(entry.head, "outputs") for entry in self._named(config))

    def _refuse_unsupported(self, entry: HFHead, config: Config, tensors: Names) -> None:
        """Raise an error if a key of config.json is not supported by a head."""
        try:
            read_facts(entry.config_map, entry.head, config, tensors)
        except BadInput as error:
            name = config[self.key][0]
            raise BadInput(f"{self.key}: the {entry.head.name} head of {name}: {error}") from None

    def _named(self, config: Config) -> tuple[HFHead, ...]:
        """The heads of the architecture that a config.json names."""
        names = config.get(self.key)
        first = str(names[0]) if isinstance(names, list) and names else ""
        return self.heads.get(first, ())

    @property
    def _entries(self) -> list[HFHead]:
        unique: list[HFHead] = []
        for entries in self.heads.values():
            unique += [entry for entry in entries if entry not in unique]
        return unique


def _heads_of(facts: object) -> dict[str, AnyHead]:
    return {head.name: head for heads in values_named(facts, "output_heads") for head in heads}
