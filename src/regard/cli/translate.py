"""``regard translate``: lines in, translations out."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal

import typer

from regard.api import load
from regard.cli.console import DEVICE, ENGINE, JSON, MODEL, PRECISION, note, print_json, print_line
from regard.cli.line_io import LONGEST, MAX_LENGTH, check_length, replied, windows
from regard.cli.search import OWN, default_search, options_given
from regard.data.sources import read_lines
from regard.ground.errors import BadInput
from regard.search.beam import Beam
from regard.search.diverse import Diverse
from regard.search.exact import Exact, search_errors
from regard.search.greedy import Greedy
from regard.search.hypothesis import Hypothesis
from regard.search.mbr import MinimumRisk
from regard.search.sample import Sample
from regard.search.step import Search
from regard.tasks.translate import EMPTY, Translation, Translator
from regard.tasks.workers import Workers
from regard.text.vocabulary import Vocabulary

LOSING = ("wordpiece", "sentencepiece")  # kinds that cannot write every word
OPTION = {"size": "beam"}
BEAM = {"size", "best", "length", "alpha", "coverage", "no_repeat", "finished", "stop"}
# Options that mean something to one kind of search only.
MEANT_FOR = {
    "beam": {*BEAM, "groups", "diversity"},
    "exact": {"size", "length", "alpha", "no_repeat", "widest"},
    "sample": {"best", "temperature", "top_k", "top_p", "seed", "no_repeat"},
    "mbr": {
        *("best", "temperature", "top_k", "top_p", "seed", "no_repeat"),
        *("samples", "utility", "candidates", "size", "length", "alpha"),
    },
    "greedy": {"no_repeat"},
}

Requests = Sequence[tuple[str, str | None]]  # a text, and how its translation must begin
Lists = list[list[Translation]]  # of each text the best, best first
Find = Callable[[Requests, int], Lists]  # the number of the first text counts from 0


def translate(
    context: typer.Context,
    model: MODEL,
    file: Annotated[
        str, typer.Argument(help="Text, one sentence a line; - is standard input.")
    ] = "-",
    others: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="MODEL", help="Decide together with it; repeatable."),
    ] = None,
    search: Annotated[
        Literal["beam", "greedy", "sample", "mbr", "exact", "published"] | None,
        typer.Option(help="Decoding method; published is beam by the folder's settings."),
    ] = None,
    size: Annotated[
        int | None, typer.Option("--beam", help="Hypotheses kept at each step.", show_default=OWN)
    ] = None,
    best: Annotated[int, typer.Option(help="Translations printed for each line.")] = 1,
    length: Annotated[
        Literal["none", "mean", "gnmt", "power"] | None,
        typer.Option(help="How length is weighed.", show_default=OWN),
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="Its exponent, for gnmt and power.", show_default=OWN)
    ] = None,
    coverage: Annotated[
        float | None,
        typer.Option(help="Weight of the coverage penalty; if given, --json stores its term."),
    ] = None,
    finished: Annotated[
        int | None, typer.Option(help="Stop at this many finished hypotheses.")
    ] = None,
    stop: Annotated[
        Literal["default", "transformers", "transformers-early", "transformers-never"] | None,
        typer.Option(
            help="When a sentence is over: by our rule, or those of transformers.",
            show_default=OWN,
        ),
    ] = None,
    groups: Annotated[
        int, typer.Option(help="Beams, each of --beam hypotheses, that avoid each other.")
    ] = 1,
    diversity: Annotated[
        float, typer.Option(help="What a token costs that another group has just chosen.")
    ] = 0.5,
    no_repeat: Annotated[
        int | None, typer.Option(help="No n-gram of this size twice.", show_default=OWN)
    ] = None,
    widest: Annotated[
        int, typer.Option(help="Exact search gives a sentence up at this many open prefixes.")
    ] = 1_000,
    temperature: Annotated[float, typer.Option(help="For sampling.")] = 1.0,
    top_k: Annotated[int, typer.Option(help="Sample among this many tokens; 0 is all.")] = 0,
    top_p: Annotated[float, typer.Option(help="Sample in the nucleus of this mass.")] = 1.0,
    seed: Annotated[int, typer.Option(help="For sampling.")] = 0,
    samples: Annotated[int, typer.Option(help="Draws that mbr weighs candidates by.")] = 32,
    utility: Annotated[
        Literal["chrf", "bleu"], typer.Option(help="What mbr weighs them by.")
    ] = "chrf",
    candidates: Annotated[
        Literal["samples", "beam"], typer.Option(help="What mbr chooses from.")
    ] = "samples",
    prefix: Annotated[
        str | None, typer.Option(help="A file of forced beginnings, one a line.")
    ] = None,
    max_length: MAX_LENGTH = LONGEST,
    rows: Annotated[
        int, typer.Option(help="Sentences at once; beam and greedy depend on it by rounding only.")
    ] = 64,
    precision: PRECISION = "auto",
    engine: ENGINE = "auto",
    workers: Annotated[
        int,
        typer.Option(min=0, help="Processes of one thread each, for much text on a CPU; 0: none."),
    ] = 0,
    as_json: JSON = False,
    device: DEVICE = None,
) -> None:
    """Translate text, one sentence a line. An empty line stays empty.

    With --best n, each line gives n lines, best first. The formula behind the scores is printed
    to standard error. With --json they can be stored, for regard sweep to rank them again.

    On a CPU, --workers N (N cores) translates much text in N processes, and --precision int8
    multiplies in 8 bits; how fast that is, and which --engine is used, depends on the processor.

    Lines are translated as they come: from a pipe or a terminal, what is there when it pauses is
    translated and printed at once. A line of more tokens than --max-length is an error, after all
    lines before it are printed.

    A model is searched as the [decode] table of its recipe says, a published folder as its
    generation settings say; an option overrules only what it names. So the bad words of a published
    folder, its longest output and the like hold for any search.

    With --groups n, n beams search side by side, and each avoids the words of those before it: a
    list of translations that differ. With --stop transformers --length power --alpha A the beam is
    that of transformers' generate with length_penalty A; -early and -never are its early_stopping.

    With --search mbr, each line gives what resembles many samples most (minimum Bayes risk), from
    among the samples or, with --candidates beam, from the --beam best of a beam.

    With --search exact, each line gives the best translation there is, found by branch and bound
    from the beam's; how often the beam missed it is printed to standard error at the end. It is
    quick with --length none; other rules leave more to look at.

    Example: echo "The old man reads a book." | regard translate runs/tour/model --beam 4
    """
    translator = _translator(model, others or [], device).with_rows(rows)
    if workers and translator.device.type != "cpu":
        raise BadInput("--workers: they are for a CPU (--device cpu)")
    given = _given(context)
    if search == "published" and translator.generation is None:
        raise BadInput(f"{model}: has no generation settings to search by")
    base = default_search(translator, named=bool(given) or search not in (None, "published"))
    search = "beam" if search in (None, "published") else search
    _check_options(given, search, groups, candidates)
    no_repeat = base.no_repeat if no_repeat is None else no_repeat
    chosen: Search
    if search in ("beam", "exact"):
        beam = replace(base, **options_given(context, BEAM))
        chosen = beam if groups == 1 else Diverse(beam, groups, diversity)
        note(f"{chosen}: score = {beam.formula}")
    elif search == "sample":
        chosen = Sample(temperature, top_k, top_p, best, seed, no_repeat)
    elif search == "mbr":
        draws = Sample(temperature, top_k, top_p, samples, seed, no_repeat)
        chosen = risk = MinimumRisk(translator.text.target.decode, draws, utility, best)
        note(f"{risk}: score = {risk.formula}")
    else:
        chosen = Greedy(no_repeat)
    ran = dict(zip(("precision", "engine"), translator.choice(precision, engine), strict=True))
    with ExitStack() as stack:
        if workers:
            begin = partial(_found, model, others or [], **ran)
            translator = translator.with_workers(stack.enter_context(Workers(workers, begin)))
        else:
            translator = translator.with_precision(ran["precision"], ran["engine"])
            note(translator.description)
        find: Find
        if search == "exact":
            find = exactly = _Exactly(translator, beam, widest)
        elif search == "mbr" and candidates == "beam":
            beam = replace(base, **options_given(context, BEAM - {"best"}))
            find = partial(_from_beam, translator, replace(beam, best=beam.size), risk)
        else:
            find = partial(_plainly, translator, chosen)
        pieces = translator.text.target if as_json else None
        begun = None if prefix is None else _as_many(prefix)
        parse = partial(_request, translator.text.source, max_length, begun)
        for window in windows(file, parse):
            first = window[0].number
            for number, found in replied(file, window, _counted(find, first - 1), first):
                _print(number, found, best, pieces, ran)
        if search == "exact":
            note(exactly.report)


def _translator(model: str, others: list[str], device: str | None) -> Translator:
    first, *more = (load(one, device).translator for one in (model, *others))
    return first.with_others(*more)


def _found(model: str, others: list[str], precision: str, engine: str) -> Callable[..., Any]:
    """What a worker does, in the precision and by the engine that its parent has chosen."""
    return _translator(model, others, "cpu").with_precision(precision, engine).found


def _print(
    line: int,
    found: list[Translation],
    best: int,
    pieces: Vocabulary | None,
    ran: dict[str, str],
) -> None:
    """As JSON if there are pieces to name; else ``best`` lines, so that files stay parallel."""
    for one in found:
        if pieces is not None:
            print_json(_record(line, one, pieces.pieces(one.hypothesis.tokens)) | ran)
        else:
            print_line(" ".join(one.text.split("\n")))
    if pieces is None:
        for _ in range(best - len(found)):
            print_line("")


def _record(line: int, one: Translation, pieces: list[str]) -> dict[str, Any]:
    """What is printed of a translation: all that another score needs to rank it."""
    hypothesis = one.hypothesis
    record = {
        "line": line,
        "text": one.text,
        "score": one.score,
        "logprob": hypothesis.logprob,
        "n": len(hypothesis.logprobs),
        "tokens": pieces,
        "logprobs": hypothesis.logprobs,
        "finished": hypothesis.finished,
    }
    return record | ({} if hypothesis.coverage is None else {"coverage": hypothesis.coverage})


def _given(context: typer.Context) -> set[str]:
    """The options of a search that were given."""
    return set(options_given(context, set().union(*MEANT_FOR.values())))


def _check_options(given: set[str], search: str, groups: int, candidates: str) -> None:
    if foreign := given - MEANT_FOR[search]:
        names = ", ".join("--" + OPTION.get(one, one.replace("_", "-")) for one in sorted(foreign))
        raise BadInput(f"{names}: means nothing to --search {search}")
    if "diversity" in given and groups == 1:
        raise BadInput("--diversity: means nothing without --groups")
    if search == "mbr" and candidates != "beam" and given & {"size", "length", "alpha"}:
        raise BadInput("--beam, --length and --alpha mean nothing to mbr without --candidates beam")


def _counted(find: Find, first: int) -> Callable[[Requests], Lists]:
    """Sentences are numbered from ``first``, wherever their window begins."""
    return lambda requests: find(requests, first)


def _plainly(translator: Translator, search: Search, requests: Requests, first: int) -> Lists:
    texts, prefixes = _columns(requests)
    return translator.translate(texts, search, prefixes, first=first)


def _from_beam(
    translator: Translator, beam: Beam, risk: MinimumRisk, requests: Requests, first: int
) -> Lists:
    """The least risky of what a beam found for each line."""
    found = enumerate(_plainly(translator, beam, requests, first), first)
    known = {number: [one.hypothesis for one in best] for number, best in found}
    return _plainly(translator, replace(risk, candidates=known), requests, first)


class _Exactly:
    """The best translation of each line, or the beam's where none is proven."""

    def __init__(self, translator: Translator, beam: Beam, widest: int):
        self.translator, self.beam, self.widest = translator, beam, widest
        self.alone = translator.with_rows(1)  # the prefixes of one sentence may fill the memory
        self.found: list[Hypothesis] = []
        self.optima: list[list[Hypothesis]] = []

    def __call__(self, requests: Requests, first: int) -> Lists:
        beam = self.beam
        found = [one for (one,) in _plainly(self.translator, beam, requests, first)]
        known = {number: one.hypothesis for number, one in enumerate(found, first)}
        exact = Exact(beam.length, beam.alpha, beam.no_repeat, self.widest, known)
        optima = _plainly(self.alone, exact, requests, first)
        for number, one in enumerate(optima, first + 1):
            if not one:
                open_ones = f"more than {self.widest} prefixes are open (--widest)"
                note(f"line {number}: not proven, {open_ones}")
        self.found += known.values()
        self.optima += [[one.hypothesis for one in best] for best in optima]
        return [best or [one] for best, one in zip(optima, found, strict=True)]

    @property
    def report(self) -> str:
        """How often the beam missed the best, over all lines that were not empty."""
        there = [number for number, one in enumerate(self.found) if one is not EMPTY]
        errors = search_errors([self.found[i] for i in there], [self.optima[i] for i in there])
        return (
            f"{errors.missed} of {errors.proven} sentences: search error of a beam of "
            f"{self.beam.size}, mean score gap {errors.gap:.4f}; {errors.empty} optima are empty; "
            f"{len(there) - errors.proven} sentences not proven"
        )


def _columns(requests: Requests) -> tuple[list[str], list[str] | None]:
    """Texts and prefixes apart."""
    texts = [text for text, _ in requests]
    prefixes = [prefix for _, prefix in requests if prefix is not None]
    return texts, prefixes or None


def _as_many(path: str) -> Iterator[str]:
    """The lines of a file, and an error instead of too few of them."""
    yield from read_lines(path)
    raise BadInput(f"{path}: has fewer lines than the text to translate")


def _request(
    vocabulary: Vocabulary, most: int, prefixes: Iterator[str] | None, line: str, where: str
) -> tuple[str, str | None]:
    """A line and how its translation must begin; words that no pieces write are named."""
    check_length(line, vocabulary, most, where)
    if vocabulary.kind in LOSING and (unknown := vocabulary.unknown(line)):
        words = ", ".join(line[start:end] for start, end in unknown)
        note(f"line {where.rpartition(':')[2]}: not in the vocabulary: {words}")
    return line, None if prefixes is None else next(prefixes)
