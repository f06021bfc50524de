"""Groups of layers, for layer-wise learning rates, gradual unfreezing and freezing."""

import re
from collections.abc import Iterable

from torch import nn

from regard.ground.errors import BadInput, did_you_mean

FROZEN = re.compile(r"(\w+\.)*?frozen\.")  # a model that gives features
EMBEDDING = re.compile(r"(\w+\.)*?embed\.")
BLOCK = re.compile(r"(?P<side>(\w+\.)*?)(layers\.)?(blocks|layers)\.(?P<number>\d+)\.")


def layer_groups(model: nn.Module) -> list[list[nn.Parameter]]:
    """The parameters of a model by group, the lowest first.

    All embeddings are the lowest group. Every block is a group, those of the target above those of
    the source; other parameters of a side belong to its last block. Pooling and heads are the
    highest group. A frozen model that gives features is in none.
    """
    named = [(name, one) for name, one in model.named_parameters() if not FROZEN.match(name)]
    blocks = dict.fromkeys(block for name, _ in named if (block := _block(name)) is not None)
    numbers = {block: number for number, block in enumerate(blocks, start=1)}
    last = {side: number for (side, _), number in numbers.items() if side}
    levels: list[list[nn.Parameter]] = [[] for _ in range(len(numbers) + 2)]
    for name, parameter in named:
        if EMBEDDING.match(name):
            level = 0
        elif (block := _block(name)) is not None:
            level = numbers[block]
        else:
            sides = (number for side, number in last.items() if name.startswith(side))
            level = next(sides, len(levels) - 1)
        levels[level].append(parameter)
    return [level for level in levels if level]


def freeze(model: nn.Module, names: Iterable[str]) -> None:
    """Freeze all parameters whose dotted names contain one of ``names`` as whole parts."""
    every = list(model.named_parameters(remove_duplicate=False))
    for name in names:
        chosen = [one for full, one in every if f".{name}." in f".{full}."]
        if not chosen:
            wrong = did_you_mean(name, _parts(full for full, _ in every))
            raise BadInput(f"optimiser.freeze: no weights are called {name!r}{wrong}")
        for parameter in chosen:
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise BadInput("optimiser.freeze: all weights are frozen")


def _block(name: str) -> tuple[str, str] | None:
    match = BLOCK.match(name)
    return None if match is None else (match["side"], match["number"])


def _parts(names: Iterable[str]) -> list[str]:
    """The parts of parameter names, blocks with their numbers."""
    steps = {step for name in names for step in re.findall(r"[a-z_]+(?:\.\d+)?", name)}
    return sorted(steps - {"weight", "bias"})
