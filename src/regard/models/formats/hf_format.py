"""How Hugging Face keeps the models of a paper: config.json, tensors and tokenizer in tables."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.ground.errors import BadInput
from regard.models.formats.config_map import (
    Config,
    ConfigRow,
    read_facts,
    refuse_loss,
    write_config,
)
from regard.text.labels import LabelSet, labels_from_config
from regard.text.tokenizers import Tokenizer
from regard.weights.weight_map import Extras, WeightMap


@dataclass(frozen=True, eq=False)
class HFExtras:
    """What a Hugging Face folder holds beyond facts and weights, so that it can be written again.

    ``files`` are handed on byte for byte; ``weights`` is what its tensors say beyond ours.
    """

    config: dict[str, Any]
    files: Mapping[str, bytes] = field(default_factory=dict)
    weights: Extras = field(default_factory=Extras)


@dataclass(frozen=True)
class HFFormat:
    """One ``model_type``: the same model in the words of ``transformers`` and in ours.

    ``empty`` are the facts that an empty config.json stands for, ``rows`` what its keys change.
    ``tokenizer`` reads its tokenizer files.
    """

    name: str
    model_type: str
    empty: Any
    rows: tuple[ConfigRow, ...]
    weights: WeightMap
    tokenizer: type[Tokenizer]

    def facts_of(self, config: Config, tensors: Collection[str]) -> Any:
        """The facts behind a config.json and the names of the tensors beside it."""
        names = {name.removeprefix(self.weights.prefix) for name in tensors}
        return read_facts(self.rows, self.empty, config, names)

    def labels_of(self, config: Config, facts: Any) -> LabelSet | None:
        """The labels of a config.json, if it names a head with labels or these facts have one."""
        named = any(row.has_labels(config) for row in self.rows)
        return labels_from_config(config) if named or facts.sizes.get("labels") else None

    def config_of(self, facts: Any, labels: LabelSet | None = None) -> dict[str, Any]:
        """A whole config.json for these facts; those it cannot express are an error."""
        named = {} if labels is None else labels.config()
        config = {"model_type": self.model_type, **write_config(self.rows, facts), **named}
        tensors = [start for row in self.rows for start in row.tensors(facts)]
        refuse_loss(self.name, facts, self.facts_of(config, tensors))
        return config

    def update(
        self, config: Config, tensors: Collection[str], facts: Any, labels: LabelSet | None
    ) -> dict[str, Any]:
        """A config.json for these facts that leaves another as it is where that says the same."""
        before = self.facts_of(config, tensors)
        old = self.config_of(before, self.labels_of(config, before))
        new = self.config_of(facts, labels)
        changed = {key: value for key, value in new.items() if value != old.get(key)}
        if not self._means({**config, **changed}, tensors, facts):  # keys that follow others
            changed = new
        return {**config, **changed}

    def _means(self, config: Config, tensors: Collection[str], facts: Any) -> bool:
        """Whether a config.json stands for these facts."""
        try:
            return self.facts_of(config, tensors) == facts
        except BadInput:
            return False

    def architecture(self, facts: Any) -> str:
        """What ``transformers`` calls a model of these facts."""
        return write_config(self.rows, facts)["architectures"][0]

    def load_tokenizer(self, folder: Path, config: Config) -> Tokenizer | None:
        """The tokenizer of a folder, if it has one."""
        return self.tokenizer.load(folder)

    def new_extras(self, tokenizer: Tokenizer | None) -> HFExtras:
        """What belongs to a folder beside facts and weights, for a model that never was in one."""
        return HFExtras({} if tokenizer is None else {"pad_token_id": tokenizer.pad})

    def special_ids(self, config: Config) -> dict[str, int]:
        """The pad, bos and eos of a translator whose folder has no tokenizer files."""
        raise BadInput(f"a {self.name} folder names no special tokens of a decoder")
