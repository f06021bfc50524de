"""The precision of matrix products: chosen by what the device is, and stored in checkpoints."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace

import torch

from regard.core.errors import BadInput
from regard.core.machine import has_bf16, has_bf16_units

CHOOSE = "use train.precision=fp32 or auto"
RESUME = "resume on a machine with bf16, or start again in another folder"


@dataclass(frozen=True)
class Precision:
    """Precision of a run: ``kind``, "fp32" or "bf16" (with weights in fp32), and the reason
    ``why``.
    """

    kind: str
    why: str

    @property
    def is_bf16(self) -> bool:
        """Whether products are in bf16."""
        return self.kind == "bf16"

    def context(self, device: torch.device) -> AbstractContextManager:
        """The context of the forward pass."""
        return torch.autocast(device.type, torch.bfloat16, enabled=self.is_bf16)

    @contextmanager
    def tf32_beside_bf16(self) -> Iterator[None]:
        """Allow TF32 for fp32 products of a step in bf16, and for no others.

        These are products of layers that stay in fp32, such as recurrent ones. cuDNN would use TF32
        in fp32, too: it may only where the caller has allowed it for products.
        """
        matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
        before = matmul.allow_tf32, cudnn.allow_tf32
        matmul.allow_tf32 = cudnn.allow_tf32 = before[0] or self.is_bf16
        try:
            yield
        finally:
            matmul.allow_tf32, cudnn.allow_tf32 = before


def checked_precision(kind: str, device: torch.device, why: str, advice: str = CHOOSE) -> Precision:
    """Return the requested precision; refuse bf16 on a device that would emulate it."""
    precision = Precision(kind, why)
    if precision.is_bf16 and not has_bf16(device):
        raise BadInput(
            f"precision bf16 ({why}): the {_name(device)} has no fast products in bf16; {advice}"
        )
    return precision


def choose(requested: str, device: torch.device) -> Precision:
    """The requested precision; for "auto", bf16 where the device has units for its products.

    The choice depends on the device alone, so that a recipe has the same weights however busy the
    machine is.
    """
    if requested != "auto":
        return checked_precision(requested, device, "as asked")
    if has_bf16_units(device):
        return Precision("bf16", f"the {_name(device)} has units for it")
    return Precision("fp32", f"the {_name(device)} has no units for bf16")


def kept_precision(kind: str, requested: str, device: torch.device) -> Precision:
    """The precision of an interrupted run, also where "auto" would be another one today."""
    earlier = checked_precision(kind, device, "as before", RESUME)
    now = choose(requested, device) if requested == "auto" else earlier
    if now.is_bf16 != earlier.is_bf16:
        return replace(earlier, why=f"{earlier.why}; here auto is {now.kind}: {now.why}")
    return earlier


def _name(device: torch.device) -> str:
    return "GPU" if device.type == "cuda" else "CPU"
