"""Runs of every distributed kind, killed at each phase of a checkpoint, resume bit for bit."""

import signal
from pathlib import Path

import pytest

from small import journal_of, write_corpus
from small_ranks import same, tensors_at
from warm import start_ranks

DIES = """
import os, signal
from regard.cli import main
from regard.training import checkpoint, shard_writer

owner, name = PLACE
plain, calls = getattr(owner, name), []

def dying(*words, **more):
    calls.append(name)
    dies = len(calls) == CALL and os.environ["RANK"] == KILLED
    result = None if dies and WHEN == "before" else plain(*words, **more)
    if dies:
        os.kill(os.getpid(), signal.SIGKILL)
    return result

setattr(owner, name, dying)
main()
"""
WRITES = "(shard_writer, 'write_one_by_one')"
BEGINS, COMMITS = "(checkpoint.Checkpoints, 'begin')", "(checkpoint.Checkpoints, 'commit')"
PRUNES, TENSORS = "(checkpoint.Checkpoints, 'prune')", "(checkpoint, 'write_tensors')"
SHARDED = {  # place, before or after, rank
    "before the folder": (BEGINS, "before", 0),
    "before a shard": (WRITES, "before", 1),
    "after a shard": (WRITES, "after", 1),
    "before the commit": (COMMITS, "before", 0),
    "after the commit": (COMMITS, "after", 0),
    "before pruning": (PRUNES, "before", 0),
}
WHOLE = {
    "before the tensors": (TENSORS, "before", 0),
    **{phase: SHARDED[phase] for phase in ("before the commit", "after the commit")},
}
STEPS = ("train.checkpoint_every=3", "train.evaluate_every=6")
FSDP, HSDP = ("distributed.kind=fsdp",), ("distributed.kind=hsdp", "distributed.replicas=2")
KINDS = {  # processes, settings, phases
    "shards of one process": (1, FSDP, SHARDED),
    "fsdp": (2, FSDP, SHARDED),
    "fsdp, averaged": (2, (*FSDP, "train.ema=0.9"), SHARDED),
    "fsdp, sgd": (2, (*FSDP, "optimiser.kind=sgd"), SHARDED),
    "hsdp": (4, HSDP, SHARDED),
    "ddp": (2, ("distributed.kind=ddp",), WHOLE),
    "exact": (2, ("distributed.exact=true", "distributed.shards=2"), WHOLE),
}
CASES = {
    f"{kind}: {phase}, checkpoint {call}": (ranks, settings, phases[phase], call)
    for kind, (ranks, settings, phases) in KINDS.items()
    for phase in phases
    for call in (1, 2)
    if phases[phase][2] < ranks
}
FAST = {
    "shards of one process: after the commit, checkpoint 1",
    "fsdp, sgd: after the commit, checkpoint 2",
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"), depth=2)


@pytest.fixture(scope="module")
def undisturbed(corpus, tmp_path_factory):
    """Makes the run of each kind that is left alone, once."""
    outs: dict[tuple[int, tuple[str, ...]], Path] = {}

    def run_of(ranks: int, settings: tuple[str, ...]) -> Path:
        if (key := (ranks, settings)) not in outs:
            outs[key] = tmp_path_factory.mktemp("undisturbed")
            assert train(corpus, outs[key], ranks, settings) == [0] * ranks
        return outs[key]

    return run_of


def train(
    recipe: Path, out: Path, ranks: int, settings: tuple[str, ...], code: str = "", **variables: str
) -> list[int]:
    """How the processes of a run end; if one of them is killed, all are."""
    changes = [word for it in (*STEPS, *settings) for word in ("--set", it)]
    place = ("--data", recipe.parent, "--device", "cpu", *changes, "--out", out, "--resume")
    begin = ("-c", code) if code else ("-m", "regard")
    running = start_ranks(*begin, "train", recipe, *place, world=ranks, **variables)
    codes: list[int | None] = [None]
    while None in codes:
        codes = [process.poll() for process in running]
        if -signal.SIGKILL in codes:
            for process in running:
                process.kill()
        running[0].join(0.02)
    ended = [process.wait(20) for process in running]
    for rank, process in enumerate(running):
        print(f"rank {rank} ended with {ended[rank]}:", *process.communicate())
    return ended


@pytest.mark.parametrize(
    ("ranks", "settings", "phase", "call"),
    [
        pytest.param(*case, id=name, marks=() if name in FAST else pytest.mark.slow)
        for name, case in CASES.items()
    ],
)
def test_a_run_killed_at_any_phase_resumes(
    corpus, undisturbed, tmp_path, ranks, settings, phase, call
):
    place, when, rank = phase
    code = DIES.replace("PLACE", place).replace("CALL", str(call)).replace("WHEN", repr(when))
    code = code.replace("KILLED", repr(str(rank)))
    out = tmp_path / "killed"
    assert -signal.SIGKILL in train(corpus, out, ranks, settings, code)
    assert train(corpus, out, ranks, settings) == [0] * ranks
    straight = undisturbed(ranks, settings)
    assert same(tensors_at(out, 12), tensors_at(straight, 12))
    assert journal_of(out) == journal_of(straight)
    assert not [*out.rglob("*.tmp")]
