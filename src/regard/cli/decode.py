"""Decoding methods of the command line: from options to a search, from lines to texts."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from regard.api import load
from regard.cli.io.console import note
from regard.ground.errors import BadInput
from regard.inference.component import Workers
from regard.inference.decoder_model import BeamRisk, DecoderModel, ExactSearch, Method, Writer
from regard.inference.generator import Generator
from regard.inference.translator import Translator
from regard.search.beam import Beam
from regard.search.diverse import Diverse
from regard.search.greedy import Greedy
from regard.search.mbr import MinimumRisk
from regard.search.sample import Sample
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
NAMES = {"size": "--beam"}


def continuation_method(given: Collection[str]) -> str | None:
    """The name of the first of greedy search, sampling and beam search that has given options."""
    methods = ("greedy", "sample", "beam", "mbr")
    fitting = (method for method in methods if {*given} <= OPTIONS[method])
    return next(fitting, "sample") if given else None


def choose_continuation(
    generator: Generator, name: str | None, options: Mapping[str, Any], given: Collection[str]
) -> Method:
    """The decoding method of a generator, whose default search may be any."""
    if name is None:
        return Method(generator.search)
    return choose_method(generator, name, options, given)


def choose_method(
    model: DecoderModel, name: str | None, options: Mapping[str, Any], given: Collection[str]
) -> Method:
    """The decoding method that options describe; the model's own settings hold where none do.

    ``options`` are all, ``given`` are the names of those on the command line.
    """
    if name == "published" and model.generation_config is None:
        raise BadInput("--search published: the model has no generation settings")
    own = base_beam(model, overridden=bool(given) or name not in (None, "published"))
    method = method_name(name)
    check_options(method, options, given)
    return _build_method(method, own, model.sampling, options, given)


def method_name(search: str | None) -> str:
    """The method that --search names; published settings, the default, are those of a beam."""
    return "beam" if search is None or search == "published" else search


def _build_method(
    name: str, own: Beam, sampling: Sample, options: Mapping[str, Any], given: Collection[str]
) -> Method:
    of_beam = {*BEAM, "best"} if name == "beam" else BEAM
    beam = replace(own, **{key: options[key] for key in of_beam & {*given}})
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
        **{key: options[key] for key in SAMPLING & {*given}},
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


def base_beam(model: DecoderModel, *, overridden: bool) -> Beam:
    """The model's own search, of which options override single settings.

    Generation settings that are not supported are an error unless they are ``overridden``.
    """
    try:
        return model.base_beam
    except BadInput as error:
        if not overridden:
            raise
        if model.supported_settings is not None:
            return model.supported_settings.search
        note(f"generation settings are not used: {error}")
        return model.beam


def check_options(method: str, options: Mapping[str, Any], given: Collection[str]) -> None:
    """Refuse options that the method does not use, and values that suit no model."""
    if unused := {*given} - OPTIONS[method]:
        names = ", ".join(sorted(NAMES.get(key, f"--{key.replace('_', '-')}") for key in unused))
        raise BadInput(f"{names}: cannot be used with --search {method}")
    if "diversity" in given and options["groups"] == 1:
        raise BadInput("--diversity: needs --groups of at least 2")
    of_beam = {"size", "length", "alpha"} & {*given}
    if method == "mbr" and options["candidates"] != "beam" and of_beam:
        raise BadInput(
            "--beam, --length and --alpha: cannot be used with options of sampling "
            "(but for --search mbr --candidates beam)"
        )
    alone = {*given} - {"length", "alpha", "stop"}  # these depend on settings of the model
    _build_method(method, Beam(), Sample(), options, alone)


def load_ensemble(
    folders: Sequence[str], device: str | None, batch_size: int | None = None
) -> Translator:
    """The first model, with the others as an ensemble."""
    loaded = (load(folder, device, batch_size=batch_size) for folder in folders)
    first, *others = (model.translator for model in loaded)
    return replace(first, others=tuple(others))


@contextmanager
def ready(
    writer: Writer, chosen: dict[str, str], workers: int | None, spec: ComponentSpec
) -> Iterator[Writer]:
    """The writer in the ``chosen`` precision and engine, or shared by so many ``workers``.

    Each of them opens the component of the ``spec``, in what was chosen.
    """
    precision, engine = chosen["precision"], chosen["engine"]
    if not workers:
        model = writer.model.with_precision(precision, engine)
        note(model.description)
        yield replace(writer, model=model)
        return
    if writer.model.device.type != "cpu":
        raise BadInput("--workers: only for a CPU (--device cpu)")
    spec = replace(spec, device="cpu", precision=precision, engine=engine)
    with Workers(workers, spec.open_run) as processes:
        yield replace(writer, workers=processes)
