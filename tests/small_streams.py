"""A tiny LSTM language model over streams, trained with truncated backpropagation through time."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.batch import Batch, pack, pack_ids
from regard.data.batches.sampler import Streams, StreamSampler
from regard.training.checkpoint import Checkpoints
from regard.training.distributed import World
from regard.training.loop import Job
from regard.training.loop.events import DevResult
from regard.training.recipe import read

VOCAB, WIDTH, LAYERS = 11, 8, 2


@dataclass(frozen=True, eq=False)
class TokenStreams(Streams):
    """Example i is a chunk of stream i % `rows`, plus one token: the target of the last one."""

    tokens: np.ndarray
    rows: int
    chunk: int

    @property
    def chunks(self) -> int:
        """Full chunks per stream; tokens beyond them are not used."""
        return (len(self.tokens) // self.rows - 1) // self.chunk

    def read(self, epoch: int, indices: np.ndarray) -> list[np.ndarray]:
        """The same in every epoch."""
        length = len(self.tokens) // self.rows
        starts = indices % self.rows * length + indices // self.rows * self.chunk
        return [self.tokens[start : start + self.chunk + 1] for start in starts]

    def lengths(self, objective: Any, epoch: int, indices: np.ndarray) -> np.ndarray:
        """All chunks are full."""
        return np.full((len(indices), 1), self.chunk)

    def weights(self, objective: Any, epoch: int, indices: np.ndarray) -> np.ndarray:
        """Every token is a target."""
        return np.full(len(indices), self.chunk)


class TinyLM(nn.Module):
    """The next token of each row, and the state after the last one."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH, LAYERS, batch_first=True)
        self.out = nn.Linear(WIDTH, VOCAB)

    def forward(self, tokens_BL: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict]:
        given = tuple(state[name].transpose(0, 1).contiguous() for name in ("h", "c"))
        x_BLD, (h, c) = self.lstm(self.embed(tokens_BL), given)
        return self.out(x_BLD), {"h": h.transpose(0, 1), "c": c.transpose(0, 1)}


class NextToken:
    """Cross-entropy of the next token in every stream."""

    teachers = ()
    parts = ("next token",)

    def to(self, device: torch.device) -> None:
        """It has no tensors."""

    def initial_state(self, model: nn.Module, streams: int) -> dict[str, Tensor]:
        """One of zeros for each stream."""
        return {name: torch.zeros(streams, LAYERS, WIDTH) for name in ("h", "c")}

    def length(self, example: np.ndarray) -> tuple[int]:
        """Tokens that are read."""
        return (len(example) - 1,)

    def weight(self, example: np.ndarray) -> int:
        """Tokens that are predicted."""
        return len(example) - 1

    def collate(self, examples, limits=None) -> Batch:
        """Even rows, of fixed shape anyway."""
        inputs = pack([example[:-1] for example in examples])
        targets_T = pack_ids([example[1:] for example in examples])
        return Batch(inputs, {"next_token": targets_T}, len(targets_T))

    def __call__(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor, dict]:
        rows = batch.inputs.layout.rows
        logits_BLV, state = model(batch.inputs.tokens_T.view(rows, -1), batch.state)
        logits_TV, targets_T = logits_BLV.flatten(0, 1), batch.targets["next_token"]
        loss = F.cross_entropy(logits_TV, targets_T, reduction="sum")
        return loss, loss.detach(), state


def text(tokens: int = 400) -> np.ndarray:
    """Tokens of which each depends on the two before it."""
    found = [1, 2]
    draw = np.random.default_rng(3)
    while len(found) < tokens:
        found.append((found[-1] * 3 + found[-2] + draw.integers(2)) % VOCAB)
    return np.array(found)


def stream_job(recipe: Path, out: Path, *settings: str, world: World | None = None) -> Job:
    """Four streams in chunks of six tokens."""
    settings = ("train.report_every=1", "train.evaluate_every=1000", *settings)
    return Job(
        recipe=read(recipe, list(settings)),
        model=TinyLM(),
        objective=NextToken(),
        sampler=StreamSampler(TokenStreams(text(), rows=4, chunk=6)),
        evaluate=lambda model: DevResult(0.0, {}),
        flops=lambda lengths: 0.0,
        checkpoints=Checkpoints(out / "checkpoints"),
        world=world or World(0, 1, torch.device("cpu")),
    )
