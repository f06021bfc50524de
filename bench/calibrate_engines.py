"""Rows for the table of engines (src/regard/generation/engines.py), measured on this machine.

    python bench/calibrate_engines.py [--precision fp32 int8] [--batch 1 4 16 64] [--beam 1 5]
                                      [--threads 1 2] [--tokens 12] [--rounds 5]
    python bench/calibrate_engines.py --tiny                (does it run?)

Both engines decode with the same random Transformer-base, in turns: compiled steps ("cpp") and
torch. Seconds are CPU seconds with one thread, and elapsed seconds with more; the median of the
rounds counts. The last lines are what the table should say of this instruction set: cpp where it
is not slower in any search and number of threads. REGARD_HIDE=avx512 measures for AVX2,
REGARD_HIDE=bf16 for AVX-512 without AMX.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from itertools import product

import torch
from measure import take_turns, timed_here
from peers.decoding import Ids, Work
from translate import random_ids, random_model, translator

from regard.core.machine import instruction_set
from regard.generation.cpp import obstacle


def medians(
    systems: dict[str, Callable[[Ids], Ids]], batch: Ids, threads: int, rounds: int
) -> dict[str, float]:
    """Seconds of each engine."""
    torch.set_num_threads(threads)
    each = {name: partial(system, batch) for name, system in systems.items()}
    for work in each.values():  # warm up
        work()
    clock = time.process_time if threads == 1 else None
    taken = take_turns(timed_here(each, clock), rounds)
    return {name: statistics.median(values) for name, values in taken.items()}


def main() -> None:
    """Print one JSON line for each measurement, then the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--precision", nargs="+", default=["fp32", "int8"])
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--beam", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, os.cpu_count() or 1}))
    parser.add_argument("--tokens", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tiny", action="store_true", help="a very small model")
    asked = parser.parse_args()
    if asked.tiny:
        asked.batch, asked.tokens, asked.rounds = [1, 4], 3, 1
    model, facts, marks = random_model(recurrent=False, tiny=asked.tiny)
    ids = random_ids(facts.source.embed.vocab, marks.eos)
    if obstacle(model):
        raise SystemExit("no compiled steps on this machine: there is nothing to choose")
    slower: dict[tuple[str, int], float] = {}
    for precision, beam in product(asked.precision, asked.beam):
        work = Work(ids, marks, beam, asked.tokens)
        systems = {
            name: translator(model, work, "cpu", precision, fast=name == "cpp")
            for name in ("cpp", "torch")
        }
        for batch, threads in product(asked.batch, asked.threads):
            taken = medians(systems, ids[:batch], threads, asked.rounds)
            ratio = taken["cpp"] / taken["torch"]
            key = (precision, batch)
            slower[key] = max(slower.get(key, 0), ratio)
            settings = {"precision": precision, "batch": batch, "beam": beam, "threads": threads}
            rounded = {name: round(one, 4) for name, one in taken.items()}
            print(json.dumps({**settings, **rounded, "cpp/torch": round(ratio, 2)}), flush=True)
    for (precision, batch), ratio in slower.items():
        engine = "cpp" if ratio <= 1 else "torch"
        row = (instruction_set(), precision, f"from batch size {batch}", engine)
        print(*row, f"(at worst {ratio:.2f} of torch's time)", sep=", ")


if __name__ == "__main__":
    main()
