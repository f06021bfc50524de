"""Speed of an encoder or translator without a share of its heads, against the whole model.

    python bench/prune.py MODEL --share 0.5 --tokens 32 --rows 32 --rounds 15

The heads to remove are drawn at random. Both models read the same random tokens, in turns; the
median of each and their ratio are printed as JSON.
"""

import argparse
import json

import numpy as np
import torch

from regard.core.batch import TokenRow, pack_texts
from regard.core.device import device_named
from regard.inside.pruning.orders import first_of, random_order
from regard.inside.pruning.remove_heads import prunable_sites, remove_heads
from regard.inside.pruning.speed import compare_speed
from regard.models.folders.folder import read
from regard.models.folders.hub import local_folder
from regard.models.folders.loaded_model import LoadedModel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--share", type=float, default=0.5)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    whole = read(local_folder(options.model), device_named(options.device))
    order = random_order(prunable_sites(whole.facts), seed=0)
    pruned = remove_heads(whole, first_of(order, options.share))
    draw = np.random.default_rng(0)

    def packed(side: str):
        vocab = getattr(whole.facts, side).embed.vocab
        rows = draw.integers(0, vocab, (options.rows, options.tokens))
        return pack_texts([TokenRow(row, np.zeros_like(row)) for row in rows])

    batch = whole.facts.inputs(*map(packed, whole.facts.sides)).to(options.device)

    def run(model: LoadedModel):
        def forward() -> None:
            with torch.inference_mode():
                model.module(batch)
            if options.device != "cpu":
                torch.cuda.synchronize()

        return forward

    before, after = compare_speed([whole, pruned], run, options.rounds)
    print(
        json.dumps(
            {
                **vars(options),
                "heads": [before.heads, after.heads],
                "parameters": [before.parameters, after.parameters],
                "ms": [round(1e3 * each.seconds, 2) for each in (before, after)],
                "speed": round(before.seconds / after.seconds, 3),
            }
        )
    )


if __name__ == "__main__":
    main()
