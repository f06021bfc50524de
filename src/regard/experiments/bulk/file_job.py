"""A model that reads files of inputs, with options of a front end."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from regard.api import Model
from regard.core.errors import ArgumentName, BadInput, Word
from regard.core.flags import refuse
from regard.data.readers.fields import filled
from regard.data.readers.sources import NumberedLines
from regard.data.readers.text_files import Arrivals, suffix_of, whole_text
from regard.experiments.bulk.component_runs import SUFFIXES, ComponentRun, VectorRun
from regard.experiments.bulk.file_list import list_files, text_source
from regard.experiments.bulk.image_source import source_for
from regard.experiments.bulk.line_source import InputSettings, Line, LineSource, ResultForm
from regard.experiments.bulk.result_file import Command
from regard.experiments.bulk.table_source import FORMATS
from regard.experiments.notes import Listener, ignore
from regard.experiments.options import InputOptions, OutputOptions, ScorerOptions
from regard.inference.embed import Embedder
from regard.tasks.components import AnyComponent, ComponentSpec


@dataclass(frozen=True)
class FileJob:
    """A model in the folder ``name`` that reads files; ``edits`` are keys of JSON records."""

    name: str
    model: Model
    edits: Mapping[str, str]
    inputs: InputOptions
    runs: ScorerOptions
    outputs: OutputOptions
    settings: InputSettings
    command: Command | None

    @classmethod
    def open(
        cls,
        name: str,
        inputs: InputOptions,
        runs: ScorerOptions,
        outputs: OutputOptions,
        command: Command | None = None,
        *,
        argument: Word = str,
        on_event: Listener = ignore,
    ) -> "FileJob":
        """Load the model; ``argument`` writes names of options in the errors of bad inputs."""
        settings = inputs.settings(argument, on_event)
        model, edits = runs.load_edited(name, runs.edits, on_event)
        return cls(name, model, edits, inputs, runs, outputs, settings, command)

    @property
    def processes(self) -> tuple[int | None, int | None]:
        """Numbers of processes that decode images, and of workers that run a model.

        ``workers`` is the first for models of images, except with ``ray``.
        """
        if self.model.facts.encoder.embed.reads_images and self.runs.ray is None:
            return self.runs.workers, None
        if self.runs.edits is not None:
            refuse(self.runs.of_workers, ("cannot be used with ", ArgumentName("edits")))
        return None, self.runs.workers

    def spec(self, task: str, options: Mapping[str, object]) -> ComponentSpec:
        """A component of the model, for other processes."""
        place, runs = self.model.device.type, self.runs
        return ComponentSpec(
            (self.name,), task, options, place, runs.precision, batch_size=runs.batch_size
        )

    @contextmanager
    def run(
        self,
        component: AnyComponent,
        task: str,
        options: Mapping[str, object],
        source: LineSource | None = None,
        on_value: Callable[[Any], object] = lambda value: None,
    ) -> Iterator[ComponentRun]:
        """The run of a component over texts, or another ``source``."""
        _, workers = self.processes
        if source is None:
            source = text_source(component, list_files(*self.inputs.names), self.settings)
        form = ResultForm(self.outputs.as_json, self.edits)
        with self.spec(task, options).workers(workers, self.runs.ray) as shared:
            yield ComponentRun(source, component, form, self.command, shared, on_value)

    @contextmanager
    def run_embedder(
        self, component: Embedder, options: Mapping[str, object], suffix: str
    ) -> Iterator[ComponentRun | VectorRun]:
        """The run of an embedder: vectors for a file of this suffix, or in the table it reads."""
        decoders, _ = self.processes
        names, settings = self.inputs.names, self.settings
        source = source_for(self.model, component, names, settings, workers=decoders)
        in_table = source.has_columns and (self.outputs.out is None or suffix in FORMATS)
        with self.run(component, "embed", options, source) as run:
            rest = (suffix, run.command, run.workers)
            yield run if in_table else VectorRun(source, component, run.form, *rest)


class WholeFile(LineSource):
    """A file that is one text."""

    def read(self, lines: NumberedLines, arrivals: Arrivals) -> Iterator[Line]:
        text = whole_text(self.file)
        yield Line(1, text, self.parse(filled(text, self.name, "no text"), self.name))


def vector_suffix(inputs: InputOptions, outputs: OutputOptions) -> str:
    """The suffix of the format of vectors, which a file for them must have."""
    out, as_json = outputs.out, outputs.as_json
    if out is not None and as_json:
        printed, file = ": vectors are printed, or written to a file (", ArgumentName("out")
        raise BadInput((ArgumentName("as_json"), printed, file, "), not both"))
    suffix = out.suffix if out is not None else ".jsonl" if as_json else ".txt"
    first = list_files(*inputs.names)[0]
    of_table = suffix_of(first) in FORMATS or bool(inputs.column or inputs.delimiter)
    if suffix not in (SUFFIXES | FORMATS if of_table else SUFFIXES):
        fault = f" {out}: the name of a file of vectors ends in {', '.join(SUFFIXES)}"
        raise BadInput((ArgumentName("out"), fault))
    if suffix in FORMATS:
        outputs.check_format(first)
    return suffix
