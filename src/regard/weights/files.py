"""Tensors in safetensors files: written whole or not at all, read without running code."""

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.ground.errors import BadInput
from regard.ground.files import replacing

LISTED = 8  # names shown of those that do not fit


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write named tensors; each must have its own memory."""
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        with replacing(path) as temporary:
            save_file(contiguous, temporary, metadata={"format": "pt"})
    except SafetensorError as error:
        raise BadInput(f"{path}: cannot be written ({error})") from None


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The named tensors of a file."""
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise BadInput(f"{path}: cannot be read as safetensors ({error})") from None


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """A model's tensors by name, a tied one only under its first name."""
    tensors: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            tensors[name] = tensor.detach()
    return tensors


def load_weights(model: nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
    """Put tensors into a model. All must fit and none may be missing: what does not is listed."""
    wanted = weights_of(model)
    misshapen = [
        f"{name} is {list(tensors[name].shape)}, not {list(wanted[name].shape)}"
        for name in wanted
        if name in tensors and tensors[name].shape != wanted[name].shape
    ]
    faults = {
        "missing": [name for name in wanted if name not in tensors],
        "unknown": [name for name in tensors if name not in wanted],
        "misshapen": misshapen,
    }
    said = [f"{fault}: {_listed(names)}" for fault, names in faults.items() if names]
    if said:
        raise BadInput(f"{where}: tensors do not fit the model; {'; '.join(said)}")
    for name, tensor in wanted.items():
        tensor.copy_(tensors[name])


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more
