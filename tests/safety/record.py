"""Recording: runs of every kind, and what verbs say of small models."""

import json
import re
import sys
import tempfile
import traceback
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path
from time import perf_counter
from typing import Any

from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from safety import adapter
from safety.commands import COMMANDS, IGNORED, KEYS, TIMES, VALUES, Command
from safety.data import write_data
from safety.marian import write_marian
from safety.recipes import END, LADDER, RUNS, START, Entry
from safety.weights import as_at_first, digest, named, set_weights

Record = dict[str, Any]
FEW = "train.steps=10"  # where gradients are clipped, and differences of rounding may grow
PLACE = re.compile(r"\{(\w[\w.-]*)\}")
NUMBER = re.compile(r"[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


def record_all(only: list[str]) -> Record:
    """All entries whose names fit one of the patterns."""
    adapter.pin()
    entries = {}
    with tempfile.TemporaryDirectory() as folder:
        workshop = Workshop(Path(folder))
        for name in (*RUNS, *COMMANDS):
            if any(fnmatch(name, pattern) for pattern in only):
                began = perf_counter()
                entries[name] = workshop.record(name)
                print(f"{perf_counter() - began:6.2f} s  {name}", file=sys.stderr, flush=True)
    return {"entries": entries}


class Workshop:
    """A folder with data, recipes and models, each made when it is first asked for."""

    def __init__(self, folder: Path):
        self.folder, self.data = folder, folder / "data"
        write_data(self.data)
        self.work = folder / "work"
        self.work.mkdir()
        self.recorded: dict[str, Record] = {}

    def record(self, name: str) -> Record:
        """An entry; if it fails, that is what is recorded of it."""
        if name not in self.recorded:
            try:
                self.recorded[name] = self._record(name)
            except Exception as error:
                traceback.print_exc()
                self.recorded[name] = {"exact": True, "failed": f"{type(error).__name__}: {error}"}
        return self.recorded[name]

    def _record(self, name: str) -> Record:
        if name in RUNS:
            return record_run(self, name)
        for earlier in COMMANDS[name].after:
            self.record(earlier)
        return record_command(self, COMMANDS[name])

    def recipe(self, name: str) -> Path:
        """The recipe of a run, without what differs from it."""
        path = self.folder / f"{name}.toml"
        path.write_text(LADDER if name == "ladder" else RUNS[name].recipe + END)
        return path

    def settings(self, entry: Entry) -> list[str]:
        """What differs."""
        return [self.filled(one) for one in entry.settings] + [FEW] * entry.clipped

    def model(self, name: str, form: str = "regard") -> Path:
        """The model of a run, with weights that no training decides."""
        folder, run = self.folder / f"{form}-{name}", self.folder / f"trained-{name}"
        if not run.exists():
            steps = ["train.steps=1", "optimiser.warmup=0"]
            changes = [f"--set={one}" for one in (*self.settings(RUNS[name]), *steps)]
            where = ["--data", str(self.data), "--out", str(run)]
            arguments = ["train", str(self.recipe(name)), *changes, *where]
            code, said, why = adapter.verb(arguments, None, set_weights)
            assert code == 0, f"{name}: {said}{why}"
        if not folder.exists():
            adapter.save_with(run, folder, set_weights, form)
        return folder

    def marian(self) -> Path:
        """A published translator."""
        folder = self.folder / "marian"
        if not folder.exists():
            write_marian(folder, *(self.data / "pairs" / f"train.{one}" for one in ("src", "tgt")))
        return folder

    def filled(self, text: str) -> str:
        """Names of models, files and recipes in braces become paths."""
        return PLACE.sub(lambda found: str(self._place(found[1])), text)

    def _place(self, name: str) -> Path:
        kind, _, rest = name.partition(".")
        if kind == "start":
            return self.model(START)
        if kind == "marian":
            return self.marian()
        return {"data": self.data, "work": self.work}.get(kind) or self._made(kind, rest)

    def _made(self, kind: str, name: str) -> Path:
        return self.recipe(name) if kind == "recipe" else self.model(name, form=kind)


def record_run(workshop: Workshop, name: str) -> Record:
    """Gradients of the first step, all losses, and the weights that training has changed."""
    entry = RUNS[name]
    out = workshop.folder / f"run-{name}"
    recipe, settings = workshop.recipe(name), workshop.settings(entry)
    model, run = adapter.open_run(recipe, settings, workshop.data, out)
    begun = set_weights(model)
    before = _digests(named(model))
    gradients: dict[str, list[str]] = {}

    def look(*_: Any) -> None:
        if not gradients:
            gradients.update(_digests(_gradients(model)))

    numbers: dict[str, list[list[str]]] = {}
    hook = register_optimizer_step_pre_hook(look)
    try:
        for kind, values in adapter.steps(run):
            numbers.setdefault(kind, []).append([float(one).hex() for one in values])
    finally:
        hook.remove()
    after = _digests(named(model))
    changed = {one: digits for one, digits in after.items() if digits != before[one]}
    return {
        "exact": not entry.clipped,
        "begun": begun,
        "gradients": gradients,
        "weights": changed,
        **numbers,
    }


def _gradients(model: nn.Module) -> dict[str, Tensor]:
    return {one: p.grad for one, p in named(model).items() if p.grad is not None}


def _digests(tensors: Mapping[str, Tensor]) -> dict[str, list[str]]:
    at_first = as_at_first(tensors)
    return {name: digest(at_first[name]) for name in sorted(at_first)}


def record_command(workshop: Workshop, command: Command) -> Record:
    """What a verb says: the values of JSON, all lines, or the numbers among them."""
    arguments = [workshop.filled(one) for one in command.arguments]
    stdin = None if command.stdin is None else workshop.filled(command.stdin)
    if stdin is not None and stdin.startswith("@"):
        stdin = Path(stdin[1:]).read_text()
    code, said, why = adapter.verb(arguments, stdin, set_weights)
    assert code == 0, f"{' '.join(arguments)}: {said}{why}"
    if command.to is not None:
        (workshop.work / command.to).write_text(said)
    said = said.replace(str(workshop.folder), "")
    record: Record = {"exact": True, "said": READ[command.reads](said)}
    if command.messages:
        record["messages"] = _numbers(why.replace(str(workshop.folder), ""))
    for file in command.files:
        record[Path(file).name] = _content(Path(workshop.filled(file)))
    return record


def _leaves(value: Any, path: str = "") -> list[str]:
    """The values of a record with their keys, as they were called at first."""
    if isinstance(value, dict):
        kept = {KEYS.get(key, key): inner for key, inner in value.items()}
        return [
            leaf
            for key in sorted(kept, key=str)
            if key not in IGNORED
            for leaf in _leaves(kept[key], f"{path}.{key}" if path else str(key))
        ]
    if isinstance(value, list):
        return [leaf for i, one in enumerate(value) for leaf in _leaves(one, f"{path}[{i}]")]
    return [f"{path}: {VALUES.get(value, value) if isinstance(value, str) else value!r}"]


def _json_lines(said: str) -> list[str]:
    return [leaf for line in said.splitlines() for leaf in _leaves(json.loads(line))]


def _counts(said: str) -> list[str]:
    lines = [one for one in said.splitlines() if not any(word in one for word in TIMES)]
    return _numbers("\n".join(lines))


def _numbers(said: str) -> list[str]:
    return [" ".join(found) for line in said.splitlines() if (found := NUMBER.findall(line))]


READ = {
    "json": _json_lines,
    "lines": str.splitlines,
    "numbers": _numbers,
    "counts": _counts,
    "none": lambda said: [],
}


def _content(path: Path) -> Any:
    """What a file holds that a verb wrote: tensors, a vector for each text, lines or numbers."""
    import numpy as np
    import torch
    from safetensors.torch import load_file

    from safety.weights import canonical

    if path.suffix == ".safetensors":
        loaded = load_file(path)
        tensors = {canonical(name, loaded): tensor for name, tensor in loaded.items()}
        return _digests(tensors)
    if path.suffix == ".npy":
        return digest(torch.from_numpy(np.load(path)))
    text = path.read_text()
    if path.suffix == ".json":
        return _leaves(json.loads(text))
    return _numbers(text) if path.suffix in (".svg", ".html") else text.splitlines()
