"""Translating with a Transformer-base: words out per second, regard against its peers.

    python bench/translate.py [--model FOLDER --text FILE] [--batch 1 32] [--beam 1]
                              [--precision fp32 int8] [--sentences 64] [--rounds 3]

Every system has the same weights and is given the same batches, sorted by length, in turns; the
median of the rounds counts. Without a model the weights are random, no end ever comes, and each
sentence gets 30 tokens. On a CPU the peer runs in fp32, on CUDA in bf16. CTranslate2 takes part
where it is installed.
"""

import argparse
import copy
import json
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

import regard
from regard.ground.batch import pack
from regard.models import marian
from regard.models.facts import change
from regard.models.native import Native, can_run
from regard.models.room import House
from regard.models.transformer import BASE, Transformer
from regard.parts.linear.engine import engine
from regard.search import Beam, Greedy, Limits
from regard.weights.files import weights_of
from regard.weights.names import Beside

BOS, EOS, PAD = 1, 2, 0
VOCAB, WORDS, SOURCE = 32_000, 30, 27
Ids = list[list[int]]
System = Callable[[Ids], Ids]


def random_model() -> tuple[Transformer, Ids]:
    """Base size; the end is out of reach."""
    torch.manual_seed(0)
    facts = change(BASE, vocab=VOCAB, halves=True, head_bias=True)
    model = Transformer(facts).eval()
    with torch.no_grad():
        model.head.bias[EOS] = -1e9
    draw = np.random.default_rng(0)
    return model, [[*draw.integers(4, VOCAB, SOURCE).tolist(), EOS] for _ in range(4_096)]


def stored_model(folder: str, file: str) -> tuple[Transformer, Ids]:
    """A trained one whose facts transformers knows, and the ids of real text."""
    loaded = regard.load(folder, "cpu")
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    assert loaded.tokenizer is not None and isinstance(loaded.module, Transformer)
    return loaded.module, [[*ids, EOS] for ids in loaded.tokenizer.source.encode_all(lines)]


class Ours:
    """regard."""

    def __init__(
        self,
        model: Transformer,
        device: str,
        precision: str,
        beam: int,
        longest: int,
        native: bool = True,
    ):
        self.device, self.longest = device, longest
        if device == "cuda":
            self.house = House()
            dtype = torch.float32 if precision == "fp32" else torch.bfloat16
            self.model = copy.deepcopy(model).to(device, dtype)
        else:
            self.house = Native(model, precision) if native and can_run(model) else None
            taken = self.house.taken if self.house else ()
            self.model = engine(model, precision, but_for=taken)
        self.search = Greedy() if beam == 1 else Beam(beam, length="power", alpha=1.0)

    @torch.inference_mode()
    def __call__(self, batch: Ids) -> Ids:
        packed = pack(batch).to(self.device)
        limits = Limits(BOS, EOS, self.longest, forbidden=(PAD,))
        room = {"house": self.house} if self.house else {}
        state = self.model.open(packed.tokens_T, packed.layout, self.longest + 1, **room)
        return [list(found[0].tokens) for found in self.search(state, limits)]


class Transformers:
    """transformers' Marian, by ``generate``."""

    def __init__(self, model: Transformer, facts, device: str, beam: int, longest: int):
        from transformers import MarianConfig, MarianMTModel

        config = MarianConfig(
            **marian.config_of(facts),
            max_position_embeddings=1_024,
            pad_token_id=PAD,
            eos_token_id=EOS,
            decoder_start_token_id=BOS,
            forced_eos_token_id=None,
        )
        self.device, self.beam, self.longest = device, beam, longest
        peer = MarianMTModel(config)
        written = marian.names(facts).write(weights_of(model), Beside())
        peer.load_state_dict(written, strict=False)
        peer.tie_weights()
        dtype = torch.bfloat16 if device == "cuda" else torch.float32
        self.model = peer.eval().to(device, dtype)

    @torch.inference_mode()
    def __call__(self, batch: Ids) -> Ids:
        longest = max(map(len, batch))
        ids = torch.tensor([[*one, *[PAD] * (longest - len(one))] for one in batch])
        there = torch.arange(longest) < torch.tensor([len(one) for one in batch])[:, None]
        out = self.model.generate(
            input_ids=ids.to(self.device),
            attention_mask=there.long().to(self.device),
            num_beams=self.beam,
            do_sample=False,
            max_new_tokens=self.longest,
            bad_words_ids=[[PAD]],
        )
        return [_until_end(row[1:]) for row in out.tolist()]


def _until_end(row: list[int]) -> list[int]:
    return row[: row.index(EOS)] if EOS in row else [one for one in row if one != PAD]


def systems(
    model: Transformer, facts, device: str, precisions: Sequence[str], beam: int, longest: int
) -> dict[str, System]:
    """Every system that can run here."""
    found: dict[str, System] = {
        f"transformers {'bf16' if device == 'cuda' else 'fp32'}": Transformers(
            model, facts, device, beam, longest
        )
    }
    for precision in precisions:
        found[f"regard {precision}"] = Ours(model, device, precision, beam, longest)
        if device == "cpu":
            name = f"regard {precision}, no compiler"
            found[name] = Ours(model, device, precision, beam, longest, native=False)
    if device == "cpu":
        found |= ctranslate2_systems(model, facts, beam, longest)
    return found


def ctranslate2_systems(model: Transformer, facts, beam: int, longest: int) -> dict[str, System]:
    """CTranslate2 in float32 and int8, if it is installed and the model has a form it reads."""
    try:
        import ctranslate2
    except ImportError:
        return {}
    folder = tempfile.mkdtemp()
    _as_ctranslate2(ctranslate2, model, facts, folder)

    def system(kind: str) -> System:
        translator = ctranslate2.Translator(
            folder, compute_type=kind, intra_threads=torch.get_num_threads()
        )

        def translate(batch: Ids) -> Ids:
            out = translator.translate_batch(
                [[str(i) for i in one] for one in batch],
                beam_size=beam,
                max_decoding_length=longest,
                max_batch_size=len(batch),
                length_penalty=1.0,
                suppress_sequences=[["0"]],
            )
            return [[int(token) for token in one.hypotheses[0]] for one in out]

        return translate

    return {"CTranslate2 fp32": system("float32"), "CTranslate2 int8": system("int8")}


def _as_ctranslate2(ctranslate2, model: Transformer, facts, folder: str) -> None:
    """The same weights as CTranslate2 keeps them; ids are their own words."""
    specs = ctranslate2.specs
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
    spec.config.bos_token = spec.config.decoder_start_token = str(BOS)
    spec.config.eos_token, spec.config.unk_token = str(EOS), "3"
    spec.config.add_source_eos = False
    spec.validate()
    spec.optimize()
    spec.save(folder)


def measured(system: System, batches: list[Ids]) -> tuple[float, Ids]:
    """Seconds for all batches, and what came out."""
    start = time.perf_counter()
    out = [one for batch in batches for one in system(batch)]
    return time.perf_counter() - start, out


def main() -> None:
    """Print one JSON line for each system and setting."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="a regard folder of a kind that Marian can express")
    parser.add_argument("--text", help="its source text, one sentence a line")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--precision", nargs="+", default=None)
    parser.add_argument("--sentences", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    precisions = asked.precision or (["bf16"] if device == "cuda" else ["fp32", "int8"])
    trained = asked.model is not None
    model, ids = stored_model(asked.model, asked.text) if trained else random_model()
    facts = _facts(model, trained, asked.model)
    longest = 96 if trained else WORDS
    ids = sorted(ids[: asked.sentences], key=len, reverse=True)
    running = systems(model, facts, device, precisions, asked.beam, longest)
    for batch in asked.batch:
        batches = [ids[at : at + batch] for at in range(0, len(ids), batch)]
        seconds: dict[str, list[float]] = {name: [] for name in running}
        outs: dict[str, Ids] = {}
        for system in running.values():
            for _ in range(3 if device == "cuda" else 1):  # warm up, capture
                measured(system, batches[:2])
        for _ in range(asked.rounds):
            for name, system in running.items():
                taken, outs[name] = measured(system, batches)
                seconds[name].append(taken)
        report(batch, asked.beam, seconds, outs)
    machine = torch.cuda.get_device_name() if device == "cuda" else platform.machine()
    versions = {"torch": torch.__version__, "threads": torch.get_num_threads()}
    print(json.dumps({"machine": machine, **versions}))


def _facts(model: Transformer, trained: bool, folder: str | None):
    if not trained:
        return change(BASE, vocab=VOCAB, halves=True, head_bias=True)
    facts = regard.load(folder, "cpu").facts
    if not facts.head_bias:  # Marian always has one
        facts = change(facts, head_bias=True)
        model.head.bias = torch.nn.Parameter(torch.zeros(facts.target.embed.vocab))
    return facts


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
            "tokens_per_second": round(tokens / statistics.median(taken), 1),
            "ratio": round(statistics.median(seconds[first]) / statistics.median(taken), 2),
            "identical": f"{same}/{len(outs[name])}",
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
