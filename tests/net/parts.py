"""Run one part in the process of a tree: its probes are written as they come."""

import importlib
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from net.values import Masks, write_probe

Probes = Iterator[tuple[str, Any]]


@dataclass(frozen=True)
class Place:
    """Folders of a capture: models and data that are shared, scratch space, the tree."""

    inputs: Path
    work: Path
    tree: Path

    def fill(self, text: str) -> str:
        """A text in which {inputs} and {work} are the paths of these folders."""
        return text.replace("{inputs}", str(self.inputs)).replace("{work}", str(self.work))


def attempt(call: Callable[[], Any]) -> Any:
    """The value of a call, or its error as a value."""
    try:
        return call()
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def run_part(name: str, folder: Path, inputs: Path, tree: Path) -> int:
    """Write all probes of a part to FOLDER/NAME; 1 if it ends with an error."""
    import torch

    torch.set_num_threads(1)
    started = perf_counter()
    place = Place(inputs, Path.cwd().resolve(), tree)
    masks = Masks({"inputs": inputs, "work": place.work, "tree": tree})
    if name == "inputs":
        from net.inputs import write_inputs

        write_inputs(place)
    else:
        shutil.rmtree(folder / name, ignore_errors=True)
        count = 0
        try:
            for probe, value in importlib.import_module(f"net.{name}").probes(place):
                write_probe(folder / name, probe, value, masks)
                count += 1
        except Exception:
            traceback.print_exc()
            print(f"{name}: failed after {count} probes", file=sys.stderr, flush=True)
            return 1
        name = f"{name}: {count} probes"
    print(f"{name}, {perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    return 0
