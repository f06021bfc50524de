"""Where dropout falls in a model: read from the graph of gradients of a training step.

Each dropout leaves a node in the graph of autograd. A place says what it falls on and what reads
the result: the nearest layers with weights, or other dropouts, in both directions. A connection
that passes a dropout by, such as a residual, is seen as well, for it reaches another layer. Layers
have their names in the model, without "trunk".
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.layers.dropout import Dropout, RowDropout

VIEWS = "T|Transpose|View|Expand|Permute|Unsqueeze|Squeeze|Clone|ToCopy|Slice|Split|Reshape|Unbind"
IS_VIEW = re.compile(f"(Unsafe)?({VIEWS})\\w*Backward\\d*")
LAYER = re.compile(r"(?<=blocks\.|layers\.)\d+")


class Place(NamedTuple):
    """One dropout: what it falls on, of which kind and rate it is, and what reads the result."""

    reads: tuple[str, ...]
    dropout: str
    read_by: tuple[str, ...]

    def __str__(self) -> str:
        return f"{' '.join(self.reads)} | {self.dropout} | {' '.join(self.read_by)}"


def count_places(model: nn.Module, outputs: Mapping[str, Tensor]) -> dict[str, int]:
    """How often dropout falls at each place; the first layer of a place is called i."""
    return dict(Counter(_by_layer(str(place)) for place in find_places(model, outputs)))


def _by_layer(place: str) -> str:
    first = min(map(int, LAYER.findall(place)), default=0)

    def relative(match: re.Match[str]) -> str:
        further = int(match[0]) - first
        return f"i+{further}" if further else "i"

    return LAYER.sub(relative, place)


class Mark(torch.autograd.Function):
    """A dropout that drops nothing and leaves its kind and rate in the graph."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, dropout: str) -> Tensor:
        ctx.dropout = dropout
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return gradients[0], None, None


def mark(x: Tensor, kind: str, rate: float) -> Tensor:
    """``x``, with a node in the graph even where it has no gradient."""
    if not rate or not x.numel():
        return x
    return Mark.apply(x, torch.zeros((), requires_grad=True), f"{kind} {round(rate, 6)}")


@contextmanager
def marked_dropout() -> Iterator[None]:
    """All dropout, of our layers and of torch's functions, becomes marks.

    Recurrent layers are graphs of single steps, as they are where oneDNN has no kernel for them.
    Kinds: each number of "states", of "weights" or of attention ("attention"), whole "words" of a
    vocabulary, "rows" with one mask for all tokens, the whole "path" of a row.
    """

    def drop(layer: Dropout, x: Tensor) -> Tensor:
        kind = "weights" if isinstance(x, nn.Parameter) else "words" if x.ndim == 1 else "states"
        return mark(x, kind, layer.rate) if layer.training else x

    def drop_rows(layer: RowDropout, x_TD: Tensor, layout: Any) -> Tensor:
        kind = "rows" if layer.draws(x_TD.shape[1]) == x_TD.shape[1] else "path"
        return mark(x_TD, kind, layer.rate) if layer.training else x_TD

    def drop_function(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
        return mark(x, "attention", p) if training else x

    def attend(q: Tensor, k: Tensor, v: Tensor, dropout_p: float = 0.0, **settings: Any) -> Tensor:
        assert not settings.keys() - {"scale", "attn_mask", "is_causal"}
        return mark((q @ k.mT).softmax(-1), "attention", dropout_p) @ v  # masks have no weights

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Dropout, "forward", drop)
        patch.setattr(RowDropout, "forward", drop_rows)
        patch.setattr(F, "dropout", drop_function)
        patch.setattr(F, "scaled_dot_product_attention", attend)
        patch.setattr(torch.backends.mkldnn, "enabled", False)
        yield


def find_places(model: nn.Module, outputs: Mapping[str, Tensor]) -> list[Place]:
    """All dropouts on the way to ``outputs``, computed under ``marked_dropout``."""
    names = {
        id(weight): name.rsplit(".", 1)[0].removeprefix("trunk.").replace(".trunk.", ".")
        for name, weight in model.named_parameters()
    }
    graph = Graph(names, outputs)
    return [
        Place(
            tuple(sorted(graph.names_around(node, graph.inputs))),
            node.dropout,
            tuple(sorted(graph.names_around(node, graph.readers))),
        )
        for node in graph.marks
    ]


class Graph:
    """The nodes of autograd before ``outputs``, each with the name of its layer."""

    def __init__(self, names: Mapping[int, str], outputs: Mapping[str, Tensor]):
        self.names: dict[Any, set[str]] = {}
        self.inputs: dict[Any, list[Any]] = {}
        self.readers: dict[Any, list[Any]] = {}
        self.weights = names
        for name, output in outputs.items():
            self.names[name], self.inputs[name] = {name}, [output.grad_fn]
            self.readers.setdefault(output.grad_fn, []).append(name)
        left = [output.grad_fn for output in outputs.values()]
        while left:
            node = left.pop()
            if node in self.inputs:
                continue
            self.inputs[node] = [one for one, _ in node.next_functions if one is not None]
            for one in self.inputs[node]:
                self.readers.setdefault(one, []).append(node)
            left += self.inputs[node]
        for node in [*self.inputs]:
            if node not in self.names:
                self.names[node] = self._own_names(node)

    @property
    def marks(self) -> list[Any]:
        """The nodes of dropout."""
        return [node for node in self.inputs if hasattr(node, "dropout")]

    def names_around(self, node: Any, neighbours: Mapping[Any, list[Any]]) -> set[str]:
        """The nearest names in one direction."""
        names, seen, left = set(), set(), [*neighbours.get(node, ())]
        while left:
            one = left.pop()
            if one in seen:
                continue
            seen.add(one)
            if hasattr(one, "dropout"):
                names.add("dropout")
            elif self.names[one]:
                names |= self.names[one]
            else:
                left += neighbours.get(one, ())
        return names

    def _own_names(self, node: Any) -> set[str]:
        """Of a layer: an operation whose inputs are weights, as they are or in another shape."""
        if hasattr(node, "variable"):
            name = self.weights.get(id(node.variable))
            return set() if name is None else {name}
        if hasattr(node, "dropout") or IS_VIEW.fullmatch(node.name()) or "Cat" in node.name():
            return set()
        names: set[str] = set()
        for one in self.inputs[node]:
            while IS_VIEW.fullmatch(one.name()) and self.inputs[one]:
                one = self.inputs[one][0]
            if hasattr(one, "variable") and id(one.variable) in self.weights:
                names.add(self.weights[id(one.variable)])
        return names
