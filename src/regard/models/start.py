"""The model that a run starts from: read, reduced to some layers, copied whole or in parts."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from regard.core.errors import BadInput, did_you_mean
from regard.core.files import is_there
from regard.models.embedding import EmbeddingModule
from regard.models.encoder_decoder import ModelFacts, ModelModule
from regard.models.facts import change, difference
from regard.models.folders import folder as folders
from regard.models.folders.hub import fetch, is_hub_id
from regard.models.folders.loaded_model import LoadedModel
from regard.models.model_tables import EVERY_SECOND, ModelConfig, StartConfig
from regard.models.paper import Paper
from regard.models.papers import paper, sized
from regard.models.pools import AnyPool
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.weights.files import load_weights, refuse_misfits, weights_of

OUTPUTS = r"heads\.(next_token|permutation_lm|(mlm|span_boundary)\.out)"
BY_TOKEN = re.compile(rf"(trunk\.embed\.token|{OUTPUTS})\.(weight|bias)").fullmatch
TOKEN_WEIGHT = re.compile(r".*\.embed\.token\.weight").fullmatch
BLOCK = re.compile(r"trunk\.blocks\.(\d+)\.")


def read_start(config: ModelConfig, data: Path) -> LoadedModel | None:
    """Read the model that a recipe starts from; None if it starts from scratch or from parts.

    With ``layers``, it has only these layers; with another ``paper``, it is converted.
    """
    if config.start is None or config.start.parts:
        return None
    start = read_folder(config.start, data)
    if "paper" in config.model_fields_set and config.paper.lower() != start.paper.key:
        start = _as_paper(start, paper(config.paper), config.start.folder)
    if config.layers == "all":
        return start
    return select_layers(start, config.layers)


def read_folder(start: StartConfig, data: Path) -> LoadedModel:
    """Read the model of a start: a local folder, a folder under the data root, or a hub id."""
    return read_model("model.start", start.folder, data, hub=True)


def read_model(key: str, name: str, data: Path, *, hub: bool = False) -> LoadedModel:
    """Read the model that ``key`` of a recipe names: a folder, local or under the data root.

    With ``hub``, the name may also be an id of the Hugging Face hub.
    """
    places = (path for path in (Path(name), data / name) if is_there(path))
    folder = next((path for path in places if path.is_dir()), None)
    if folder is None and hub and is_hub_id(name):
        try:
            folder = fetch(name)
        except BadInput as error:
            raise BadInput(f"{key}: {error}") from None
    if folder is None:
        raise BadInput(f"{key}: {name} is no folder, here or under {data}")
    return _read(folder)


def select_layers(model: LoadedModel, layers: Sequence[int] | str) -> LoadedModel:
    """Reduce a model to these layers, in this order (Sanh et al., 2019, section 3).

    "every second" selects the layers 0, 2, 4, ….
    """
    stack = model.facts.encoder.stack
    if not stack.attends or stack.blocks != stack.depth:
        raise BadInput(
            "model.layers: model.start must be a Transformer whose layers share no weights"
        )
    chosen = [*range(0, stack.depth, 2)] if layers == EVERY_SECOND else [*map(int, layers)]
    if wrong := [number for number in chosen if number >= stack.depth]:
        last = stack.depth - 1
        raise BadInput(f"model.layers: no layer {wrong[0]} in model.start, which has 0 to {last}")
    return _rebuilt(model, model.paper, change(model.facts, depth=len(chosen)), chosen)


def _as_paper(start: LoadedModel, of: Paper, name: str) -> LoadedModel:
    """Convert the start to a model of a paper that leaves out parts of it: DistilBERT from BERT.

    Both have the same layers, except dropout, and the same tokenizer; the paper may lack segments,
    and the pool with its heads. Dropout rates that the start does not set are the paper's.
    """
    ours, theirs = (cast(TrunkWithHeads, sized(key)) for key in (of.key, start.paper.key))
    unlike = difference(ours.encoder.stack, theirs.encoder.stack)
    facts = cast(TrunkWithHeads, start.facts)
    if not (
        of.after == start.paper.name
        and of.tokenizer == start.paper.tokenizer
        and facts.sides == ours.sides == TrunkWithHeads.sides
        and not ours.encoder.embed.reads_images
        and {name for name in unlike if "drop" not in name} <= {"depth"}
        and (ours.pool is None or facts.pool is not None)
    ):
        raise BadInput(
            f"model.paper: {name} holds a model of {start.paper.name}, not of {of.name}; "
            f'set model.paper = "{start.paper.key}"'
        )
    heads = tuple(head for head in facts.output_heads if ours.pool is not None or not head.per_row)
    unset = [name for name in unlike if getattr(facts.trunk.stack, name) is None]
    dropout = {name: getattr(ours.trunk.stack, name) for name in unset if "drop" in name}
    trunk = change(facts.trunk, segments=ours.trunk.embed.segments, **dropout)
    pool = kept_pool(facts) or ours.pool
    return _rebuilt(start, of, replace(facts, trunk=trunk, pool=pool, output_heads=heads))


def kept_pool(facts: TrunkWithHeads) -> AnyPool | None:
    """The pool of a start, if it does not read first tokens: it replaces a paper's pool."""
    return None if facts.pool is None or facts.pool.first_read else facts.pool


def _rebuilt(
    model: LoadedModel, of: Paper, facts: ModelFacts, layers: Sequence[int] | None = None
) -> LoadedModel:
    """A model of these facts with the weights of another, or of the listed layers."""

    def original(name: str) -> str:
        if layers is None:
            return name
        return BLOCK.sub(lambda match: f"trunk.blocks.{layers[int(match[1])]}.", name)

    old = weights_of(model.module)
    with torch.random.fork_rng(devices=[]):  # the weights of a run are drawn as without a start
        module = facts.build().eval()
    weights = {name: old[original(name)] for name in weights_of(module)}
    load_weights(module, weights, "model.start")
    labels = model.labels if facts.sizes["labels"] else None
    return replace(
        model, paper=of, facts=facts, module=module, labels=labels, notes={}, extras=None
    )


def copy_start(
    start: LoadedModel,
    model: nn.Module,
    head: str = "",
    outputs: Sequence[int] | None = None,
    tokens: Sequence[int | None] | None = None,
) -> None:
    """Copy the weights of the start into a model; weights that it lacks keep their initial values.

    If the model has another vocabulary, ``tokens`` are the start's ids of its tokens. In the task's
    ``head``, only the given ``outputs`` of the start are copied, in this order; None: no outputs.
    """
    source = weights_of(start.module)
    before, after = (cast(ModelModule, module).encoder.embed for module in (start.module, model))
    source |= {f"trunk.embed.{name}": x for name, x in before.resampled(after).items()}
    for name, tensor in weights_of(model).items():
        old = source.get(name)
        if head and name.startswith(f"heads.{head}."):
            if outputs is not None and old is not None:  # a head may have taken another form
                tensor.copy_(old[outputs] if ".out." in name else old)
            continue
        if old is not None and BY_TOKEN(name):
            old = old if tokens is None else select_tokens(old, tokens)
            tensor = tensor[: len(old)]  # tokens that the model adds come last
        if old is not None and old.shape == tensor.shape:
            tensor.copy_(old)
        elif name.startswith(("trunk.", "source.", "target.")):
            is_missing = "is missing in the folder, but part of"
            fault = is_missing if old is None else "has another shape in"
            raise BadInput(f"model.start: {name} {fault} the model after model.change")


def select_tokens(vectors: Tensor, tokens: Sequence[int | None]) -> Tensor:
    """Select the vectors of these tokens; None selects the mean of all (Howard & Ruder, 2018)."""
    known = {number: token for number, token in enumerate(tokens) if token is not None}
    selected = vectors.mean(0).repeat(len(tokens), *[1] * (vectors.ndim - 1))
    selected[[*known]] = vectors[[*known.values()]]
    return selected


@torch.no_grad()
def copy_parts(start: StartConfig, module: nn.Module, model: nn.Module) -> tuple[str, ...]:
    """Copy parts of the module of a start into parts of a model; return a description of them."""
    ours, theirs = model.state_dict(), module.state_dict()
    for part, other in start.parts.items():
        known = f"the model of {start.folder}"
        source, target = _part(theirs, other, known), _part(ours, part, "this model")
        refuse_misfits(
            f"model.start.parts: {part} = {other} of {start.folder}",
            missing=[f"{other}{name}" for name in target if name not in source],
            unknown=[f"{other}{name}" for name in source if name not in target],
            misshapen=[
                f"{other}{name} is {[*source[name].shape]}, not {[*tensor.shape]}"
                for name, tensor in target.items()
                if name in source and source[name].shape != tensor.shape
            ],
        )
        for name, tensor in target.items():
            _check_scales((model, f"{part}{name}"), (module, f"{other}{name}"))
            tensor.copy_(source[name])
    pairs = (f"{part} begins with {other}" for part, other in start.parts.items())
    return (f"{', '.join(pairs)} of {start.folder}",) if start.parts else ()


def _check_scales(*weights: tuple[nn.Module, str]) -> None:
    """Raise BadInput if the two models scale token vectors by different factors."""
    names = [name for _, name in weights]
    if all(map(TOKEN_WEIGHT, names)):
        places = ((model, name.removesuffix(".token.weight")) for model, name in weights)
        owners = [cast(EmbeddingModule, model.get_submodule(name)) for model, name in places]
        ours, theirs = (owner.scale for owner in owners)
        if ours != theirs:
            raise BadInput(
                f"model.start.parts: {names[0]} is multiplied by {ours:.4g} where it is read, and "
                f"{names[1]} by {theirs:.4g}: set model.change.scaled = {str(theirs > 1).lower()}"
            )


def _part(weights: Mapping[str, Tensor], part: str, where: str) -> dict[str, Tensor]:
    """Weights of a part, by their names without its prefix; a part may be a single weight."""
    named = {
        name.removeprefix(part): tensor
        for name, tensor in weights.items()
        if f"{name}.".startswith(f"{part}.")
    }
    if not named:
        known = {*_parts(weights)}
        fault = f"{where} has no weights called {part!r}"
        raise BadInput(f"model.start.parts: {fault}{did_you_mean(part, known)}")
    return named


def _parts(weights: Mapping[str, Tensor]) -> Iterator[str]:
    """The names of all modules with weights."""
    for name in weights:
        steps = name.split(".")
        yield from (".".join(steps[:count]) for count in range(1, len(steps)))


@lru_cache(maxsize=2)
def _read(folder: Path) -> LoadedModel:
    """Read a folder; cached, as a start and a teacher may be the same."""
    return folders.read(folder)


def hold_at_zero(vectors: nn.Embedding, number: int) -> None:
    """Set the vector of an id to zero, and its gradient at every step of training.

    A decoder of Marian begins with a zero vector; the id that stands for it is used for nothing
    else.
    """
    with torch.no_grad():
        vectors.weight[number] = 0

    def masked(grad_VD: Tensor) -> Tensor:
        grad_VD = grad_VD.clone()
        grad_VD[number].zero_()
        return grad_VD

    vectors.weight.register_hook(masked)
