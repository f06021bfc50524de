"""Papers of the table as users run them, compared with single precision on the CPU.

A row of the matrix is a size of a paper, a precision and what is done: states, logits with and
without a tape, text that is generated or translated, training steps, a folder that is read again.
Its figure is the largest difference of an input, relative to the norm of all inputs (of
log-probabilities: to the spread of the logits; of steps: of a loss or a gradient's norm). A new
paper is in the matrix by being in the table. Rows in fp32 are without TF32.

``MATRIX`` in the environment names a file to which every row is added as a line of JSON, with
``fingerprint`` of the modules that compute: ``bench`` publishes no figure of another state of them.
"""

import json
import math
import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

import regard
from regard.core.batch import TokenRow
from regard.core.errors import BadInput
from regard.core.tape import NULL_TAPE, NullTape, Tape
from regard.data.toy_language.corpus import corpus
from regard.generation.greedy import Greedy
from regard.inference.row_batches import row_logits
from regard.inside.forward_path import fit_heads
from regard.inside.parity import random_examples
from regard.layers.dropout import Dropout
from regard.models.encoder_decoder import EncoderDecoder, ModelFacts
from regard.models.facts import change, paths, values_named
from regard.models.folders.loaded_model import LoadedModel
from regard.models.label_heads import LabelHead, TokenLabelHead
from regard.models.paper import Paper
from regard.models.papers import LINEAGE, cove
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.text.tokenizers.translation_tokenizer import train_translation_tokenizer
from regard.training.loop.events import ReportEvent
from regard.weights.files import weights_of

BENCH = Path(__file__).parents[1] / "bench"
PRECISIONS = ("fp32", "bf16")
BOUNDS = {"fp32": 5e-4, "bf16": 6e-2}
OF_PAPERS = {  # bounds of papers whose rows differ more, though nothing is wrong
    **{("gehring", precision, "steps"): 5e-2 for precision in PRECISIONS},  # see below
    # Each device draws other tokens from the generator.
    **{("electra", precision, "steps"): 1e-1 for precision in PRECISIONS},
    ("cove", "bf16", "steps"): 1.5e-1,  # batch norms of four rows
    # The class token of random weights is the mean of patches that cancel each other.
    **{(paper, "bf16", "logits"): 1e-1 for paper in ("vit", "deit")},
}
LENGTHS = (9, 1, 80)  # of inputs in tokens: one is longer than the windows of ModernBERT
RATES = {"sgd": 1e-3, "adamw": 1e-4}
NEW = 6  # tokens that are generated
LABELS = 32  # of a head that is added: a norm of few numbers may be near zero
# Factors of weights that make a random model one whose errors do not grow from word to word:
# Gehring's scores are not scaled, so that all attention is on one word, and gradients explode.
FACTORS = {"gehring": ("source.embed.", 0.5)}
LOSSES_ALONE = {"gehring"}
OWN_TABLES: dict[str, dict[str, object]] = {  # keys that a recipe of that paper needs
    "gpt": {"text": {"vocab": 400, "lower": True}},
    "elmo": {"objective": {"bilm": {"words": 100}}},
    "grover": {"objective": {"causal-lm": {}}},  # its own reads fields of records in files
    "distilbert": {"objective": {"masked-lm": {}}},  # without a teacher
}


Lowered = Callable[[], AbstractContextManager]


@dataclass(frozen=True)
class Size:
    """A size of a paper."""

    paper: Paper
    name: str

    def __str__(self) -> str:
        return f"{self.paper.key}:{self.name}"

    @property
    def facts(self) -> ModelFacts:
        """The facts in the table."""
        return self.paper.sizes[self.name]

    @property
    def form(self) -> tuple[object, ...]:
        """What is not a number in the facts: sizes of one form run the same code."""
        plain = [(name, value) for name, value in paths(self.facts) if _is_form(value)]
        return self.paper.key, *plain

    @property
    def product(self) -> int:
        """The product of all numbers in the facts, in whose order sizes of one form stand."""
        return math.prod(value for _, value in paths(self.facts) if type(value) is int and value)


def _is_form(value: object) -> bool:
    return value is None or isinstance(value, bool | str)


SIZES = [Size(paper, name) for paper in LINEAGE for name in paper.sizes]


def forms() -> list[Size]:
    """The smallest size of each form of each paper."""
    smallest: dict[object, Size] = {}
    for size in sorted(SIZES, key=lambda size: size.product):
        smallest.setdefault(repr(size.form), size)
    return [size for size in SIZES if size in smallest.values()]


def smaller(facts: ModelFacts, most: Mapping[str, int]) -> dict[str, object]:
    """Changes of those facts that have one of the names, and are larger."""
    values = {name: [one for one in values_named(facts, name) if one] for name in most}
    return {name: new for name, new in most.items() if values[name] and max(values[name]) > new}


def reduced(size: Size, most: int) -> ModelFacts:
    """The facts, with fewer layers, and then fewer tokens, if there are more parameters."""
    facts = size.facts
    for changes in ({"depth": 8}, {"depth": 4}, {"depth": 2}, {"vocab": 32_000}):
        if size.paper.parameters(facts) > most:
            facts = change(facts, **smaller(facts, changes))
    return facts


def tiny_changes(size: Size) -> dict[str, object]:
    """Changes to few layers, narrow ones where no other fact needs their widths."""
    few = smaller(size.facts, {"depth": 4})
    narrow = {"embedding": 32, "last_width": 32, "maxout": 32, "cells": 64}
    forms = [{"width": 32, **narrow}, {"source.width": 16, "target.width": 32, **narrow}]
    if size.facts.encoder.stack.attends:
        forms = [{"width": 48, "heads": 4, "inner": 64, "kv_heads": 2, "key": 12, "value": 12}]
    for form in forms:
        changes = {**few, **smaller(size.facts, form)}
        with suppress(BadInput, ValueError):
            size.paper.parameters(change(size.facts, **changes))
            return changes
    return few


def tiny(size: Size) -> ModelFacts:
    """The facts with few layers and tokens; a Transformer is narrow, too."""
    return change(size.facts, **smaller(size.facts, {"vocab": 64}), **tiny_changes(size))


def step_changes(size: Size) -> dict[str, object]:
    """Changes for training steps: few layers, narrow ones where they are large."""
    few = smaller(size.facts, {"depth": 3})
    small = change(size.facts, **few, **smaller(size.facts, {"vocab": 400}))
    return few if size.paper.parameters(small) < 100_000_000 else tiny_changes(size)


def with_heads(size: Size, facts: ModelFacts) -> ModelFacts:
    """The model with the heads of its objectives, and one whose logits every input has."""
    facts = fit_heads(size.paper, size.name, facts)()
    if facts.sides == EncoderDecoder.sides:
        return facts
    trunk = cast(TrunkWithHeads, facts)
    heads = trunk.output_heads
    if not any(head.logits_order is not None and not head.needs_positions for head in heads):
        heads += (TokenLabelHead(LABELS) if trunk.pool is None else LabelHead(LABELS),)
    return size.paper.fit_heads(replace(trunk, output_heads=heads))


def model_of(size: Size, facts: ModelFacts, device: str) -> regard.Model:
    """A model with random weights as the paper has them; what begins at one number is drawn too."""
    torch.manual_seed(1)
    with torch.device(device):
        module = facts.build().eval()
    with torch.no_grad():
        part, factor = FACTORS.get(size.paper.key, ("", 1.0))
        for name, parameter in module.named_parameters():
            if parameter.ndim < 2 or not parameter.any():
                parameter.add_(torch.randn_like(parameter), alpha=0.02)
            if name.startswith(part):
                parameter.mul_(factor)
    return regard.Model(LoadedModel(size.paper, facts, module))


class Inputs:
    """Random inputs of a model, in the forms that its methods read."""

    def __init__(self, facts: ModelFacts):
        examples = [*random_examples(facts, lengths=LENGTHS)]
        self.pairs = facts.sides == EncoderDecoder.sides
        self.images = facts.encoder.embed.reads_images
        self.spelled = bool(facts.encoder.ids_per_token) and not self.images
        rows = [[example[side] for side in facts.sides] for example in examples]
        if self.images:
            self.texts: list[Any] = [row[0].read() for row in rows]
        elif self.pairs:
            self.texts = [_ids(row[0]) for row in rows]
        else:
            self.texts = [_in_order(row[0]) for row in rows]
        self.inputs = [(_ids(s), _ids(t)) for s, t in rows] if self.pairs else self.texts
        self.prompts = [_ids(row[0])[:9] for row in rows]


def _ids(row: Any) -> list[int]:
    return [0] if hasattr(row, "read") else np.asarray(row.tokens).tolist()


def _in_order(row: Any) -> TokenRow:
    """A row whose segments follow each other."""
    return TokenRow(row.tokens, sorted(row.segments))


def written(model: regard.Model, inputs: Inputs) -> list[Any]:
    """Text that the model writes: a hypothesis for each prompt or source."""
    if inputs.pairs:
        return [best[0].hypothesis for best in model.translate(inputs.prompts)]
    found = model.generate(inputs.prompts, Greedy(), max_new_tokens=NEW)
    return [best[0].hypothesis for best in found]


def surprise(reference: regard.Model, inputs: Inputs, hypotheses: Sequence[Any]) -> float:
    """Largest difference of the log-probabilities of what was written to those of the reference.

    For greedy search, also how far a token is from the best one.
    """
    texts = [[*hypothesis.tokens] for hypothesis in hypotheses]
    if inputs.pairs:
        read = zip(inputs.prompts, (text or [0] for text in texts), strict=True)  # not an empty one
        logits = reference.logits([*read])
        end = reference.translator.vocabulary.eos
        texts = [text + [end] * one.finished for text, one in zip(texts, hypotheses, strict=True)]
    else:
        joined = [prompt + text for prompt, text in zip(inputs.prompts, texts, strict=True)]
        logits = reference.logits(joined, head="next_token")
    largest = 0.0
    for prompt, text, hypothesis, all_TV in zip(
        inputs.prompts, texts, hypotheses, logits, strict=True
    ):
        begun = 0 if inputs.pairs else len(prompt) - 1
        logits_TV = all_TV[begun : begun + len(text)].double()
        spread = float((logits_TV.amax(-1) - logits_TV.mean(-1)).mean().clamp(min=1))
        logprobs_TV = logits_TV.log_softmax(-1)
        ours_T = torch.tensor(hypothesis.logprobs[: len(text)], dtype=torch.float64)
        theirs_T = logprobs_TV[range(len(text)), text]
        wrong = (ours_T - theirs_T).abs().max()
        if not inputs.pairs:
            wrong = max(wrong, (logprobs_TV.amax(-1) - theirs_T).max())
        largest = max(largest, float(wrong) / spread)
    return largest


def difference(found: Sequence[Tensor], wanted: Sequence[Tensor]) -> float:
    """Largest root mean square of the differences of an input, relative to that of all inputs."""
    assert [one.shape for one in found] == [other.shape for other in wanted]
    pairs = zip(found, wanted, strict=True)
    apart = [(one.double().cpu() - other.double()).square().mean() for one, other in pairs]
    whole = torch.cat([other.flatten().double() for other in wanted]).square().mean()
    return float((torch.stack(apart).max() / whole).sqrt())


def encoded(model: regard.Model, inputs: Inputs) -> list[Tensor]:
    """States of the last layer; characters of words have no form for ``encode`` but texts."""
    if not inputs.spelled:
        return model.encode(inputs.texts)
    path = model.facts.encoder.state_path(model.facts.encoder_path, -1)
    return model.runner.states(inputs.texts, path)


def logits_of(model: regard.Model, inputs: Inputs, tape: NullTape = NULL_TAPE) -> list[Tensor]:
    """Logits of the first head that reads every token or row."""
    if not inputs.spelled:
        return model.logits(inputs.inputs, tape=tape)
    heads = cast(TrunkWithHeads, model.facts).output_heads
    (head, *_) = [one for one in heads if one.logits_order is not None and not one.needs_positions]
    with tape.batches() as run:
        return row_logits(model.module, head, inputs.texts, model.encoder.limits, run)


def taped_logits(model: regard.Model, inputs: Inputs) -> list[Tensor]:
    """Logits of a run that records everything."""
    tape = Tape("*")
    logits = logits_of(model, inputs, tape)
    assert tape.records and all(_finite(value) for value in tape.records.values())
    return logits


def _finite(value: Any) -> bool:
    each = value if isinstance(value, list | tuple) else [value]
    return all(not one.is_floating_point() or not one.isnan().any() for one in each)


def inference_rows(size: Size, facts: ModelFacts, device: str, folder: Path) -> Iterator["Row"]:
    """Rows of all that a model does without training."""
    facts = with_heads(size, facts)
    model, inputs = model_of(size, facts, device), Inputs(facts)
    model.save(folder)
    reference = regard.load(folder, "cpu")

    def saved() -> float:
        ours, theirs = (weights_of(one.module) for one in (model, regard.load(folder, device)))
        assert ours.keys() == theirs.keys()
        return float(sum(not torch.equal(ours[name], theirs[name]) for name in ours))

    yield Row.of(size, "fp32", "save, load", saved)
    runs: dict[str, Callable[[regard.Model], list[Tensor]]] = {
        "encode": lambda model: encoded(model, inputs),
        "logits": lambda model: logits_of(model, inputs),
        "logits, taped": lambda model: taped_logits(model, inputs),
    }
    wanted = {what: runs[what](reference) for what in ("encode", "logits")}
    wanted["logits, taped"] = wanted["logits"]
    for precision in PRECISIONS:
        tested, lowered = in_precision(model, precision)

        def differ(what: str, tested: regard.Model = tested, lowered: Lowered = lowered) -> float:
            with lowered():
                found = runs[what](tested)
            return difference(found, wanted[what])

        def write(tested: regard.Model = tested, lowered: Lowered = lowered) -> float:
            with lowered():
                found = written(tested, inputs)
            return surprise(reference, inputs, found)

        for what in runs:
            yield Row.of(size, precision, what, partial(differ, what))
        if facts.writes:
            yield Row.of(size, precision, "translate" if inputs.pairs else "generate", write)


def in_precision(model: regard.Model, precision: str) -> tuple[regard.Model, Lowered]:
    """The model in a precision, and the context that it runs in: on a CPU bf16 is autocast's."""
    if model.device.type != "cpu":
        return regard.Model(model._loaded, precision), partial(tf32, allowed=precision == "bf16")
    lowered = partial(torch.autocast, "cpu", torch.bfloat16, enabled=precision == "bf16")
    return regard.Model(model._loaded), lowered


@contextmanager
def tf32(*, allowed: bool) -> Iterator[None]:
    """Whether cuDNN computes recurrent layers and convolutions in TF32, as torch lets it."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = before


def training_rows(
    size: Size, changes: Mapping[str, object], device: str, folder: Path
) -> Iterator["Row"]:
    """Rows of two training steps: eager, and on a GPU also compiled and captured."""
    forms = {"steps": "sgd"} | ({} if device == "cpu" else {"steps, compiled": "adamw"})
    for what, optimiser in forms.items():
        place, recipe = folder / optimiser, recipe_of(size, changes, optimiser)
        if needs_features(size.facts):
            recipe["recipe"]["model"]["features"] = str(translator(folder / "features"))
        wanted = cache(partial(steps, recipe, "fp32", "cpu", place / "wanted"))
        for precision in PRECISIONS:
            run = partial(steps, recipe, precision, device, place / precision)
            if (precision, device) == ("fp32", "cpu"):
                run = wanted
            yield Row.of(size, precision, what, partial(largest_change, run, wanted))


def largest_change(run: Callable[[], list[float]], wanted: Callable[[], list[float]]) -> float:
    """Largest difference of two lists of numbers, relative to those that are wanted."""
    pairs = zip(run(), wanted(), strict=True)
    return max(abs(one - other) / abs(other) for one, other in pairs)


def needs_features(facts: ModelFacts) -> bool:
    """Whether words have features of another model."""
    return facts.sides != EncoderDecoder.sides and bool(cast(TrunkWithHeads, facts).trunk.features)


def translator(folder: Path) -> Path:
    """The folder of a recurrent translator, whose states are features of words."""
    if not folder.exists():
        texts = [pair.source for pair in corpus(train=16, dev=8, test=4).train]
        tokenizer = train_translation_tokenizer(texts, texts, "bpe", 400, joint=True)
        sizes = {"embedding": 6, "source.width": 4, "target.width": 8}
        facts = change(cove.MT_LSTM, vocab=len(tokenizer.source), **sizes)
        regard.Model(LoadedModel(cove.PAPER, facts, facts.build(), tokenizer)).save(folder)
    return folder


def recipe_of(size: Size, changes: Mapping[str, object], optimiser: str) -> dict[str, dict]:
    """A recipe of two steps for the task of the paper, with its data.

    Steps of SGD are eager: they are captured only if the optimiser has moments. Those of AdamW are
    short, as the sign of a gradient near zero decides about the direction.
    """
    paper, facts = size.paper, size.facts
    dropout = {path.split(".")[-1] for path, value in paths(facts) if "drop" in path and value}
    names = {head.head.name for head in paper.heads}
    if paper.pretraining:
        task = "pretrain"
    elif facts.sides == EncoderDecoder.sides:
        task = "translate"
    elif "span" in names and "label" not in names:
        task = "answer"
    else:
        task = "classify"
    words = {"kind": "words"} if needs_features(facts) else {}
    text = {} if facts.encoder.embed.reads_images else {"text": {"vocab": 400, **words}}
    pairs = corpus(train=16, dev=8, test=4)
    return {
        "recipe": {
            "task": task,
            "model": {
                "paper": paper.key,
                "size": size.name,
                "change": {**dict.fromkeys(sorted(dropout), 0.0), **changes},
            },
            "batches": {"tokens": 512, "rows": 4, "longest": 128},
            "optimiser": {"kind": optimiser, "rate": RATES[optimiser], "warmup": 0},
            "train": {"steps": 2, "report_every": 1, "compile": optimiser != "sgd"},
            **text,
            **OWN_TABLES.get(paper.key, {}),
        },
        "data": {
            name: examples(task, [*rows], facts)
            for name, rows in (("train", pairs.train), ("dev", pairs.dev))
        },
    }


def examples(task: str, pairs: Sequence[Any], facts: ModelFacts) -> list[object]:
    """Examples of a task, from pairs of sentences."""
    if facts.encoder.embed.reads_images:
        draw, shape = np.random.default_rng(0), (*facts.encoder.embed.ids_per_token[1:], 3)
        return [(draw.integers(0, 256, shape, np.uint8), str(n % 2)) for n in range(8)]
    if task == "translate":
        return [(pair.source, pair.target) for pair in pairs]
    if task == "pretrain":
        return [[pair.source for pair in pairs[n : n + 4]] for n in range(0, len(pairs), 4)]
    if task == "answer":
        return [(pair.target, pair.source, [pair.source.split()[1]]) for pair in pairs]
    return [(pair.source, str(n % 2)) for n, pair in enumerate(pairs)]


def steps(recipe: Mapping[str, dict], precision: str, device: str, folder: Path) -> list[float]:
    """The losses of the steps, and then the norms of the gradients; without dropout."""
    torch._dynamo.reset()
    with patch.object(Dropout, "__init__", _undropped):  # heads of tasks have some of their own
        events = regard.train(
            recipe["recipe"],
            recipe["data"],
            folder,
            settings={"train.precision": precision},
            device=device,
        )
    reports = [event for event in events if isinstance(event, ReportEvent)]
    losses, norms = zip(*((report.loss, report.gradient) for report in reports), strict=True)
    return [*losses] if recipe["recipe"]["model"]["paper"] in LOSSES_ALONE else [*losses, *norms]


def _undropped(self: Dropout, rate: float) -> None:
    torch.nn.Module.__init__(self)
    self.rate = 0.0


@dataclass(frozen=True)
class Row:
    """A row of the matrix: its largest difference, or why there is none."""

    size: Size
    precision: str
    what: str
    difference: float
    failure: str = ""

    @classmethod
    def of(cls, size: Size, precision: str, what: str, compute: Callable[[], float]) -> "Row":
        """The row of a comparison, whatever it raises."""
        try:
            return cls(size, precision, what, compute())
        except Exception as error:  # of any kind: the other rows are wanted, too
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(place.filename).name}:{place.lineno}"
            return cls(
                size, precision, what, math.inf, f"{type(error).__name__}: {error} ({where})"
            )

    @property
    def fine(self) -> bool:
        """Whether the difference is within the bound."""
        if self.what == "save, load":
            return self.difference == 0
        key = (self.size.paper.key, self.precision, self.what.split(",")[0])
        of_paper = OF_PAPERS.get(key, 0.0)
        return self.difference <= max(of_paper, BOUNDS[self.precision])  # NaN is not

    def __str__(self) -> str:
        return f"{self.size} {self.precision} {self.what}: {self.failure or self.difference}"


def check(rows: Iterable[Row]) -> None:
    """Add rows to the file of the matrix, if there is one; fail if one is not fine."""
    found = [*rows]
    if place := os.environ.get("MATRIX"):
        lines = [
            {
                "model": str(row.size),
                "precision": row.precision,
                "what": row.what,
                "difference": float(f"{row.difference:.3g}") if row.fine else str(row.difference),
                "fine": row.fine,
                **({"failure": row.failure} if row.failure else {}),
                "fingerprint": fingerprint(),
            }
            for row in found
        ]
        with Path(place).open("a", encoding="utf-8") as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines))
    wrong = [str(row) for row in found if not row.fine]
    assert not wrong, "\n".join(wrong)


@cache
def fingerprint() -> str:
    """Hash of the modules that compute, as the scripts of ``bench`` take it."""
    spec = spec_from_file_location("bench_matrix", BENCH / "matrix.py")
    assert spec is not None and spec.loader is not None
    spec.loader.exec_module(module := module_from_spec(spec))
    return module.fingerprint()
