"""Model folders timed in the same run: a teacher first, then its students, on a CPU or a GPU.

    python bench/students.py TEACHER STUDENT ... [--texts FILE] [--device cpu] [--precision fp32]
        [--rounds 6] [--most 30]

Each reads the texts of a file, a line each, from text to prediction; without one, sentences of
random ids (a mean of 21 tokens, as in SST-2), without the time of a tokenizer. Folders take turns
until their order is clear, or --most rounds; figures are medians with 95% intervals, and ratios are
those to the first folder. Scores: `regard evaluate FOLDER RECIPE`.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from encoder_cpu import sentences
from measure import interval, ratio, rounded, take_turns, timed_here
from worker import place

import regard
from regard.core.batch import pack_rows
from regard.models.paper import count_parameters


def reader(model: Any, asked: argparse.Namespace) -> Callable[[], Any]:
    """One pass over all texts, or over random ids."""
    if asked.texts is not None:
        texts = Path(asked.texts).read_text().splitlines()
        return lambda: model.predict(texts)
    encoder = model.runner
    vocab = model.facts.trunk.embed.vocab
    rows = sentences(asked.sentences, vocab, np.random.default_rng(1))
    packed = pack_rows(rows).to(model.device)
    return lambda: encoder.module(packed)


def main() -> None:
    """Print one JSON line for each folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--texts", help="a file with a text in each line")
    parser.add_argument("--sentences", type=int, default=64, help="random ones, without --texts")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--most", type=int, default=30, help="rounds, until the order is clear")
    parser.add_argument("--seconds", type=float, default=600, help="begin no round after these")
    asked = parser.parse_args()
    models = {
        folder: regard.load(folder, asked.device, precision=asked.precision)
        for folder in asked.folders
    }
    systems = {folder: reader(model, asked) for folder, model in models.items()}
    with torch.inference_mode():
        for step in systems.values():  # warm up
            step()
        taken = take_turns(timed_here(systems), asked.rounds, limit=asked.seconds, most=asked.most)
    first = taken[asked.folders[0]]
    for folder, times in taken.items():
        line = {
            "folder": folder,
            "parameters": count_parameters(models[folder].module),
            "milliseconds": rounded(interval([1_000 * one for one in times])),
            "ratio": rounded(ratio(first, times)),
            "rounds": len(times),
        }
        print(json.dumps(line), flush=True)
    print(json.dumps(place()))


if __name__ == "__main__":
    main()
