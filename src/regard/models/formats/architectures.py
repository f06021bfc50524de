"""``architectures`` in config.json: the classes of ``transformers``, and the heads of each."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from regard.core.errors import BadInput, did_you_mean
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

    ``head`` is the default, ``config_map`` the keys of config.json that change it. A head is
    recognised by the prefix ``tensors`` of its tensor names, unless the file also has the prefix
    ``unless``; a head without tensors ("") or ``tied`` is recognised by the architecture.
    """

    tensors: str
    config_map: tuple[ConfigRow, ...] = ()
    unless: str = ""
    tied: bool = False

    def is_in(self, tensors: Names, named: bool) -> bool:
        """Whether a checkpoint with these tensors has the head; ``named``: by its architecture."""
        if self.unless and begins(tensors, self.unless):
            return False
        if named and (self.tied or not self.tensors):
            return True
        return bool(self.tensors) and begins(tensors, self.tensors)

    def is_of(self, heads: Mapping[str, AnyHead]) -> bool:
        """Whether a model with these heads, by name, has the head in this form."""
        return heads.get(self.head.name).__class__ is self.head.__class__


@dataclass(frozen=True)
class Architectures(ConfigRow):
    """Row ``architectures`` of config.json: architecture → its heads.

    Reading: a model has the heads whose tensors the checkpoint has. If several heads share a
    prefix, the named architecture decides, else the first head whose pool the checkpoint has. A
    head of the named architecture without tensors is an error if one of its keys is unsupported.
    Writing: the last architecture whose heads the model all has.
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
        pool = (
            FirstToken() if pooled else next((entry.pool for entry in entries if entry.pool), None)
        )
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

    def unknown(self, config: Config) -> str:
        name = _first(config.get(self.key))
        if not name or name in self.heads:
            return ""
        known = did_you_mean(name, list(self.heads))
        return f"{self.key}: {name!r} is unknown; heads are found by the names of tensors{known}"

    def _refuse_unsupported(self, entry: HFHead, config: Config, tensors: Names) -> None:
        """Raise an error if a key of config.json is not supported by a head."""
        try:
            read_facts(entry.config_map, entry.head, config, tensors)
        except BadInput as error:
            name = config[self.key][0]
            raise BadInput(f"{self.key}: the {entry.head.name} head of {name}: {error}") from None

    def _named(self, config: Config) -> tuple[HFHead, ...]:
        """Heads of the architecture that a config.json names."""
        return self.heads.get(_first(config.get(self.key)), ())

    @property
    def _entries(self) -> list[HFHead]:
        unique: list[HFHead] = []
        for entries in self.heads.values():
            unique += [entry for entry in entries if entry not in unique]
        return unique


def _first(names: object) -> str:
    return str(names[0]) if isinstance(names, list) and names else ""


def _heads_of(facts: object) -> dict[str, AnyHead]:
    return {head.name: head for heads in values_named(facts, "output_heads") for head in heads}
