"""Linear layers on a CPU: microseconds of every product, and how often it is faster than torch's.

    python bench/linear_cpu.py [--shapes 512x1536,512x32000] [--rows 1,4,32] [--threads 2]

One JSON line for each shape and number of rows: medians over turns taken one after another, so that
another program's load hits all alike. Every product walks through several layers, as a model does,
so that weights do not stay in the nearest cache. The last line says what ``engine`` chooses.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

from regard.layers.linear.convert import describe_products
from regard.layers.linear.int8 import (
    Fbgemm,
    Floats,
    Int8Linear,
    OneDnn,
    Product,
    is_exact,
    quantised,
)
from regard.layers.linear.packed import HalfLinear, PackedLinear, can_pack

SHAPES = "512x1536,512x512,512x2048,2048x512,512x32000,256x768,256x256,256x1024,1024x256,128x256"
ROWS = "1,4,8,16,32,64,128,640"
CACHE = 32 << 20  # bytes of float32 weights that one round walks through

Layers = list[Callable[[torch.Tensor], torch.Tensor]]


def layers(inputs: int, outputs: int) -> dict[str, Layers]:
    """By the name of a product, the same layers multiplied by it."""
    count = max(2, min(16, CACHE // (4 * inputs * outputs)))
    plain = [nn.Linear(inputs, outputs) for _ in range(count)]
    made: dict[str, Layers] = {"torch fp32": list(plain)}
    made["fp32"] = [PackedLinear(one) for one in plain]
    if can_pack(torch.float32):
        made["oneDNN fp32"] = [always_packed(one) for one in plain]
    if can_pack(torch.bfloat16):
        made["bf16"] = [HalfLinear(one) for one in plain]
    made["int8"] = [Int8Linear(one) for one in plain]
    for product in (Fbgemm, OneDnn, Floats):
        if is_exact(product):
            made[f"int8 {product.name}"] = [always(product, one) for one in plain]
    return made


def always_packed(linear: nn.Linear) -> PackedLinear:
    """Packed weights even for few rows."""
    made = PackedLinear(linear)
    made.few = 0
    return made


def always(product: type[Product], linear: nn.Linear) -> Int8Linear:
    """One product for any number of rows."""
    made = Int8Linear(linear)
    made.few = made.many = product(*quantised(linear.weight))
    return made


def measured(made: dict[str, Layers], x: torch.Tensor, seconds: float) -> dict[str, float]:
    """Median microseconds a layer; two rounds before each bring its weights near."""
    taken: dict[str, list[float]] = {name: [] for name in made}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(taken["int8"]) < 3:
        for name, some in made.items():
            for one in some * 2:
                one(x)
            start = time.perf_counter()
            for one in some:
                one(x)
            taken[name].append((time.perf_counter() - start) / len(some))
    return {name: 1e6 * statistics.median(times) for name, times in taken.items()}


@torch.inference_mode()
def main() -> None:
    """Print one JSON line for each shape and number of rows, then the choices."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", default=SHAPES, help="inputs x outputs, with commas between")
    parser.add_argument("--rows", default=ROWS)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each line")
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    for shape in asked.shapes.split(","):
        inputs, outputs = map(int, shape.split("x"))
        made = layers(inputs, outputs)
        for rows in map(int, asked.rows.split(",")):
            found = measured(made, torch.randn(rows, inputs), asked.seconds)
            line = {
                "shape": shape,
                "rows": rows,
                "microseconds": {name: round(taken, 1) for name, taken in found.items()},
                "ratio": {name: round(found["torch fp32"] / t, 2) for name, t in found.items()},
            }
            print(json.dumps(line), flush=True)
    kinds = ["int8", "fp32", *(["bf16"] if can_pack(torch.bfloat16) else [])]
    print(
        json.dumps(
            {"choice": [describe_products(kind) for kind in kinds], "torch": torch.__version__}
        )
    )


if __name__ == "__main__":
    main()
