"""Options of translation and generation: the decoding method, and what is read and written."""

from dataclasses import dataclass
from typing import Annotated, Literal

from regard.core.errors import BadInput
from regard.core.flags import Flag, Options, refuse
from regard.experiments.options import (
    COVERAGE,
    BeamOptions,
    InputOptions,
    OutputOptions,
    SearchOptions,
    WriterOptions,
)

BRANCHING = ("beam", "mbr")  # searches that cannot stream


@dataclass(frozen=True)
class CoveredBeam(BeamOptions):
    """Beam search with a coverage penalty."""

    coverage: COVERAGE = None


@dataclass(frozen=True)
class TranslationSearch(SearchOptions):
    """Decoding methods of translators."""

    search: Annotated[
        Literal["beam", "greedy", "sample", "mbr", "exact", "published"] | None,
        Flag(help="Decoding method; default: generation_config.json if present, else beam."),
    ] = None
    coverage: COVERAGE = None
    max_active: Annotated[
        int, Flag(help="Number of active prefixes at which exact search gives up on a sentence.")
    ] = 1_000


@dataclass(frozen=True)
class TranslationOptions(Options):
    """Other models of an ensemble, forced beginnings, and running text."""

    ensemble: Annotated[
        list[str] | None, Flag("--ensemble", "Another model of the ensemble; repeatable.", "MODEL")
    ] = None
    prefix: Annotated[
        str | None,
        Flag(help="File of forced beginnings of translations, one per line.", metavar="FILE"),
    ] = None
    document: Annotated[
        bool, Flag("--document", "Each line is a paragraph: translate sentence by sentence.")
    ] = False

    @property
    def is_plain(self) -> bool:
        """Whether each line, or row of a table, is translated on its own."""
        return self.prefix is None and not self.document

    def check(
        self, inputs: InputOptions, search: TranslationSearch, outputs: OutputOptions
    ) -> None:
        """Refuse options that cannot be used together."""
        of_tables = {**inputs.of_tables}
        of_tables.pop("encoding")  # lines have one, too
        if outputs.resume and self.prefix is not None:
            refuse({"resume": True}, "cannot be used with --prefix")
        if self.document:
            used: dict[str, object] = {"prefix": self.prefix, "resume": outputs.resume}
            used |= {"best": search.best > 1, **of_tables, "skip_bad": inputs.skip_bad}
            refuse(used, "cannot be used with --document")
        if self.prefix is not None:
            refuse(of_tables, "cannot be used with --prefix, which is for plain lines")


@dataclass(frozen=True)
class GenerationSearch(SearchOptions):
    """Decoding methods of language models."""

    search: Annotated[
        Literal["greedy", "sample", "beam", "mbr"] | None,
        Flag(help="Decoding method; default: by other options, generation_config.json or greedy."),
    ] = None
    min_new_tokens: Annotated[int, Flag(help="Minimum number of new tokens.")] = 0
    stop_string: Annotated[
        list[str] | None,
        Flag(help="End a text before this string; \\n is a line break; repeatable."),
    ] = None


@dataclass(frozen=True)
class GenerationOptions(Options):
    """What is continued, and how it is shown."""

    fields: Annotated[
        str | None, Flag(help="JSON records, for a model of fields; needs --write.", metavar="FILE")
    ] = None
    write: Annotated[
        str | None, Flag(help="The field to write after those of each record.", metavar="FIELD")
    ] = None

    stream: Annotated[
        bool, Flag("--stream", "Print each text while it is generated, with its line breaks.")
    ] = False
    tree: Annotated[
        int | None, Flag(help="Show the N most probable tokens of each step.", metavar="N", least=1)
    ] = None

    @property
    def is_plain(self) -> bool:
        """Whether each line, or row of a table, is continued on its own, and printed at its end."""
        return self.fields is None and self.tree is None and not self.stream

    def check(
        self,
        inputs: InputOptions,
        runs: WriterOptions,
        outputs: OutputOptions,
        *,
        best: int,
        method: str | None,
        page: bool,
    ) -> None:
        """Refuse options that cannot be used with records, streams and trees."""
        of_lines = {"more than one FILE": inputs.more} | inputs.of_tables
        if (self.fields is None) != (self.write is None):
            raise BadInput("--fields FILE and --write FIELD: each needs the other")
        if self.fields is not None:
            lines = {"FILE": inputs.file != "-", "stream": self.stream}
            modes = {"tree": self.tree is not None, "max_length": inputs.max_length}
            refuse(lines | modes | of_lines, "cannot be used with --fields")
        flags: dict[str, object] = {
            **of_lines,
            "skip_bad": inputs.skip_bad,
            "resume": outputs.resume,
            **runs.of_workers,
            "best": best != 1,
            f"--search {method}": method in BRANCHING,
        }
        if self.stream:
            flags = {"json": outputs.as_json, "out": outputs.out, **flags}
            refuse(flags, "cannot be used with --stream")
        if self.tree is not None:
            refuse({"stream": self.stream, **flags}, "cannot be used with --tree")
        elif page:
            raise BadInput("--html: needs --tree")
