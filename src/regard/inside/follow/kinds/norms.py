"""Kinds of norms, by the name that facts give them."""

from functools import cache

from regard.inside.follow.formula import Formula, Reference
from regard.inside.follow.plan import Kind
from regard.inside.follow.rules import block

TO_NORMAL = r"- \mu) / \sqrt{\sigma^2 + \epsilon} \cdot"
TO_ROOT = r"/ \sqrt{\overline{x^2} + \epsilon} \cdot"
LAYER = Formula.of(
    *(("y", "output"), "= (", ("x", "input"), ("- mean) / √(variance + ε) ·", "", TO_NORMAL)),
    *(("g", "weight"), "+", ("b", "weight")),
)
RMS = Formula.of(
    *(("y", "output"), "=", ("x", "input"), ("/ √(mean x² + ε) ·", "", TO_ROOT)), ("g", "weight")
)


@cache
def norm_kind(name: str, place: str, value: str) -> Kind:
    """Kind of a norm ("layer", "layer-no-bias", "rms") that runs at a place of our code."""
    rms = name == "rms"
    paper = "Zhang & Sennrich (2019)" if rms else "Ba et al. (2016)"
    return Kind(
        "RMS norm" if rms else "layer norm",
        block.rms_norm if rms else block.layer_norm,
        ("token", "dimension"),
        "Each state is divided by its root mean square, and multiplied by learned gains."
        if rms
        else "Each state gets mean 0 and variance 1, then learned gains and shifts.",
        RMS if rms else LAYER,
        Reference(paper, "eq. 4"),
        place,
        value,
    )
