"""Decoding methods by options, and the precision and engine of a model that writes texts."""

from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from regard.core.errors import ArgumentName, BadArgument, BadInput
from regard.core.flags import refuse
from regard.experiments.notes import Listener, Note, ignore
from regard.experiments.options import SearchOptions, WriterOptions
from regard.generation.beam import Beam
from regard.generation.diverse import Diverse
from regard.generation.greedy import Greedy
from regard.generation.mbr import MinimumRisk
from regard.generation.sample import Sample
from regard.generation.step import Search
from regard.inference.component import BlockWorkers
from regard.inference.decoder_model import BeamRisk, DecoderModel, ExactSearch, Method, Writer
from regard.tasks.components import ComponentSpec

REPETITION = {"no_repeat", "repetition_penalty"}
BEAM = {"size", "length", "alpha", "coverage", "finished", "stop", *REPETITION}
SAMPLING = {"temperature", "top_k", "top_p", "seed"}
OPTIONS = {  # by method
    "beam": {*BEAM, "best", "groups", "diversity"},
    "exact": {"size", "length", "alpha", "no_repeat", "max_active"},
    "sample": {*SAMPLING, *REPETITION, "best"},
    "mbr": {*SAMPLING, *REPETITION, "best", "samples", "utility", "candidates"}
    | {"size", "length", "alpha"},
    "greedy": REPETITION,
}
KNOWN = frozenset[str]().union(*OPTIONS.values())


@dataclass(frozen=True)
class Defaults:
    """What a front end takes where options leave it open.

    The method is the first of ``order`` that has all options, else ``otherwise``; with
    ``own_first``, the model's own kind of search comes first. ``repeats``: greedy search has the
    repetition rules of the model. ``widens``: a beam has at least the size of its n-best list.
    """

    order: Sequence[str]
    otherwise: str
    own_first: bool = False
    repeats: bool = True
    widens: bool = False

    def method(self, options: SearchOptions, own: Search | None = None) -> str | None:
        """Name of the method; None without options: the model's own search."""
        overrides = options.used & KNOWN
        first = "beam" if own is None or not own.streams else "greedy"
        order = (*[first] * self.own_first, *self.order)
        fitting = (name for name in order if overrides <= OPTIONS[name])
        return next(fitting, self.otherwise) if overrides else None


TRANSLATION = Defaults((), "beam")
CONTINUATION = Defaults(("greedy", "sample", "beam", "mbr"), "sample")
SERVER = Defaults(("greedy", "sample", "beam"), "beam", own_first=True, repeats=False, widens=True)


def choose_method(
    model: DecoderModel,
    name: str | None,
    options: SearchOptions,
    on_event: Listener = ignore,
    defaults: Defaults = TRANSLATION,
) -> Method:
    """The decoding method of this name: the model's own settings with those that are used."""
    if name == "published" and model.generation_config is None:
        fault = " published: the model has no generation_config.json"
        raise BadInput((ArgumentName("search"), fault), remedy="use beam")
    overrides = options.used & KNOWN
    named = name not in (None, "published")
    own = base_beam(model, overridden=bool(overrides) or named, on_event=on_event)
    check_options(name, options)
    if defaults.widens and "size" not in overrides:
        own = replace(own, size=max(own.size, options.best))
    if name == "greedy" and not defaults.repeats:
        own = replace(own, no_repeat=0, repetition_penalty=1.0)
    return _build_method(_method_name(name), own, model.sampling, vars(options), overrides)


def _method_name(search: str | None) -> str:
    """Name of the decoding method; "published" and None mean beam search."""
    return "beam" if search is None or search == "published" else search


def _build_method(
    name: str, own: Beam, sampling: Sample, options: dict[str, Any], overrides: Set[str]
) -> Method:
    of_beam = {*BEAM, "best"} if name == "beam" else BEAM
    beam = replace(own, **{key: options[key] for key in of_beam & overrides})
    match name:
        case "beam" if options["groups"] != 1:
            return Method(Diverse(beam, options["groups"], options["diversity"]), beam.formula)
        case "beam":
            return Method(beam, beam.formula)
        case "exact":
            return ExactSearch(beam, beam.formula, max_active=options["max_active"])
        case "greedy":
            return Method(Greedy(beam.no_repeat, beam.repetition_penalty))
    draws = replace(
        sampling,
        **{key: options[key] for key in SAMPLING & overrides},
        count=options["samples" if name == "mbr" else "best"],
        no_repeat=beam.no_repeat,
        repetition_penalty=beam.repetition_penalty,
    )
    if name == "sample":
        return Method(draws)
    risk = MinimumRisk(draws, options["utility"], options["best"])
    if options["candidates"] == "beam":
        return BeamRisk(risk, risk.formula, beam=replace(beam, best=beam.size))
    return Method(risk, risk.formula)


def base_beam(model: DecoderModel, *, overridden: bool, on_event: Listener = ignore) -> Beam:
    """The model's own beam search, of which options override single settings.

    Unsupported keys of generation_config.json are an error unless they are ``overridden``.
    """
    try:
        return model.base_beam
    except BadInput as error:
        if not overridden:
            raise
        if model.supported_settings is not None:
            return model.supported_settings.search
        on_event(Note(f"generation_config.json is not used: {error}"))
        return model.beam


def check_options(search: str | None, options: SearchOptions) -> None:
    """Refuse options that the method does not use, and values that are wrong for every model."""
    method, overrides = _method_name(search), options.used & KNOWN
    unused = sorted("beam" if name == "size" else name for name in overrides - OPTIONS[method])
    fault = ("cannot be used with ", ArgumentName("search"), f" {method}")
    refuse(dict.fromkeys(unused, True), fault)
    if "diversity" in overrides and options.groups == 1:
        raise BadArgument(("needs ", ArgumentName("groups"), " of at least 2"), key="diversity")
    of_beam = {"size", "length", "alpha"} & overrides
    if method == "mbr" and options.candidates != "beam" and of_beam:
        names = (ArgumentName("beam"), ", ", ArgumentName("length"), " and ", ArgumentName("alpha"))
        except_with = (ArgumentName("search"), " mbr ", ArgumentName("candidates"), " beam)")
        used = ": cannot be used with options of sampling (except with "
        raise BadInput((*names, used, *except_with))
    alone = overrides - {"length", "alpha", "stop"}  # these depend on settings of the model
    _build_method(method, Beam(), Sample(), vars(options), alone)


@contextmanager
def prepared_writer(
    writer: Writer, spec: ComponentSpec, runs: WriterOptions, on_event: Listener = ignore
) -> Iterator[tuple[Writer, BlockWorkers | None, dict[str, str]]]:
    """The writer in a precision and engine, and the keys of JSON records that name these.

    With ``workers`` or ``ray``, blocks of inputs are for workers, each of which opens the ``spec``.
    """
    if writer.method.formula:
        score = writer.method.formula.partition(", ends when ")[0]
        letters = " (p: probability of the text, n: its tokens)" if "log p" in score else ""
        on_event(Note(f"{writer.method.search}: score = {score}{letters}"))
    precision, engine = writer.model.choice(runs.precision, runs.engine)
    envelope = {"precision": precision, "engine": engine}
    spec = replace(spec, device=writer.model.device.type, precision=precision, engine=engine)
    with spec.workers(runs.workers, runs.ray) as opened:
        if opened is None:
            model = writer.model.with_precision(precision, engine)
            on_event(Note(f"precision and engine: {model.description}"))
            writer = replace(writer, model=model)
        yield writer, opened, envelope
