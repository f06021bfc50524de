"""Weights that depend on names alone, and names that outlive the renaming of modules.

A canonical name is what a parameter was called when the net was first recorded. Initial draws may
come in another order after a refactoring; so every parameter is set from its canonical name.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any
from zlib import crc32

import torch
from torch import Tensor, nn

# Pattern of a name today (the whole of it) -> its canonical name, or a function of the match, as
# for ``re.sub``; the first that fits counts. Two notations are for parameters that were split or
# joined along their first axis:
#   r"(.*)\.q\.(.*)" -> r"\1.qkv.\2[0/3]"              this is the first third of one that was whole
#   r"(.*)\.qkv\.(.*)" -> r"\1.q.\2|\1.k.\2|\1.v.\2"   this joins three of equal size
RENAMED: list[tuple[str, Any]] = [
    (r"heads\.mlm\.(.*)", r"words.\1"),
    (r"heads\.sentence_pair\.out\.(.*)", r"follows.\1"),
    (r"heads\.\w+\.out\.(.*)", r"head.\1"),
    (r"pool\.dense\.(.*)", r"pool.\1"),
    (r"target\.combine\.(.*)", r"target.joined.\1"),
    (r"pool\.attention\.(.*)", r"pool.glance.\1"),
]
POOLED = re.compile(r"trunk\.layers\.|pool\.(?!dense)")  # in classifiers, whose trunk was a reader

END = 2  # of a translation: random models should come to one, now and then
PART = re.compile(r"(.*)\[(\d+)/(\d+)\]")


def canonical(name: str, others: Iterable[str] = ()) -> str:
    """What a parameter (or a tensor of a file), beside others, was called at first."""
    if name.startswith("trunk.") and any(map(POOLED.match, others)):
        return "reader" + name.removeprefix("trunk")
    for pattern, replacement in RENAMED:
        if re.fullmatch(pattern, name):
            return re.sub(pattern, replacement, name, count=1)
    return name


def named(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters by canonical name; one that is tied goes by the first of its names."""
    by_parameter: dict[nn.Parameter, list[str]] = {}
    parameters = dict(model.named_parameters(remove_duplicate=False))
    for name, parameter in parameters.items():
        by_parameter.setdefault(parameter, []).append(canonical(name, parameters))
    return {min(names): parameter for parameter, names in by_parameter.items()}


def value(name: str, shape: Iterable[int]) -> Tensor:
    """What a parameter of this canonical name and shape is set to."""
    shape = tuple(shape)
    if "|" in name:
        names = name.split("|")
        part = (shape[0] // len(names), *shape[1:])
        return torch.cat([value(one, part) for one in names])
    if found := PART.fullmatch(name):
        whole, index, parts = found[1], int(found[2]), int(found[3])
        return value(whole, (parts * shape[0], *shape[1:])).chunk(parts)[index]
    generator = torch.Generator().manual_seed(crc32(name.encode()))
    drawn = torch.randn(shape, generator=generator)
    if len(shape) > 1:
        fan_in = drawn[0].numel()
        return drawn * (1.5 / fan_in**0.5)  # large enough for some words to be likelier than others
    if name == "head.bias" and len(drawn) > 40:  # a vocabulary, not labels
        drawn[END] += 20
    return 1 + 0.1 * drawn if name.endswith("norm.weight") else 0.1 * drawn


@torch.no_grad()
def set_weights(model: nn.Module) -> int:
    """Set every parameter; how many had that value already (those that a model was begun with)."""
    equal = 0
    for name, parameter in named(model).items():
        wanted = value(name, parameter.shape).to(parameter)
        equal += bool(torch.equal(parameter, wanted))
        parameter.copy_(wanted)
    return equal


def as_at_first(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors by canonical name, with parts put together and joined ones taken apart."""
    found: dict[str, Tensor] = {}
    parts: dict[str, dict[int, Tensor]] = {}
    for name, tensor in tensors.items():
        if "|" in name:
            names = name.split("|")
            found |= dict(zip(names, tensor.chunk(len(names)), strict=True))
        elif part := PART.fullmatch(name):
            parts.setdefault(part[1], {})[int(part[2])] = tensor
        else:
            found[name] = tensor
    for name, pieces in parts.items():
        found[name] = torch.cat([pieces[index] for index in sorted(pieces)])
    return found


def digest(tensor: Tensor) -> list[str]:
    """What a tensor is, bit for bit (but that -0 is 0), and its norm for people to read."""
    numbers = (tensor.detach().cpu() + 0).contiguous()
    content = numbers.view(torch.uint8).numpy().tobytes() if numbers.ndim else repr(numbers.item())
    data = content if isinstance(content, bytes) else content.encode()
    return [hashlib.sha256(data).hexdigest()[:20], repr(float(numbers.double().norm()))]
