"""What peers that translate or generate read from a folder, and how they go over it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from worker import System

Ids = list[list[int]]


class Marks(NamedTuple):
    """The special ids of a vocabulary; ``bos`` is what a translation begins with."""

    pad: int = 0
    bos: int = 1
    eos: int = 2
    unk: int = 3


class Work(NamedTuple):
    """Rows of ids, and how they are decoded: with this beam, up to ``longest`` new tokens."""

    ids: Ids
    marks: Marks
    beam: int
    longest: int

    def write(self, folder: Path) -> None:
        """Write it for the processes of all systems."""
        (folder / "work.json").write_text(json.dumps(self._asdict()))

    @classmethod
    def read(cls, folder: str) -> "Work":
        """It from the folder of a run."""
        content: dict[str, Any] = json.loads((Path(folder) / "work.json").read_text())
        return cls(**content | {"marks": Marks(*content["marks"])})

    def until_end(self, row: list[int]) -> list[int]:
        """The tokens before the first end, or all that are no padding."""
        eos, pad = self.marks.eos, self.marks.pad
        return row[: row.index(eos)] if eos in row else [token for token in row if token != pad]


def rounds_over(ids: Ids, decode: Callable[[Ids], Ids], **remarks: Any) -> System:
    """The system that decodes all rows, ``batch`` at a time; ``first``: so many batches only."""

    def work(batch: int, first: int | None = None) -> Ids:
        batches = [ids[at : at + batch] for at in range(0, len(ids), batch)]
        return [row for rows in batches[:first] for row in decode(rows)]

    return System(work, remarks)
