"""A training step as a careful user of torch writes it, for all peers."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from worker import System

Step = Callable[[Any], Tensor]


def device() -> torch.device:
    """The GPU, if there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def half(place: torch.device) -> torch.autocast:
    """bf16 autocast on CUDA; fp32 on a CPU, where scripts only show that they run."""
    return torch.autocast(place.type, torch.bfloat16, enabled=place.type == "cuda")


def send(array: np.ndarray, place: torch.device) -> Tensor:
    """A copy on the device that does not wait for what the device is doing."""
    tensor = torch.from_numpy(array)
    return tensor.pin_memory().to(place, non_blocking=True) if place.type == "cuda" else tensor


def padded(rows: Sequence[np.ndarray], fill: int, multiple: int = 1) -> np.ndarray:
    """Rows as long as the longest, or the next multiple of a length."""
    longest = -(-max(map(len, rows)) // multiple) * multiple
    table = np.full((len(rows), longest), fill, dtype=np.int64)
    for line, row in zip(table, rows, strict=True):
        line[: len(row)] = row
    return table


def compiled(function: Any, mode: str | None) -> Any:
    """``function`` compiled in this mode ("" is torch's default), or as it is if there is none.

    Where there is no GPU it is only traced.
    """
    if mode is None:
        return function
    if not torch.cuda.is_available():
        return torch.compile(function, backend="aot_eager")
    return torch.compile(function, mode=mode or None)


def compile_layers(*stacks: Iterable[nn.Module]) -> None:
    """Compile the layers of ``stacks`` for any length: one graph serves all layers of a stack."""
    import torch.fx.experimental._config

    torch.fx.experimental._config.use_duck_shape = False  # lengths that are equal once may differ
    for layer in (layer for stack in stacks for layer in stack):
        layer.compile(dynamic=True)


class Updates:
    """Clipping, and torch's fused Adam, which decays matrices; keys as in a recipe's table."""

    def __init__(self, model: nn.Module, optimiser: dict[str, Any]):
        self.parameters, self.clip = list(model.parameters()), optimiser["clip"]  # each once
        groups = [
            {"params": [p for p in self.parameters if p.ndim >= 2]},
            {"params": [p for p in self.parameters if p.ndim < 2], "weight_decay": 0.0},
        ]
        kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[optimiser["kind"]]
        self.adam = kind(
            groups,
            lr=optimiser["rate"],
            betas=tuple(optimiser["betas"]),
            eps=optimiser["eps"],
            weight_decay=optimiser["decay"],
            fused=True,
        )

    def step(self) -> None:
        """Update the weights and reset the gradient."""
        nn.utils.clip_grad_norm_(self.parameters, self.clip)
        self.adam.step()
        self.adam.zero_grad()


def training_step(
    model: nn.Module,
    loss_of: Callable[..., Tensor],
    collate: Callable[[Any], dict[str, Tensor]],
    optimiser: dict[str, Any],
    place: torch.device,
    *,
    captured: bool = False,
) -> Step:
    """Forward under bf16 autocast, backward, and an update.

    ``captured``: the loss is replayed by CUDA graphs, which write their results to the same memory.
    """
    updates = Updates(model, optimiser)

    def step(batch: Any) -> Tensor:
        inputs = collate(batch)
        if captured:
            torch.compiler.cudagraph_mark_step_begin()
        with half(place):
            loss = loss_of(**inputs)
        loss.backward()
        updates.step()
        return loss.detach().clone() if captured else loss.detach()

    return step


def rounds_over(step: Step, batches: Sequence[Any], **remarks: Any) -> System:
    """The system whose round is a step for each batch."""
    return System(lambda: [step(batch) for batch in batches], {"batches": len(batches), **remarks})
