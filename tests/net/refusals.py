"""Wrong calls of every verb (``cli/mistakes``): exit codes and messages."""

import re
import shlex
import shutil
from collections import Counter
from pathlib import Path

from net.parts import Place, Probes
from net.processes import regard
from net.verbs import shown

TABLES = Path(__file__).parents[1] / "cli" / "mistakes"
EVERY = 4  # of each verb, the first call and one in so many


def probes(place: Place) -> Probes:
    """A share of the calls of each verb, in a folder of their own."""
    folder = place.work / "mistakes"
    shutil.copytree(place.inputs / "mistakes", folder)
    count = Counter[str]()
    for table in sorted(TABLES.glob("*.txt")):
        for row in re.split(r"\n(?=\S)", table.read_text().strip()):
            words, _, stdin = row.partition("\n    ")[0].strip().partition(" <")
            verb = words.split()[0]
            if count[verb] % EVERY == 0:
                done = regard(shlex.split(words), f"{stdin.strip()}\n", folder)
                yield f"{verb}-{count[verb]:02}", f"$ regard {words}\n{shown(done)}"
            count[verb] += 1
