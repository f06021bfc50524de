"""The table of recipes that describes a model: its facts, and the weights it starts with."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator
from torch import nn

from regard.ground.config import Config
from regard.ground.errors import BadInput
from regard.models.facts import EncoderDecoder, TrunkWithHeads, change
from regard.models.formats import folder as folders
from regard.models.formats.loaded_model import LoadedModel
from regard.models.paper import Paper
from regard.models.papers import paper, sized
from regard.weights.files import weights_of

SCRATCH = ("", "scratch")  # TOML has no word for nothing
Optional = Annotated[str | None, AfterValidator(lambda name: name or None)]


class ModelConfig(Config):
    """A paper, one of its sizes ("base"), and the facts that differ.

    ``source`` or ``target`` takes that side from another, "PAPER:SIZE": a recurrent encoder under a
    Transformer's decoder, say. The paper is then the recurrent one. A model with one side has a
    source only: its trunk. With ``start``, a folder (here or under the data root), an encoder
    begins with the facts, the vocabulary and the weights of that folder; "scratch" (or "") is none.
    """

    paper: str = "transformer"
    """A paper of `regard papers`."""
    size: Optional = None
    """One of its sizes; "base" if there is none."""
    start: Annotated[str | None, AfterValidator(lambda name: None if name in SCRATCH else name)] = (
        None
    )
    """A model folder whose facts, vocabulary and weights the run starts with."""
    source: Optional = None
    """Take the encoder from another model, "PAPER:SIZE"."""
    target: Optional = None
    """Take the decoder from another model, "PAPER:SIZE"."""
    change: dict[str, Any] = Field(default_factory=dict)
    """Facts that differ from the size: `depth = 3`, `"source.depth" = 6`."""

    @model_validator(mode="after")
    def _starts_once(self) -> "ModelConfig":
        for key in ("size", "source", "target") if self.start is not None else ():
            if getattr(self, key) is not None:
                raise ValueError(
                    f'{key} cannot be used with start, which has its own facts: {key}="" removes it'
                )
        return self

    @property
    def name(self) -> str:
        """The paper and its size."""
        return f"{self.paper}:{self.size or 'base'}"

    def check_changes(self, decided: Mapping[str, str]) -> None:
        """Refuse changes of facts that something else decides: ``decided`` says what."""
        for name in self.change:
            if (fact := name.split(".")[-1]) in decided:
                raise BadInput(f"model.change.{name} follows from {decided[fact]}")


def encoder_decoder_facts(config: ModelConfig, *, joint: bool) -> tuple[Paper, EncoderDecoder]:
    """The encoder-decoder of a recipe, but for the sizes of its vocabularies."""
    config.check_changes({"vocab": "text.vocab: set that"})
    facts = _encoder_decoder(config.name)
    if config.source is not None:
        facts = replace(facts, source=_encoder_decoder(config.source).source)
    if config.target is not None:
        facts = replace(facts, target=_encoder_decoder(config.target).target)
    facts = change(facts, **config.change)
    if facts.tie == "all" and not joint:  # two vocabularies share no vectors
        if "tie" in config.change:
            raise BadInput("text.joint=false gives two vocabularies: tie 'target' or 'none'")
        facts = change(facts, tie="target")
    return paper(config.paper), facts


def _encoder_decoder(name: str) -> EncoderDecoder:
    facts = sized(name)
    if not isinstance(facts, EncoderDecoder):
        raise BadInput(f"model: {name} is no encoder-decoder")
    return facts


def trunk_facts(
    config: ModelConfig,
    start: LoadedModel | None,
    with_heads: Callable[[TrunkWithHeads], TrunkWithHeads],
    decided: Mapping[str, str],
) -> tuple[Paper, TrunkWithHeads]:
    """The trunk of a recipe with the heads of a task, but for what depends on the data.

    ``with_heads`` replaces the heads; ``decided`` are the facts that the recipe cannot change, and
    what decides them.
    """
    config.check_changes(decided)
    if config.target is not None:
        raise BadInput("model.target: a model of this task has a source only")
    facts = sized(config.name) if start is None else start.facts
    if not isinstance(facts, TrunkWithHeads):
        raise BadInput(f"model: {config.start or config.paper} is no encoder")
    if start is None and config.source is not None:
        facts = replace(facts, trunk=sized(config.source).encoder)
    depth = facts.trunk.stack.depth
    facts = change(with_heads(facts), **config.change)
    if start is not None and (less := facts.trunk.stack.depth) < depth:
        said = f"a depth of {less} would drop layers of model.start, which has {depth}"
        raise BadInput(f"model.change: {said}")
    return (paper(config.paper) if start is None else start.paper), facts


def read_start(config: ModelConfig, data: Path) -> LoadedModel | None:
    """The folder that a recipe starts from, here or under the data root."""
    if config.start is None:
        return None
    folder = next((one for one in (Path(config.start), data / config.start) if one.is_dir()), None)
    if folder is None:
        raise BadInput(f"model.start: {config.start} is no folder, here or under {data}")
    start = _read(folder)
    if "paper" in config.model_fields_set and config.paper.lower() != start.paper.key:
        raise BadInput(f"model.paper: {config.start} holds a {start.paper.key}, no {config.paper}")
    return start


def copy_start(
    start: LoadedModel, model: nn.Module, head: str = "", outputs: Sequence[int] | None = None
) -> None:
    """Copy what the start has into a model; what it does not have stays as it was drawn.

    Of the task's ``head``, the ``outputs`` of the start that mean the same are copied, in this
    order; with None the head stays as it was drawn.
    """
    given = weights_of(start.module)
    for name, tensor in weights_of(model).items():
        if head and name.startswith(f"heads.{head}."):
            if outputs is not None:
                tensor.copy_(given[name][outputs] if ".out." in name else given[name])
        elif name in given and given[name].shape == tensor.shape:
            tensor.copy_(given[name])
        elif name.startswith("trunk."):
            raise BadInput(f"model.start: {name} there does not fit the model as changed")


@lru_cache(maxsize=1)
def _read(folder: Path) -> LoadedModel:
    """A folder, read once."""
    return folders.read(folder)
