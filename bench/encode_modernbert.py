"""Embedding rows of mixed length with ModernBERT: tokens a second, regard against transformers.

    python bench/encode_modernbert.py [--size base] [--rows 512] [--longest 1024] [--rounds 7]
    python bench/encode_modernbert.py --tiny                         (does it run?)

Random weights and ids, bf16 on CUDA, means of the last states. Lengths are log-normal with a median
of 64 tokens. Every system has a process of its own, and they take turns. regard lays rows end to
end. transformers (sdpa; its own unpadding needs the package flash-attn) gets rows sorted by length,
as many as fill a budget of padded tokens; "eager" and "compiled", layer by layer for any length.
"""

import argparse
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from measure import OURS, Spec, add_options, print_speeds, running
from peers.common import System, device

import regard
from regard.models.facts import change
from regard.models.folders import folder as folders
from regard.models.folders.loaded_model import LoadedModel
from regard.models.papers import modernbert
from regard.models.trunk_with_heads import TrunkWithHeads

TINY = {"vocab": 320, "width": 32, "depth": 4, "heads": 2, "inner": 48}
PEERS = {"eager": "transformers", "compiled": "transformers, compiled"}


def facts_of(size: str, tiny: bool) -> TrunkWithHeads:
    """ModernBERT without heads."""
    return change(modernbert.PAPER.sizes[size], **(TINY if tiny else {}))


def ours(folder: str) -> System:
    """regard: rows without padding."""
    model = regard.load(folder, device(), precision="auto")
    rows = [np.array(row) for row in json.loads((Path(folder) / "rows.json").read_text())]
    return System(lambda: [float(model.embed(rows, pool="mean").float().cpu().numpy().mean())])


def main() -> None:
    """Print one JSON line for each system, with regard's ratio to it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=list(modernbert.PAPER.sizes), default="base")
    parser.add_argument("--rows", type=int, default=2048)
    parser.add_argument("--longest", type=int, default=1024)
    parser.add_argument("--tokens", type=int, default=16_384, help="of a padded batch")
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--tiny", action="store_true", help="a few rows, a very small model")
    add_options(parser, rounds=7, seconds=60, papers=["modernbert"])
    asked = parser.parse_args()
    if asked.tiny:
        asked.rows, asked.longest, asked.tokens, asked.rounds = 12, 80, 256, 2
    with TemporaryDirectory() as folder:
        compare(asked, Path(folder))


def compare(asked: argparse.Namespace, folder: Path) -> None:
    """Let the systems take turns over the same rows."""
    facts, draw = facts_of(asked.size, asked.tiny), np.random.default_rng(0)
    lengths = np.clip(draw.lognormal(np.log(64), 1.0, asked.rows), 4, asked.longest).astype(int)
    rows = [draw.integers(0, facts.trunk.embed.vocab, length).tolist() for length in lengths]
    torch.manual_seed(0)
    folders.write(folder, LoadedModel(modernbert.PAPER, facts, facts.build()), "hf")
    (folder / "rows.json").write_text(json.dumps(rows))
    specs = {OURS: Spec("encode_modernbert:ours", {"folder": str(folder)})}
    for form in asked.peers:
        settings = {"form": form, "folder": str(folder), "tokens": asked.tokens}
        specs[PEERS[form]] = Spec("peers.modernbert:embedding", settings)
    with running(specs, asked, [{}, {}]) as workers:
        flops = facts.training_flops([(int(length),) for length in lengths]) / 3
        shape = {"size": asked.size, "rows": asked.rows, "longest": asked.longest}
        print_speeds(workers, asked, units=int(lengths.sum()), flops=flops, **shape)


if __name__ == "__main__":
    main()
