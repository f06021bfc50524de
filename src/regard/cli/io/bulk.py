"""``regard.bulk``: a component of a model over a file or a folder of images, by workers."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from regard.api import load
from regard.cli.io.file_list import list_files
from regard.cli.io.image_io import source_for
from regard.cli.io.line_io import run_component
from regard.cli.io.output import Command
from regard.cli.io.statistics import describe_statistics
from regard.cli.io.table_io import FORMATS, check_output
from regard.data.readers.text_files import suffix_of
from regard.ground.errors import BadInput
from regard.ground.files import digest_folder
from regard.ground.keywords import check_keywords
from regard.models.folders.hub import local_folder
from regard.tasks.components import ComponentSpec

JSON_LINES = (".jsonl", ".ndjson")


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
) -> BulkReport:
    """Run a component ("embed", "predict", "translate", "generate", "score", "fill") over a file.

    ``dataset`` is a text with an input on each line, a table (.csv, .tsv, .jsonl, .parquet) whose
    ``columns`` are the input, or a folder of images; or several such files: a list of them, a
    pattern ("reviews/*.csv"), or a folder. Results go to ``out`` in the order of the
    inputs: a .jsonl file, or for a table one of its own format, with columns for the results.
    ``options`` are those of the component. ``workers`` processes run a copy of the model each, or,
    with the address of a ``ray`` ("local": on this machine), as many actors of Ray.

    A call that was killed continues when it is repeated, except for .parquet files. Bad inputs have
    an error under "error"; without ``skip_bad``, they end the run.
    """
    names = dataset if isinstance(dataset, list | tuple) else [dataset]
    if not names:
        raise BadInput("dataset: an empty list; name at least one file")
    files, path, chosen = [*map(str, names)], Path(out), dict(options or {})
    file = list_files(*files)[0]
    as_json = path.suffix in JSON_LINES and suffix_of(file) not in JSON_LINES
    if path.suffix not in (*JSON_LINES, *FORMATS):
        known = ", ".join((*JSON_LINES, *FORMATS))
        raise BadInput(f"out: {path} has the suffix of no table; choose one of {known}")
    if suffix_of(file) not in FORMATS and path.suffix not in JSON_LINES:
        raise BadInput(f"out: the results of {file} are JSON lines; name a .jsonl file")
    check_output(file, path, as_json=as_json)
    begun = monotonic()
    loaded = load(model, device, precision=precision, batch_size=batch_size)
    component = loaded.component(task, **chosen)
    source = source_for(loaded, component, files, columns, max_length, skip_bad=skip_bad)
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
    command: Command | None = json.loads(json.dumps(described, default=str))
    with spec.workers(workers, ray) as shared:
        progress = run_component(
            source,
            component,
            path,
            command if source.streams or as_json else None,
            shared,
            as_json=as_json or not source.has_columns,
        )
    return BulkReport(path, progress.inputs, progress.bad, {**progress.sums}, monotonic() - begun)
