"""Decoding methods of requests: the model's own search, with the settings that a request names."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta

from regard.core.checks import check_known
from regard.core.errors import BadInput
from regard.experiments.options.writing import TranslationSearch
from regard.experiments.search_methods import SERVER, choose_method
from regard.inference.decoder_model import DecoderModel, Method

Settings = Mapping[str, str | float | None]
NewTokens = Annotated[int, Meta(ge=1, le=65_536)]
REPETITION = ("no_repeat", "repetition_penalty")
SETTINGS = {  # by search, with the names of requests
    "greedy": REPETITION,
    "sample": ("temperature", "top_k", "top_p", "seed", *REPETITION),
    "beam": ("beam", "length", "alpha", *REPETITION),
}
OPTIONS = {"beam": "size"}  # that have another name in requests
MOST_HYPOTHESES = 64  # of an input


def method_of(model: DecoderModel, given: Settings, best: int = 1) -> Method:
    """The method for the settings of a request; without any, the model's own.

    ``search`` names it; else it is the first search that has all settings.
    """
    settings = {name: value for name, value in given.items() if value is not None}
    name = settings.pop("search", None)
    if not 1 <= best <= MOST_HYPOTHESES:
        raise BadInput(f"best: must be from 1 to {MOST_HYPOTHESES}, not {best}")
    values: dict[str, Any] = {OPTIONS.get(key, key): value for key, value in settings.items()}
    options = TranslationSearch(**values, best=best, given=frozenset(values))
    if name is None:
        name = SERVER.method(options, model.search)
    if name is None:
        return Method(model.search)
    name = check_known("search", name, SETTINGS)
    for key in settings:
        if key not in SETTINGS[name]:
            raise BadInput(f"{key}: cannot be used with the search {name!r}")
    if name == "greedy" and best > 1:
        raise BadInput("best: greedy search has one text; use sample or beam")
    if values.get("size", 0) > MOST_HYPOTHESES:
        raise BadInput(f"beam: must be at most {MOST_HYPOTHESES}, not {values['size']}")
    return choose_method(model, name, options, defaults=SERVER)
