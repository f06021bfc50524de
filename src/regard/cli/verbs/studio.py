"""``regard studio``: models in the browser."""

import webbrowser
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated
from urllib.parse import urlencode, urlunsplit

from typer import Argument, Option

from regard.cli.io.console import note
from regard.cli.verbs.serve import MISSING
from regard.core.errors import BadInput
from regard.experiments import options
from regard.serving.serve_options import name_models

HOST = "127.0.0.1"
TO_PAGE = (
    '<!doctype html><meta charset="utf-8"><title>regard studio</title>'
    '<meta http-equiv="refresh" content="0; url={0}"><a href="{0}">regard studio</a>\n'
)


@contextmanager
def page_to(address: str) -> Iterator[str]:
    """Address of a file that leads a browser to another address, and that only this user reads.

    The arguments of a browser can be read by every user of a machine.
    """
    with TemporaryDirectory(prefix="regard-studio-") as folder:
        file = Path(folder) / "studio.html"
        file.write_text(TO_PAGE.format(escape(address)), encoding="utf-8")
        yield file.as_uri()


def studio(
    models: Annotated[
        list[str],
        Argument(metavar="MODEL...", help="Model folders, or ids on the Hugging Face hub."),
    ],
    runs: Annotated[
        Path | None, Option("--runs", help="Folder of training runs, for the page Train.")
    ] = None,
    trains: Annotated[
        bool, Option("--train", help="Let the page Train start branches of --runs on this machine.")
    ] = False,
    has_token: Annotated[
        bool | None,
        Option(
            "--token/--no-token",
            help="Ask for a token, which is in the printed address. Default: with --train.",
        ),
    ] = None,
    port: options.PORT = 8090,
    name: Annotated[
        list[str] | None,
        Option("--name", help="Name of a model in the page, in the order of MODEL; repeatable."),
    ] = None,
    opens: Annotated[bool, Option("--open", help="Open the page in the browser.")] = False,
    precision: options.STORED_PRECISION = None,
    device: options.DEVICE = None,
) -> None:
    """Open models up in the browser.

    The page has a view for everything a model can do: translate, understand, generate and see, what
    its heads do, two models side by side, training runs, and papers. All choices are in the address
    of the page, so that it can be kept and shared; views are saved as SVG or PNG.

    The page starts no training unless --train is given: then the page Train starts branches of the
    runs in --runs (regard train --branch), each as a process that ends with the studio.

    Only this machine reaches the page, and the page reaches nothing else. On another machine, use
    ssh -L 8090:localhost:8090 MACHINE. Other users of a machine reach its ports, too: with --token,
    and with --train, the studio answers only to who has the token of the printed address.

    Example: regard studio runs/tour/model --runs runs --open
    """
    try:
        from regard.serving.app import ServerSettings
        from regard.serving.server import ModelSource, ServerConfig, bind, serve
        from regard.studio.access import TOKEN, AccessToken
        from regard.studio.app import studio_apis
        from regard.studio.branches import Trainings
    except ImportError as error:
        raise BadInput(f"{MISSING} ({error.name} is missing)") from None

    if runs is not None and not runs.is_dir():
        raise BadInput(f"--runs {runs}: no such folder")
    if trains and runs is None:
        raise BadInput("--train: name the folder of runs, too: --runs DIR")
    trainings = Trainings() if trains else None
    token = AccessToken.new() if (trains if has_token is None else has_token) else None
    settings = ServerSettings(allow_edits=True, device=device, precision=precision)
    named = zip(models, name_models(models, name), strict=True)
    sources = tuple(ModelSource(folder, called) for folder, called in named)
    config = ServerConfig(sources, settings, apis=studio_apis(runs, trainings, token))
    with bind(HOST, port) as listening, ExitStack() as opened:
        _, number = listening.getsockname()
        query = "" if token is None else urlencode({TOKEN: token.value})
        address = urlunsplit(("http", f"{HOST}:{number}", "/studio", query, ""))

        def tell() -> None:
            note(f"the studio is at {address}; Ctrl-C ends it")
            if opens:
                secret = token is not None
                webbrowser.open(opened.enter_context(page_to(address)) if secret else address)

        try:
            serve(config, listening, drain=5, when_loaded=tell)
        finally:
            if trainings is not None:
                trainings.close()
