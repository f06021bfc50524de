"""The command line: help of every verb, and what each prints and writes on small inputs."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from net.commands import CALLS
from net.parts import Place, Probes
from net.processes import Finished, regard
from net.values import file_value
from safety.commands import COMMANDS


def probes(place: Place) -> Probes:
    """Help, then the calls, each with plain output and with ``--json``."""
    listed = regard(["--help"]).out
    yield "help/regard", listed
    groups = listed[listed.index("\nRun:") :]
    for verb in re.findall(r"^  (\w+) ", groups, re.MULTILINE):
        yield f"help/{verb}", shown(regard([verb, "--help"]))
    for name, call in CALLS.items():
        yield from both(name, shlex.split(call.line), call.stdin, call.files, place)
    for name, command in COMMANDS.items():
        words = [named(word, place) for word in command.arguments]
        if words[0] == "train" and "--dry-run" not in words:
            continue  # among the calls
        stdin = named(command.stdin or "", place)
        stdin = Path(stdin[1:]).read_text() if stdin.startswith("@") else stdin
        done = run(words, stdin, place)
        if command.to is not None:
            (place.work / command.to).write_text(done.out)
        yield f"more/{name.removeprefix('verb-')}", shown(done)
        for file in command.files:
            path = Path(named(file, place))
            yield f"files/{name.removeprefix('verb-')}-{path.name}", content(path)


def both(name: str, words: list[str], stdin: str, files: Sequence[str], place: Place) -> Probes:
    """A call with plain output, and again with ``--json``; what each of them writes."""
    for form in ((), ("--json",)):
        label = " ".join((name, *form)).replace(" --", ".")
        if form and (not words or words[0].startswith("-") or words[0] in WRITING):
            continue
        given = [place.fill(word) for word in words]
        yield f"calls/{label}", shown(run([*given, *form], stdin, place))
        for file in files:
            yield f"files/{label}-{file.replace('/', '-')}", content(place.work / file)
            if form:
                (place.work / file).unlink(missing_ok=True)


WRITING = ("train", "tune", "new", "convert")  # verbs that take long, or print no JSON


def run(words: Sequence[str], stdin: str, place: Place) -> Finished:
    """A call on the CPU, without what the machine can do."""
    return regard(words, stdin, place.work)


def shown(done: Finished) -> str:
    """Exit code, output and messages as one text."""
    return f"exit {done.code}\n--- stdout\n{done.out}\n--- stderr\n{done.err}"


def content(path: Path) -> object:
    """The content of a file that a call should have written."""
    return file_value(path) if path.exists() else "(no such file)"


def named(text: str, place: Place) -> str:
    """A text with the paths of models, data and recipes."""
    folder = place.inputs
    text = re.sub(r"\{(regard|hf)\.([\w-]+)\}", rf"{folder}/\1/\2", text)
    text = re.sub(r"\{recipe\.([\w-]+)\}", rf"{folder}/recipes/\1.toml", text)
    text = text.replace("{data}", f"{folder}/data").replace("{marian}", f"{folder}/marian")
    return place.fill(text)
