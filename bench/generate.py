"""Continuing prompts with GPT-2: new tokens per second, regard against its peers.

    python bench/generate.py [--size small] [--batch 1 32] [--new 128] [--prompt 16]
                             [--precision fp32 int8] [--rounds 6] [--most 40] [--seconds 300]
    python bench/generate.py --tiny                         (does it run?)

Every system has the same random weights, is given the same batches of prompts (of one length, for
the peers pad) in turns, and continues each by the same number of tokens, greedily; figures are
medians with 95% intervals. On CUDA all run in bf16: transformers with its default cache, and with
its static cache, which it compiles. On a CPU transformers runs in fp32, regard in fp32 and int8, by
C++ code where that supports the model and by torch; CTranslate2 takes part in int8 where it is
installed.
"""

import argparse
import copy
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from measure import interval, ratio, rounded, setting, take_turns

from regard import decoding
from regard.decoding import Prompts
from regard.decoding.cpp import obstacle
from regard.models.facts import NextTokenHead, TrunkWithHeads, change
from regard.models.papers import gpt2
from regard.parts.linear.convert import convert
from regard.search import Constraints, Greedy
from regard.weights.files import weights_of
from regard.weights.weight_map import Extras

TINY = {"width": 32, "inner": 128, "depth": 2, "heads": 2, "vocab": 300, "longest": 64}
Ids = list[list[int]]
System = Callable[[Ids], Ids]


class Given(NamedTuple):
    """What every system gets; ``new`` tokens after each prompt."""

    model: Any
    facts: TrunkWithHeads
    new: int
    eos: int  # the last id, which no system may generate


def random_model(size: str, tiny: bool, new: int) -> Given:
    """GPT-2 of that size with new weights."""
    torch.manual_seed(0)
    facts = change(gpt2.PAPER.sizes[size], **(TINY if tiny else {})).with_heads(NextTokenHead())
    return Given(facts.build().eval(), facts, new, facts.trunk.embed.vocab - 1)


class Ours:
    """regard."""

    def __init__(self, given: Given, device: str, precision: str, cpp: bool = True):
        self.given, self.device = given, device
        if device == "cuda":
            self.model = copy.deepcopy(given.model).to(device, torch.bfloat16)
            self.engine = decoding.build_engine("cuda-graph", self.model, precision)
        else:
            name = "cpp" if cpp else "torch"
            self.engine = decoding.build_engine(name, given.model, precision)
            packed = self.engine.packed_layers if precision == "fp32" else ()
            self.model = convert(given.model, precision, but_for=packed)

    @torch.inference_mode()
    def __call__(self, batch: Ids) -> Ids:
        prompts, new = Prompts.of(batch, self.device), self.given.new
        capacity = max(map(len, batch)) + new
        state = decoding.open(self.model, prompts=prompts, capacity=capacity, engine=self.engine)
        eos = self.given.eos
        limits = Constraints(prompts.last, eos, new, forbidden=(eos,))
        return [list(found[0].tokens) for found in Greedy()(state, limits)]


class Transformers:
    """transformers' GPT-2, by ``generate``; ``cache`` "static" is compiled."""

    def __init__(self, given: Given, device: str, cache: str | None = None):
        from transformers import GPT2Config, GPT2LMHeadModel

        self.given, self.device = given, device
        special = {"bos_token_id": given.eos, "eos_token_id": None, "pad_token_id": given.eos}
        config = GPT2Config(**gpt2.HF.config_of(given.facts), **special)
        peer = GPT2LMHeadModel(config)
        written = gpt2.HF.weights.write(weights_of(given.model), Extras())
        assert not peer.load_state_dict(written, strict=False).unexpected_keys
        peer.tie_weights()
        dtype = torch.bfloat16 if device == "cuda" else torch.float32
        self.model = peer.eval().to(device, dtype)
        self.settings = {} if cache is None else {"cache_implementation": cache}

    @torch.inference_mode()
    def __call__(self, batch: Ids) -> Ids:
        ids = torch.tensor(batch, device=self.device)
        out = self.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=self.given.new,
            suppress_tokens=[self.given.eos],
            **self.settings,
        )
        return out[:, ids.shape[1] :].tolist()


def systems(given: Given, device: str, precisions: list[str]) -> dict[str, System]:
    """Every system that can run here."""
    if device == "cuda":
        return {
            "transformers bf16": Transformers(given, device),
            "transformers bf16, static cache": Transformers(given, device, "static"),
            "regard bf16": Ours(given, device, "bf16"),
        }
    found: dict[str, System] = {"transformers fp32": Transformers(given, device)}
    for precision in precisions:
        if obstacle(given.model) is None:
            found[f"regard {precision}"] = Ours(given, device, precision)
        found[f"regard {precision}, torch"] = Ours(given, device, precision, cpp=False)
    return found | ctranslate2_systems(given)


def ctranslate2_systems(given: Given) -> dict[str, System]:
    """CTranslate2 in 8 bits, if it is installed and reads the model."""
    try:
        import ctranslate2

        folder = _as_ctranslate2(ctranslate2, given)
        threads = torch.get_num_threads()
        generator = ctranslate2.Generator(folder, compute_type="int8", intra_threads=threads)
    except (ImportError, RuntimeError, ValueError) as error:
        reason = str(error).strip() or type(error).__name__
        print(json.dumps({"system": "CTranslate2", "absent": reason.splitlines()[-1][:200]}))
        return {}

    def continued(batch: Ids) -> Ids:
        out = generator.generate_batch(
            [[str(i) for i in row] for row in batch],
            max_length=given.new,
            min_length=given.new,
            max_batch_size=len(batch),
            include_prompt_in_result=False,
        )
        return [one.sequences_ids[0] for one in out]

    return {"CTranslate2 int8": continued}


def _as_ctranslate2(ctranslate2: Any, given: Given) -> str:
    """A folder that its converter makes of a Hugging Face folder; ids are their own words."""
    source, target = (Path(tempfile.mkdtemp()) for _ in range(2))
    Transformers(given, "cpu").model.save_pretrained(source)
    pieces = {str(i): i for i in range(given.eos)} | {"<|endoftext|>": given.eos}
    (source / "vocab.json").write_text(json.dumps(pieces))
    (source / "merges.txt").write_text("#version: 0.2\n")
    settings = {"tokenizer_class": "GPT2Tokenizer"}
    (source / "tokenizer_config.json").write_text(json.dumps(settings))
    converter = ctranslate2.converters.TransformersConverter(str(source))
    return converter.convert(str(target), force=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="small", choices=list(gpt2.PAPER.sizes))
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--new", type=int, default=128, help="tokens after each prompt")
    parser.add_argument("--prompt", type=int, default=16, help="tokens of each prompt")
    parser.add_argument("--precision", nargs="+", choices=["fp32", "int8"], help="on a CPU")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--most", type=int, default=40, help="rounds, while no order is clear")
    parser.add_argument("--seconds", type=float, default=300, help="the most for one batch size")
    parser.add_argument("--cpu-seconds", action="store_true", help="count those of this process")
    parser.add_argument("--tiny", action="store_true", help="a very small model, a few tokens")
    asked = parser.parse_args()
    if asked.tiny:
        asked.batch, asked.new, asked.prompt, asked.rounds, asked.most = [1, 3], 8, 4, 2, 0
    device = "cuda" if torch.cuda.is_available() else "cpu"
    given = random_model(asked.size, asked.tiny, asked.new)
    running = systems(given, device, asked.precision or ["fp32", "int8"])
    draw = np.random.default_rng(0)
    for batch in asked.batch:
        compare(running, draw.integers(0, given.eos, (batch, asked.prompt)).tolist(), asked)
    shape = {"new": asked.new, "prompt": asked.prompt}
    print(json.dumps({**setting(), "size": "tiny" if asked.tiny else asked.size, **shape}))


def compare(running: dict[str, System], batch: Ids, asked: argparse.Namespace) -> None:
    """Let the systems take turns over one batch."""
    outs: dict[str, Ids] = {}

    def work(name: str) -> None:
        outs[name] = running[name](batch)

    for name in running:
        for _ in range(3 if torch.cuda.is_available() else 1):  # warm up, compile, capture
            work(name)
    each = {name: lambda name=name: work(name) for name in running}
    clock = time.process_time if asked.cpu_seconds else None
    taken = take_turns(each, asked.rounds, limit=asked.seconds, most=asked.most, clock=clock)
    report(taken, outs)


def report(seconds: dict[str, list[float]], outs: dict[str, Ids]) -> None:
    """Tokens a second, how much faster than each peer, and how many outputs are the first's."""
    peers = [name for name in seconds if not name.startswith("regard")]
    for name, taken in seconds.items():
        rows = outs[name]
        same = sum(a == b for a, b in zip(rows, outs[peers[0]], strict=True))
        line = {
            "system": name,
            "batch": len(rows),
            "tokens_per_second": rounded(interval([sum(map(len, rows)) / one for one in taken]), 1),
            "ratio": {peer: rounded(ratio(seconds[peer], taken)) for peer in peers if peer != name},
            "rounds": len(taken),
            "identical": f"{same}/{len(rows)}",
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
