"""``regard studio``: models in the browser."""

import webbrowser
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from regard.cli.io.console import note
from regard.cli.verbs.serve import MISSING
from regard.core.errors import BadInput
from regard.experiments import options


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
        from regard.studio.app import launch
    except ImportError as error:
        raise BadInput(f"{MISSING} ({error.name} is missing)") from None

    launch(
        models,
        lambda address: note(f"the studio is at {address}; Ctrl-C ends it"),
        open_page=webbrowser.open if opens else None,
        runs=runs,
        trains=trains,
        has_token=has_token,
        port=port,
        names=name,
        precision=precision,
        device=device,
    )
