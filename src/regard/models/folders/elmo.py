"""Folders of published ELMo models: options.json, and TensorFlow weights of the trunk in HDF5."""

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import torch

from regard.core.errors import BadInput
from regard.core.files import read_json, write_json
from regard.models.characters import Characters
from regard.models.facts import change, values_named
from regard.models.folders.loaded_model import ELMO_OPTIONS as OPTIONS
from regard.models.folders.loaded_model import ELMO_WEIGHTS as WEIGHTS
from regard.models.folders.loaded_model import LoadedModel, build_facts, check_depth
from regard.models.formats.config_map import (
    Config,
    ConfigRow,
    Constant,
    Key,
    Names,
    read_facts,
    refuse_loss,
    write_config,
)
from regard.models.papers import elmo
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.text.tokenizers.word_level import CharacterTokenizer, CharacterVocabulary
from regard.weights import Extras, Join, Reshape, Rule, Transpose, WeightMap
from regard.weights.files import load_weights, weights_of
from regard.weights.hdf5 import count_members, describe_hdf5, read_hdf5, write_hdf5
from regard.weights.weight_map import DELETE_ADVICE

CELLS = "RNN_0/RNN/MultiRNNCell"  # the group of the layers that read forwards
TENSORS_PER_LAYER = 6  # three in each direction


class CharacterCount(ConfigRow):
    """Number of character ids; options.json may count one more, for padding."""

    key = "char_cnn.n_characters"

    def read(self, config: Config, tensors: Names) -> dict[str, object]:
        known = len(CharacterVocabulary())
        if (count := config.get(self.key)) not in (known, known + 1):
            raise BadInput(f"{self.key} is {count!r}, not {known} or {known + 1}")
        return {"vocab": known}

    def write(self, facts: object) -> dict[str, object]:
        return {self.key: values_named(facts, "vocab")[0] + 1}


REQUIRED = (
    Key("lstm.dim", "cells"),
    Key("lstm.projection_dim", "width"),
    Key("lstm.n_layers", "depth"),
    Key("char_cnn.embedding.dim", "character_size"),
    Key("char_cnn.filters", "filters"),
    Key("char_cnn.max_characters_per_token", "longest"),
    CharacterCount(),
)
CONFIG_MAP = (
    *REQUIRED,
    Key("lstm.cell_clip", "cell_clip"),
    Key("lstm.proj_clip", "projection_clip"),
    Key("lstm.use_skip_connections", "residual"),
    Key("char_cnn.n_highway", "highways"),
    Key("char_cnn.activation", "character_activation", {"relu": "relu", "tanh": "tanh"}),
    Key("dropout", "dropout"),
    Constant("bidirectional", True),
)
# What the options are that a file does not name.
DEFAULTS = change(
    elmo.ORIGINAL, cell_clip=None, projection_clip=None, residual=False, highways=0, dropout=0.0
)


def read(folder: Path, device: torch.device | str) -> LoadedModel:
    """Read the model of a folder with one options file and one weights file."""
    options, weights = (_only(folder, name) for name in (OPTIONS, WEIGHTS))
    config, where = _flat(read_json(options)), str(options)
    for row in REQUIRED:
        if row.key not in config:
            raise BadInput(f"{where}: has no {row.key}")
    try:
        facts = read_facts(CONFIG_MAP, DEFAULTS, config, ())
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from None
    _check_layers(facts, weights, where)
    expected, mapped = weights_of(build_facts(facts, "meta", where)), weight_map(facts)
    names = mapped.write(expected, Extras()).keys()
    described = describe_hdf5(weights, names)
    mapped.read(described, expected, str(weights), advice=DELETE_ADVICE)  # before memory is taken
    tensors, _ = mapped.read(read_hdf5(weights, names), expected, str(weights))
    module = build_facts(facts, device, where)
    load_weights(module, tensors, str(weights))
    tokenizer = CharacterTokenizer(CharacterVocabulary(facts.trunk.embed.characters_per_word))
    return LoadedModel(elmo.PAPER, facts, module.eval(), tokenizer)


def check(model: LoadedModel) -> tuple[TrunkWithHeads, dict[str, object]]:
    """The model without heads, and its options; refuse models that the format cannot express."""
    if model.paper is not elmo.PAPER:
        raise BadInput(
            f"{model.paper.name}: the elmo format supports only ELMo; use another format"
        )
    trunk = cast(TrunkWithHeads, model.facts).with_heads()
    config = write_config(CONFIG_MAP, trunk)
    refuse_loss("ELMo", trunk, lambda: read_facts(CONFIG_MAP, DEFAULTS, config, ()))
    return trunk, config


def write(folder: Path, model: LoadedModel) -> None:
    """Write options.json and weights.hdf5; refuse models that these cannot express."""
    trunk, config = check(model)
    tensors = weights_of(model.module)
    ours = {name: tensor for name, tensor in tensors.items() if name.startswith("trunk.")}
    (folder / OPTIONS).unlink(missing_ok=True)
    write_hdf5(folder / WEIGHTS, weight_map(trunk).write(ours, Extras()))
    write_json(folder / OPTIONS, _nested(config))


def weight_map(facts: TrunkWithHeads) -> WeightMap:
    """Map between the tensor names of the HDF5 file and ours, for a model of these sizes."""
    embed, stack = cast(Characters, facts.trunk.embed), facts.trunk.stack
    theirs, ours = "RNN_{0,1}/RNN/MultiRNNCell/Cell{i}/LSTMCell/", "trunk.blocks.{i}."
    both, gates = Join((1, 1)), 4 * values_named(stack, "cells")[0]
    inputs, cells = 2 * stack.width, gates // 4

    def matrix(rows: int, columns: int) -> tuple[Reshape, Join]:
        return (Reshape((rows, columns), (1, rows, columns)), both)

    return WeightMap(
        (
            Rule("char_embed", "trunk.embed.token.weight"),
            *(_filter(number, *sizes, embed) for number, sizes in enumerate(embed.filters)),
            Rule("CNN/b_cnn_{i}", "trunk.embed.filters.{i}.bias"),
            *_linear("CNN_high_{i}/{}_transform", "trunk.embed.highways.{i}.transform."),
            *_linear("CNN_high_{i}/{}_carry", "trunk.embed.highways.{i}.gate."),
            *_linear("CNN_proj/{}_proj", "trunk.embed.projection."),
            Rule(theirs + "W_0", ours + "gates", matrix(inputs, gates)),
            Rule(theirs + "B", ours + "bias", (Reshape((gates,), (1, gates)), both)),
            Rule(theirs + "W_P_0", ours + "projection", matrix(cells, stack.width)),
        )
    )


def _check_layers(facts: TrunkWithHeads, weights: Path, where: str) -> None:
    """Raise BadInput if facts have more layers than the file has groups, before they are built."""
    check_depth(facts, TENSORS_PER_LAYER * count_members(weights, CELLS), where)
    words, groups = cast(Characters, facts.trunk.embed), count_members(weights, "")
    highways = words.highways
    if highways > groups:
        raise BadInput(f"{where}: {highways} highway layers, but the file has only {groups} groups")


def _linear(file: str, ours: str) -> tuple[Rule, Rule]:
    weight, bias = (file.replace("{}", letter) for letter in "Wb")
    return Rule(weight, ours + "weight", (Transpose(),)), Rule(bias, ours + "bias")


def _filter(number: int, reach: int, count: int, embed: Characters) -> Rule:
    shape = (reach, embed.character_size, count)
    moves = (Reshape((1, *shape), shape), Transpose())
    return Rule(f"CNN/W_cnn_{number}", f"trunk.embed.filters.{number}.weight", moves)


def _only(folder: Path, ending: str) -> Path:
    paths = sorted(folder.glob(f"*{ending}"))
    if len(paths) != 1:
        names = ", ".join(path.name for path in paths) or "none"
        raise BadInput(f"{folder}: must have exactly one file *{ending}, found: {names}")
    return paths[0]


def _flat(options: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Flatten nested tables to dotted keys, and lists to tuples."""
    flat: dict[str, object] = {}
    for key, value in options.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = _tuples(value)
    return flat


def _tuples(value: object) -> object:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _nested(flat: Mapping[str, object]) -> dict[str, object]:
    nested: dict[str, object] = {}
    for key, value in flat.items():
        *tables, last = key.split(".")
        table = nested
        for name in tables:
            table = cast(dict[str, object], table.setdefault(name, {}))
        table[last] = value
    return nested
