"""Where a run reads and writes, and in which manner."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.sources import DropCounts
from regard.ground.files import remove, replacing_folder
from regard.training.distributed import World


@dataclass(frozen=True)
class RunPaths:
    """``data`` holds the recipe's files, ``out`` takes everything that is written."""

    data: Path
    out: Path
    world: World
    resume: bool = False
    skip_bad: bool = False

    @property
    def store(self) -> Path:
        """Where tokenised examples lie."""
        return self.out / "data"

    @property
    def text(self) -> Path:
        """Where the vocabulary lies."""
        return self.out / "text"

    @property
    def fresh(self) -> bool:
        """Whether I am the one who writes, and nothing was written before."""
        return self.world.is_leader and not self.resume

    def dropping(self) -> DropCounts | None:
        """Where bad examples are counted, if they may be left out."""
        return DropCounts() if self.skip_bad else None

    def keep_text(self, *values: Any) -> None:
        """Write tokenizer and labels, all files or none: a kill between two leaves neither."""
        with replacing_folder(self.text) as folder:
            for value in values:
                if value is not None:
                    value.save(folder)
            remove(self.text)
