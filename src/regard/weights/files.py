"""Tensors in files: written atomically as safetensors, read without running code."""

from collections.abc import Callable, Mapping
from pathlib import Path
from warnings import catch_warnings, filterwarnings

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.core.errors import BadInput
from regard.core.files import check_regular, read_json, replacing

DTYPES = (torch.float32, torch.float16, torch.bfloat16)  # those that float32 represents exactly
LISTED = 8  # names listed in an error


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write named tensors, which must not share storage."""
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        with replacing(path) as temporary:
            save_file(contiguous, temporary, metadata={"format": "pt"})
    except SafetensorError as error:
        raise BadInput(f"{path}: cannot be written ({error})") from None


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read the named tensors of a safetensors file."""
    check_regular(path)
    try:
        return load_file(path)
    except (OSError, MemoryError, SafetensorError) as error:
        raise BadInput(f"{path}: cannot be read as safetensors ({error}); copy it again") from None


def read_pickled(path: Path) -> dict[str, Tensor]:
    """The named tensors of a pytorch_model.bin, by torch's restricted unpickler.

    On a damaged file it raises exceptions of any type. Its warnings about pickle protocols are
    ignored: a protocol that it cannot read is an error.
    """
    check_regular(path)
    try:
        with catch_warnings():
            filterwarnings("ignore", "Detected pickle protocol")
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        reason = str(error).split("\n")[0].split(". ")[0]
        raise BadInput(f"{path}: is damaged or holds more than tensors ({reason})") from None
    if not isinstance(content, dict):
        raise BadInput(f"{path}: does not hold a dictionary of named tensors")
    for name, tensor in content.items():
        plain = isinstance(tensor, Tensor) and tensor.layout == torch.strided
        if not isinstance(name, str) or not plain or tensor.device.type != "cpu":
            raise BadInput(f"{path}: {name!r} is not a plain tensor")
    return {name: tensor.detach() for name, tensor in content.items()}


READERS = {"model.safetensors": read_tensors, "pytorch_model.bin": read_pickled}


def read_folder(folder: Path) -> dict[str, Tensor]:
    """Read the named tensors of a folder, in one file or in parts that an index lists."""
    for name, reader in READERS.items():
        index = folder / f"{name}.index.json"
        if (folder / name).exists():
            return reader(folder / name)
        if index.exists():
            return _read_parts(index, reader)
    raise BadInput(f"{folder}: has no weights ({', '.join(READERS)} or an index of parts)")


def _read_parts(index: Path, reader: Callable[[Path], dict[str, Tensor]]) -> dict[str, Tensor]:
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict):
        raise BadInput(f"{index}: has no weight_map")
    for file in places.values():
        if not isinstance(file, str) or Path(file).name != file:
            raise BadInput(f"{index}: {file!r} is not a file of its folder")
    tensors: dict[str, Tensor] = {}
    for file in dict.fromkeys(map(str, places.values())):
        part = reader(index.parent / file)
        expected = [name for name, place in places.items() if place == file]
        refuse_misfits(
            f"{index.parent / file}",
            missing=[name for name in expected if name not in part],
            unknown=[name for name in part if name not in expected],
        )
        tensors |= part
    return tensors


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Tensors of a model by name; a tied tensor only under its first name."""
    tensors = model.state_dict(keep_vars=True)
    first = {id(tensor): name for name, tensor in reversed(tensors.items())}
    return {name: value.detach() for name, value in tensors.items() if first[id(value)] == name}


def load_weights(model: nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
    """Copy tensors into a model; an error lists missing, unknown and misfitting tensors."""
    expected = weights_of(model)
    known = {name: tensors[name] for name in expected if name in tensors}
    refuse_misfits(
        where,
        missing=[name for name in expected if name not in tensors],
        unknown=[name for name in tensors if name not in expected],
        misshapen=misshapen(known, expected),
        mistyped=[
            f"{name} is {tensor.dtype}, not {expected[name].dtype}".replace("torch.", "")
            for name, tensor in known.items()
            if tensor.dtype not in (*DTYPES, expected[name].dtype)
        ],
    )
    for name, tensor in expected.items():
        tensor.copy_(tensors[name])


def misshapen(tensors: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> list[str]:
    """A line for each tensor whose shape differs from the tensor of its name in ``like``."""
    shapes = ((name, [*tensors[name].shape], [*like[name].shape]) for name in tensors)
    return [f"{name} is {shape}, not {right}" for name, shape, right in shapes if shape != right]


def refuse_misfits(where: str, advice: str = "", **faults: list[str]) -> None:
    """Raise an error that lists the tensors that do not fit, by fault, if there are any."""
    listed = [f"{fault}: {_listed(names)}" for fault, names in faults.items() if names]
    if listed:
        parts = "; ".join([*listed, *[advice] * bool(advice)])
        raise BadInput(f"{where}: tensors do not fit the model; {parts}")


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more
