"""The capabilities of this machine; ``REGARD_HIDE`` hides them. Only this module detects them.

``REGARD_HIDE=bf16,avx512,avx2,compiler,cuda`` (any of them) makes regard, and torch where torch has
a switch, behave as on a machine without them, so that such machines can be tested for anywhere.
"""

import ctypes
import os
import shutil
import sys
from collections.abc import MutableMapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from regard.core.errors import BadInput, did_you_mean

if TYPE_CHECKING:
    import torch

HIDE = "REGARD_HIDE"
COMPILER = "CXX"  # environment: the C++ compiler; by default c++

# torch.compile caches graphs for the instructions it detected, which would be the wrong ones.
_NO_COMPILED_GRAPHS = {"TORCHINDUCTOR_FX_GRAPH_CACHE": "0", "TORCHINDUCTOR_AUTOGRAD_CACHE": "0"}
_ATEN, _ONEDNN, _MKL = "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS"
# Environment variables of torch's libraries, which read them once, before their first product.
_SWITCHES = {
    "bf16": {_ONEDNN: "AVX512_CORE_VNNI"},
    "avx512": {_ATEN: "avx2", _ONEDNN: "AVX2", _MKL: "AVX2", **_NO_COMPILED_GRAPHS},
    "avx2": {_ATEN: "default", _ONEDNN: "SSE41", _MKL: "SSE4_2", **_NO_COMPILED_GRAPHS},
    "compiler": {},
    "cuda": {"CUDA_VISIBLE_DEVICES": ""},
}
# On ARM oneDNN prepares every product anew: in fp32, OpenBLAS is faster at all sizes.
ONEDNN_LEAST = "TORCH_MKLDNN_MATMUL_MIN_DIM"
# oneDNN generates code for every number of rows, and keeps that of the last 1,024 products. Every
# batch of texts has a number of tokens of its own: the code grows with the lines that are read, by
# up to a gigabyte, and is seldom used again.
ONEDNN_PRODUCTS, MOST_PRODUCTS = "ONEDNN_PRIMITIVE_CACHE_CAPACITY", 256
HIDEABLE = tuple(_SWITCHES)


class InstructionSet(NamedTuple):
    """Instruction set: needs all ``flags``, and none of ``needs`` may be hidden."""

    name: str
    flags: tuple[str, ...]
    needs: tuple[str, ...] = ()


_AVX512 = ("avx512f", "avx512bw", "avx512dq", "avx512vl")
_SETS = {  # by the word of `has`; the first that is there names the machine
    "amx": InstructionSet("amx", ("amx_tile", "amx_int8", "amx_bf16"), ("bf16", "avx512", "avx2")),
    "vnni": InstructionSet("avx512-vnni", ("avx512_vnni", "avx512vl"), ("avx512", "avx2")),
    "avx512": InstructionSet("avx512", _AVX512, ("avx512", "avx2")),
    "avx2": InstructionSet("avx2", ("avx2", "fma"), ("avx2",)),
    "i8mm": InstructionSet("neon-i8mm", ("i8mm", "asimddp")),
    "dotprod": InstructionSet("neon-dotprod", ("asimddp",)),
    "neon": InstructionSet("neon", ("asimd",)),
}
GENERIC = "generic"
INSTRUCTION_SETS = (*(known.name for known in _SETS.values()), GENERIC)
_MACOS = {  # names of sysctl below hw.optional, and what Linux calls the same
    **{flag: flag for flag in ("fma", *_AVX512)},
    **{"avx2_0": "avx2", "avx512vnni": "avx512_vnni", "AdvSIMD": "asimd"},
    **{"arm.FEAT_DotProd": "asimddp", "arm.FEAT_I8MM": "i8mm"},
}


def has(thing: str) -> bool:
    """Whether the machine has this capability and it is not hidden.

    Capabilities: ``cuda``; ``compiler`` (of C++); ``bf16`` (fast products on the CPU; see
    ``has_bf16`` for any device); an instruction set: ``amx``, ``vnni``, ``avx512``, ``avx2``,
    ``i8mm``, ``dotprod``, ``neon``.
    """
    unseen = hidden()
    if thing in _SETS:
        _, flags, needs = _SETS[thing]
        return unseen.isdisjoint(needs) and cpu_flags().issuperset(flags)
    if thing == "compiler":
        return thing not in unseen and compiler() is not None
    if thing == "cuda":
        return thing not in unseen and _has_cuda()
    if thing == "bf16":
        x86 = unseen.intersection(("avx512", "avx2")) and "avx2" in cpu_flags()
        return thing not in unseen and not x86 and _cpu_has_bf16()
    raise ValueError(f"no capability is called {thing!r}")


def has_bf16(device: "torch.device") -> bool:
    """Whether products in bf16 are fast on this device."""
    if device.type != "cuda":
        return has("bf16")
    import torch

    return "bf16" not in hidden() and torch.cuda.is_bf16_supported(including_emulation=False)


def has_bf16_units(device: "torch.device") -> bool:
    """Whether the device has units for matrix products in bf16: a GPU, AMX, or BFMMLA on ARM.

    Other processors compute them in fp32 registers, and win nothing or lose.
    """
    if device.type != "cuda":
        return has("bf16") and (has("amx") or "bf16" in cpu_flags())
    return has_bf16(device)


def instruction_set() -> str:
    """The best of ``INSTRUCTION_SETS`` that the processor has and that is not hidden."""
    return next((known.name for word, known in _SETS.items() if has(word)), GENERIC)


def least_stable_rows() -> int:
    """The number of rows from which on a product of float32 does not depend on it, in one thread.

    Fewer rows take other code: in OpenBLAS a single one, in MKL those below 16.
    """
    return 2 if has("neon") and ONEDNN_LEAST in os.environ else 16


def compiler() -> str | None:
    """The path of the C++ compiler; None if there is none or it is hidden."""
    if "compiler" in hidden():
        return None
    return shutil.which(os.environ.get(COMPILER) or "c++")


def hidden() -> frozenset[str]:
    """The capabilities that ``REGARD_HIDE`` names; BadInput if it names anything else."""
    names = frozenset(_named(os.environ))
    for name in sorted(names.difference(HIDEABLE)):
        raise BadInput(f"{HIDE}: {name!r} cannot be hidden{did_you_mean(name, HIDEABLE)}")
    return names


def tell_torch(environment: MutableMapping[str, str]) -> None:
    """Set environment variables of torch's libraries, also for hidden capabilities.

    Unknown names in ``REGARD_HIDE`` are refused. The package calls this when it is imported, before
    it imports torch.
    """
    names = _named(environment)
    environment.setdefault(ONEDNN_PRODUCTS, str(MOST_PRODUCTS))
    flags = cpu_flags() if sys.platform == "linux" else frozenset()
    if "asimd" in flags and "bf16" not in flags.difference(names):
        environment.setdefault(ONEDNN_LEAST, str(2**31 - 1))
    for name, switches in _SWITCHES.items():  # the strictest comes last
        if name in names:
            environment.update(switches)


def _named(environment: MutableMapping[str, str]) -> list[str]:
    names = environment.get(HIDE, "").split(",")
    return [name.strip().lower() for name in names if name.strip()]


@lru_cache
def cpu_flags() -> frozenset[str]:
    """The flags of the processor, as Linux names them; empty where they are not known."""
    try:
        if sys.platform == "darwin":
            import subprocess

            output = subprocess.run(["sysctl", "hw.optional"], capture_output=True).stdout
            return flags_of_macos(output.decode(errors="replace"))
        return flags_of_linux(Path("/proc/cpuinfo").read_text(errors="replace"))
    except (OSError, ValueError):
        return frozenset()


def flags_of_linux(text: str) -> frozenset[str]:
    """The flags (on ARM: features) of the first processor in ``/proc/cpuinfo``."""
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def flags_of_macos(text: str) -> frozenset[str]:
    """The features in the output of ``sysctl hw.optional``."""
    lines = (line.partition(":") for line in text.splitlines())
    enabled = {key.strip() for key, _, value in lines if value.strip() == "1"}
    return frozenset(flag for key, flag in _MACOS.items() if f"hw.optional.{key}" in enabled)


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


def _cpu_has_bf16() -> bool:
    """Ask oneDNN, which has the fast products; a trial product would change torch's settings."""
    import torch

    if not torch.backends.mkldnn.is_available():
        return False
    try:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    except (AttributeError, RuntimeError):  # a torch without the operator
        return False


tell_torch(os.environ)


def trim_heap() -> None:
    """Give memory that was freed back to the system, where the C library can (glibc)."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
