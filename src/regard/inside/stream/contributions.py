"""Direct contributions of embedding, heads and feed-forward layers to a logit.

A state of a Transformer is the sum of what its embedding, heads and feed-forward layers have
written (Elhage et al., 2021). With frozen norms (``FrozenScales``) a logit is a linear function of
these values, which reach it through residual connections, norms and the output head only. A
contribution is the gradient of the logit times the value; the contributions of all parts and of the
biases sum to the logit. It holds for pre-norm and post-norm models.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from rich.text import Text
from torch import Tensor

from regard.core.errors import BadInput
from regard.core.tape import Tape
from regard.inference.model_runner import ModelRunner
from regard.inside.logit_target import LogitTarget, choose_target
from regard.inside.stream.frozen import FrozenScales
from regard.inside.stream.grid_view import Grid, GridView
from regard.models.encoder_decoder import ModelFacts
from regard.text.segmentation import LabelledRows

LISTED = 10  # components named below the map
EMBEDDING, BIASES, MLP = "embedding", "biases", "mlp"
PARTS = {"self": "head", "cross": "cross"}  # columns of heads, by the kind of their attention


class StreamComponent(NamedTuple):
    """Part of a model that writes to the residual stream, and its contribution to a logit."""

    part: str
    layer: int | None
    head: int | None
    value: float

    @property
    def name(self) -> str:
        """Name for tables: "layer 3, head 5"."""
        part = self.part if self.head is None else f"{self.part} {self.head}"
        return part if self.layer is None else f"layer {self.layer}, {part}"


@dataclass(frozen=True, eq=False)
class Contributions(GridView):
    """Direct contributions to a logit, which sum to it.

    ``logit`` is the logit of ``target`` (or the difference of two) as the model computes it;
    ``components`` are the embedding, heads and feed-forward layers from the first layer to the
    last, and the biases of all layers together.
    """

    kind: ClassVar[str] = "contributions"
    title: str
    target: LogitTarget
    logit: float
    components: tuple[StreamComponent, ...]

    @property
    def total(self) -> float:
        """Sum of all contributions."""
        return sum(component.value for component in self.components)

    def __getitem__(self, name: str) -> float:
        """Contribution of a component by its name, such as "layer 3, head 5"."""
        for component in self.components:
            if component.name == name:
                return component.value
        raise BadInput(f"no component is called {name!r}; names are like 'layer 0, head 0'")

    def largest(self, count: int = LISTED) -> list[StreamComponent]:
        """The components with the largest contributions, positive or negative."""
        return sorted(self.components, key=lambda component: -abs(component.value))[:count]

    @property
    def caption(self) -> str:
        outside = (each for each in self.components if each.layer is None)
        parts = ", ".join(f"{each.name} {each.value:+.3f}" for each in outside)
        return f"{self.target} = {self.logit:.3f}; {parts}; all components: {self.total:.3f}"

    @property
    def grids(self) -> Sequence[Grid]:
        within = [each for each in self.components if each.layer is not None]
        columns = list(dict.fromkeys(map(_column, within)))
        depth = 1 + max(each.layer or 0 for each in within)
        values_LC = np.zeros((depth, len(columns)))
        exists_LC = np.zeros(values_LC.shape, bool)
        for each in within:
            place = each.layer, columns.index(_column(each))
            values_LC[place], exists_LC[place] = each.value, True
        rows = [f"layer {layer}" for layer in range(depth)]
        return [Grid("contributions", rows, columns, values_LC, exists_LC)]

    @property
    def fields(self) -> dict[str, object]:
        components = [{"name": each.name, "value": each.value} for each in self.components]
        return {"target": str(self.target), "logit": self.logit, "components": components}

    def to_json(self) -> dict[str, object]:
        components = [
            {"component": each.name, "contribution": round(each.value, 6)}
            for each in self.components
        ]
        return {
            "target": self.target.name,
            "against": self.target.against_name or None,
            "position": self.target.position,
            "logit": round(self.logit, 6),
            "components": components,
        }

    def lines(self, width: int, *, coloured: bool) -> Iterator[Text]:
        yield from super().lines(width, coloured=coloured)
        yield Text()
        for each in self.largest():
            yield Text(f"{each.name:20} {each.value:+.3f}")


def _column(component: StreamComponent) -> str:
    return component.part if component.head is None else f"{component.part} {component.head}"


class StreamPlace(NamedTuple):
    """Part of a model that writes to the residual stream, by its name on the tape."""

    part: str
    layer: int | None
    has_heads: bool = False


def stream_places(facts: ModelFacts, side: str) -> dict[str, StreamPlace]:
    """Names on the tape of all values that are added to the residual stream of a side."""
    sites = [site for site in facts.attention_sites if site.query_side == side]
    if not any(site.within for site in sites):
        raise BadInput("this model has no residual stream: its layers are not Transformer blocks")
    places = {f"{side}.embed.output": StreamPlace(EMBEDDING, None)}
    for layer in range(getattr(facts, side).stack.depth):
        for site in sorted(sites, key=lambda site: site.kind, reverse=True):
            path = site.tape_path.format(layer=layer)
            places[f"{path}.head_outputs"] = StreamPlace(PARTS[site.kind], layer, has_heads=True)
        places[f"{side}.blocks.{layer}.mlp.output"] = StreamPlace(MLP, layer)
    return places


def contributions(
    model: ModelRunner,
    title: str,
    rows: LabelledRows,
    target: str | int | None = None,
    against: str | int | None = None,
    token: int | None = None,
) -> Contributions:
    """Direct contributions to a logit of one input, by a forward and a backward pass.

    ``target``, ``against`` and ``token`` choose the logit, see ``choose_target``.
    """
    places = stream_places(model.facts, model.facts.sides[-1])
    tape = Tape(*places, edits={**dict.fromkeys(places, _leaf), "pool.weights": _constant})
    with torch.enable_grad(), FrozenScales():
        outputs = model.run([rows], tape)
        chosen = choose_target(model, rows, outputs, target, against, token)
        (logit,) = chosen.of(outputs)
        values = [tape.records[name] for name in places]
        biases = [weight for name, weight in model.module.named_parameters() if _is_bias(name)]
        gradients = torch.autograd.grad(logit, [*values, *biases], allow_unused=True)
    products = [_product(*pair) for pair in zip([*values, *biases], gradients, strict=True)]
    components: list[StreamComponent] = []
    for place, product in zip(places.values(), products, strict=False):
        components += _components(place, product)
    rest = sum(float(product.sum()) for product in products[len(places) :])
    return Contributions(
        title, chosen, logit.item(), (*components, StreamComponent(BIASES, None, None, rest))
    )


def _leaf(name: str, value: Tensor) -> Tensor:
    """Edit that cuts a value off from what computed it, and asks for its gradient."""
    return value.detach().requires_grad_()


def _constant(name: str, value: Tensor) -> Tensor:
    return value.detach()


def _is_bias(name: str) -> bool:
    return name.rpartition(".")[2] == "bias"


def _product(value: Tensor, gradient: Tensor | None) -> Tensor:
    return (value.detach() * (0 if gradient is None else gradient)).double()


def _components(place: StreamPlace, product: Tensor) -> Iterator[StreamComponent]:
    """Components of a value: the heads of attention (T, H, K), or the whole."""
    if not place.has_heads:
        yield StreamComponent(place.part, place.layer, None, float(product.sum()))
        return
    for head, value in enumerate(product.sum((0, 2)).tolist()):
        yield StreamComponent(place.part, place.layer, head, value)
