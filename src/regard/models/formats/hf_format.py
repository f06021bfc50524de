"""The Hugging Face format of a paper: tables for config.json, tensor names and tokenizer."""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, cast

from regard.core.errors import BadInput
from regard.core.reading import Reading
from regard.models.encoder_decoder import ModelFacts
from regard.models.formats.config_map import (
    Config,
    ConfigRow,
    lost_facts,
    read_facts,
    refuse_loss,
    write_config,
)
from regard.text.label_sets import LabelSet, labels_from_config
from regard.weights.weight_map import Extras, WeightMap


@dataclass(frozen=True, eq=False)
class HFExtras:
    """Contents of a Hugging Face folder beyond facts and weights, so that it can be written again.

    ``config`` is its config.json, ``files`` are copied byte for byte, ``weights`` has the names and
    precisions of its tensors.
    """

    config: Config
    files: Mapping[str, bytes] = field(default_factory=dict)
    weights: Extras = field(default_factory=Extras)


@dataclass(frozen=True)
class HFFormat:
    """The format of ``transformers`` for one ``model_type``.

    ``config_map`` maps the keys of config.json to facts, ``weights`` their tensor names to ours;
    ``defaults`` are the facts of an empty config.json, ``tokenizer`` reads the tokenizer files.
    ``recipe_keys`` are keys of recipes that its models need beside ``model.paper``.
    """

    recipe_keys: ClassVar[str] = ""

    name: str
    model_type: str
    defaults: ModelFacts
    config_map: tuple[ConfigRow, ...]
    weights: WeightMap
    tokenizer: Callable[[Path], Reading | None]

    def facts_of(self, config: Config, tensors: Collection[str]) -> ModelFacts:
        """The facts of a folder, from its config.json and the names of its tensors."""
        names = {name.removeprefix(self.weights.prefix) for name in tensors}
        return read_facts(self.config_map, self.defaults, config, names)

    def labels_of(self, config: Config, facts: ModelFacts) -> LabelSet | None:
        """The labels of a config.json, if its architecture or these facts have a label head."""
        named = any(row.has_labels(config) for row in self.config_map)
        return labels_from_config(config) if named or facts.sizes.get("labels") else None

    def unknown_keys(self, config: Config) -> list[str]:
        """Remarks on values of a config.json that are unknown, and read as if they were missing."""
        return [remark for row in self.config_map if (remark := row.unknown(config))]

    def config_of(self, facts: ModelFacts, labels: LabelSet | None = None) -> dict[str, object]:
        """The config.json for these facts; facts that it cannot express raise BadInput."""
        named = {} if labels is None else labels.config()
        config = {"model_type": self.model_type, **write_config(self.config_map, facts), **named}
        tensors = [start for row in self.config_map for start in row.tensors(facts)]
        refuse_loss(self.name, facts, lambda: self.facts_of(config, tensors))
        return config

    def graph_config(self, facts: ModelFacts, labels: LabelSet | None) -> dict[str, object]:
        """The config.json beside a graph, which computes the model: the sizes that are known.

        Facts that it cannot express are left out.
        """
        config: dict[str, object] = {"model_type": self.model_type}
        for row in self.config_map:
            with suppress(BadInput, LookupError):
                config |= row.write(facts)
        return config | ({} if labels is None else dict(labels.config()))

    def graph_extras(self, tokenizer: Reading | None, notes: Config) -> HFExtras:
        """The extras beside a graph, of a model that is from no Hugging Face folder."""
        return self.new_extras(tokenizer, notes)

    def update(
        self, config: Config, tensors: Collection[str], facts: ModelFacts, labels: LabelSet | None
    ) -> dict[str, object]:
        """Change ``config`` to express these facts; keys that already do are kept."""
        before = self.facts_of(config, tensors)
        old = self.config_of(before, self.labels_of(config, before))
        new = self.config_of(facts, labels)
        changed = {key: value for key, value in new.items() if value != old.get(key)}
        if not self._means({**config, **changed}, tensors, facts):  # keys that follow others
            changed = new
        return {**config, **changed}

    def _means(self, config: Config, tensors: Collection[str], facts: ModelFacts) -> bool:
        """Whether reading a config.json gives these facts."""
        try:
            return not lost_facts(facts, self.facts_of(config, tensors))
        except BadInput:
            return False

    def architecture(self, facts: ModelFacts) -> str:
        """The class of ``transformers`` for these facts."""
        (name,) = cast(list[str], write_config(self.config_map, facts)["architectures"])
        return name

    def weight_map(self, facts: ModelFacts) -> WeightMap:
        """The map of tensor names, which may depend on the sizes of the model."""
        return self.weights

    def load_tokenizer(self, folder: Path, config: Config) -> Reading | None:
        """The tokenizer of a folder, if it has one."""
        return self.tokenizer(folder)

    def new_extras(self, tokenizer: Reading | None, notes: Config) -> HFExtras:
        """The extras of a model with these notes that is from no Hugging Face folder."""
        ids = {} if tokenizer is None else tokenizer.special_ids
        return HFExtras({f"{role}_id": number for role, number in ids.items()})

    def special_ids(self, config: Config) -> dict[str, int]:
        """The ids of pad, bos and eos of a translator without tokenizer files."""
        raise BadInput(f"a {self.name} folder without tokenizer files does not name BOS and EOS")
