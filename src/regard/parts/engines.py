"""Which engine decodes on a CPU: compiled steps ("cpp") or torch's operators ("torch").

A table says it, by instruction set, precision and batch size. ``bench/calibrate_engines.py``
measures its rows. Nothing is timed while a model runs, so that output does not depend on noise, and
a compiler alone decides nothing: compiled steps run where they were measured and found not slower.
One row is inferred from other measurements, int8 with NEON; the comment says how.
"""

from regard.ground.errors import BadInput
from regard.ground.machine import instruction_set

ENGINES = ("auto", "cpp", "torch")

# Instruction set -> precision -> engine from each batch size (in sentences) on.
#
# amx, avx512-vnni, avx2: Transformer-base, greedy and beam 5, on two cores of a Xeon with AMX (the
# other two with REGARD_HIDE=bf16 and REGARD_HIDE=avx512), 2026-11-15; see bench/RESULTS.md.
#
# neon…: nobody has timed the kernels for NEON. Those before them, with the same weights but without
# registers enough, took 32.3 s in fp32 where torch took 8.7 (Neoverse N1, beam 6, batch size 1):
# fp32 stays torch until somebody measures. In int8 they took 12.7 s, while torch's 8-bit products
# were 3.5 times slower than its fp32 there: int8 is compiled.
TABLE: dict[str, dict[str, dict[int, str]]] = {
    "amx": {"fp32": {1: "cpp"}, "int8": {1: "cpp"}},
    "avx512-vnni": {"fp32": {1: "cpp"}, "int8": {1: "cpp"}},
    "avx2": {"fp32": {1: "cpp"}, "int8": {1: "cpp"}},
    "neon-i8mm": {"fp32": {1: "torch"}, "int8": {1: "cpp"}},
    "neon-dotprod": {"fp32": {1: "torch"}, "int8": {1: "cpp"}},
    "neon": {"fp32": {1: "torch"}, "int8": {1: "cpp"}},
}

# Where torch's 8-bit products, which encoders use, are faster than its own in fp32. Measured with
# amx (bench/RESULTS.md, Encoders on a CPU). Without VNNI they are products of floats, or slow:
# Neoverse N1 gave 102 tokens a second in int8 and 356 in fp32.
FAST_INT8 = ("amx", "avx512-vnni")


def choose_engine(precision: str, batch: int) -> str:
    """What the table says of this machine; torch where it says nothing."""
    rows = TABLE.get(instruction_set(), {}).get(precision, {})
    return next((rows[start] for start in sorted(rows, reverse=True) if start <= batch), "torch")


def check_engine(engine: str) -> None:
    """BadInput if it is none."""
    if engine not in ENGINES:
        raise BadInput(f"an engine is {', '.join(ENGINES)}, not {engine!r}")


def has_fast_int8() -> bool:
    """Whether 8-bit products of torch are faster than those in fp32 on this machine."""
    return instruction_set() in FAST_INT8
