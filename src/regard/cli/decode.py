"""Decoding methods of the command line, made from options."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from typer import Context

from regard.api import load
from regard.cli.edited_models import load_model
from regard.cli.io.console import note
from regard.cli.options import refuse, was_given
from regard.ground.errors import BadInput
from regard.inference.component import BlockWorkers
from regard.inference.decoder_model import BeamRisk, DecoderModel, ExactSearch, Method, Writer
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
Options = Mapping[str, Any]  # values of all options of a verb, by name
KNOWN = frozenset[str]().union(*OPTIONS.values())
NAMES = {"size": "--beam"}


def names_given(context: Context) -> set[str]:
    """Names of the decoding options on the command line."""
    return {name for name in KNOWN if was_given(context, name)}


def continuation_method(overrides: set[str]) -> str | None:
    """Name of the first method of ``generate`` that has all options; None without options."""
    methods = ("greedy", "sample", "beam", "mbr")
    fitting = (name for name in methods if overrides <= OPTIONS[name])
    return next(fitting, "sample") if overrides else None


def choose_method(
    model: DecoderModel, name: str | None, options: Options, overrides: set[str]
) -> Method:
    """The decoding method of ``--search``: the model's own settings with ``overrides``."""
    if name == "published" and model.generation_config is None:
        raise BadInput("--search published: the model has no generation_config.json; use beam")
    own = base_beam(model, overridden=bool(overrides) or name not in (None, "published"))
    method = method_name(name)
    check_options(method, options, overrides)
    return _build_method(method, own, model.sampling, options, overrides)


def method_name(search: str | None) -> str:
    """Name of the decoding method; "published", and no ``--search``, mean beam search."""
    return "beam" if search is None or search == "published" else search


def _build_method(
    name: str, own: Beam, sampling: Sample, options: Options, overrides: set[str]
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


def base_beam(model: DecoderModel, *, overridden: bool) -> Beam:
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
        note(f"generation_config.json is not used: {error}")
        return model.beam


def check_options(method: str, options: Options, overrides: set[str]) -> None:
    """Refuse options that the method does not use, and values that are wrong for every model."""
    unused = overrides - OPTIONS[method]
    flags = sorted(NAMES.get(name, f"--{name.replace('_', '-')}") for name in unused)
    refuse(dict.fromkeys(flags, True), f"cannot be used with --search {method}")
    if "diversity" in overrides and options["groups"] == 1:
        raise BadInput("--diversity: needs --groups of at least 2")
    of_beam = {"size", "length", "alpha"} & overrides
    if method == "mbr" and options["candidates"] != "beam" and of_beam:
        raise BadInput(
            "--beam, --length and --alpha: cannot be used with options of sampling "
            "(except with --search mbr --candidates beam)"
        )
    alone = overrides - {"length", "alpha", "stop"}  # these depend on settings of the model
    _build_method(method, Beam(), Sample(), options, alone)


def load_ensemble(
    folders: Sequence[str],
    device: str | None,
    edits: Path | None = None,
    batch_size: int | None = None,
) -> tuple[Translator, dict[str, str]]:
    """The translator of the first folder, with the other folders' models as an ensemble.

    The first is edited; the keys of JSON records that name its ``edits`` are returned too.
    """
    loaded, envelope = load_model(folders[0], device, edits, None, batch_size)
    members = (load(name, device, batch_size=batch_size).translator for name in folders[1:])
    return replace(loaded.translator, others=tuple(members)), envelope


@contextmanager
def ready(
    writer: Writer,
    spec: ComponentSpec,
    precision: str,
    engine: str,
    workers: int | None,
    ray: str | None,
) -> Iterator[tuple[Writer, BlockWorkers | None, dict[str, str]]]:
    """The writer in a precision and engine, and the keys of JSON records that name these.

    With ``workers`` or ``ray``, blocks of inputs are for workers, each of which opens the ``spec``.
    """
    if writer.method.formula:
        note(f"{writer.method.search}: score = {writer.method.formula}")
    precision, engine = writer.model.choice(precision, engine)
    envelope = {"precision": precision, "engine": engine}
    spec = replace(spec, device=writer.model.device.type, precision=precision, engine=engine)
    with spec.workers(workers, ray) as opened:
        if opened is None:
            model = writer.model.with_precision(precision, engine)
            note(model.description)
            writer = replace(writer, model=model)
        yield writer, opened, envelope
