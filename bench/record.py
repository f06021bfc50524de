"""Cost of recording: forward passes of BERT-base with and without a tape, in turns.

    python bench/record.py [--rows 32] [--tokens 512] [--rounds 15]
    python bench/record.py --compiled         (without a tape, and with a null tape)
    python bench/record.py --tiny             (does it run?)

Random weights and ids; fp32 and CPU seconds on a CPU, bf16 on CUDA. All passes share one model and
one batch, and what they record stays on the device.
"""

import argparse
import platform
import time
from collections.abc import Callable
from datetime import date
from functools import partial

import matrix
import numpy as np
import torch
from measure import add_options, emit, interval, ratio, rounded, take_turns, timed_here
from peers.common import compiled, device
from torch import Tensor, nn
from torch._dynamo.utils import counters

from regard.core.batch import BatchLimits, PackedTokens, TokenRow, pack_texts
from regard.core.tape import NULL_TAPE, NullTape, Tape
from regard.models.facts import change
from regard.models.papers import bert

TINY = {"vocab": 320, "width": 32, "depth": 3, "heads": 2, "inner": 48}
WEIGHTS = "trunk.blocks.{}.attention.weights"
TAPES: dict[str, Callable[[], NullTape]] = {
    "null tape": lambda: NULL_TAPE,
    "tape of no value": Tape,
    "weights of layer 5": lambda: Tape(WEIGHTS.format(5)),
    "states of all layers": lambda: Tape("trunk.blocks.*.output"),
    "weights of all layers": lambda: Tape(WEIGHTS.format("*")),
}


def main() -> None:
    """Print one JSON line for each kind of pass, with its time over that of a pass without tape."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--threads", type=int, default=1, help="of a CPU")
    parser.add_argument("--tapes", nargs="*", choices=list(TAPES), default=list(TAPES))
    parser.add_argument("--compiled", action="store_true", help="compile, without a live tape")
    parser.add_argument("--tiny", action="store_true", help="a few rows, a very small model")
    add_options(parser, rounds=15, seconds=600, papers=["bert"])
    asked = parser.parse_args()
    if asked.tiny:
        asked.rows, asked.tokens, asked.rounds = 2, 16, 2
    torch.set_num_threads(asked.threads)
    torch.manual_seed(0)
    facts = change(bert.BASE, **(TINY if asked.tiny else {}))
    place = device()
    if place.type == "cuda":
        matrix.require(asked.papers)
    dtype = torch.bfloat16 if place.type == "cuda" else torch.float32
    model = facts.build().eval().to(place, dtype)
    ids = torch.randint(0, facts.trunk.embed.vocab, (asked.rows, asked.tokens)).numpy()
    limits = BatchLimits(tokens=ids.size, rows=asked.rows, longest=asked.tokens)
    rows = [TokenRow(row, np.zeros_like(row)) for row in ids]
    batch = pack_texts(rows, limits if asked.compiled else None)
    compare(asked, passes(asked, model, batch.to(place)))


def passes(
    asked: argparse.Namespace, model: nn.Module, batch: PackedTokens
) -> dict[str, Callable[[], Tensor]]:
    """Forward passes without a tape and with each of the tapes."""
    forward = model

    def run(make: Callable[[], NullTape] | None = None) -> Tensor:
        options = {} if make is None else {"tape": make()}
        with torch.no_grad() if asked.compiled else torch.inference_mode():
            return forward(batch, **options).encoded.states_TD

    names = ["null tape"] if asked.compiled else asked.tapes
    if asked.compiled:
        forward = compiled(model, "")
    return {"no tape": run} | {name: partial(run, TAPES[name]) for name in names}


def compare(asked: argparse.Namespace, runs: dict[str, Callable[[], Tensor]]) -> None:
    """Let the passes take turns, after two of each."""
    plain = runs["no tape"]()
    torch._dynamo.reset()
    remarks = {name: first_pass(asked, run, plain) for name, run in runs.items()}
    for run in runs.values():
        run()
    cuda = torch.cuda.is_available()
    clock = time.perf_counter if cuda else time.process_time  # a CPU may be shared
    taken = take_turns(timed_here(runs, clock), asked.rounds, limit=asked.seconds)
    for name, seconds in taken.items():
        line = {"pass": name, "ms": rounded(interval([1000 * each for each in seconds]))}
        line |= {"over_no_tape": rounded(ratio(seconds, taken["no tape"]), 3)}
        emit(asked, **line, **remarks[name], rounds=len(seconds))
    machine = torch.cuda.get_device_name() if cuda else f"{platform.machine()} CPU"
    shape = {"rows": asked.rows, "tokens": asked.tokens, "compiled": asked.compiled}
    shape |= {} if cuda else {"threads": asked.threads}
    emit(asked, **shape, machine=machine, torch=torch.__version__, date=str(date.today()))


def first_pass(
    asked: argparse.Namespace, run: Callable[[], Tensor], plain: Tensor
) -> dict[str, float]:
    """Largest difference of states, and how many graphs the pass adds if it is compiled."""
    counters.clear()
    difference = float((run() - plain).abs().max())
    graphs = {"new_graphs": counters["stats"]["unique_graphs"]} if asked.compiled else {}
    return {"difference": difference, **graphs}


if __name__ == "__main__":
    main()
