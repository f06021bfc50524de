"""Fine-tuning by transformers' Trainer, eager or compiled, on token ids that are given to it."""

import json
import time
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor
from torch.utils.data import SequentialSampler
from transformers import Trainer, TrainerCallback, TrainingArguments
from worker import System, settle

IGNORED = -100
FILLS = {"input_ids": 0, "token_type_ids": 0, "labels": IGNORED}
Row = dict[str, Any]


def fine_tuning(form: str, folder: str, arguments: dict[str, Any], grouped: bool) -> System:
    """A run over the rows of a folder, from its model; "compiled" sets torch_compile.

    A round returns seconds until half of the steps and in all, the share of padding, and where the
    weights of the last step are.
    """
    rows = json.loads((Path(folder) / "rows.json").read_text())

    def work(seed: int) -> dict[str, Any]:
        model, batches, clock = read_model(folder), Padded(), Clock(arguments["max_steps"])
        out = Path(folder) / f"tuned-{form}-{seed}"
        more: dict[str, Any] = by_length() if grouped else {}
        if form == "compiled":
            more["torch_compile"] = True
        settings = training_arguments(out, **arguments, **more, seed=seed)
        Trainer(
            model=model, args=settings, train_dataset=rows, data_collator=batches, callbacks=[clock]
        ).train()
        model.save_pretrained(out)
        start, half, end = clock.times
        padding = round(batches.share, 3)
        return {"half": half - start, "all": end - start, "padding": padding, "folder": str(out)}

    return System(work)


def training_arguments(out: Path, **settings: Any) -> TrainingArguments:
    """How the Trainer is told: nothing is saved, logged or reported on the way."""
    quiet = {"save_strategy": "no", "logging_strategy": "no", "report_to": "none"}
    quiet |= {"disable_tqdm": True, "optim": "adamw_torch_fused"}
    settings = {"bf16": torch.cuda.is_available(), **settings}
    return TrainingArguments(output_dir=str(out / "trainer"), **quiet, **settings)


def read_model(folder: str, dropout: float | None = None) -> Any:
    """The model of a folder, or the same with another dropout."""
    name = json.loads((Path(folder) / "config.json").read_text())["architectures"][0]
    keys = ("hidden_dropout_prob", "classifier_dropout", "attention_probs_dropout_prob")
    changed = {} if dropout is None else dict.fromkeys(keys, dropout)
    kind = getattr(transformers, name)
    return kind.from_pretrained(folder, local_files_only=True, **changed)


def by_length() -> dict[str, Any]:
    """How this version of transformers is told to put rows of like length together."""
    known = {field.name for field in fields(TrainingArguments)}
    if "train_sampling_strategy" in known:
        return {"train_sampling_strategy": "group_by_length"}
    return {"group_by_length": True}


class Clock(TrainerCallback):
    """Seconds at the first step, after half of them and after the last, when the device is done."""

    def __init__(self, steps: int):
        self.ends, self.times = {max(1, steps // 2), steps}, []

    def note(self) -> None:
        """Add the time."""
        settle()
        self.times.append(time.perf_counter())

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Before the first step."""
        self.note()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """After every step."""
        if state.global_step in self.ends:
            self.note()


class Padded:
    """Puts rows together, padded to the longest, and counts what it adds."""

    def __init__(self) -> None:
        self.real = self.all = 0

    @property
    def share(self) -> float:
        """How much of the batches so far is padding."""
        return 1 - self.real / self.all

    def __call__(self, rows: Sequence[Row]) -> dict[str, Tensor]:
        lengths = torch.tensor([len(row["input_ids"]) for row in rows])
        longest = int(lengths.max())
        self.real += int(lengths.sum())
        self.all += len(rows) * longest
        batch = {}
        for name in rows[0]:
            if np.ndim(rows[0][name]) == 0:
                batch[name] = torch.tensor([row[name] for row in rows])
                continue
            table = np.full((len(rows), longest), FILLS[name])
            for line, row in zip(table, rows, strict=True):
                line[: len(row[name])] = row[name]
            batch[name] = torch.from_numpy(table)
        batch["attention_mask"] = (torch.arange(longest) < lengths[:, None]).long()
        return batch


class InOrder(Trainer):
    """A Trainer that reads rows in their order and keeps the loss of every step."""

    def __init__(self, **settings: Any):
        super().__init__(**settings)
        self.losses: list[float] = []

    def _get_train_sampler(self, *_: Any) -> SequentialSampler:
        return SequentialSampler(self.train_dataset)

    def compute_loss(self, *given: Any, **named: Any) -> Any:
        """The loss, which is kept."""
        loss = super().compute_loss(*given, **named)
        self.losses.append((loss[0] if isinstance(loss, tuple) else loss).item())
        return loss
