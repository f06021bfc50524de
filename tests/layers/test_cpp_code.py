"""The compiled code of every instruction set, on this machine or in an emulator: plain loops agree.

The 8-bit results have the same bits everywhere.
"""

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from regard.core import machine
from regard.layers.cpp import build

CHECK = Path(__file__).with_name("cpp_check.cpp")
X86, ARM = "x86_64", "aarch64"
CROSS = {X86: "x86_64-linux-gnu-g++", ARM: "aarch64-linux-gnu-g++"}
EMULATOR = {X86: ("qemu-x86_64", "-cpu", "max"), ARM: ("qemu-aarch64", "-cpu", "max")}
BITS = "10b2b02b543b16f5"  # of all 8-bit results

# Architecture, flags, and what a machine must have to run them without an emulator.
TARGETS = {
    "generic": (X86, ("-march=x86-64-v2",), None),
    "avx2": (X86, ("-march=x86-64-v3",), "avx2"),
    "avx512": (X86, ("-march=x86-64-v4",), "avx512"),
    "avx512-vnni": (X86, ("-march=x86-64-v4", "-mavx512vnni"), "vnni"),
    "amx": (X86, ("-march=x86-64-v4", "-mavx512vnni", "-mamx-tile", "-mamx-int8"), "amx"),
    "neon": (ARM, ("-march=armv8-a",), "neon"),
    "neon-dotprod": (ARM, ("-march=armv8.2-a+dotprod",), "dotprod"),
    "neon-i8mm": (ARM, ("-march=armv8.2-a+dotprod+i8mm",), "i8mm"),
}


def tools(name: str) -> tuple[str, tuple[str, ...]]:
    """The compiler for a target, and what its programs are run with; or the test is skipped."""
    architecture, _, needs = TARGETS[name]
    here = platform.machine() == architecture
    compiler = machine.compiler() if here else shutil.which(CROSS[architecture])
    if compiler is None:
        pytest.skip(f"no C++ compiler for {architecture} ({CROSS[architecture]})")
    if here and (needs is None or machine.has(needs)):
        return compiler, ()
    emulator, *options = EMULATOR[architecture]
    if architecture == X86 and needs not in (None, "avx2"):
        pytest.skip(f"this machine has no {needs}, and the emulator has none either")
    if shutil.which(emulator) is None:
        pytest.skip(f"no {emulator} to run {architecture} code with")
    return compiler, (emulator, *options)


@pytest.mark.slow
@pytest.mark.native
@pytest.mark.parametrize("name", TARGETS)
def test_every_instruction_set_gives_the_same(name, tmp_path):
    compiler, runner = tools(name)
    program = tmp_path / "check"
    flags = [one for one in build.FLAGS if one not in ("-shared", "-fPIC", "-fopenmp")]
    flags += ["-fopenmp-simd", "-static", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas"]
    flags += [*TARGETS[name][1], f"-I{build.FOLDER}"]
    subprocess.run([compiler, *flags, str(CHECK), "-o", str(program)], check=True, timeout=300)
    done = subprocess.run([*runner, str(program)], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, BITS + "\n", "")


def test_sources_are_part_of_the_package():
    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["regard"]
    native = {one.name for one in build.FOLDER.iterdir() if one.suffix in (".h", ".cpp")}
    package = build.FOLDER.parents[1]
    covered = {path.name for pattern in patterns for path in package.glob(pattern)}
    assert native <= covered
