"""Kill training runs at random moments, resume them, and compare with a run that was left alone.

    python tests/faults/kill_campaign.py --kills 100 --out /tmp/kills

Every run is a process of its own, or several that train together, forked from this one so that they
need not import anything, and killed by SIGKILL: all processes of a run, or one, of which the others
must notice. Compared byte by byte: all tensors of the last checkpoint (model, optimiser,
average), the model folder, the state, and the journal; times apart. No temporary file may be left.
"""

import argparse
import json
import os
import random
import signal
import socket
import sys
import time
from pathlib import Path

import torch._dynamo  # noqa: F401, what every first step would import

sys.path.insert(0, str(Path(__file__).parents[1]))

from regard.cli import main
from regard.core.lock import LOCK
from small import journal_of, tensors_of, write_corpus
from small_documents import write_animals
from small_rnn import write_streams
from small_tuning import write_start, write_tuning

STEPS = 30
COMMON = (f"train.steps={STEPS}", "train.report_every=7", "train.evaluate_every=10")
EXTRA = {
    "translate": ("text.joint=false", "text.dropout=0.1", "train.ema=0.9"),
    "tune": ("batches.accumulate=2", "train.patience=9"),
    "pretrain": ("train.average=2",),
    "streams": ("model.change.dropout=0.2", "objective.causal-lm.mean_length=12"),
    "shards": ("distributed.kind=fsdp", "train.ema=0.9"),
    "fsdp": ("distributed.kind=fsdp", "optimiser.clip=0.5"),
    "hsdp": ("distributed.kind=hsdp", "distributed.replicas=2"),
    "ddp": ("distributed.kind=ddp", "text.dropout=0.1"),
    "sgd": ("distributed.kind=fsdp", "optimiser.kind=sgd"),
}
RANKS = {"fsdp": 2, "hsdp": 4, "ddp": 2, "sgd": 2}  # processes; of other kinds one
MOST = 4  # kills of one run


def write_jobs(folder: Path) -> dict[str, list[str]]:
    """The command of each kind of run, but for its folder."""
    places = {kind: folder / f"{kind}-data" for kind in EXTRA}
    for place in places.values():
        place.mkdir(parents=True)
    start = write_start(places["tune"] / "start")
    recipes = {
        **{kind: write_corpus(places[kind], depth=2) for kind in ("shards", *RANKS)},
        "translate": write_corpus(places["translate"]),
        "tune": write_tuning(places["tune"], "pairs"),
        "pretrain": write_animals(places["pretrain"]) / "animals.toml",
        "streams": write_streams(places["streams"]) / "lstm.toml",
    }
    jobs = {}
    for kind, extra in EXTRA.items():
        settings = [*COMMON, "train.checkpoint_every=2", *extra]
        if kind == "tune":
            settings += [f"model.start={start}", "model.size=", "text=false", "model.change={}"]
        changes = [word for one in settings for word in ("--set", one)]
        jobs[kind] = ["train", str(recipes[kind]), "--data", str(places[kind]), *changes]
    return jobs


def start(words: list[str], log: Path, ranks: int = 1) -> list[int]:
    """Processes that run ``regard`` with these words; what they say goes to a log."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    if ranks == 1:
        return [fork(words, log, {})]
    place["WORLD_SIZE"] = str(ranks)
    return [fork(words, log, {**place, "RANK": str(rank)}) for rank in range(ranks)]


def fork(words: list[str], log: Path, variables: dict[str, str]) -> int:
    """A process with these words and variables of the environment."""
    process = os.fork()
    if process:
        return process
    os.environ.update(variables)
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(handle, stream)
    sys.argv = ["regard", *words]
    code = 1
    try:
        main()
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.stdout.flush()
        os._exit(code)


def wait(processes: list[int]) -> list[int]:
    """How they ended: exit codes, or numbers of signals below zero."""
    return [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]


def await_lock(processes: list[int], out: Path) -> float:
    """When the first of the processes has taken their folder, or has ended."""
    mine, lock = f"process {processes[0]} ", out / LOCK
    while not (lock.exists() and lock.read_text().startswith(mine)):
        if os.waitid(os.P_PID, processes[0], os.WEXITED | os.WNOHANG | os.WNOWAIT):
            break
        time.sleep(0.001)
    return time.monotonic()


def kill_after(processes: list[int], out: Path, delay: float, *, one: bool) -> bool:
    """Kill a run so long after it has taken its folder; false if it was done before.

    ``one``: only its last process; the others end by themselves, with 1.
    """
    await_lock(processes, out)
    time.sleep(delay)
    for process in processes[-1:] if one else processes:
        os.kill(process, signal.SIGKILL)
    codes = wait(processes)
    if {*codes} - {0, -signal.SIGKILL, *([1] if len(processes) > 1 else [])}:
        raise SystemExit(f"{out}: ended with {codes}; see {out}.log")
    return any(codes)


def contents(out: Path) -> dict[str, object]:
    """All that must be the same; times are not."""
    place = out / "checkpoints" / f"step-{STEPS:08d}"
    progress = json.loads((place / "state.json").read_text())["progress"]
    del progress["seconds"]
    model = {
        path.name: path.read_bytes()
        for path in sorted((out / "model").iterdir())
        if path.name != "config.json"  # its notes say how long it took
    }
    return {
        "checkpoint": tensors_of(out, STEPS),
        "checkpoints": sorted(path.name for path in (out / "checkpoints").iterdir()),
        "state": progress,
        "model": model,
        "journal": journal_of(out),
        "left over": [str(path) for path in out.rglob("*.tmp")],
    }


def campaign(kills: int, seed: int, folder: Path) -> int:
    """How many runs came out otherwise."""
    draw, jobs = random.Random(seed), write_jobs(folder)
    expected, seconds = {}, {}
    for kind, words in jobs.items():
        out = folder / kind
        processes = start([*words, "--out", str(out)], Path(f"{out}.log"), RANKS.get(kind, 1))
        began = await_lock(processes, out)
        if any(wait(processes)):
            raise SystemExit(Path(f"{out}.log").read_text())
        expected[kind], seconds[kind] = contents(out), time.monotonic() - began
        print(f"{kind}: {seconds[kind]:.1f} s when left alone", flush=True)
    done = runs = wrong = 0
    while done < kills:
        kind = [*jobs][runs % len(jobs)]
        out = folder / f"{kind}-{runs}"
        words, log = [*jobs[kind], "--out", str(out), "--resume"], Path(f"{out}.log")
        killed, ranks = 0, RANKS.get(kind, 1)
        for _ in range(min(MOST, kills - done)):
            delay = draw.random() * seconds[kind]
            one = ranks > 1 and draw.random() < 0.25
            if not kill_after(start(words, log, ranks), out, delay, one=one):
                break
            killed += 1
        codes = wait(start(words, log, ranks))
        found = {} if any(codes) else contents(out)
        differs = [name for name, one in expected[kind].items() if found.get(name) != one]
        wrong += bool(differs)
        seconds[kind] *= 1.05 if killed else 0.7  # the machine may be busier or idler by now
        done, runs = done + killed, runs + 1
        result = f"differs in {', '.join(differs)} (exit codes {codes})" if differs else "the same"
        print(f"{out.name}: killed {killed} times, {result}; {done} of {kills}", flush=True)
    print(f"{done} kills, {runs} runs, {wrong} differ; seed {seed}")
    return wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    print(f"seed {asked.seed}", flush=True)
    sys.exit(campaign(asked.kills, asked.seed, asked.out) > 0)
