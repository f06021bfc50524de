"""BERT on a CPU, regard against its peers in the same run: sentences read, or steps of tuning.

    python bench/encoder_cpu.py [--size base] [--sentences 32] [--rounds 6] [--most 30] [--tune]
    python bench/encoder_cpu.py --tiny [--tune]             (does it run?)

Random weights, the same in all, sentences of mixed length (a mean of 21 tokens, as in SST-2 and its
like). The peers are fed sentences sorted by length in chunks, of the size at which transformers is
fastest here; its fp32 is the measure of all. ONNX Runtime and CTranslate2 take part where they are
installed (onnx is needed to write their int8 models). With --tune steps of fine-tuning instead:
forward, backward and AdamW of 16 sentences under bf16 autocast, where the machine has bf16, with
the same dropout in both; a round is four such steps, for the peer of sentences of like length.
Systems take turns until their order is clear, or --most rounds; figures are medians with 95%
intervals.
"""

import argparse
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

import numpy as np
import torch
from measure import interval, ratio, rounded, take_turns, timed_here
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity
from worker import place, seconds_of

from regard.core.batch import PackedTokens, TokenRow, pack_rows
from regard.core.machine import has
from regard.layers.linear.convert import convert
from regard.models.facts import change
from regard.models.folders import folder as folders
from regard.models.label_heads import LabelHead
from regard.models.papers import bert
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.objectives.label_losses import Classification
from regard.training.loop.microbatch import EagerStep

Step = Callable[[], Tensor]


def half() -> torch.autocast:
    """bf16 autocast where the machine has bf16, else nothing."""
    return torch.autocast("cpu", torch.bfloat16, enabled=has("bf16"))


def sentences(count: int, vocab: int, draw: np.random.Generator) -> list[TokenRow]:
    """Rows of ids, longest first; their lengths are those of sentences."""
    lengths = np.clip(draw.gamma(2.4, 8.5, count) + 3, 5, 64).astype(int)
    rows = [draw.integers(5, vocab, length) for length in sorted(lengths, reverse=True)]
    return [TokenRow(row, np.zeros(len(row), dtype=np.int64)) for row in rows]


def padded(rows: list[TokenRow]) -> dict[str, Tensor]:
    """What transformers reads."""
    longest = max(len(row.tokens) for row in rows)
    ids, mask = (torch.zeros(len(rows), longest, dtype=torch.int64) for _ in range(2))
    for number, row in enumerate(rows):
        ids[number, : len(row.tokens)] = torch.from_numpy(row.tokens)
        mask[number, : len(row.tokens)] = 1
    return {"input_ids": ids, "attention_mask": mask}


def reference(facts: TrunkWithHeads, module: nn.Module) -> nn.Module:
    """transformers' model with the same weights."""
    from transformers import AutoModel, AutoModelForSequenceClassification

    kind = AutoModelForSequenceClassification if facts.output_heads else AutoModel
    with TemporaryDirectory() as folder:
        stored = folders.LoadedModel(bert.PAPER, facts, module)
        folders.write(Path(folder), stored, "hf")
        return kind.from_pretrained(folder, local_files_only=True, attn_implementation="sdpa")


def chunks(rows: Sequence[TokenRow], size: int) -> list[list[TokenRow]]:
    """Sentences of like length together; ``rows`` are sorted."""
    return [list(rows[at : at + size]) for at in range(0, len(rows), size)]


def best_chunks(model: nn.Module, rows: Sequence[TokenRow]) -> list[list[TokenRow]]:
    """The chunks that transformers reads fastest on this machine."""
    tried = []
    for size in sorted({min(size, len(rows)) for size in (4, 8, 16, len(rows))}):
        inputs = [padded(chunk) for chunk in chunks(rows, size)]
        seconds = min(seconds_of(lambda: [model(**one) for one in inputs]) for _ in range(2))  # noqa: B023
        tried.append((seconds, size))
    return chunks(rows, min(tried)[1])


def reading(facts: TrunkWithHeads, rows: list[TokenRow]) -> dict[str, Step]:
    """Each system's way to the pooled states of the rows."""
    module = facts.build().eval()
    theirs, packed = reference(facts, module).eval(), pack_rows(rows)
    chosen = best_chunks(theirs, rows)
    inputs = [padded(chunk) for chunk in chosen]
    print(json.dumps({"rows in a chunk of the peers": len(chosen[0])}))

    def ours(kind: str) -> Step:
        made = convert(module, kind)
        return lambda: _pooled(made, packed)

    def peer(model: nn.Module) -> Step:
        return lambda: torch.cat([model(**one).pooler_output.float() for one in inputs])

    systems = {"transformers fp32": peer(theirs), "regard fp32": ours("fp32")}
    if has("bf16"):
        systems["transformers bf16"] = peer(reference(facts, module).eval().bfloat16())
        systems["regard bf16"] = ours("bf16")
    else:
        absent("bf16", "this CPU has none")
    systems["regard int8"] = ours("int8")
    return systems | onnx_systems(theirs, inputs) | ctranslate2_systems(facts, module, chosen)


def _pooled(module: nn.Module, read: PackedTokens) -> Tensor:
    return module(read).pooled_BD


def absent(system: str, why: object) -> None:
    """Say that a system takes no part."""
    print(json.dumps({"system": system, "absent": str(why).strip().splitlines()[-1][:200]}))


def onnx_systems(model: nn.Module, inputs: Sequence[dict[str, Tensor]]) -> dict[str, Step]:
    """ONNX Runtime in fp32 and int8 (dynamic, per channel), if it is installed."""
    try:
        import onnxruntime
        from onnxruntime.quantization import quantize_dynamic
    except ImportError as error:
        absent("ONNX Runtime", error)
        return {}
    whole = Path(mkdtemp()) / "fp32.onnx"
    names, free = list(inputs[0]), {0: "rows", 1: "length"}
    model = _Pooled(model).eval()  # exporting leaves it in the mode it found
    given = tuple(inputs[0].values())
    with torch.inference_mode(False), torch.no_grad():
        torch.onnx.export(
            model,
            tuple(one.clone() for one in given),
            str(whole),
            input_names=names,
            output_names=["pooled"],
            dynamic_axes=dict.fromkeys(names, free),
            dynamo=False,
        )
    small = whole.with_name("int8.onnx")
    quantize_dynamic(whole, small, per_channel=True)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = torch.get_num_threads()
    given_all = [{name: one.numpy() for name, one in batch.items()} for batch in inputs]

    def system(file: Path) -> Step:
        session = onnxruntime.InferenceSession(
            str(file), settings, providers=["CPUExecutionProvider"]
        )
        return lambda: torch.cat([torch.from_numpy(session.run(None, one)[0]) for one in given_all])

    return {"ONNX Runtime fp32": system(whole), "ONNX Runtime int8": system(small)}


class _Pooled(nn.Module):
    """transformers' model with one output."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.model(input_ids=input_ids, attention_mask=attention_mask).pooler_output


def ctranslate2_systems(
    facts: TrunkWithHeads, module: nn.Module, chosen: Sequence[Sequence[TokenRow]]
) -> dict[str, Step]:
    """CTranslate2 in float32 and int8, if it is installed."""
    try:
        import ctranslate2
    except ImportError as error:
        absent("CTranslate2", error)
        return {}
    with TemporaryDirectory() as place:
        folders.write(Path(place), folders.LoadedModel(bert.PAPER, facts, module), "hf")
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        words += [f"w{number}" for number in range(len(words), facts.trunk.embed.vocab)]
        (Path(place) / "vocab.txt").write_text("\n".join(words) + "\n")
        config = Path(place) / "config.json"  # its converter asks for a key that is no longer there
        told = {**json.loads(config.read_text()), "position_embedding_type": "absolute"}
        config.write_text(json.dumps(told))
        (Path(place) / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
        written = mkdtemp()
        ctranslate2.converters.TransformersConverter(place).convert(written, force=True)
    ids = [[[int(token) for token in row.tokens] for row in chunk] for chunk in chosen]

    def system(kind: str) -> Step:
        encoder = ctranslate2.Encoder(
            written, compute_type=kind, intra_threads=torch.get_num_threads()
        )
        return lambda: torch.cat([_array(encoder.forward_batch(one).pooler_output) for one in ids])

    return {"CTranslate2 fp32": system("float32"), "CTranslate2 int8": system("int8")}


def _array(view: Any) -> Tensor:
    return torch.from_numpy(np.array(view))


def tuning(facts: TrunkWithHeads, rows: list[TokenRow], count: int) -> dict[str, Step]:
    """Each system's steps over all rows, ``count`` at a time."""
    facts = change(facts, attention_dropout=0.0).with_heads(LabelHead(2, dropout=0.1))
    module = facts.build()
    theirs, objective = reference(facts, module).train(), Classification()
    order = np.random.default_rng(2).permutation(len(rows))
    mixed = [[rows[at] for at in sorted(order[i : i + count])] for i in range(0, len(rows), count)]
    ours = [objective.collate([(row, [at % 2]) for at, row in enumerate(some)]) for some in mixed]
    alike = [(padded(some), torch.arange(len(some)) % 2) for some in chunks(rows, count)]
    micro = EagerStep(lambda batch: objective(module, batch), lambda: half())
    optimisers = [torch.optim.AdamW(m.parameters(), lr=1e-6, fused=True) for m in (module, theirs)]
    module.train()

    def our_steps() -> Tensor:
        for batch in ours:
            loss = micro(batch, 1 / batch.weight).loss
            optimisers[0].step()
            optimisers[0].zero_grad()
        return loss / batch.weight

    def their_steps() -> Tensor:
        for inputs, labels in alike:
            with half():
                loss = theirs(**inputs, labels=labels).loss
            loss.backward()
            optimisers[1].step()
            optimisers[1].zero_grad()
        return loss.detach()

    precision = "bf16 autocast" if has("bf16") else "fp32"
    return {f"transformers {precision}": their_steps, f"regard {precision}": our_steps}


def main() -> None:
    """Print one JSON line for each system."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=list(bert.PAPER.sizes), default="base")
    parser.add_argument("--sentences", type=int)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--most", type=int, default=30, help="rounds, until the order is clear")
    parser.add_argument("--seconds", type=float, default=600, help="begin no round after these")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--tune", action="store_true", help="steps of fine-tuning instead")
    parser.add_argument("--tiny", action="store_true", help="a few rounds of a very small model")
    asked = parser.parse_args()
    if asked.tiny:
        asked.size, asked.sentences, asked.rounds, asked.most = "tiny", 6, 2, 0
    torch.set_num_threads(asked.threads)
    torch.manual_seed(1)
    facts = bert.PAPER.sizes[asked.size]
    count = asked.sentences or (16 if asked.tune else 32)
    rows = sentences(
        4 * count if asked.tune else count, facts.trunk.embed.vocab, np.random.default_rng(1)
    )
    with torch.inference_mode(not asked.tune):
        systems = tuning(facts, rows, count) if asked.tune else reading(facts, rows)
        said = {name: step() for name, step in systems.items()}  # warm up
        taken = take_turns(timed_here(systems), asked.rounds, limit=asked.seconds, most=asked.most)
    report(taken, {} if asked.tune else said, sum(len(row.tokens) for row in rows))


def report(taken: dict[str, list[float]], said: dict[str, Tensor], real: int) -> None:
    """Speeds, ratios to the first system, and how near the outputs are to its own."""
    first = next(iter(taken))
    for name, times in taken.items():
        line = {
            "system": name,
            "tokens_per_second": rounded(interval([real / one for one in times]), 0),
            "ratio": rounded(ratio(taken[first], times)),
            "rounds": len(times),
        }
        if said:
            alike = cosine_similarity(said[name], said[first]).min()
            line["lowest_cosine"] = round(float(alike), 6)
        print(json.dumps(line), flush=True)
    print(json.dumps(place()))


if __name__ == "__main__":
    main()
