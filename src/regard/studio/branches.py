"""Branches that the page Train starts: each is ``regard train`` in a process of its own."""

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from regard.core.errors import INTERRUPTED, BadInput
from regard.core.files import read_bytes
from regard.training.recipe import read
from regard.training.recipe_files import find
from regard.training.run_folder import ENVIRONMENT
from regard.views.markup import escape_controls

REPEATED = ("--branch", "--at", "--out")  # options that a branch gives anew
MOST_TRAININGS = 2  # at once
LAST_BYTES = 4_096  # of the output of a training, which are read for its last line
CLOSING_SECONDS = 20  # for a training to save its last checkpoint


@dataclass(frozen=True)
class StartCommand:
    """Words of the command that started a run, without options of a branch, and its folder."""

    words: Sequence[str] = ()
    folder: Path = Path()

    @classmethod
    def of(cls, run: Path) -> "StartCommand":
        """The command of a run; without words, if it was not started by ``regard train``."""
        if not (run / ENVIRONMENT).is_file():
            return cls()
        first = json.loads(read_bytes(run / ENVIRONMENT).splitlines()[0])
        words = shlex.split(str(first.get("command", "")))
        if "train" not in words:
            return cls()
        command, skips = ["regard", "train"], False
        for word in words[words.index("train") + 1 :]:
            option = word.partition("=")[0]
            if skips or option in (*REPEATED, "--resume"):
                skips = not skips and option in REPEATED and "=" not in word
                continue
            command.append(word)
        return cls(command, Path(str(first.get("folder", ""))))

    def check(self, setting: str) -> None:
        """Refuse a setting with which the recipe cannot be read, before anything is started.

        A command whose recipe is not its first argument is checked by the training itself.
        """
        _, _, recipe, *options = *self.words, "-"
        if recipe.startswith("-"):
            return
        path = self.folder / recipe
        known = [value for option, value in pairwise(options) if option == "--set"]
        known += [word.removeprefix("--set=") for word in options if word.startswith("--set=")]
        read(path if path.is_file() else find(recipe), [*known, *([setting] if setting else [])])

    def branch(self, run: Path, step: int, out: Path, setting: str) -> list[str]:
        """Words that start a branch with this Python, without a shell."""
        chosen = ["--branch", str(run.resolve()), "--at", str(step), "--out", str(out.resolve())]
        changed = [f"--set={setting}"] if setting else []
        python = [sys.executable, "-P", "-m"]  # no modules of the folder
        return [*python, *self.words, *chosen, *changed]


@dataclass(eq=False)
class BranchTraining:
    """A branch in training, or one that has ended: its name, its change and its process."""

    name: str
    setting: str
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    stopping: bool = False

    @property
    def state(self) -> str:
        """One of running, stopping, finished, stopped and failed."""
        code = self.process.poll()
        if code is None:
            return "stopping" if self.stopping else "running"
        return {0: "finished", INTERRUPTED: "stopped"}.get(code, self._end)

    @property
    def _end(self) -> str:
        return "stopped" if self.stopping else "failed"

    @property
    def last_line(self) -> str:
        """The last line that the training wrote: of a failed one, its error."""
        size = self.output.seek(0, 2)
        self.output.seek(max(0, size - LAST_BYTES))
        lines = self.output.read().decode("utf-8", "replace").replace("\r", "\n").splitlines()
        return escape_controls(next((line for line in reversed(lines) if line.strip()), ""))

    @property
    def record(self) -> dict[str, object]:
        """The training for JSON."""
        line = self.last_line if self.state == "failed" else ""
        return {"name": self.name, "setting": self.setting, "state": self.state, "line": line}

    def stop(self) -> None:
        """End after the step, with a checkpoint; at a second call at once.

        SIGTERM is first: a studio in the background of a shell, and so its trainings, ignore SIGINT
        until a training has been asked to end.
        """
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT if self.stopping else signal.SIGTERM)
            self.stopping = True


class Trainings:
    """Trainings that were started here, by the names of their runs; they end with the studio."""

    def __init__(self, most: int = MOST_TRAININGS):
        self.most = most
        self.by_name: dict[str, BranchTraining] = {}

    @property
    def records(self) -> list[dict[str, object]]:
        """All trainings for JSON, the last one first."""
        return [training.record for training in reversed(self.by_name.values())]

    def start(self, name: str, words: Sequence[str], folder: Path, setting: str) -> BranchTraining:
        """Start a process in a folder."""
        going = [each for each in self.by_name.values() if each.process.poll() is None]
        if len(going) >= self.most:
            raise BadInput(f"{len(going)} trainings are going on already: stop one, or wait")
        if not folder.is_dir():
            raise BadInput("the folder in which the run was started does not exist any more")
        output = TemporaryFile()  # noqa: SIM115 (as long as the studio is open)
        process = subprocess.Popen(
            words, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        self.by_name[name] = BranchTraining(name, setting, process, output)
        return self.by_name[name]

    def close(self) -> None:
        """Stop all trainings, and wait for their checkpoints."""
        for training in self.by_name.values():
            if not training.stopping:
                training.stop()
        for training in self.by_name.values():
            try:
                training.process.wait(CLOSING_SECONDS)
            except subprocess.TimeoutExpired:
                training.process.kill()
                training.process.wait()
            training.output.close()
