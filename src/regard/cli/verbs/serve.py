"""``regard serve``: models over HTTP."""

from typing import Annotated

from typer import Argument

from regard.cli.io.console import note
from regard.core.errors import BadInput
from regard.serving.serve_options import ServeOptions

MISSING = "serving needs more libraries: pip install 'regard[serve]'"


def serve(
    models: Annotated[
        list[str],
        Argument(metavar="MODEL...", help="Model folders, or ids on the Hugging Face hub."),
    ],
    runs: ServeOptions,
) -> None:
    """Serve models over HTTP.

    Every component of a model has a path, /v1/translate, /v1/generate, /v1/classify and so on;
    /docs lists all with their keys. Requests of all clients share batches. If the queue is full,
    the answer is 429 with a time to come back; /health/ready and /metrics are for those who run the
    server, and a line of JSON for each request is written to standard error.

    Only this machine can reach the server, unless --host says otherwise. Without keys it then
    answers only as localhost, as an address of this machine to itself, or as --allowed-host, so
    that no page of another site can reach it under its own name. With --api-keys, every path but
    /health and the page at / needs a key of the file, as "Authorization: Bearer KEY"; a line
    "admin KEY" is a key for /admin/models, which lists, loads and unloads models while the server
    runs.

    After SIGTERM no connection is accepted, and accepted requests are answered, for at most --drain
    seconds. With --workers N, each process has its own queue and replays, and /metrics
    has the figures of all.

    Answers do not depend on other requests but for the last digits of some numbers (scores of
    generated texts; on a GPU, all). With --exact, each input of a request has the numbers of a
    direct call with it alone, bit for bit on a CPU with one thread: texts are generated in turn,
    one token of each, and translated one by one. With --isolate, the inputs of a request together
    have the numbers of a direct call with them.

    Example: regard serve runs/tour/model --port 8080
    """
    try:
        from regard.serving.launch import launch
    except ImportError as error:
        raise BadInput(f"{MISSING} ({error.name} is missing)") from None

    def tell(port: int) -> None:
        note(f"serving on {runs.host}, port {port}; /docs lists all paths")

    launch(models, runs, tell)
