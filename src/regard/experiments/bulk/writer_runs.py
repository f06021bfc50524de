"""Translation of files, and continuation of the prompts in files, by options."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import cast

from regard.api import load
from regard.core.errors import ArgumentName, BadArgument, BadInput
from regard.core.flags import refuse
from regard.data.readers.sources import NumberedLines
from regard.data.readers.text_files import Arrivals, read_lines
from regard.experiments.bulk.component_runs import ComponentRun, DocumentRun, paragraph_parser
from regard.experiments.bulk.file_list import list_files, text_source
from regard.experiments.bulk.line_source import (
    InputSettings,
    Line,
    LineSource,
    Parse,
    ResultForm,
    parser_of,
    plain_text,
    read_windows,
    unless_empty,
)
from regard.experiments.bulk.result_file import Command
from regard.experiments.notes import Listener, Note, ignore
from regard.experiments.options import InputOptions, LoadOptions, OutputOptions, WriterOptions
from regard.experiments.options.writing import (
    GenerationOptions,
    GenerationSearch,
    TranslationOptions,
    TranslationSearch,
)
from regard.experiments.search_methods import choose_method, prepared_writer
from regard.inference.decoder_model import Method, Request, Writer
from regard.inference.generator import Ending, Generator
from regard.inside.trees.token_tree import TokenTree, record_tokens
from regard.tasks.components import ComponentSpec
from regard.text.vocabulary import Vocabulary

LOSSY = ("wordpiece", "sentencepiece")  # vocabularies that cannot encode every word


@contextmanager
def translation_run(
    model: str,
    inputs: InputOptions,
    search: TranslationSearch,
    runs: WriterOptions,
    outputs: OutputOptions,
    options: TranslationOptions,
    settings: InputSettings,
    *,
    command: Command | None = None,
    on_event: Listener = ignore,
) -> Iterator[ComponentRun | DocumentRun]:
    """The run that translates lines, rows of tables or paragraphs."""
    folders = (model, *(options.ensemble or ()))
    if runs.edits is not None:
        refuse(
            {"ensemble": options.ensemble, **runs.of_workers},
            ("cannot be used with ", ArgumentName("edits")),
        )
    device, size = runs.device, runs.batch_size
    as_stored = LoadOptions(device=device, batch_size=size)
    loaded, edited = as_stored.load_edited(model, runs.edits, on_event)
    others = tuple(load(name, device, batch_size=size).translator for name in folders[1:])
    translator = replace(loaded.translator, others=others)
    method = choose_method(translator, search.search, search, on_event)
    limit = search.max_new_tokens
    spec = ComponentSpec(folders, "translate", {"method": method, "max_new_tokens": limit})
    writer = translator.writer(method, search.best, limit)
    with prepared_writer(writer, spec, runs, on_event) as (writer, shared, envelope):
        form = ResultForm(outputs.as_json, envelope | edited)
        vocabulary = translator.vocabularies
        parsed = partial(_with_note, vocabulary=vocabulary.source, on_event=on_event)
        if options.document:
            sentence = parsed(parser_of(writer, inputs.max_length))
            encoding = inputs.encoding or "utf-8"
            paragraphs = LineSource(inputs.file, paragraph_parser(sentence), encoding=encoding)
            yield DocumentRun(paragraphs, writer, form, shared)
            return
        if options.prefix is not None:
            parse = parser_of(writer, inputs.max_length)
            lines = PrefixedLines(inputs.file, parse, **settings.of_lines, prefixes=options.prefix)
            source: LineSource = lines
        else:
            source = text_source(writer, list_files(*inputs.names), settings)
        yield ComponentRun(source.with_parse(parsed), writer, form, command, shared)


@dataclass(frozen=True, kw_only=True)
class PrefixedLines(LineSource):
    """Lines whose translations must begin with the lines of another file."""

    prefixes: str

    def read(self, lines: NumberedLines, arrivals: Arrivals) -> Iterator[Line]:
        prefixes, count = read_lines(self.prefixes), 0
        for count, line in enumerate(super().read(lines, arrivals), start=1):
            if (prefix := next(prefixes, None)) is None:
                fault = f"no prefix for this line: {self.prefixes} has {count - 1} lines"
                raise BadInput(f"{self.name}:{line.number}: {fault}")
            yield line._replace(value=line.value and line.value._replace(prefix=prefix))
        if next(prefixes, None) is not None:
            fault = f"no text for this prefix: {self.name} has {count} lines"
            raise BadInput(f"{self.prefixes}:{count + 1}: {fault}")


def _with_note(parse: Parse, vocabulary: Vocabulary, on_event: Listener) -> Parse:
    """A parser of inputs that notes words outside the vocabulary."""

    def parsed(line: str, where: str) -> object:
        request = cast("Request | None", parse(line, where))
        text = "" if request is None else str(request.text)
        if vocabulary.kind in LOSSY and (unknown := vocabulary.unknown(text)):
            words = ", ".join(text[start:end] for start, end in unknown)
            number = where.rpartition(":")[2]
            on_event(Note(f"line {number}: not in the vocabulary: {words}"))
        return request

    return parsed


@dataclass(frozen=True)
class GenerationJob:
    """A model that continues single prompts, as a ``writer``, or files of them, by ``run``."""

    writer: Writer
    source: Callable[[], LineSource]
    run_of: Callable[[LineSource], ComponentRun]

    @property
    def generator(self) -> Generator:
        """The model of the writer."""
        return cast(Generator, self.writer.model)

    def trees(
        self, file: str, alternatives: int, *, single: bool, flush: Callable[[], object]
    ) -> Iterator[TokenTree]:
        """The most probable tokens of each step, for each line; for a page, of a ``single`` one."""
        lines = read_windows(LineSource(file, plain_text, window=1), flush)
        if single:
            lines = iter(first := list(islice(lines, 2)))
            if len(first) > 1:
                raise BadArgument("a page shows one prompt, and there are several", key="html")
        search = self.writer.method.search
        for (line,) in lines:
            number = line.number - 1
            yield record_tokens(self.generator, line.text, search, alternatives, number)

    def run(self) -> ComponentRun:
        """The run over lines, rows of tables or records."""
        return self.run_of(self.source())


@contextmanager
def generation_job(
    model: str,
    inputs: InputOptions,
    search: GenerationSearch,
    runs: WriterOptions,
    outputs: OutputOptions,
    options: GenerationOptions,
    settings: InputSettings,
    method_name: str | None = None,
    command: Command | None = None,
    on_event: Listener = ignore,
) -> Iterator[GenerationJob]:
    """The model that continues prompts, in its precision and engine."""
    stops = tuple(string.replace("\\n", "\n") for string in search.stop_string or [])
    ending = Ending(search.max_new_tokens, search.min_new_tokens, stops)
    if runs.edits is not None:
        refuse(runs.of_workers, ("cannot be used with ", ArgumentName("edits")))
    as_stored = LoadOptions(device=runs.device, batch_size=runs.batch_size)
    loaded, edited = as_stored.load_edited(model, runs.edits, on_event)
    generator = loaded.generator
    method = Method(generator.search)
    if method_name is not None:
        method = choose_method(generator, method_name, search, on_event)
    chosen = {"method": method, "ending": ending, "field": options.write}
    spec = ComponentSpec((model,), "generate", chosen)
    writer = generator.writer(method, search.best, ending, options.write)
    with prepared_writer(writer, spec, runs, on_event) as (writer, shared, envelope):
        form = ResultForm(outputs.as_json, envelope | edited)
        limited = cast(Generator, writer.model).with_limits(None, inputs.max_length)

        def source() -> LineSource:
            if options.fields is None:
                return text_source(writer, list_files(*inputs.names), settings)
            parse = unless_empty(limited.read_record)
            return RecordSource(options.fields, parse, skip_bad=inputs.skip_bad)

        run_of = partial(ComponentRun, component=writer, form=form, command=command, workers=shared)
        yield GenerationJob(replace(writer, model=limited), source, run_of)


class RecordSource(LineSource):
    """Records of a JSON file: an object, a list of objects, or an object on each line."""

    def lines(self, arrivals: Arrivals) -> Iterator[bytes]:
        lines = [*super().lines(arrivals)]
        remedy = "write an object for each article"
        if not any(map(bytes.strip, lines)):
            raise BadArgument("the file has no record", key="fields", remedy=remedy)
        try:
            content = json.loads(b"\n".join(lines))
        except (ValueError, RecursionError):
            return iter(lines)
        records = content if isinstance(content, list) else [content]
        if not records:
            raise BadArgument("the list has no record", key="fields", remedy=remedy)
        return (json.dumps(record).encode() for record in records)
