"""Continuing prompts with GPT-2 or Llama: new tokens per second, regard against peers in turns.

    python bench/generate.py [--size small] [--batch 1 32] [--new 128] [--prompt 16]
                             [--precision fp32 int8] [--rounds 6] [--most 40] [--seconds 300]
    python bench/generate.py --tiny                         (does it run?)

Every system has the same random weights, a process of its own, and the same batches of prompts (of
one length, for the peers pad) in turns, and continues each by the same number of tokens, greedily;
figures are medians with 95% intervals. On CUDA all run in bf16: transformers with its default
cache, and with its static cache, which it compiles. On a CPU transformers runs in fp32, regard in
fp32 and int8, by C++ code where that supports the model and by torch; CTranslate2 takes part in
int8 where it is installed.
"""

import argparse
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from measure import Spec, add_options, emit, print_decoding, running, setting
from ours import CAUSAL
from peers.decoding import Ids, Marks, Work, rounds_over
from torch import nn
from worker import System

from regard import generation
from regard.generation import Constraints, Greedy, Prompts
from regard.generation.cpp import obstacle
from regard.layers.linear.convert import convert
from regard.models.facts import change
from regard.models.folders import folder as folders
from regard.models.folders.loaded_model import LoadedModel
from regard.models.heads import NextTokenHead
from regard.models.paper import Paper
from regard.models.trunk_with_heads import TrunkWithHeads

TINY = {"width": 32, "inner": 128, "depth": 2, "heads": 2, "vocab": 300, "longest": 64}


def facts_of(size: str, tiny: bool) -> TrunkWithHeads:
    """The model of that size."""
    facts = CAUSAL[size][1]
    if tiny and size.startswith("llama"):
        facts = change(facts, kv_heads=1)
    return change(facts, **(TINY if tiny else {})).with_heads(NextTokenHead())


def random_model(facts: TrunkWithHeads) -> nn.Module:
    """The model of all systems."""
    torch.manual_seed(0)
    return facts.build().eval()


def ours(
    folder: str, size: str, tiny: bool, device: str, precision: str, cpp: bool = True
) -> System:
    """regard: by CUDA graphs, by C++ code, or by torch's operators."""
    work, model = Work.read(folder), random_model(facts_of(size, tiny))
    if device == "cuda":
        model = model.to(device, torch.bfloat16)
        engine = generation.build_engine("cuda-graph", model, precision)
    else:
        engine = generation.build_engine("cpp" if cpp else "torch", model, precision)
        model = convert(
            model, precision, but_for=engine.packed_layers if precision == "fp32" else ()
        )
    eos, new = work.marks.eos, work.longest

    @torch.inference_mode()
    def continued(batch: Ids) -> Ids:
        prompts, capacity = Prompts.of(batch, device), max(map(len, batch)) + new
        state = generation.open_state(model, prompts=prompts, capacity=capacity, engine=engine)
        limits = Constraints(prompts.last, eos, new, forbidden=(eos,))
        return [list(hypotheses[0].tokens) for hypotheses in Greedy()(state, limits)]

    return rounds_over(work.ids, continued)


def specs_of(
    asked: argparse.Namespace, device: str, model: nn.Module, folder: Path
) -> dict[str, Spec]:
    """Every system that can run here; the first is the one whose outputs are compared."""

    def theirs(form: str) -> Spec:
        return Spec("peers.gpt2:generation", {"form": form, "folder": str(folder)})

    def own(precision: str, cpp: bool = True) -> Spec:
        settings: dict[str, Any] = {"folder": str(folder), "size": asked.size, "tiny": asked.tiny}
        settings |= {"device": device, "precision": precision, "cpp": cpp}
        return Spec("generate:ours", settings)

    if device == "cuda":
        return {
            "transformers bf16": theirs("eager"),
            "transformers bf16, static cache": theirs("static"),
            "regard bf16": own("bf16"),
        }
    specs = {"transformers fp32": theirs("eager")}
    for precision in asked.precision or ["fp32", "int8"]:
        if obstacle(model) is None:
            specs[f"regard {precision}"] = own(precision)
        specs[f"regard {precision}, torch"] = own(precision, cpp=False)
    return specs | ctranslate2_specs(asked, folder)


def ctranslate2_specs(asked: argparse.Namespace, folder: Path) -> dict[str, Spec]:
    """CTranslate2 in 8 bits, if it is installed and reads the model."""
    model = str(folder / "ctranslate2")
    try:
        from ctranslate2.converters import TransformersConverter

        TransformersConverter(str(folder)).convert(model)
    except (ImportError, RuntimeError, ValueError) as error:
        reason = str(error).strip() or type(error).__name__
        emit(asked, system="CTranslate2", absent=reason.splitlines()[-1][:200])
        return {}
    settings = {"folder": str(folder), "model": model, "kind": "int8"}
    return {"CTranslate2 int8": Spec("peers.ct2:generation", settings)}


def write_model(paper: Paper, facts: TrunkWithHeads, model: nn.Module, folder: Path) -> None:
    """Write a folder as peers read it; its ids are their own words."""
    folders.write(folder, LoadedModel(paper, facts, model), "hf")
    eos = facts.trunk.embed.vocab - 1
    words = {str(token): token for token in range(eos)} | {"<|endoftext|>": eos}
    (folder / "vocab.json").write_text(json.dumps(words))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "GPT2Tokenizer"}')


def main() -> None:
    """Print one JSON line for each system and batch size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="small", choices=list(CAUSAL))
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--new", type=int, default=128, help="tokens after each prompt")
    parser.add_argument("--prompt", type=int, default=16, help="tokens of each prompt")
    parser.add_argument("--precision", nargs="+", choices=["fp32", "int8"], help="on a CPU")
    parser.add_argument("--most", type=int, default=40, help="rounds, while no order is clear")
    parser.add_argument("--cpu-seconds", action="store_true", help="count those of the process")
    parser.add_argument("--tiny", action="store_true", help="a very small model, a few tokens")
    add_options(parser, rounds=6, seconds=300, papers=["gpt-2", "llama"])
    asked = parser.parse_args()
    if asked.tiny:
        asked.batch, asked.new, asked.prompt, asked.rounds, asked.most = [1, 3], 8, 4, 2, 0
    with TemporaryDirectory() as folder:
        compare(asked, Path(folder))


def compare(asked: argparse.Namespace, folder: Path) -> None:
    """Let the systems take turns over one batch of every size."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    facts = facts_of(asked.size, asked.tiny)
    model, eos = random_model(facts), facts.trunk.embed.vocab - 1
    write_model(CAUSAL[asked.size][0], facts, model, folder)
    draw, shape = np.random.default_rng(0), (max(asked.batch), asked.prompt)
    prompts = draw.integers(0, eos, shape).tolist()
    Work(prompts, Marks(pad=eos, bos=eos, eos=eos), 1, asked.new).write(folder)
    specs = specs_of(asked, device, model, folder)
    times = 3 if device == "cuda" else 1  # warm up, compile, capture
    warm_up = [{"batch": batch, "first": 1} for batch in asked.batch for _ in range(times)]
    with running(specs, asked, warm_up) as workers:
        for batch in asked.batch:
            print_decoding(workers, asked, batch=batch, first=1)
        size = "tiny" if asked.tiny else asked.size
        emit(asked, size=size, new=asked.new, prompt=asked.prompt, **setting(workers))


if __name__ == "__main__":
    main()
