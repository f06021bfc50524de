"""Training by a recipe and options: a run, a branch, several seeds, a ladder, or an estimate."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from regard.core.errors import ArgumentName
from regard.core.files import is_empty
from regard.core.flags import refuse
from regard.experiments.estimates import Estimate, estimate_process, estimate_training
from regard.experiments.ladder import Ladder, LadderRun, train_ladder
from regard.experiments.notes import Listener, Stop, Stopped, ignore
from regard.experiments.options.training_runs import RunOptions, parse_duration
from regard.experiments.scores import Evaluation
from regard.experiments.training import (
    SeedScores,
    evaluate_run,
    named_watches,
    train_run,
    train_seeds,
)
from regard.training.branch import branch_run
from regard.training.distributed import World, is_restarted
from regard.training.loop.trainer import Diverged
from regard.training.metrics_log import check_loggers
from regard.training.recipe import Recipe, read, task_of
from regard.training.recipe_files import find
from regard.training.run import Run, Watcher

Scores = Evaluation | SeedScores | Ladder


@dataclass(frozen=True, eq=False)
class TrainingSession:
    """A recipe with options that fit together, the folder of its runs, and the processes."""

    recipe: Recipe
    rungs: int  # of the whole ladder
    folder: Path
    options: RunOptions
    world: World
    loggers: Sequence[str]
    watches: Mapping[str, Watcher]
    seconds: float

    @classmethod
    def open(cls, recipe: str, options: RunOptions, out: Path | None = None) -> "TrainingSession":
        """Check the options, read the recipe and join the other processes."""
        options.check_estimate()
        loggers = check_loggers(options.log or ())
        watches, path = named_watches(options.watch or ()), find(recipe)
        described = read(path, options.changes)
        rungs = len(described.rung)
        if options.rung:
            described = described.only(options.rung)
        options.check_branch(out, ladder=bool(rungs))
        seconds = parse_duration(options.budget)
        world = World.join(options.device, described.distributed.timeout)
        folder = out or Path("runs") / path.stem
        return cls(described, rungs, folder, options, world, loggers, watches, seconds)

    def run(
        self, on_event: Listener = ignore, stop: Stop | None = None
    ) -> Scores | Estimate | None:
        """Train, or estimate a run; of several processes, the first alone has the scores."""
        with self.world.together(Stopped, Diverged):
            return self._estimate() if self.options.trial else self._train(on_event, stop)

    def _estimate(self) -> Estimate:
        options, data, skip_bad = self.options, self.options.data, self.options.skip_bad
        if options.ranks is not None:
            of_rank = (self.recipe, self.world, data, options.ranks)
            return estimate_process(*of_rank, skip_bad=skip_bad, gpu=options.gpu)
        refuse({"prepared": options.prepared}, ("cannot be used with ", ArgumentName("dry_run")))
        refuse(
            {"dry_run": options.resume or is_restarted()},
            ("cannot be used with ", ArgumentName("resume")),
        )
        return estimate_training(
            self.recipe,
            self.world,
            data,
            seeds=options.seeds,
            skip_bad=skip_bad,
            budget_seconds=self.seconds,
        )

    def _train(self, on_event: Listener, stop: Stop | None) -> Scores | None:
        options, recipe, world, folder = self.options, self.recipe, self.world, self.folder
        data, skip_bad = options.data, options.skip_bad
        resume = options.resume or is_restarted()  # by torchrun --max-restarts
        begins = not resume or is_empty(folder)
        if options.branch is not None and options.at is not None and begins:
            task_of(recipe).check_data(data, skip_bad)
            if world.is_leader:
                branch_run(options.branch, options.at, folder, recipe)
            world.barrier()
        train_one: Callable[[Recipe, Path], Run] = partial(
            train_run,
            world=world,
            resume=resume or options.branch is not None,
            overwrite=options.overwrite,
            data=data,
            skip_bad=skip_bad,
            prepared=options.prepared,
            budget_seconds=self.seconds,
            loggers=self.loggers,
            watch=self.watches,
            on_event=on_event,
            stop=stop,
        )
        # The expected score holds for the unchanged recipe.
        check = not options.changes and options.budget is None and options.branch is None
        if recipe.rung:
            how = (data, resume, skip_bad, options.seeds, on_event)
            ladder = LadderRun(recipe, folder, world, train_one, *how)
            return train_ladder(ladder, check=check, whole=len(recipe.rung) == self.rungs)
        if options.seeds is not None:
            runs = (recipe, options.seeds, folder, world, train_one, data)
            return train_seeds(*runs, check=check, skip_bad=skip_bad, on_event=on_event)
        run = train_one(recipe, folder)
        if not world.is_leader:
            return None
        return evaluate_run(run, recipe, data, check=check, skip_bad=skip_bad)
