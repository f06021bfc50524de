"""How verbs search: what the model says, and what options say instead."""

from collections.abc import Iterable
from typing import Any

import typer

from regard.cli.console import note, was_given
from regard.ground.errors import BadInput
from regard.search.beam import Beam
from regard.tasks.translate import Translator

OWN = "the model's"  # default of an option that overrules how the model searches


def default_search(translator: Translator, named: bool) -> Beam:
    """How it searches unless told otherwise: an option overrules only what it names.

    Generation settings that cannot be followed are an error, unless another search is ``named``.
    """
    try:
        return translator.search
    except BadInput as error:
        if not named:
            raise
        note(f"not followed: {error}")
        return translator.beam


def options_given(context: typer.Context, names: Iterable[str]) -> dict[str, Any]:
    """Those of the options that were given on the command line, with their values."""
    return {name: context.params[name] for name in names if was_given(context, name)}
