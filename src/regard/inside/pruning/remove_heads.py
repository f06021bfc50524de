"""Removal of attention heads: a smaller model with the outputs of one whose heads are masked."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

import torch
from torch import Tensor

from regard.core.errors import BadInput, did_you_mean
from regard.inference.model_runner import ModelRunner
from regard.layers.attention import HeadsModule
from regard.models.attention_site import AttentionSite
from regard.models.edits import HeadOff
from regard.models.encoder_decoder import ModelFacts
from regard.models.facts import change, paths
from regard.models.folders.loaded_model import LoadedModel, build_facts
from regard.weights.files import load_weights, weights_of

FACTS = {"self": "heads_by_layer", "cross": "cross_heads_by_layer"}
"""Facts with the number of heads of each layer, by the kind of attention."""

NUMBERS = "head_numbers"
"""Note of a model: the numbers that the heads of each layer had before any was removed."""


class Head(NamedTuple):
    """An attention head: the name of its site, its layer and its number, from 0."""

    site: str
    layer: int
    number: int


def heads_of(site: AttentionSite) -> list[Head]:
    """All heads of a site."""
    counts = enumerate(site.heads)
    return [Head(site.name, layer, number) for layer, count in counts for number in range(count)]


def count_heads(facts: ModelFacts) -> int:
    """Number of attention heads of a model."""
    return sum(len(heads_of(site)) for site in facts.attention_sites)


def prunable_sites(facts: ModelFacts, names: Sequence[str] = ()) -> list[AttentionSite]:
    """Sites of these names whose heads can be removed; default: all such sites.

    A site that is named and whose heads cannot be removed is an error, and so is a model without
    any such site.
    """
    known = {site.name: site for site in facts.attention_sites}
    for name in names:
        if name not in known:
            hint = did_you_mean(name, [*known]) or f"; it has: {', '.join(known) or 'none'}"
            raise BadInput(f"sites: this model has no attention called {name!r}{hint}")
    obstacles = {name: _obstacle(facts, known[name]) for name in names or known}
    possible = [known[name] for name, obstacle in obstacles.items() if obstacle is None]
    faults = [f"{name}: {obstacle}" for name, obstacle in obstacles.items() if obstacle]
    if faults and (names or not possible):
        raise BadInput(f"heads cannot be removed; {'; '.join(faults)}")
    if not possible:
        raise BadInput("this model has no attention heads to remove")
    return possible


def _obstacle(facts: ModelFacts, site: AttentionSite) -> str | None:
    """Reason why heads of a site cannot be removed; None: they can."""
    try:
        _with_counts(facts, site, site.heads)
    except BadInput as error:
        return str(error)
    return None


def head_counts(facts: ModelFacts) -> dict[str, tuple[int, ...]]:
    """Heads of each layer of the sites that can be pruned, as a recipe says it: `model.change`."""
    return {_counts_path(site): site.heads for site in prunable_sites(facts)}


def _counts_path(site: AttentionSite) -> str:
    return f"{site.side}.stack.{FACTS.get(site.kind, '')}"


def _with_counts(facts: ModelFacts, site: AttentionSite, counts: Sequence[int]) -> ModelFacts:
    """Facts with other numbers of heads of a site."""
    path = _counts_path(site)
    if path not in dict(paths(facts)):
        raise BadInput("only layers of a Transformer can differ in their heads")
    return change(facts, **{path: tuple(counts)})


def turn_off(model: ModelRunner, heads: Iterable[Head]) -> ModelRunner:
    """The model with the outputs of these heads set to 0; others keep their numbers."""
    paths_of = {site.name: site.tape_path for site in model.sites}
    edits = [HeadOff(paths_of[head.site].format(layer=head.layer), head.number) for head in heads]
    return model.edited(edits)


def remove_heads(model: LoadedModel, heads: Iterable[Head]) -> LoadedModel:
    """Copy of a model without these heads.

    The copy has the outputs of the model with the outputs of these heads set to 0. The note
    "head_numbers" keeps the former numbers of the heads that stay.
    """
    removed = defaultdict[str, set[tuple[int, int]]](set)
    for head in heads:
        removed[head.site].add((head.layer, head.number))
    facts, tensors = model.facts, weights_of(model.module)
    numbers = dict(model.notes.get(NUMBERS, {}))
    for site in prunable_sites(facts, [*removed]) if removed else ():
        kept = _kept(site, removed[site.name])
        facts = _with_counts(facts, site, [*map(len, kept)])
        before = numbers.get(site.name, [[*range(count)] for count in site.heads])
        numbers[site.name] = [
            [old[number] for number in own] for old, own in zip(before, kept, strict=True)
        ]
        for layer, own in enumerate(kept):
            path = site.tape_path.format(layer=layer)
            attention = cast(HeadsModule, model.module.get_submodule(path))
            tensors |= _select(tensors, path, attention, own)
    first = next(model.module.parameters())
    module = build_facts(facts, first.device, "a model with fewer heads").to(first.dtype)
    load_weights(module, tensors, "a model with fewer heads")
    notes = _still_valid(model.notes, removed) | ({NUMBERS: numbers} if numbers else {})
    return replace(model, facts=facts, module=module.eval(), notes=notes)


def _kept(site: AttentionSite, removed: Collection[tuple[int, int]]) -> list[list[int]]:
    """Numbers of the heads of each layer that stay."""
    known = {head[1:] for head in heads_of(site)}
    for layer, number in removed:
        if (layer, number) not in known:
            raise BadInput(f"{site.name}: there is no head {number} in layer {layer}")
    counts = enumerate(site.heads)
    return [[n for n in range(count) if (layer, n) not in removed] for layer, count in counts]


def _select(
    tensors: dict[str, Tensor], path: str, attention: HeadsModule, kept: Sequence[int]
) -> dict[str, Tensor]:
    """Tensors of an attention layer with these heads only."""
    heads = attention.heads
    sizes = {"q": [heads.key], "kv": [heads.key, heads.value]}
    sizes["qkv"] = [*sizes["q"], *sizes["kv"]]
    selected = {}
    for name, of_parts in sizes.items():
        rows = _places(kept, heads.count, of_parts)
        for kind in ("weight", "bias"):
            if (full := f"{path}.{name}.{kind}") in tensors:
                selected[full] = tensors[full][rows.to(tensors[full].device)]
    output = tensors[f"{path}.o.weight"]
    columns = _places(kept, heads.count, [heads.value]).to(output.device)
    return {**selected, f"{path}.o.weight": output[:, columns]}


def _places(kept: Sequence[int], count: int, sizes: Sequence[int]) -> Tensor:
    """Places of these heads in a tensor with parts of ``count`` heads, of these sizes each."""
    starts = [count * sum(sizes[:part]) for part in range(len(sizes))]
    places = [
        start + number * size + place
        for start, size in zip(starts, sizes, strict=True)
        for number in kept
        for place in range(size)
    ]
    return torch.tensor(places, dtype=torch.long)


def _still_valid(
    notes: dict[str, object], removed: dict[str, set[tuple[int, int]]]
) -> dict[str, object]:
    """Notes without an alignment method whose head, or all heads of whose layer, may be gone."""
    return {name: notes[name] for name in notes if name != "alignment" or not removed.get("cross")}
