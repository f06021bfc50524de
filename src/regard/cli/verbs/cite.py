"""``regard cite``: BibTeX entries of papers, of models and of regard."""

from typing import Annotated

from typer import Argument

from regard.cli.io.console import print_json, print_line
from regard.experiments import options
from regard.experiments.citations import bibtex, citations


def cite(
    names: Annotated[
        list[str] | None,
        Argument(metavar="[PAPER|MODEL]...", help="Papers, model folders or ids on the hub."),
    ] = None,
    as_json: options.JSON = False,
) -> None:
    """Print BibTeX entries of papers, of models or of regard.

    Without a name, or with the name regard, the entry of regard itself. `regard papers` lists the
    names of papers.

    Example: regard cite BERT runs/tour/model >> references.bib
    """
    entries = citations(names or ())
    if as_json:
        print_json(*entries)
    else:
        print_line("\n\n".join(map(bibtex, entries)))
