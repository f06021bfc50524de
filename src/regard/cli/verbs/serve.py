"""``regard serve``: models over HTTP."""

import re
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from regard.cli import options
from regard.cli.io.console import note
from regard.ground.errors import BadInput, did_you_mean, shown

ORIGIN = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://[^/?#\sA-Z]+")
MISSING = "serving needs more libraries: pip install 'regard[serve]'"


def serve(
    models: Annotated[
        list[str],
        Argument(metavar="MODEL...", help="Model folders, or ids on the Hugging Face hub."),
    ],
    host: Annotated[str, Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: options.PORT = 8080,
    name: Annotated[
        list[str] | None,
        Option("--name", help="Name of a model in requests, in the order of MODEL; repeatable."),
    ] = None,
    languages: Annotated[
        list[str] | None,
        Option(
            "--languages",
            metavar="NAME=SRC-TGT",
            help="Languages of a translator, such as opus=en-de; repeatable.",
        ),
    ] = None,
    api_keys: Annotated[
        Path | None, Option("--api-keys", help="File of keys, one per line; see the text above.")
    ] = None,
    cors: Annotated[
        list[str] | None,
        Option("--cors", metavar="ORIGIN", help="Origin of pages that may ask; repeatable."),
    ] = None,
    model_root: Annotated[
        list[Path] | None,
        Option("--model-root", help="Folder below which an administrator may load models."),
    ] = None,
    edits: options.EDITS = None,
    allow_edits: Annotated[
        bool, Option("--allow-edits", help="Apply the edits that requests carry.")
    ] = False,
    max_queued_tokens: Annotated[
        int, Option("--max-queued-tokens", min=1, help="Tokens that wait for a model; then 429.")
    ] = 1_000_000,
    max_batch_tokens: Annotated[
        int, Option("--max-batch-tokens", min=1, help="Tokens of a batch.")
    ] = 16_384,
    max_inputs: Annotated[int, Option("--max-inputs", min=1, help="Inputs of a request.")] = 1_024,
    max_body: Annotated[
        int, Option("--max-body", min=1, metavar="MIB", help="Size of a request in MiB.")
    ] = 8,
    slots: Annotated[
        int, Option("--slots", min=1, help="Texts that are generated at the same time.")
    ] = 64,
    deadline: Annotated[
        float, Option("--deadline", min=0.001, help="Seconds until a request is given up.")
    ] = 60.0,
    drain: Annotated[
        int, Option("--drain", min=0, help="Seconds for accepted requests after SIGTERM.")
    ] = 30,
    isolate: Annotated[
        bool, Option("--isolate", help="Never run two requests in one batch.")
    ] = False,
    exact: Annotated[
        bool, Option("--exact", help="Every number as of a direct call with this input, on a CPU.")
    ] = False,
    keep: Annotated[
        float, Option("--keep", min=0, metavar="MINUTES", help="Time to replay a request.")
    ] = 10.0,
    processes: Annotated[
        int, Option("--workers", min=1, help="Server processes, each with a copy of the models.")
    ] = 1,
    log_texts: Annotated[
        bool, Option("--log-texts", help="Write the texts of requests to the log.")
    ] = False,
    precision: options.STORED_PRECISION = None,
    device: options.DEVICE = None,
) -> None:
    """Serve models over HTTP.

    Every component of a model has a path, /v1/translate, /v1/generate, /v1/classify and so on;
    /docs lists all with their keys. Requests of all clients share batches. If the queue is full,
    the answer is 429 with a time to come back; /health/ready and /metrics are for those who run the
    server, and a line of JSON for each request is written to standard error.

    Only this machine can reach the server, unless --host says otherwise. With --api-keys, every
    path but /health needs a key of the file, as "Authorization: Bearer KEY"; a line "admin KEY" is
    a key for /admin/models, which lists, loads and unloads models while the server runs.

    After SIGTERM no connection is accepted, and accepted requests are answered, for at most --drain
    seconds. With --workers N, each process has its own queue, metrics and replays.

    Answers do not depend on other requests but for the last digits of some numbers (scores of
    generated texts; on a GPU, all). With --exact, each input of a request has the numbers of a
    direct call with it alone, bit for bit on a CPU with one thread: texts are generated in turn,
    one token of each, and translated one by one. With --isolate, the inputs of a request together
    have the numbers of a direct call with them.

    Example: regard serve runs/tour/model --port 8080
    """
    try:
        from regard.serving.api_keys import APIKeys
        from regard.serving.served_model import name_of_folder
        from regard.serving.server import ModelSource, ServerConfig, bind
        from regard.serving.server import serve as run
        from regard.serving.settings import EngineLimits, RequestLimits, ServerSettings
    except ImportError as error:
        raise BadInput(f"{MISSING} ({error.name} is missing)") from None

    if exact and isolate:
        raise BadInput("--exact: inputs share batches; omit --isolate")
    if model_root and processes > 1:
        raise BadInput("--model-root: models are loaded by a single process; omit --workers")
    names = name_models(models, name)
    if languages:
        names = [each or name_of_folder(folder) for each, folder in zip(names, models, strict=True)]
    spoken = _languages(languages or [], [each for each in names if each])
    settings = ServerSettings(
        keys=None if api_keys is None else APIKeys.read(api_keys),
        cors=_origins(cors or []),
        limits=RequestLimits(body_bytes=max_body << 20),
        allow_edits=allow_edits,
        log_texts=log_texts,
        model_roots=tuple(model_root or ()),
        replay_seconds=keep * 60,
        device=device,
        precision=precision,
        workers=processes,
    )
    limits = EngineLimits(
        max_queued_tokens=max_queued_tokens,
        max_batch_tokens=max_batch_tokens,
        max_inputs=max_inputs,
        slots=slots,
        deadline=deadline,
        isolate=isolate,
        exact=exact,
    )
    if edits is not None and len(models) > 1:
        raise BadInput("--edits: needs a single MODEL")
    if model_root and api_keys is None:
        raise BadInput("--model-root: models are loaded by an administrator; add --api-keys FILE")
    sources = tuple(
        ModelSource(folder, called, edits, spoken.get(called or ""))
        for folder, called in zip(models, names, strict=True)
    )
    threads = None
    if processes > 1:
        import torch

        threads = max(1, torch.get_num_threads() // processes)
    config = ServerConfig(sources, settings, limits, threads)
    with bind(host, port) as listening:
        _, number, *_ = listening.getsockname()
        message = f"serving on {host}, port {number}; /docs lists all paths"
        run(config, listening, drain, processes, lambda: note(message))


def name_models(models: list[str], names: list[str] | None) -> list[str | None]:
    """The name of each model; None: by its folder."""
    if names is None:
        return [None] * len(models)
    if len(names) != len(models):
        raise BadInput(f"--name: {len(names)} names for {len(models)} models; name each")
    return [*names]


def _origins(given: list[str]) -> tuple[str, ...]:
    """Origins as browsers write them: scheme and host without a path, or * for any."""
    for each in given:
        if not ORIGIN.fullmatch(each):
            raise BadInput(f"--cors: write a scheme and a host alone, or *, not {shown(each)}")
    return (*given,)


def _languages(given: list[str], names: list[str]) -> dict[str, tuple[str, str]]:
    """Languages by the name of the model."""
    spoken = {}
    for each in given:
        name, _, pair = each.partition("=")
        source, dash, target = pair.partition("-")
        if not dash or not source or not target:
            raise BadInput(f"--languages: write NAME=SRC-TGT, such as opus=en-de, not {each!r}")
        if name not in names:
            raise BadInput(f"--languages: no model is called {name}{did_you_mean(name, names)}")
        spoken[name] = (source, target)
    return spoken
