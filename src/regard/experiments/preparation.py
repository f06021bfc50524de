"""The data of a recipe, tokenised once for many runs, and its figures."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from regard.core.errors import BadInput
from regard.core.workers import RayActors, StartWorkers, WorkerProcesses
from regard.experiments.notes import Listener, ignore, progress_notes
from regard.experiments.result import ExperimentResult, OutputTable, text_column
from regard.training.prepared_data import ShardStatistics, prepare_data, set_title
from regard.training.run_events import AnyRecipe, Settings, name_of_recipe, recipe_of


@dataclass(frozen=True)
class PreparedSets(ExperimentResult):
    """Numbers of examples, duplicates and tokens of each set, and lengths."""

    folder: Path
    sets: Mapping[str, ShardStatistics]

    def tables(self) -> list[OutputTable]:
        columns = [text_column("set"), text_column("figures")]
        return [OutputTable(columns, [line.split(": ", 1) for line in self.text()])]

    def records(self) -> Iterator[Mapping[str, object]]:
        return ({"set": name, **vars(counts)} for name, counts in self.sets.items())

    def text(self, width: int | None = None) -> Iterator[str]:
        for name, counts in self.sets.items():
            for line in counts.lines:
                yield f"{set_title(name)}: {line}"


def prepare(
    recipe: AnyRecipe,
    data: str | Path = Path(),
    out: str | Path | None = None,
    *,
    settings: Settings = (),
    workers: int | None = None,
    ray: str | None = None,
    deduplicate: bool = False,
    skip_bad: bool = False,
    on_event: Listener = ignore,
) -> PreparedSets:
    """Write the tokenizer of a recipe, and its sets as token ids, by default to prepared/RECIPE.

    ``workers`` are processes, or actors of the Ray at an address, that tokenise. With
    ``deduplicate``, training examples that occur before are left out.
    """
    described, name = recipe_of(recipe, settings), name_of_recipe(recipe)
    if described.rung:
        raise BadInput(f"{name}: is a ladder; prepare the recipe of one model")
    start_workers: StartWorkers | None = None
    if ray is not None:
        start_workers = partial(RayActors, ray, count=workers, use_gpu=False)
    elif workers is not None:
        start_workers = partial(WorkerProcesses, workers)
    folder = Path("prepared") / Path(name).stem if out is None else Path(out)
    with progress_notes(on_event):
        sets = prepare_data(
            described,
            folder,
            data=Path(data),
            skip_bad=skip_bad,
            start_workers=start_workers,
            deduplicate=deduplicate,
        )
    return PreparedSets(folder, sets)
