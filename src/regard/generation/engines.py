"""Choice of the decoding engine: torch's operators ("torch"), "cuda-graph" or C++ ("cpp").

On a GPU CUDA graphs are used if the model can be captured. On a CPU a table decides, by instruction
set, precision and batch size; ``bench/calibrate_engines.py`` measures its rows. Nothing is timed
while a model runs, so that output does not depend on noise, and a compiler alone decides nothing:
C++ runs if it was measured and not slower. Two rows of the table are inferred from others: int8
with NEON alone, and with i8mm; the comment says how.
"""

from collections.abc import Sequence

import torch
from torch import nn

from regard.core.batch import PackedTokens
from regard.core.errors import BadInput
from regard.core.machine import has_bf16, instruction_set
from regard.generation import cpp
from regard.generation.cpp import CppEngine
from regard.generation.cuda_graph import CudaGraphEngine
from regard.generation.state import EAGER, Decodable, DecodingState, Engine, Prompts

ENGINES = ("auto", "cpp", "cuda-graph", "torch")

# Instruction set -> precision -> engine from each batch size (in sentences) on.
#
# amx, avx512-vnni, avx2: Transformer-base, greedy and beam 5, on two cores of a Xeon with AMX (the
# other two with REGARD_HIDE=bf16 and REGARD_HIDE=avx512), 2026-11-15; see bench/RESULTS.md.
#
# neon-dotprod: the same searches, and GPT-2 small at batch sizes 1 and 8, on one core of a Neoverse
# N1 (seconds of the process, for the machine was busy), 2026-11-16; see bench/RESULTS.md.
#
# neon, neon-i8mm: not measured. fp32 is torch until it is measured; int8 is C++, as torch's 8-bit
# products are slower than its fp32 with NEON.
TABLE: dict[str, dict[str, dict[int, str]]] = {
    "amx": {"fp32": {1: "cpp"}, "int8": {1: "cpp"}},
    "avx512-vnni": {"fp32": {1: "cpp"}, "int8": {1: "cpp"}},
    "avx2": {"fp32": {1: "cpp"}, "int8": {1: "cpp"}},
    "neon-i8mm": {"fp32": {1: "torch"}, "int8": {1: "cpp"}},
    "neon-dotprod": {"fp32": {1: "cpp"}, "int8": {1: "cpp"}},
    "neon": {"fp32": {1: "torch"}, "int8": {1: "cpp"}},
}


def open_state(
    model: Decodable,
    source: PackedTokens | None = None,
    *,
    prompts: Prompts | None = None,
    capacity: int,
    engine: Engine = EAGER,
    attention: bool = False,
) -> DecodingState:
    """Open a state for search; recording ``attention`` needs torch's operators in any engine."""
    if attention:
        return DecodingState(model, source, prompts, capacity, attention=True, tape=engine.tape)
    return engine.open(model, source, prompts, capacity)


def default_engine(model: nn.Module) -> Engine:
    """Engine of a model in its training precision: CUDA graphs if it can be captured."""
    on_cuda = next(model.parameters()).is_cuda
    return CudaGraphEngine() if on_cuda and model.capturable else EAGER


def choose_engine(
    models: Sequence[Decodable], precision: str = "auto", engine: str = "auto", batch: int = 1
) -> tuple[str, str]:
    """Precision and engine for running these models together; BadInput if there is none.

    Precision "auto" is bf16 on a GPU that has it, else fp32. Engine "auto" on a CPU is the table's
    engine for this machine and batch size (in sentences), if it supports these models.
    """
    if engine not in ENGINES:
        raise BadInput(f"engine must be one of {', '.join(ENGINES)}, not {engine!r}")
    device = next(models[0].parameters()).device
    if device.type == "cpu":
        precision = "fp32" if precision == "auto" else precision
        return precision, _on_cpu(models, precision, engine, batch)
    if precision == "auto":
        precision = "bf16" if has_bf16(device) else "fp32"
    return precision, _on_gpu(models, engine, device)


def build_engine(name: str, model: Decodable, precision: str) -> Engine:
    """Build the engine of that name for a model."""
    if name == "cpp":
        return CppEngine(model, precision)
    return {"cuda-graph": CudaGraphEngine, "torch": Engine}[name]()


def engine_in_table(precision: str, batch: int) -> str:
    """Engine of the table for this machine, by default torch."""
    rows = TABLE.get(instruction_set(), {}).get(precision, {})
    return next((rows[start] for start in sorted(rows, reverse=True) if start <= batch), "torch")


def _on_cpu(models: Sequence[Decodable], precision: str, engine: str, batch: int) -> str:
    if engine == "cuda-graph":
        raise BadInput("engine cuda-graph needs a GPU, but the model is on cpu")
    if engine == "auto" and engine_in_table(precision, batch) == "torch":
        return "torch"
    reasons = [reason for reason in map(cpp.obstacle, models) if reason]
    if engine == "auto":
        return "torch" if reasons else "cpp"
    if engine == "cpp" and precision not in cpp.PRECISIONS:
        raise BadInput(
            f"engine cpp: precision must be {' or '.join(cpp.PRECISIONS)}, not {precision}"
        )
    if engine == "cpp" and reasons:
        raise BadInput(f"engine cpp: {reasons[0]}")
    return engine


def _on_gpu(models: Sequence[Decodable], engine: str, device: torch.device) -> str:
    if engine == "cpp":
        raise BadInput(f"engine cpp needs a CPU, but the model is on {device.type}")
    can_capture = all(model.capturable for model in models)
    if engine == "auto":
        return "cuda-graph" if can_capture else "torch"
    if engine == "cuda-graph" and not can_capture:
        raise BadInput("engine cuda-graph: this model cannot be captured; choose torch")
    return engine
