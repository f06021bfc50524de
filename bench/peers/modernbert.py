"""transformers' ModernBERT (sdpa), padded: means of the last states of rows of ids."""

import json
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModel

from peers.common import System, compile_layers, device, padded, send

MULTIPLE = 8


def embedding(form: str, folder: str, tokens: int) -> System:
    """Mean states of rows, sorted by length, in batches of at most ``tokens`` with padding."""
    place = device()
    dtype = torch.bfloat16 if place.type == "cuda" else torch.float32
    model = AutoModel.from_pretrained(folder, attn_implementation="sdpa").eval().to(place, dtype)
    if form == "compiled":
        compile_layers(model.layers)
    rows = [np.array(row) for row in json.loads((Path(folder) / "rows.json").read_text())]
    batches: list[list[int]] = [[]]
    for at in sorted(range(len(rows)), key=lambda at: -len(rows[at])):
        longest = len(rows[batches[-1][0]]) if batches[-1] else len(rows[at])
        if (len(batches[-1]) + 1) * longest > tokens:
            batches.append([])
        batches[-1].append(at)

    @torch.inference_mode()
    def work() -> list[float]:
        means = np.zeros((len(rows), model.config.hidden_size), np.float32)
        for batch in batches:
            chosen = [rows[at] for at in batch]
            ids = send(padded(chosen, 0, MULTIPLE), place)
            mask = send(padded([np.ones(len(row), int) for row in chosen], 0, MULTIPLE), place)
            states = model(input_ids=ids, attention_mask=mask).last_hidden_state
            summed = (states * mask[..., None]).sum(1, dtype=torch.float32)
            means[batch] = (summed / mask.sum(1, keepdim=True)).cpu().numpy()
        return [float(means.mean())]

    return System(work)
