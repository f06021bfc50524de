"""Hardware features are queried in one module; what REGARD_HIDE hides is not used."""

import os
import subprocess
import sys

import pytest
import torch

from regard.core import machine
from regard.core.errors import BadInput

SAPPHIRE = "avx2 fma avx512f avx512bw avx512dq avx512vl avx512_vnni amx_tile amx_int8 amx_bf16"
CLASSES = {
    "amx": SAPPHIRE,
    "avx512-vnni": SAPPHIRE.partition(" amx")[0],
    "avx512": SAPPHIRE.partition(" avx512_vnni")[0],
    "avx2": "sse4_2 avx2 fma",
    "neon-i8mm": "fp asimd asimddp i8mm bf16",
    "neon-dotprod": "fp asimd asimddp",
    "neon": "fp asimd",
    "generic": "sse4_2 avx",
}


@pytest.fixture
def flags(monkeypatch):
    """Sets what the processor can do."""
    monkeypatch.delenv(machine.HIDE, raising=False)
    return lambda text: monkeypatch.setattr(machine, "cpu_flags", lambda: frozenset(text.split()))


@pytest.mark.parametrize("name", machine.INSTRUCTION_SETS)
def test_a_processor_has_the_best_set_all_whose_flags_it_has(flags, name):
    flags(CLASSES[name])
    assert machine.instruction_set() == name


@pytest.mark.parametrize(
    ("hide", "left"),
    [("bf16", "avx512-vnni"), ("avx512", "avx2"), ("avx2", "generic"), (" AVX512, cuda,", "avx2")],
)
def test_what_needs_a_hidden_thing_is_hidden_too(flags, monkeypatch, hide, left):
    flags(SAPPHIRE)
    monkeypatch.setenv(machine.HIDE, hide)
    assert machine.instruction_set() == left
    assert not machine.has("bf16") and not machine.has("amx")


@pytest.mark.skipif(sys.platform != "linux", reason="torch has oneDNN for ARM on Linux")
@pytest.mark.parametrize(
    ("name", "hide", "expected"),
    [
        ("neon-dotprod", "", "2147483647"),
        ("neon-i8mm", "", None),  # which has bf16
        ("neon-i8mm", "bf16", "2147483647"),
        ("avx2", "", None),
    ],
)
def test_products_on_arm_are_not_those_of_onednn_without_bf16(flags, name, hide, expected):
    flags(CLASSES[name])
    environment = {machine.HIDE: hide}
    machine.tell_torch(environment)
    assert environment.get(machine.ONEDNN_LEAST) == expected
    environment[machine.ONEDNN_LEAST] = "8"
    machine.tell_torch(environment)
    assert environment[machine.ONEDNN_LEAST] == "8"


def test_onednn_keeps_the_code_of_few_products():
    """Of every number of tokens it would keep some, as many as there are batches."""
    environment = {}
    machine.tell_torch(environment)
    assert environment[machine.ONEDNN_PRODUCTS] == "256"
    environment[machine.ONEDNN_PRODUCTS] = "8"
    machine.tell_torch(environment)
    assert environment[machine.ONEDNN_PRODUCTS] == "8"
    assert machine.ONEDNN_PRODUCTS in os.environ  # set before torch was loaded


def test_flags_are_read_from_what_systems_print():
    linux = (
        "processor : 0\nvendor_id\t: x\nflags\t\t: fpu avx2 fma\n\nprocessor : 1\nflags\t: fpu\n"
    )
    assert machine.flags_of_linux(linux) == {"fpu", "avx2", "fma"}
    assert machine.flags_of_linux("Features\t: fp asimd asimddp\n") == {"fp", "asimd", "asimddp"}
    assert machine.flags_of_linux("") == frozenset()
    macos = (
        "hw.optional.AdvSIMD: 1\nhw.optional.arm.FEAT_DotProd: 1\nhw.optional.arm.FEAT_I8MM: 0\n"
    )
    assert machine.flags_of_macos(macos) == {"asimd", "asimddp"}


def test_a_system_that_does_not_say_is_generic(monkeypatch):
    def fails(*_, **__):
        raise OSError

    monkeypatch.setattr(machine.sys, "platform", "darwin")
    monkeypatch.setattr(subprocess, "run", fails)
    assert machine.cpu_flags.__wrapped__() == frozenset()


def test_an_unknown_name_is_one_line(monkeypatch):
    monkeypatch.setenv(machine.HIDE, "bf16,avx51")
    with pytest.raises(BadInput, match=r"REGARD_HIDE: 'avx51' .*did you mean 'avx512'"):
        machine.has("compiler")
    with pytest.raises(ValueError, match="'ram'"):
        monkeypatch.delenv(machine.HIDE)
        machine.has("ram")


def test_bf16_support_is_queried_and_never_tried(monkeypatch):
    monkeypatch.delenv(machine.HIDE, raising=False)
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    assert not machine.has("bf16")
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: True)
    assert machine.has("bf16")
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert not machine.has("bf16")


def test_a_compiler_is_found_or_hidden(monkeypatch):
    monkeypatch.delenv(machine.HIDE, raising=False)
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert not machine.has("compiler")
    monkeypatch.setenv("CXX", sys.executable)
    assert machine.has("compiler") and machine.compiler() == sys.executable
    monkeypatch.setenv(machine.HIDE, "compiler")
    assert not machine.has("compiler") and machine.compiler() is None


@pytest.mark.native("avx512")
def test_torch_uses_what_is_not_hidden():
    assert torch.backends.cpu.get_cpu_capability() == "AVX512"


@pytest.mark.parametrize(
    "first", [pytest.param("import regard", marks=pytest.mark.slow), "from regard.cli import main"]
)
def test_torch_is_configured_before_it_is_loaded(first):
    told = f"import sys; {first}; import torch; from regard.core.machine import has\n" + (
        "print(torch.backends.cpu.get_cpu_capability(), torch.cuda.is_available(), has('cuda'))"
    )
    environment = {**os.environ, machine.HIDE: "avx2,cuda"}
    done = subprocess.run(
        [sys.executable, "-c", told], env=environment, capture_output=True, text=True, check=True
    )
    capability, *cuda = done.stdout.split()
    assert capability in ("DEFAULT", "NO AVX") and cuda == ["False", "False"]


def test_the_machine_is_queried_without_torch():
    asked = "import sys; from regard.core import machine as m; m.instruction_set()\n" + (
        "m.has('compiler'); m.has('avx2'); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", asked], check=True)
