"""``regard.bulk``: a component of a model over a file or a folder of images, by workers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from regard.api import load
from regard.core.checks import check_known, check_whole
from regard.core.errors import BadInput
from regard.core.files import digest_folder
from regard.core.keywords import check_keywords
from regard.data.readers.text_files import suffix_of
from regard.experiments.bulk.component_runs import ComponentRun
from regard.experiments.bulk.file_list import check_apart, list_files
from regard.experiments.bulk.image_source import source_for
from regard.experiments.bulk.line_source import InputSettings, ResultForm
from regard.experiments.bulk.result_file import Command, as_stored, describe_statistics, partial_of
from regard.experiments.bulk.table_source import FORMATS, JsonRows
from regard.experiments.notes import Listener, ignore
from regard.models.folders.hub import local_folder
from regard.tasks.components import COMPONENTS, ComponentSpec

JSON_LINES = (".jsonl", ".ndjson")
SHOWN = {"file": "dataset", "blocks": "workers or ray"}  # values of a command by their arguments


@dataclass(frozen=True)
class BulkReport:
    """Counts of a bulk run: ``inputs``, of which ``bad`` have an error in place of a result.

    ``sums`` are sums over all results, such as tokens and scores, by name; ``seconds`` is the time
    of this call.
    """

    out: Path
    inputs: int
    bad: int
    sums: Mapping[str, float]
    seconds: float

    def __str__(self) -> str:
        return describe_statistics(self.sums, self.inputs, self.bad)


@check_keywords
def bulk(
    model: str | Path,
    dataset: str | Path | Sequence[str | Path],
    *,
    task: str,
    out: str | Path,
    options: Mapping[str, object] | None = None,
    columns: Sequence[str] | None = None,
    workers: int = 1,
    ray: str | None = None,
    device: str | None = None,
    precision: str | None = None,
    batch_size: int | None = None,
    max_length: int | None = None,
    skip_bad: bool = True,
    on_event: Listener = ignore,
) -> BulkReport:
    """Run a component ("embed", "predict", "translate", "generate", "score", "fill") over a file.

    ``dataset`` is a text with an input on each line, a table (.csv, .tsv, .jsonl, .parquet) whose
    ``columns`` are the input, or a folder of images; or several such files: a list of them, a
    pattern ("reviews/*.csv"), or a folder. Results go to ``out`` in the order of the
    inputs: a .jsonl file, or for a table one of its own format, with columns for the results.
    ``options`` are those of the component. ``workers`` processes run a copy of the model each (0:
    this process does), or, with the address of a ``ray`` ("local": on this machine), as many actors
    of Ray.

    A call that was killed continues when it is repeated, except for .parquet files. Bad inputs have
    an error under "error"; without ``skip_bad``, they end the run. ``on_event`` is called with
    remarks: which columns are read, what is bad, and the statistics of the results.
    """
    names = dataset if isinstance(dataset, list | tuple) else [dataset]
    if not names:
        raise BadInput("dataset: an empty list; name at least one file")
    files, path, chosen = [*map(str, names)], Path(out), dict(options or {})
    file = list_files(*files)[0]
    as_json = path.suffix in JSON_LINES and suffix_of(file) not in JSON_LINES
    if path.suffix not in FORMATS:
        known = ", ".join(FORMATS)
        raise BadInput(f"out: {path} has the suffix of no table; choose one of {known}")
    if suffix_of(file) not in FORMATS and path.suffix not in JSON_LINES:
        raise BadInput(f"out: the results of {file} are JSON lines; name a .jsonl file")
    if not as_json and FORMATS[path.suffix] is not FORMATS.get(suffix_of(file), JsonRows):
        suffixes = " or ".join(dict.fromkeys((suffix_of(file), ".jsonl")))
        raise BadInput(f"out: {path}: the results of {file} are a {suffixes} file")
    if path.exists() and not partial_of(path).exists():
        raise BadInput(f"{path}: is complete; remove it, or choose another")
    check_apart({"out": path, "file": files})
    check_whole("workers", workers, 0)
    if max_length is not None:
        check_whole("max_length", max_length, 1)
    check_known("task", task, COMPONENTS)
    begun = monotonic()
    loaded = load(model, device, precision=precision, batch_size=batch_size)
    component = loaded.component(task, **chosen)
    settings = InputSettings(columns, max_length, skip_bad=skip_bad, on_event=on_event)
    source = source_for(loaded, component, files, settings)
    spec = ComponentSpec(
        (model,), task, chosen, loaded.device.type, precision, batch_size=batch_size
    )
    described = {
        "verb": "bulk",
        "file": files,
        "model": digest_folder(local_folder(model)),
        "task": task,
        **{"options": repr(sorted(chosen.items())), "columns": columns, "max_length": max_length},
        **{"precision": precision, "batch_size": batch_size, "device": loaded.device.type},
    }
    command = Command(as_stored(described), SHOWN)
    with spec.workers(workers, ray) as shared:
        begun_by = command if source.streams or as_json else None
        form = ResultForm(as_json or not source.has_columns)
        run = ComponentRun(source, component, form, begun_by, shared)
        progress = run.write(path, on_event)
    return BulkReport(path, progress.inputs, progress.bad, {**progress.sums}, monotonic() - begun)
