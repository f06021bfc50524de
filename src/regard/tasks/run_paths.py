"""The folders of a run, and how it reads its data."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.sources import DropCounts
from regard.ground.files import remove, replacing_folder


@dataclass(frozen=True)
class RunPaths:
    """``data`` holds the files of the recipe, ``out`` everything that is written.

    One process ``leads``: it writes.
    """

    data: Path
    out: Path
    leads: bool = True
    resume: bool = False
    skip_bad: bool = False

    @property
    def store(self) -> Path:
        """The folder of tokenised examples."""
        return self.out / "data"

    @property
    def text(self) -> Path:
        """The folder of tokenizer and labels."""
        return self.out / "text"

    @property
    def fresh(self) -> bool:
        """Whether this process writes, and the run is not resumed."""
        return self.leads and not self.resume

    def dropping(self) -> DropCounts | None:
        """A new drop count, if bad examples may be left out."""
        return DropCounts() if self.skip_bad else None

    def keep_text(self, *values: Any) -> None:
        """Write tokenizer and labels atomically."""
        with replacing_folder(self.text) as folder:
            for value in values:
                if value is not None:
                    value.save(folder)
            remove(self.text)
