"""Norms and activations whose scale is frozen, so that a logit is linear in what layers write.

Between the output of a head and a logit there are sums, linear layers, norms and, in some output
heads, activations. ``FrozenScales`` divides by the scale of each norm as by a constant, and
multiplies the input z of each activation f by the constant f(z) / z. The values of the run are
unchanged; its gradients are a linear map's (Elhage et al., 2021, "A Mathematical Framework
for Transformer Circuits": the norm of the last state is fixed).
"""

from collections.abc import Callable, Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode


class FrozenScales(TorchFunctionMode):
    """Mode of torch under which norms and activations are linear around the values of the run.

    ``scales`` has the constants in the order of the run. A second run with ``FrozenScales(scales)``
    uses them in place of its own, so that it is a linear function of what it adds up.
    """

    def __init__(self, scales: Sequence[Tensor] | None = None):
        super().__init__()
        self.scales: list[Tensor] = []
        self._replayed: Iterator[Tensor] | None = None if scales is None else iter(scales)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in NORMS:
            return NORMS[func](self, *args, **kwargs)
        if func in ACTIVATIONS:
            return self._activate(func, *args, **kwargs)
        if func in GATES:
            return self.hold(lambda: func(*args, **kwargs))
        return func(*args, **kwargs)

    def hold(self, compute: Callable[[], Tensor]) -> Tensor:
        """A constant of this run, or of the run whose constants are replayed."""
        scale = compute().detach() if self._replayed is None else next(self._replayed)
        self.scales.append(scale)
        return scale

    def _activate(self, func: Callable[..., Tensor], z: Tensor, **options: object) -> Tensor:
        return z * self.hold(lambda: torch.where(z == 0, 0, func(z, **options) / z))

    def layer_norm(
        self,
        x: Tensor,
        shape: Sequence[int],
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        eps: float = 1e-5,
    ) -> Tensor:
        """Layer norm with a constant standard deviation; the mean is linear as it is."""
        centred = x - x.mean(_last(shape), keepdim=True)
        normed = self._scaled(centred, shape, eps, weight)
        return normed if bias is None else normed + bias

    def rms_norm(
        self,
        x: Tensor,
        shape: Sequence[int],
        weight: Tensor | None = None,
        eps: float | None = None,
    ) -> Tensor:
        """Root-mean-square norm with a constant root mean square."""
        return self._scaled(x, shape, torch.finfo(x.dtype).eps if eps is None else eps, weight)

    def _scaled(self, x: Tensor, shape: Sequence[int], eps: float, weight: Tensor | None) -> Tensor:
        squares = x.float() if x.itemsize < 4 else x
        scale = self.hold(
            lambda: torch.rsqrt(squares.square().mean(_last(shape), keepdim=True) + eps)
        )
        normed = x * scale.to(x.dtype)
        return normed if weight is None else normed * weight


def _last(shape: Sequence[int]) -> tuple[int, ...]:
    """The axes that a norm is taken over."""
    return tuple(range(-len(shape), 0))


NORMS: dict[Callable[..., Tensor], Callable[..., Tensor]] = {
    F.layer_norm: FrozenScales.layer_norm,
    F.rms_norm: FrozenScales.rms_norm,
}
ACTIVATIONS = frozenset({F.gelu, F.relu, F.silu, torch.tanh, torch.relu})
GATES = frozenset({torch.sigmoid})
"""Functions whose value multiplies their input: x · sigmoid(1.702 x) is linear with it fixed."""
