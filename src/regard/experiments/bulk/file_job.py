"""A model that reads files of inputs, with options of a front end."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from regard.api import Model
from regard.core.errors import ArgumentName, Word
from regard.core.flags import refuse
from regard.data.readers.fields import filled
from regard.data.readers.sources import NumberedLines
from regard.data.readers.text_files import Arrivals, whole_text
from regard.experiments.bulk.component_runs import ComponentRun
from regard.experiments.bulk.file_list import list_files, text_source
from regard.experiments.bulk.line_source import InputSettings, Line, LineSource, ResultForm
from regard.experiments.bulk.result_file import Command
from regard.experiments.notes import Listener, ignore
from regard.experiments.options import InputOptions, OutputOptions, ScorerOptions
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


class WholeFile(LineSource):
    """A file that is one text."""

    def read(self, lines: NumberedLines, arrivals: Arrivals) -> Iterator[Line]:
        text = whole_text(self.file)
        yield Line(1, text, self.parse(filled(text, self.name, "no text"), self.name))
