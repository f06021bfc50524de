"""Translating with a Transformer-base: tokens out per second, regard against its peers.

    python bench/translate.py [--model FOLDER --text FILE] [--batch 1 32] [--beam 1]
                              [--precision fp32 int8] [--sentences 64] [--rounds 6] [--most 40]
                              [--cpu-seconds]
    python bench/translate.py --recurrent [--beam 5]
    python bench/translate.py --tiny                        (does it run?)

Every system has the same weights and is given the same batches, sorted by length, in turns, until
their order is clear or --most rounds are over; figures are medians with 95% intervals. The model is
regard's or a published Marian folder. Without one the weights are random, no end ever comes, and
each sentence gets 30 tokens. With --recurrent the model is Bahdanau's of bench/train_recurrent.py,
and regard's own engines take turns: no peer reads its weights. On a CPU the peer runs in fp32, on
CUDA in bf16. CTranslate2 takes part where it is installed, on CUDA too if its wheel finds the
libraries it wants there.
"""

import argparse
import copy
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import train_recurrent
from measure import interval, ratio, rounded, setting, take_turns

import regard
from regard import decoding
from regard.decoding.cpp import obstacle
from regard.ground.batch import pack
from regard.models.facts import EncoderDecoder, change
from regard.models.papers import marian
from regard.models.papers.transformer import BASE
from regard.parts.linear.convert import convert
from regard.search import Beam, Constraints, Greedy
from regard.weights.files import weights_of
from regard.weights.weight_map import Extras

VOCAB, WORDS, SOURCE = 32_000, 30, 27
TRANSFORMER = change(BASE, vocab=VOCAB, halves=True)
TINY = {"width": 32, "inner": 64, "depth": 2, "heads": 2}
Ids = list[list[int]]
System = Callable[[Ids], Ids]


class Marks(NamedTuple):
    """The special ids of a vocabulary; ``bos`` is what a translation begins with."""

    pad: int = 0
    bos: int = 1
    eos: int = 2
    unk: int = 3


class Given(NamedTuple):
    """What every system gets."""

    model: Any
    facts: EncoderDecoder
    marks: Marks
    beam: int
    longest: int


def random_model(
    size: dict[str, int], facts: EncoderDecoder = TRANSFORMER
) -> tuple[Any, EncoderDecoder, Marks, Ids]:
    """Base size, or another; the end is out of reach."""
    torch.manual_seed(0)
    facts, marks = change(facts, head_bias=True, **size), Marks()
    model = facts.build().eval()
    with torch.no_grad():
        model.head.bias[marks.eos] = -1e9
    draw, vocab = np.random.default_rng(0), facts.source.embed.vocab
    ids = [[*draw.integers(4, vocab, SOURCE).tolist(), marks.eos] for _ in range(4_096)]
    return model, facts, marks, ids


def stored_model(folder: str, file: str) -> tuple[Any, EncoderDecoder, Marks, Ids]:
    """A trained one whose facts transformers knows, and the ids of real text."""
    loaded = regard.load(folder, "cpu")
    model, facts = loaded.module, loaded.facts
    assert loaded.tokenizer is not None and isinstance(facts, EncoderDecoder)
    if not facts.head_bias:  # Marian always has one
        facts = change(facts, head_bias=True)
        model.head.bias = torch.nn.Parameter(torch.zeros(facts.target.embed.vocab))
    source, target = loaded.tokenizer.source, loaded.tokenizer.target
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    ids = [[*ids, source.eos] for ids in source.encode_all(lines)]
    return model, facts, Marks(target.pad, target.bos, target.eos, target.unk), ids


class Ours:
    """regard: ``fast``, in C++ or CUDA graphs, or by torch's operators."""

    def __init__(self, given: Given, device: str, precision: str, fast: bool = True):
        model, self.device, self.longest = given.model, device, given.longest
        marks = given.marks
        self.limits = Constraints(marks.bos, marks.eos, given.longest, forbidden=(marks.pad,))
        if device == "cuda":
            dtype = torch.float32 if precision == "fp32" else torch.bfloat16
            self.model = copy.deepcopy(model).to(device, dtype)
            name = "cuda-graph" if fast else "torch"
            self.engine = decoding.build_engine(name, self.model, precision)
        else:
            name = "cpp" if fast and obstacle(model) is None else "torch"
            self.engine = decoding.build_engine(name, model, precision)
            self.model = convert(model, precision, but_for=self.engine.packed_layers)
        self.search = Greedy() if given.beam == 1 else Beam(given.beam, length="power", alpha=1.0)

    @torch.inference_mode()
    def __call__(self, batch: Ids) -> Ids:
        source = pack(batch).to(self.device)
        state = decoding.open(self.model, source, capacity=self.longest + 1, engine=self.engine)
        return [list(found[0].tokens) for found in self.search(state, self.limits)]


class Transformers:
    """transformers' Marian, by ``generate``."""

    def __init__(self, given: Given, device: str):
        from transformers import MarianConfig, MarianMTModel

        self.given, self.device = given, device
        config = MarianConfig(
            **marian.HF.config_of(given.facts),
            max_position_embeddings=1_024,
            pad_token_id=given.marks.pad,
            eos_token_id=given.marks.eos,
            decoder_start_token_id=given.marks.bos,
            forced_eos_token_id=None,
        )
        peer = MarianMTModel(config)
        written = marian.HF.weights.write(weights_of(given.model), Extras())
        peer.load_state_dict(written, strict=False)
        peer.tie_weights()
        dtype = torch.bfloat16 if device == "cuda" else torch.float32
        self.model = peer.eval().to(device, dtype)

    @torch.inference_mode()
    def __call__(self, batch: Ids) -> Ids:
        longest, pad = max(map(len, batch)), self.given.marks.pad
        ids = torch.tensor([[*one, *[pad] * (longest - len(one))] for one in batch])
        there = torch.arange(longest) < torch.tensor([len(one) for one in batch])[:, None]
        out = self.model.generate(
            input_ids=ids.to(self.device),
            attention_mask=there.long().to(self.device),
            num_beams=self.given.beam,
            do_sample=False,
            max_new_tokens=self.given.longest,
            bad_words_ids=[[pad]],
        )
        return [_until_end(row[1:], self.given.marks) for row in out.tolist()]


def _until_end(row: list[int], marks: Marks) -> list[int]:
    eos, pad = marks.eos, marks.pad
    return row[: row.index(eos)] if eos in row else [one for one in row if one != pad]


def systems(given: Given, device: str, precisions: Sequence[str]) -> dict[str, System]:
    """Every system that can run here."""
    theirs = f"transformers {'bf16' if device == 'cuda' else 'fp32'}"
    found: dict[str, System] = {theirs: Transformers(given, device)}
    for precision in precisions:
        found[f"regard {precision}"] = Ours(given, device, precision)
        if device == "cpu":
            found[f"regard {precision}, torch"] = Ours(given, device, precision, fast=False)
    return found | ctranslate2_systems(given, device)


def recurrent_systems(given: Given, device: str, precisions: Sequence[str]) -> dict[str, System]:
    """regard by torch's operators, and on CUDA by graphs."""
    found: dict[str, System] = {}
    for precision in precisions:
        found[f"regard {precision}, torch"] = Ours(given, device, precision, fast=False)
        if device == "cuda":
            found[f"regard {precision}"] = Ours(given, device, precision)
    return found


CTRANSLATE2 = {  # compute types
    "cpu": {"fp32": "float32", "int8": "int8"},
    "cuda": {"bf16": "bfloat16", "int8": "int8_bfloat16"},
}


def ctranslate2_systems(given: Given, device: str) -> dict[str, System]:
    """CTranslate2, if it is installed, runs here and the model has a form it reads."""
    try:
        import ctranslate2

        folder = tempfile.mkdtemp()
        _as_ctranslate2(ctranslate2, given, folder)
        found = {
            f"CTranslate2 {name}": _ctranslate2_system(ctranslate2, given, folder, device, kind)
            for name, kind in CTRANSLATE2[device].items()
        }
        for system in found.values():  # a wheel without its CUDA libraries says so only now
            system([[given.marks.unk, given.marks.eos]])
    except (ImportError, RuntimeError, ValueError, KeyError) as error:
        reason = str(error).strip() or type(error).__name__
        print(json.dumps({"system": "CTranslate2", "absent": reason.splitlines()[-1][:200]}))
        return {}
    return found


def _ctranslate2_system(
    ctranslate2: Any, given: Given, folder: str, device: str, kind: str
) -> System:
    threads = torch.get_num_threads()
    translator = ctranslate2.Translator(
        folder, device=device, compute_type=kind, intra_threads=threads
    )

    def translate(batch: Ids) -> Ids:
        out = translator.translate_batch(
            [[str(i) for i in one] for one in batch],
            beam_size=given.beam,
            max_decoding_length=given.longest,
            max_batch_size=len(batch),
            length_penalty=1.0,
            suppress_sequences=[[str(given.marks.pad)]],
        )
        return [[int(token) for token in one.hypotheses[0]] for one in out]

    return translate


def _as_ctranslate2(ctranslate2: Any, given: Given, folder: str) -> None:
    """The same weights as CTranslate2 keeps them; ids are their own words."""
    specs, model, facts, marks = ctranslate2.specs, given.model, given.facts, given.marks
    source, target = facts.source.stack, facts.target.stack
    activations = {"relu": specs.Activation.RELU, "swish": specs.Activation.SWISH}
    spec = specs.TransformerSpec.from_config(
        (source.depth, target.depth),
        source.heads,
        pre_norm=source.norm == "pre",
        activation=activations[source.activation],
    )

    def put(to, linear) -> None:
        to.weight = linear.weight.detach().numpy()
        if linear.bias is not None:
            to.bias = linear.bias.detach().numpy()

    def norm(to, layer) -> None:
        to.gamma, to.beta = layer.weight.detach().numpy(), layer.bias.detach().numpy()

    for side, trunk in ((spec.encoder, model.source), (spec.decoder, model.target)):
        embeddings = side.embeddings
        embeddings = embeddings[0] if isinstance(embeddings, list) else embeddings
        embeddings.weight = trunk.embed.token.weight.detach().numpy()
        side.scale_embeddings = trunk.embed.scale != 1
        positions = marian._sinusoids(torch.Size((512, source.width)), source.width)
        side.position_encodings.encodings = positions.numpy()
        for to, block in zip(side.layer, trunk.blocks, strict=True):
            put(to.self_attention.linear[0], block.attention.qkv)
            put(to.self_attention.linear[1], block.attention.o)
            norm(to.self_attention.layer_norm, block.attention_residual.norm)
            if block.decodes:
                put(to.attention.linear[0], block.cross.q)
                put(to.attention.linear[1], block.cross.kv)
                put(to.attention.linear[2], block.cross.o)
                norm(to.attention.layer_norm, block.cross_residual.norm)
            put(to.ffn.linear_0, block.mlp.up)
            put(to.ffn.linear_1, block.mlp.down)
            norm(to.ffn.layer_norm, block.mlp_residual.norm)
    put(spec.decoder.projection, model.head)
    words = [str(i) for i in range(facts.source.embed.vocab)]
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    spec.config.bos_token = spec.config.decoder_start_token = str(marks.bos)
    spec.config.eos_token, spec.config.unk_token = str(marks.eos), str(marks.unk)
    spec.config.add_source_eos = False
    spec.validate()
    spec.optimize()
    spec.save(folder)


def main() -> None:
    """Print one JSON line for each system and setting."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="a folder of regard's that Marian can express, or Marian's")
    parser.add_argument("--text", help="its source text, one sentence a line")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--precision", nargs="+", default=None)
    parser.add_argument("--sentences", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--most", type=int, default=40, help="rounds, until the order is clear")
    parser.add_argument("--seconds", type=float, default=600, help="begin no round after these")
    parser.add_argument(
        "--cpu-seconds", action="store_true", help="count those of this process, not elapsed ones"
    )
    parser.add_argument("--recurrent", action="store_true", help="a Bahdanau translator")
    parser.add_argument("--tiny", action="store_true", help="a few sentences, a very small model")
    asked = parser.parse_args()
    base, size = (
        (train_recurrent.FACTS, train_recurrent.TINY) if asked.recurrent else (TRANSFORMER, TINY)
    )
    if asked.tiny:
        asked.batch, asked.sentences, asked.rounds, asked.most = [1, 4], 4, 2, 0
    device = "cuda" if torch.cuda.is_available() else "cpu"
    usual = ["bf16"] if device == "cuda" else ["fp32", "int8"]
    precisions = asked.precision or (["fp32"] if asked.recurrent else usual)
    trained = asked.model is not None
    model, facts, marks, ids = (
        stored_model(asked.model, asked.text)
        if trained
        else random_model(size if asked.tiny else {}, base)
    )
    given = Given(model, facts, marks, asked.beam, 96 if trained else WORDS)
    running = (recurrent_systems if asked.recurrent else systems)(given, device, precisions)
    ids = sorted(ids[: asked.sentences], key=len, reverse=True)
    for batch in asked.batch:
        batches = [ids[at : at + batch] for at in range(0, len(ids), batch)]
        compare(running, batches, asked)
    print(json.dumps({**setting(), "sentences": len(ids)}))


def compare(running: dict[str, System], batches: list[Ids], asked: argparse.Namespace) -> None:
    """Let the systems take turns over the same batches."""
    outs: dict[str, Ids] = {}

    def work(name: str) -> None:
        outs[name] = [one for batch in batches for one in running[name](batch)]

    for system in running.values():
        for _ in range(3 if torch.cuda.is_available() else 1):  # warm up, capture
            for batch in batches[:2]:
                system(batch)
    each = {name: lambda name=name: work(name) for name in running}
    clock = time.process_time if asked.cpu_seconds else None
    taken = take_turns(each, asked.rounds, limit=asked.seconds, most=asked.most, clock=clock)
    report(len(batches[0]), asked.beam, taken, outs)


def report(batch: int, beam: int, seconds: dict[str, list[float]], outs: dict[str, Ids]) -> None:
    """Tokens a second, the ratio to the first system, and how many outputs are its own."""
    first = next(iter(seconds))
    for name, taken in seconds.items():
        tokens = sum(len(one) + 1 for one in outs[name])
        same = sum(a == b for a, b in zip(outs[name], outs[first], strict=True))
        line = {
            "system": name,
            "batch": batch,
            "beam": beam,
            "tokens_per_second": rounded(interval([tokens / one for one in taken]), 1),
            "ratio": rounded(ratio(seconds[first], taken)),
            "rounds": len(taken),
            "identical": f"{same}/{len(outs[name])}",
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
