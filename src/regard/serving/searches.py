"""Decoding methods of requests: the model's own search, with the settings that a request names."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from msgspec import Meta

from regard.core.checks import check_known
from regard.core.errors import BadInput
from regard.generation.greedy import Greedy
from regard.generation.sample import Sample
from regard.generation.step import Search
from regard.inference.decoder_model import DecoderModel, Method

Settings = Mapping[str, str | float | None]
NewTokens = Annotated[int, Meta(ge=1, le=65_536)]
REPETITION = ("no_repeat", "repetition_penalty")
SETTINGS = {  # by search, with the names of requests
    "greedy": REPETITION,
    "sample": ("temperature", "top_k", "top_p", "seed", *REPETITION),
    "beam": ("beam", "length", "alpha", *REPETITION),
}
MOST_HYPOTHESES = 64  # of an input


def method_of(model: DecoderModel, given: Settings, best: int = 1) -> Method:
    """The method for the settings of a request; without any, the model's own.

    ``search`` names it; else it is the first search that has all settings.
    """
    settings = {name: value for name, value in given.items() if value is not None}
    name = settings.pop("search", None)
    if not 1 <= best <= MOST_HYPOTHESES:
        raise BadInput(f"best: must be from 1 to {MOST_HYPOTHESES}, not {best}")
    if name is None and not settings and best == 1:
        return Method(model.search)
    if name is None:
        own = "greedy" if model.search.streams else "beam"
        order = dict.fromkeys((own, "greedy", "sample", "beam"))
        fitting = (each for each in order if settings.keys() <= {*SETTINGS[each]})
        name = next(fitting, "beam")
        name = "sample" if name == "greedy" and best > 1 else name
    name = check_known("search", name, SETTINGS)
    for key in settings:
        if key not in SETTINGS[name]:
            raise BadInput(f"{key}: cannot be used with the search {name!r}")
    return Method(_search(model, name, settings, best))


def _search(model: DecoderModel, name: str, settings: dict[str, Any], best: int) -> Search:
    if name == "sample":
        return replace(_sampling(model), **settings, count=best)
    if name == "greedy":
        if best > 1:
            raise BadInput("best: greedy search has one text; use sample or beam")
        return Greedy(**settings)
    size = settings.pop("beam", None)
    if size is not None and size > MOST_HYPOTHESES:
        raise BadInput(f"beam: must be at most {MOST_HYPOTHESES}, not {size}")
    beam = model.base_beam
    size = max(beam.size, best) if size is None else size
    return replace(beam, **settings, size=size, best=best)


def _sampling(model: DecoderModel) -> Sample:
    return replace(model.sampling, seed=0)
