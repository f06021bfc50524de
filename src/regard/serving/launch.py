"""A server by its options: configuration, address and processes."""

from collections.abc import Callable, Sequence

import torch

from regard.core.errors import ArgumentName, BadArgument
from regard.serving.rates import RateLimits
from regard.serving.serve_options import ServeOptions, name_models
from regard.serving.served_model import name_of_folder
from regard.serving.server import ModelSource, ServerConfig, bind, serve
from regard.serving.settings import (
    APIKeys,
    EngineLimits,
    RequestLimits,
    ServerSettings,
    is_this_machine,
)


def config_of(models: Sequence[str], options: ServeOptions) -> ServerConfig:
    """The configuration of a server of the models in these folders."""
    if options.exact and options.isolate:
        fault = ("inputs share batches; omit ", ArgumentName("isolate"))
        raise BadArgument(fault, key="exact")
    if options.model_root and options.processes > 1:
        fault = ("models are loaded by a single process; omit ", ArgumentName("workers"))
        raise BadArgument(fault, key="model_root")
    names = name_models(models, options.name)
    if options.languages:
        names = [each or name_of_folder(folder) for each, folder in zip(names, models, strict=True)]
    spoken = options.spoken([each for each in names if each])
    keys, body = options.api_keys, options.max_body << 20
    settings = ServerSettings(
        keys=None if keys is None else APIKeys.read(keys),
        cors=options.origins,
        hosts=options.hosts(is_open=keys is None and is_this_machine(options.host)),
        limits=RequestLimits(body, max(RequestLimits.all_bytes, 2 * body)),
        rates=RateLimits(options.requests_per_minute, options.tokens_per_minute),
        allow_edits=options.allow_edits,
        log_texts=options.log_texts,
        model_roots=tuple(options.model_root or ()),
        replay_seconds=options.keep * 60,
        device=options.device,
        precision=options.precision,
        workers=options.processes,
    )
    limits = EngineLimits(
        max_queued_tokens=options.max_queued_tokens,
        max_batch_tokens=options.max_batch_tokens,
        max_inputs=options.max_inputs,
        slots=options.slots,
        deadline=options.deadline,
        isolate=options.isolate,
        exact=options.exact,
    )
    options.check(models)
    sources = tuple(
        ModelSource(folder, called, options.edits, spoken.get(called or ""))
        for folder, called in zip(models, names, strict=True)
    )
    threads = None
    if options.processes > 1:
        threads = max(1, torch.get_num_threads() // options.processes)
    return ServerConfig(sources, settings, limits, threads)


def launch(models: Sequence[str], options: ServeOptions, on_ready: Callable[[int], None]) -> None:
    """Serve models until a signal ends it; ``on_ready`` is called with the port."""
    config = config_of(models, options)
    with bind(options.host, options.port) as listening:
        _, number, *_ = listening.getsockname()
        serve(config, listening, options.drain, options.processes, lambda: on_ready(number))
