"""Decoding methods of the command line: from options to a search, from lines to translations."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from regard.api import load
from regard.cli.console import note
from regard.ground.errors import BadInput
from regard.search.beam import Beam
from regard.search.diverse import Diverse
from regard.search.exact import Exact, search_errors
from regard.search.greedy import Greedy
from regard.search.hypothesis import Hypothesis
from regard.search.mbr import MinimumRisk
from regard.search.step import Search
from regard.tasks.translator import EMPTY, Translation, Translator

BEAM = {"size", "length", "alpha", "coverage", "no_repeat", "finished", "stop"}
SAMPLING = {"temperature", "top_k", "top_p", "seed"}
OPTIONS = {  # by method
    "beam": {*BEAM, "best", "groups", "diversity"},
    "exact": {"size", "length", "alpha", "no_repeat", "widest"},
    "sample": {*SAMPLING, "best", "no_repeat"},
    "mbr": {*SAMPLING, "best", "no_repeat", "samples", "utility", "candidates"}
    | {"size", "length", "alpha"},
    "greedy": {"no_repeat"},
}
NAMES = {"size": "--beam"}

Requests = Sequence[tuple[str, str | None]]  # a text, and the forced prefix of its translation
Lists = list[list[Translation]]  # for each text the best translations, best first


@dataclass(frozen=True)
class Method:
    """A decoding method: one search for all texts."""

    search: Search
    formula: str = ""  # of its scores

    def decode(self, translator: Translator, requests: Requests, first: int) -> Lists:
        """The translations of some texts, the first of which is number ``first``, from 0."""
        return _translate(translator, self.search, requests, first)

    def report(self) -> str:
        """What is printed at the end."""
        return ""


@dataclass(frozen=True)
class BeamRisk(Method):
    """Minimum Bayes risk over the n-best list of a beam instead of the samples."""

    search: MinimumRisk
    beam: Beam = field(kw_only=True)

    def decode(self, translator: Translator, requests: Requests, first: int) -> Lists:
        """The least risky hypothesis of each n-best list."""
        lists = enumerate(_translate(translator, self.beam, requests, first), first)
        candidates = {number: [one.hypothesis for one in nbest] for number, nbest in lists}
        search = replace(self.search, candidates=candidates)
        return _translate(translator, search, requests, first)


@dataclass(frozen=True)
class ExactSearch(Method):
    """The optimum of each text, or the beam's best translation where none is proven."""

    search: Beam
    widest: int = field(kw_only=True)
    found: list[Hypothesis] = field(default_factory=list)  # by the beam
    optima: list[list[Hypothesis]] = field(default_factory=list)  # none where none is proven

    def decode(self, translator: Translator, requests: Requests, first: int) -> Lists:
        """Branch and bound from what the beam finds, one sentence at a time to bound memory."""
        beam, single = self.search, translator.with_limits(1)
        found = [nbest[0] for nbest in _translate(translator, beam, requests, first)]
        known = {number: one.hypothesis for number, one in enumerate(found, first)}
        exact = Exact(beam.length, beam.alpha, beam.no_repeat, self.widest, known)
        optima = _translate(single, exact, requests, first)
        for number, one in enumerate(optima, first + 1):
            if not one:
                reason = f"more than {self.widest} prefixes are open (--widest)"
                note(f"line {number}: not proven, {reason}")
        self.found.extend(known.values())
        self.optima.extend([one.hypothesis for one in best] for best in optima)
        return [best or [one] for best, one in zip(optima, found, strict=True)]

    def report(self) -> str:
        """Search errors of the beam over all lines that are not empty."""
        there = [number for number, one in enumerate(self.found) if one is not EMPTY]
        errors = search_errors([self.found[i] for i in there], [self.optima[i] for i in there])
        return (
            f"{errors.missed} of {errors.proven} sentences: search error of a beam of "
            f"{self.search.size}, mean score gap {errors.gap:.4f}; {errors.empty} optima are "
            f"empty; {len(there) - errors.proven} sentences not proven"
        )


def _translate(translator: Translator, search: Search, requests: Requests, first: int) -> Lists:
    texts = [text for text, _ in requests]
    prefixes = [prefix for _, prefix in requests if prefix is not None]
    return translator.translate(texts, search, prefixes or None, first=first)


def choose_method(
    translator: Translator, name: str | None, options: Mapping[str, Any], given: Collection[str]
) -> Method:
    """The decoding method that options describe; the model's own settings hold where none do.

    ``options`` are all, ``given`` are the names of those on the command line.
    """
    if name == "published" and translator.generation is None:
        raise BadInput("--search published: the model has no generation settings")
    own = base_beam(translator, overridden=bool(given) or name not in (None, "published"))
    name = "beam" if name in (None, "published") else name
    assert name is not None
    _check_options(name, options, given)
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
            return Method(Greedy(beam.no_repeat))
    draws = replace(
        translator.sampling,
        **{key: options[key] for key in SAMPLING & {*given}},
        count=options["samples" if name == "mbr" else "best"],
        no_repeat=beam.no_repeat,
    )
    if name == "sample":
        return Method(draws)
    decode, best = translator.tokenizer.target.decode, options["best"]
    risk = MinimumRisk(decode, draws, options["utility"], best)
    if options["candidates"] == "beam":
        return BeamRisk(risk, risk.formula, beam=replace(beam, best=beam.size))
    return Method(risk, risk.formula)


def base_beam(translator: Translator, *, overridden: bool) -> Beam:
    """The model's own search, of which options override single settings.

    Generation settings that are not supported are an error unless they are ``overridden``.
    """
    try:
        return translator.search
    except BadInput as error:
        if not overridden:
            raise
        if translator.followed is not None:
            return translator.followed.search
        note(f"generation settings are not used: {error}")
        return translator.beam


def _check_options(method: str, options: Mapping[str, Any], given: Collection[str]) -> None:
    """Refuse options that the method does not use."""
    if unused := {*given} - OPTIONS[method]:
        names = ", ".join(sorted(NAMES.get(one, f"--{one.replace('_', '-')}") for one in unused))
        raise BadInput(f"{names}: cannot be used with --search {method}")
    if "diversity" in given and options["groups"] == 1:
        raise BadInput("--diversity: needs --groups of at least 2")
    of_beam = {"size", "length", "alpha"} & {*given}
    if method == "mbr" and options["candidates"] != "beam" and of_beam:
        raise BadInput("--beam, --length and --alpha need --candidates beam with --search mbr")


def load_ensemble(
    folders: Sequence[str], device: str | None, batch_size: int | None = None
) -> Translator:
    """The first model, with the others as an ensemble."""
    loaded = (load(folder, device, batch_size=batch_size) for folder in folders)
    first, *others = (model.translator for model in loaded)
    return replace(first, others=tuple(others))


def start_worker(folders: Sequence[str], precision: str, engine: str) -> Callable[..., Any]:
    """What a worker process runs, in the precision and by the engine that its parent chose."""
    return load_ensemble(folders, "cpu").with_precision(precision, engine).found
