"""The training loop: a generator of events that knows neither models nor tasks."""

from collections.abc import Iterator
from contextlib import suppress

from regard.training.loop.events import EndEvent, Event, Job
from regard.training.loop.trainable import seed_everything
from regard.training.loop.trainer import Trainer

__all__ = ["Job", "seed_everything", "train"]


def train(job: Job, *, resume: bool = False) -> Iterator[Event]:
    """Run a job to its end, yielding events."""
    run = Trainer(job)
    try:
        yield from _events(run, resume)
    except BaseException:
        with suppress(Exception):  # of the checkpoint that is being written: not the first error
            run.store.wait()
        raise


def _events(run: Trainer, resume: bool) -> Iterator[Event]:
    job = run.job
    yield run.start(resume)
    if run.progress.step == 0:
        if job.watches:
            yield from run.watch(run.dev_result())
        yield run.save()
    recipe = job.recipe.train
    reason = "patience" if run.out_of_patience() else ""
    reason = "steps" if run.progress.step >= recipe.steps else reason
    while not reason:
        run.step()
        step = run.progress.step
        reason, best = run.reason_to_end(), False
        if step % recipe.report_every == 0 or reason in ("steps", "time"):
            yield run.report()
        if step % recipe.evaluate_every == 0 or reason in ("steps", "time"):
            event = run.evaluate()
            yield event
            yield from run.watch(event.verdict)
            best = event.best
            reason = reason or ("patience" if run.out_of_patience() else "")
        if step % recipe.checkpoint_every == 0 or reason or best:
            yield run.save()
    run.store.wait()
    yield EndEvent(run.progress, reason)
