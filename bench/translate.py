"""Translating with a Transformer-base: tokens out per second, regard against its peers in turns.

    python bench/translate.py [--model FOLDER --text FILE] [--batch 1 32] [--beam 1]
                              [--precision fp32 int8] [--sentences 64] [--rounds 6] [--most 40]
                              [--peers eager static compiled ctranslate2] [--cpu-seconds]
    python bench/translate.py --recurrent [--beam 5]
    python bench/translate.py --tiny                        (does it run?)

Every system has the same weights, a process of its own, and the same batches, sorted by length, in
turns, until their order is clear or --most rounds are over; figures are medians with 95% intervals.
The model is regard's or a published Marian folder. Without one the weights are random, no end ever
comes, and each sentence gets 30 tokens. With --recurrent the model is Bahdanau's of
bench/train_recurrent.py, and regard's own engines take turns: no peer reads its weights. On a CPU
transformers runs in fp32, on CUDA in bf16: by generate with its default cache ("eager"), with its
static cache, which it compiles in a greedy search ("static"), and with that and a compiled forward
pass ("compiled"; by default in a beam search). CTranslate2 takes part where it is installed, on
CUDA too if its wheel finds the libraries it wants there.
"""

import argparse
import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from measure import Spec, add_options, emit, print_decoding, running, setting
from ours import BAHDANAU, BAHDANAU_TINY, write_marian
from peers.decoding import Ids, Marks, Work, rounds_over
from worker import System

import regard
from regard import generation
from regard.core.batch import pack
from regard.generation import Beam, Constraints, Greedy
from regard.generation.cpp import obstacle
from regard.layers.linear.convert import convert
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.facts import change
from regard.models.papers.transformer import BASE

VOCAB, WORDS, SOURCE = 32_000, 30, 27
TRAINED_WORDS = 96
TRANSFORMER = change(BASE, vocab=VOCAB, halves=True)
TINY = {"vocab": 500, "width": 32, "inner": 64, "depth": 2, "heads": 2}
COMPUTE_TYPES = {  # of CTranslate2
    "cpu": {"fp32": "float32", "int8": "int8"},
    "cuda": {"bf16": "bfloat16", "int8": "int8_bfloat16"},
}
PEERS = ("eager", "static", "compiled", "ctranslate2")
Loaded = tuple[Any, EncoderDecoder, Marks]


def random_model(recurrent: bool, tiny: bool) -> Loaded:
    """A translator of base size, or a tiny one, with random weights; the end is out of reach."""
    torch.manual_seed(0)
    base, smaller = (BAHDANAU, BAHDANAU_TINY) if recurrent else (TRANSFORMER, TINY)
    facts, marks = change(base, head_bias=True, **(smaller if tiny else {})), Marks()
    model = facts.build().eval()
    with torch.no_grad():
        model.head.bias[marks.eos] = -1e9
    return model, facts, marks


def random_ids(vocab: int, eos: int) -> Ids:
    """Sentences of random tokens."""
    draw = np.random.default_rng(0)
    return [[*draw.integers(4, vocab, SOURCE).tolist(), eos] for _ in range(4_096)]


def stored_model(folder: str) -> tuple[Loaded, Any]:
    """A trained translator whose facts transformers knows, and its tokenizer."""
    loaded = regard.load(folder, "cpu")
    model, facts = loaded.module, loaded.facts
    assert loaded.tokenizer is not None and isinstance(facts, EncoderDecoder)
    if not facts.head_bias:  # Marian always has one
        facts = change(facts, head_bias=True)
        model.head.bias = torch.nn.Parameter(torch.zeros(facts.target.embed.vocab))
    target = loaded.tokenizer.target
    marks = Marks(target.pad, target.bos, target.eos, target.unk)
    return (model, facts, marks), loaded.tokenizer.source


def text_ids(tokenizer: Any, file: str) -> Ids:
    """The sentences of a text."""
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    return [[*ids, tokenizer.eos] for ids in tokenizer.encode_all(lines)]


def translator(
    module: Any, work: Work, device: str, precision: str, fast: bool = True
) -> Callable[[Ids], Ids]:
    """regard's translations: ``fast``, in C++ or CUDA graphs, or by torch's operators."""
    marks, name = work.marks, "torch"
    limits = Constraints(marks.bos, marks.eos, work.longest, forbidden=(marks.pad,))
    if device == "cuda":
        dtype = torch.float32 if precision == "fp32" else torch.bfloat16
        module = copy.deepcopy(module).to(device, dtype)
        engine = generation.build_engine("cuda-graph" if fast else name, module, precision)
    else:
        name = "cpp" if fast and obstacle(module) is None else name
        engine = generation.build_engine(name, module, precision)
        module = convert(module, precision, but_for=engine.packed_layers)
    search = Greedy() if work.beam == 1 else Beam(work.beam, length="power", alpha=1.0)

    @torch.inference_mode()
    def translate(batch: Ids) -> Ids:
        source = pack(batch).to(device)
        state = generation.open_state(module, source, capacity=work.longest + 1, engine=engine)
        return [list(hypotheses[0].tokens) for hypotheses in search(state, limits)]

    return translate


def ours(
    folder: str,
    model: str | None,
    recurrent: bool,
    tiny: bool,
    device: str,
    precision: str,
    fast: bool = True,
) -> System:
    """regard over the sentences of a folder."""
    work = Work.read(folder)
    module = (stored_model(model)[0] if model else random_model(recurrent, tiny))[0]
    return rounds_over(work.ids, translator(module, work, device, precision, fast))


def specs_of(
    asked: argparse.Namespace, device: str, precisions: Sequence[str], loaded: Loaded, folder: Path
) -> dict[str, Spec]:
    """Every system that can run here; the first is the one that the others are compared with."""
    specs: dict[str, Spec] = {}
    shared: dict[str, Any] = {"folder": str(folder), "device": device, "model": asked.model}
    shared |= {"recurrent": asked.recurrent, "tiny": asked.tiny}
    fixed = ["static" if asked.beam == 1 else "compiled"] if device == "cuda" else []
    usual = ["eager", *fixed, "ctranslate2"]
    peers = [] if asked.recurrent else usual if asked.peers is None else asked.peers
    for form in (peer for peer in peers if peer != "ctranslate2"):
        name = f"transformers {'bf16' if device == 'cuda' else 'fp32'}"
        name += {"eager": "", "static": ", static cache", "compiled": ", compiled"}[form]
        specs[name] = Spec("peers.marian:translation", {"form": form, "folder": str(folder)})
    for precision in precisions:
        fast, slow = ({**shared, "precision": precision, "fast": fast} for fast in (True, False))
        own = {f"regard {precision}": fast, f"regard {precision}, torch": slow}
        if asked.recurrent:  # its first system is regard's own
            own = dict(reversed(own.items()))
            if device == "cpu":
                del own[f"regard {precision}"]
        elif device == "cuda":
            del own[f"regard {precision}, torch"]
        specs |= {name: Spec("translate:ours", settings) for name, settings in own.items()}
    if "ctranslate2" in peers:
        specs |= ctranslate2_specs(asked, device, loaded, folder)
    return specs


def ctranslate2_specs(
    asked: argparse.Namespace, device: str, loaded: Loaded, folder: Path
) -> dict[str, Spec]:
    """CTranslate2, if it is installed and the model has a form that it reads."""
    from as_ctranslate2 import write_ctranslate2

    model = str(folder / "ctranslate2")
    try:
        write_ctranslate2(*loaded, model)
    except (ImportError, RuntimeError, ValueError, KeyError) as error:
        reason = str(error).strip() or type(error).__name__
        emit(asked, system="CTranslate2", absent=reason.splitlines()[-1][:200])
        return {}
    settings = {"folder": str(folder), "model": model}
    return {
        f"CTranslate2 {name}": Spec("peers.ct2:translation", {**settings, "kind": kind})
        for name, kind in COMPUTE_TYPES[device].items()
    }


def main() -> None:
    """Print one JSON line for each system and setting."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="a folder of regard's that Marian can express, or Marian's")
    parser.add_argument("--text", help="its source text, one sentence a line")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--precision", nargs="+", default=None)
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=None)
    parser.add_argument("--sentences", type=int, default=64)
    parser.add_argument("--most", type=int, default=40, help="rounds, until the order is clear")
    parser.add_argument(
        "--cpu-seconds", action="store_true", help="count those of the process, not elapsed ones"
    )
    parser.add_argument("--recurrent", action="store_true", help="a Bahdanau translator")
    parser.add_argument("--tiny", action="store_true", help="a few sentences, a very small model")
    add_options(parser, rounds=6, seconds=600, papers=["transformer", "bahdanau"])
    asked = parser.parse_args()
    if asked.tiny:
        asked.batch, asked.sentences, asked.rounds, asked.most = [1, 4], 4, 2, 0
    with TemporaryDirectory() as folder:
        compare(asked, Path(folder))


def compare(asked: argparse.Namespace, folder: Path) -> None:
    """Let the systems take turns over the same batches."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    usual = ["bf16"] if device == "cuda" else ["fp32", "int8"]
    precisions = asked.precision or (["fp32"] if asked.recurrent else usual)
    if asked.model is None:
        loaded = random_model(asked.recurrent, asked.tiny)
        ids, longest = random_ids(loaded[1].source.embed.vocab, loaded[2].eos), WORDS
    else:
        loaded, tokenizer = stored_model(asked.model)
        ids, longest = text_ids(tokenizer, asked.text), TRAINED_WORDS
    ids = sorted(ids[: asked.sentences], key=len, reverse=True)
    Work(ids, loaded[2], asked.beam, longest).write(folder)
    if not asked.recurrent:
        write_marian(*loaded, folder)
    specs = specs_of(asked, device, precisions, loaded, folder)
    del loaded
    times = 3 if device == "cuda" else 1  # warm up, compile, capture
    warm_up = [{"batch": batch, "first": 2} for batch in asked.batch for _ in range(times)]
    with running(specs, asked, warm_up) as workers:
        for batch in asked.batch:
            print_decoding(workers, asked, batch=batch, ends=1, beam=asked.beam)
        emit(asked, sentences=len(ids), **setting(workers))


if __name__ == "__main__":
    main()
