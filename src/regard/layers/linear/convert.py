"""Convert a model for inference in another precision; on a CPU by converting linear layers."""

import copy
from collections.abc import Callable, Collection

import torch
from torch import nn

from regard.core.errors import BadInput
from regard.core.machine import has, has_bf16, instruction_set
from regard.layers.linear import int8, packed
from regard.layers.linear.int8 import Int8Linear
from regard.layers.linear.packed import HalfLinear, PackedLinear

LAYERS: dict[str, Callable[[nn.Linear], nn.Module]] = {
    "int8": Int8Linear,
    "fp32": PackedLinear,
    "bf16": HalfLinear,
}


def convert(module: nn.Module, kind: str, *, but_for: Collection[nn.Module] = ()) -> nn.Module:
    """Copy for inference whose linear layers run in ``kind``: "int8", "fp32" or "bf16".

    Everything else, including embeddings, is shared with ``module``; a head tied to an embedding
    becomes a layer of its own. Layers in ``but_for`` are not converted, nor are empty ones, of
    attention whose heads were all removed. ``describe_products`` names the matrix products in use.
    """
    describe_products(kind)
    for parameter in module.parameters():
        if parameter.device.type != "cpu":
            raise BadInput(f"precision {kind} needs a CPU, but the model is on {parameter.device}")
    same = (*module.parameters(), *module.buffers(), *but_for)
    shared: dict[int, object] = {id(value): value for value in same}
    copied = copy.deepcopy(module, shared)
    converted: dict[nn.Module | None, nn.Module] = {
        layer: LAYERS[kind](layer)
        for layer in copied.modules()
        if isinstance(layer, nn.Linear) and layer.weight.numel() and layer not in but_for
    }
    for parent in list(copied.modules()):
        for name, child in parent._modules.items():
            if child in converted:
                setattr(parent, name, converted[child])
    return converted.get(copied, copied).eval()


def in_precision(module: nn.Module, kind: str, *, but_for: Collection[nn.Module] = ()) -> nn.Module:
    """Model for inference only, in "fp32", "bf16", "int8" (on a CPU) or "auto".

    "auto" is bf16 on a GPU that has it, else fp32.
    """
    if products_in_use(module) is not None:
        raise BadInput(f"precision {kind}: the model has been converted already")
    device = next(module.parameters()).device
    chosen = chosen_precision(kind, device)
    if device.type == "cpu":
        return convert(module, chosen, but_for=but_for)
    return ON_GPU[chosen](module)


def chosen_precision(kind: str, device: torch.device) -> str:
    """Precision that ``kind`` means on a device; BadInput if the device does not support it."""
    on_cpu = device.type == "cpu"
    chosen = {"auto": "bf16" if not on_cpu and has_bf16(device) else "fp32"}.get(kind, kind)
    if on_cpu:
        describe_products(chosen)
    elif chosen not in ON_GPU:
        raise BadInput(f"precision {kind}: a GPU supports {' and '.join(ON_GPU)}")
    return chosen


def products_in_use(module: nn.Module) -> str | None:
    """Description of the matrix products of a converted model; None for other models."""
    types = {type(layer) for layer in module.modules()}
    return next((describe_products(kind) for kind, layer in LAYERS.items() if layer in types), None)


def describe_products(kind: str) -> str:
    """Description of this machine's matrix products in a precision; BadInput if unsupported."""
    described = PRODUCTS.get(kind)
    if described is None:
        raise BadInput(f"precision must be {', '.join(LAYERS)} or auto, not {kind!r}")
    return described()


def _int8_products() -> str:
    few, many = int8.products()
    slow = "" if int8.is_fast() else f"; fp32 is faster with {instruction_set()}"
    if few is int8.Floats and not slow and has("vnni"):
        slow = f"; fp32 is faster: fbgemm of torch {torch.__version__} is not exact"
    return f"int8: {few.name} up to {int8.FEW} rows, {many.name} beyond{slow}"


def _fp32_products() -> str:
    many = "oneDNN, packed" if packed.can_pack(torch.float32) else "torch"
    rows = f"{packed.FEW} rows ({packed.FEW_WIDE} for the output layer)"
    return f"fp32: torch up to {rows}, {many} beyond"


def _bf16_products() -> str:
    if not packed.can_pack(torch.bfloat16):
        raise BadInput("bf16: the CPU has no fast products in bf16; use fp32 or int8")
    return "bf16: oneDNN, packed"


PRODUCTS = {"int8": _int8_products, "fp32": _fp32_products, "bf16": _bf16_products}
ON_GPU: dict[str, Callable[[nn.Module], nn.Module]] = {
    "fp32": lambda module: module,
    "bf16": lambda module: copy.deepcopy(module).bfloat16(),
}
