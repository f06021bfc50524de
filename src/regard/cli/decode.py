"""Decoding methods of the command line: from options to a search, from lines to texts."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar, cast

from regard.api import load
from regard.cli.io.console import note
from regard.cli.io.line_io import Line, LineSource, predict_window, read_windows
from regard.cli.io.output import OutputProgress
from regard.ground.errors import BadInput
from regard.inference.component import Workers
from regard.inference.decoder_model import DecoderModel
from regard.inference.generator import Generator
from regard.inference.translator import EMPTY, Translator
from regard.search.beam import Beam
from regard.search.diverse import Diverse
from regard.search.exact import Exact, search_errors
from regard.search.greedy import Greedy
from regard.search.hypothesis import Hypothesis
from regard.search.mbr import MinimumRisk
from regard.search.sample import Sample
from regard.search.step import Search

REPETITION = {"no_repeat", "repetition_penalty"}
BEAM = {"size", "length", "alpha", "coverage", "finished", "stop", *REPETITION}
SAMPLING = {"temperature", "top_k", "top_p", "seed"}
OPTIONS = {  # by method
    "beam": {*BEAM, "best", "groups", "diversity"},
    "exact": {"size", "length", "alpha", "no_repeat", "widest"},
    "sample": {*SAMPLING, *REPETITION, "best"},
    "mbr": {*SAMPLING, *REPETITION, "best", "samples", "utility", "candidates"}
    | {"size", "length", "alpha"},
    "greedy": REPETITION,
}
KNOWN = frozenset[str]().union(*OPTIONS.values())
NAMES = {"size": "--beam"}

Requests = Sequence[tuple[str, str | None]]  # a text, and the forced prefix of its translation
Decoder = TypeVar("Decoder", Translator, Generator)
Lists = list[list[Any]]  # for each text the best translations or continuations, best first


@dataclass(frozen=True)
class Method:
    """A decoding method: one search for all texts."""

    search: Search
    formula: str = ""  # of its scores

    @property
    def streams(self) -> bool:
        """Whether its tokens are known as they come."""
        return self.search.streams

    def decode(self, model: DecoderModel, requests: Requests, first: int) -> Lists:
        """What is written for some texts, the first of which is number ``first``, from 0."""
        return model.write(requests, self.search, first=first)

    def report(self) -> str:
        """What is printed at the end."""
        return ""


@dataclass(frozen=True)
class BeamRisk(Method):
    """Minimum Bayes risk over the n-best list of a beam instead of the samples."""

    search: MinimumRisk
    beam: Beam = field(kw_only=True)

    def decode(self, model: DecoderModel, requests: Requests, first: int) -> Lists:
        lists = enumerate(model.write(requests, self.beam, first=first), first)
        candidates = {number: [text.hypothesis for text in nbest] for number, nbest in lists}
        search = replace(self.search, candidates=candidates)
        return model.write(requests, search, first=first)


@dataclass(frozen=True)
class ExactSearch(Method):
    """The optimum of each text, or the beam's best translation where none is proven."""

    search: Beam
    widest: int = field(kw_only=True)
    of_beam: list[Hypothesis] = field(default_factory=list)
    optima: list[list[Hypothesis]] = field(default_factory=list)  # none where none is proven

    def decode(self, model: DecoderModel, requests: Requests, first: int) -> Lists:
        beam, single = self.search, model.with_limits(1)
        texts = [nbest[0] for nbest in model.write(requests, beam, first=first)]
        known = {number: text.hypothesis for number, text in enumerate(texts, first)}
        exact = Exact(beam.length, beam.alpha, beam.no_repeat, self.widest, known)
        optima = single.write(requests, exact, first=first)
        for number, optimum in enumerate(optima, first + 1):
            if not optimum:
                reason = f"more than {self.widest} prefixes are open (--widest)"
                note(f"line {number}: not proven, {reason}")
        self.of_beam.extend(known.values())
        self.optima.extend([text.hypothesis for text in optimum] for optimum in optima)
        return [optimum or [text] for optimum, text in zip(optima, texts, strict=True)]

    def report(self) -> str:
        lines = [i for i, hypothesis in enumerate(self.of_beam) if hypothesis is not EMPTY]
        errors = search_errors([self.of_beam[i] for i in lines], [self.optima[i] for i in lines])
        return (
            f"{errors.missed} of {errors.proven} sentences: search error of a beam of "
            f"{self.search.size}, mean score gap {errors.gap:.4f}; {errors.empty} optima are "
            f"empty; {len(lines) - errors.proven} sentences not proven"
        )


def continuation_method(given: Collection[str]) -> str | None:
    """The name of the first of greedy search, sampling and beam search that has given options."""
    methods = ("greedy", "sample", "beam", "mbr")
    fitting = (method for method in methods if {*given} <= OPTIONS[method])
    return next(fitting, "sample") if given else None


def choose_continuation(
    generator: Generator, name: str | None, options: Mapping[str, Any], given: Collection[str]
) -> Method:
    """The same for a generator, whose own search, taken without a name, may be any."""
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
            return ExactSearch(beam, beam.formula, widest=options["widest"])
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


def decode_lines(
    method: Method, model: DecoderModel, lines: LineSource, progress: OutputProgress | None
) -> Iterator[Line]:
    """What is written for each line of a file, window by window."""
    for window in read_windows(lines, progress):
        first = window[0].number
        decode_window = partial(method.decode, model, first=first - 1)
        yield from predict_window(lines, window, decode_window, first)


def load_ensemble(
    folders: Sequence[str], device: str | None, batch_size: int | None = None
) -> Translator:
    """The first model, with the others as an ensemble."""
    loaded = (load(folder, device, batch_size=batch_size) for folder in folders)
    first, *others = (model.translator for model in loaded)
    return replace(first, others=tuple(others))


@contextmanager
def ready(
    model: Decoder, chosen: dict[str, str], workers: int | None, start: Callable[..., Any]
) -> Iterator[Decoder]:
    """The model in the ``chosen`` precision and engine, or shared out to so many ``workers``.

    Each of them runs what ``start`` makes.
    """
    if not workers:
        model = model.with_precision(chosen["precision"], chosen["engine"])
        note(model.description)
        yield model
        return
    if model.device.type != "cpu":
        raise BadInput("--workers: only for a CPU (--device cpu)")
    with Workers(workers, partial(start, **chosen)) as processes:
        yield replace(cast(Any, model), workers=processes)


def start_worker(folders: Sequence[str], precision: str, engine: str) -> Callable[..., Any]:
    """What a worker process runs, in the precision and by the engine that its parent chose."""
    return load_ensemble(folders, "cpu").with_precision(precision, engine).search_batch


def start_generator(folder: str, precision: str, engine: str) -> Callable[..., Any]:
    """The same for a generator."""
    return load(folder, "cpu").generator.with_precision(precision, engine).search_batch
