"""Options of the server, as its command line and its configuration have them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from regard.core.errors import ArgumentName, BadArgument, did_you_mean, shown
from regard.core.flags import Flag, Options
from regard.experiments.options import DEVICE, EDITS, PORT, STORED_PRECISION

HOST = re.compile(r"[A-Za-z0-9._-]{1,253}|[0-9a-fA-F:]{2,39}")
ORIGIN = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://[^/?#\sA-Z]+")


@dataclass(frozen=True)
class ServeOptions(Options):
    """Models, address, keys, limits and permissions of a server."""

    host: Annotated[str, Flag("--host", help="Address to listen on.")] = "127.0.0.1"
    port: PORT = 8080
    name: Annotated[
        list[str] | None,
        Flag("--name", help="Name of a model in requests, in the order of MODEL; repeatable."),
    ] = None
    languages: Annotated[
        list[str] | None,
        Flag(
            "--languages",
            metavar="NAME=SRC-TGT",
            help="Languages of a translator, such as opus=en-de; repeatable.",
        ),
    ] = None
    api_keys: Annotated[
        Path | None, Flag("--api-keys", help="File of keys, one per line; see the text above.")
    ] = None
    cors: Annotated[
        list[str] | None,
        Flag("--cors", metavar="ORIGIN", help="Origin of pages that may ask; repeatable."),
    ] = None
    allowed_host: Annotated[
        list[str] | None,
        Flag("--allowed-host", metavar="NAME", help="Name of this server; repeatable."),
    ] = None
    model_root: Annotated[
        list[Path] | None,
        Flag("--model-root", help="Folder below which an administrator may load models."),
    ] = None
    edits: EDITS = None
    allow_edits: Annotated[
        bool, Flag("--allow-edits", help="Apply the edits that requests carry.")
    ] = False
    max_queued_tokens: Annotated[
        int, Flag("--max-queued-tokens", least=1, help="Tokens that wait for a model; then 429.")
    ] = 1_000_000
    max_batch_tokens: Annotated[
        int, Flag("--max-batch-tokens", least=1, help="Tokens of a batch.")
    ] = 16_384
    max_inputs: Annotated[int, Flag("--max-inputs", least=1, help="Inputs of a request.")] = 1_024
    max_body: Annotated[
        int, Flag("--max-body", least=1, metavar="MIB", help="Size of a request in MiB.")
    ] = 8
    requests_per_minute: Annotated[
        int | None,
        Flag("--requests-per-minute", least=1, help="Requests of a key, or an address; then 429."),
    ] = None
    tokens_per_minute: Annotated[
        int | None,
        Flag("--tokens-per-minute", least=1, help="Tokens of a key, or an address; then 429."),
    ] = None
    slots: Annotated[
        int, Flag("--slots", least=1, help="Texts that are generated at the same time.")
    ] = 64
    deadline: Annotated[
        float, Flag("--deadline", least=0.001, help="Seconds until a request is given up.")
    ] = 60.0
    drain: Annotated[
        int, Flag("--drain", least=0, help="Seconds for accepted requests after SIGTERM.")
    ] = 30
    isolate: Annotated[bool, Flag("--isolate", help="Never run two requests in one batch.")] = False
    exact: Annotated[
        bool, Flag("--exact", help="Every number as of a direct call with this input, on a CPU.")
    ] = False
    keep: Annotated[
        float, Flag("--keep", least=0, metavar="MINUTES", help="Time to replay a request.")
    ] = 10.0
    processes: Annotated[
        int, Flag("--workers", least=1, help="Server processes, each with a copy of the models.")
    ] = 1
    log_texts: Annotated[
        bool, Flag("--log-texts", help="Write the texts of requests to the log.")
    ] = False
    precision: STORED_PRECISION = None
    device: DEVICE = None

    @property
    def origins(self) -> tuple[str, ...]:
        """Origins as browsers write them: scheme and host without a path, or * for any."""
        for each in self.cors or ():
            if not ORIGIN.fullmatch(each):
                fault = f"write a scheme and a host alone, or *, not {shown(each)}"
                raise BadArgument(fault, key="cors")
        return (*(self.cors or ()),)

    def hosts(self, *, is_open: bool) -> tuple[str, ...] | None:
        """Names by which the server may be addressed; None: any.

        A server that ``is_open`` to this machine, without keys, has only the names of this machine.
        """
        names = self.allowed_host or ()
        for each in names:
            if not HOST.fullmatch(each):
                fault = f"write a name without a port, not {shown(each)}"
                raise BadArgument(fault, key="allowed_host")
        return tuple(map(str.lower, names)) if names or is_open else None

    def spoken(self, names: Sequence[str]) -> dict[str, tuple[str, str]]:
        """Languages by the name of the model."""
        languages = {}
        for each in self.languages or ():
            name, _, pair = each.partition("=")
            source, dash, target = pair.partition("-")
            if not dash or not source or not target:
                fault = f"write NAME=SRC-TGT, such as opus=en-de, not {each!r}"
                raise BadArgument(fault, key="languages")
            if name not in names:
                known = f"no model is called {name}{did_you_mean(name, names)}"
                raise BadArgument(known, key="languages")
            languages[name] = (source, target)
        return languages

    def check(self, models: Sequence[str]) -> None:
        """Refuse options that cannot be used together."""
        if self.edits is not None and len(models) > 1:
            raise BadArgument("needs a single MODEL", key="edits")
        if self.model_root and self.api_keys is None:
            fault = "models are loaded by an administrator; add "
            raise BadArgument((fault, ArgumentName("api_keys"), " FILE"), key="model_root")


def name_models(models: Sequence[str], names: Sequence[str] | None) -> list[str | None]:
    """The name of each model; None: by its folder."""
    if names is None:
        return [None] * len(models)
    if len(names) != len(models):
        fault = f"{len(names)} names for {len(models)} models; name each"
        raise BadArgument(fault, key="name")
    return [*names]
