"""Every family with small random weights: states, logits, texts, scores, predictions, records."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import regard
from net.names import model_folders
from net.parts import Place, Probes, attempt

Call = Callable[[regard.Model, Any], Any]
TEXTS = ["the old sailor", "a storm came, and the cat"]
SEARCHES: Mapping[str, Callable[[], Any]] = {
    "greedy": regard.Greedy,
    "greedy-rules": lambda: regard.Greedy(2, 1.3, logit_bias({7: 2.0, 5: -1.0})),
    "sample": lambda: regard.Sample(seed=3),
    "sample-top": lambda: regard.Sample(seed=5, top_k=9, top_p=0.8, temperature=0.7, count=2),
    "beam": lambda: regard.Beam(3),
    "beam-rules": lambda: regard.Beam(3, best=3, no_repeat=2),
    "diverse": lambda: regard.Diverse(regard.Beam(2), groups=2),
    "exact": lambda: regard.Exact(max_active=40),
    "risk": lambda: regard.MinimumRisk(regard.Sample(count=4, seed=2)),
}
NEW = 6  # tokens that are generated


def logit_bias(by_token: Mapping[int, float]) -> Any:
    """A bias of tokens, of the type that searches have as their default."""
    return type(regard.Greedy().logit_bias)(by_token=tuple(by_token.items()))


def probes(place: Place) -> Probes:
    """What each model does, one probe for each method; a refusal is a value, too."""
    for folder in model_folders(place):
        model = regard.load(folder, "cpu")
        inputs = inputs_of(folder, place)
        for name, value in answers(model, inputs):
            yield f"{folder.name}/{name}", value
    yield from text_probes(place)


class Inputs:
    """Inputs of a model: texts, token ids, pairs or images."""

    def __init__(self, one: list[Any], pairs: list[Any], prompts: list[Any], masked: list[str]):
        self.one, self.pairs, self.prompts, self.masked = one, pairs, prompts, masked


def inputs_of(folder: Path, place: Place) -> Inputs:
    """The inputs that stand beside a folder."""
    stored = json.loads(folder.with_name(f"{folder.name}.json").read_text())
    if "kind" in stored:  # a paper
        ids = stored["ids"]
        one = ids
        if stored["kind"] == "spelled":
            one = TEXTS
        if stored["kind"] == "images":
            one = list(np.load(folder.with_name(f"{folder.name}.npy")))
        return Inputs(one, [(row, row[::-1]) for row in ids], stored["prompts"], [])
    named = stored["inputs"]
    one = named["encode"]
    if named.get("images"):
        return Inputs([place.inputs / "images" / name for name in one], [], [], [])
    asked = {name for name, is_pair in named.get("pairs", {}).items() if is_pair}
    rows = next((named[name] for name in ("score", "predict") if name in asked), None)
    pairs = [(row, row) for row in one] if rows is None else [tuple(row) for row in rows]
    return Inputs(one, pairs, one, named.get("fill", []))


def answers(model: regard.Model, inputs: Inputs) -> Probes:
    """The answers of a model by method."""
    yield "encode", attempt(lambda: model.encode(inputs.one))
    yield "encode-0", attempt(lambda: model.encode(inputs.one, layer=0, batch_size=1))
    yield "embed", attempt(lambda: model.embed(inputs.one))
    yield "embed-max", attempt(lambda: model.embed(inputs.one, pool="max", normalise=True))
    rows = inputs.pairs if "translate" in model.components else inputs.one
    yield "components", list(model.components)
    yield "logits", attempt(lambda: model.logits(rows))
    yield "tape", attempt(lambda: taped(model, rows))
    yield "record", attempt(lambda: recorded(model, rows))
    yield "score", attempt(lambda: model.score(rows))
    yield "predict", attempt(lambda: model.predict(inputs.one))
    yield "predict-pairs", attempt(lambda: model.predict(inputs.pairs))
    yield "fill", attempt(lambda: model.fill(inputs.masked, top=3))
    yield "tokens", attempt(lambda: model.tokens(inputs.one))
    if "translate" in model.components:
        for name, search in SEARCHES.items():
            yield f"translate-{name}", attempt(lambda s=search: model.translate(inputs.one, s()))
        yield "translate", attempt(lambda: model.translate(inputs.one, max_new_tokens=4))
        prefixes = ["cow"] * len(inputs.one)
        yield (
            "translate-prefix",
            attempt(lambda: model.translate(inputs.one, regard.Beam(3), prefixes)),
        )
        yield "align", attempt(lambda: list(model.align(inputs.pairs)))
    if "generate" in model.components:
        for name, search in SEARCHES.items():
            yield (
                f"generate-{name}",
                attempt(lambda s=search: model.generate(inputs.prompts, s(), max_new_tokens=NEW)),
            )
        rules = {"max_new_tokens": NEW, "min_new_tokens": 3, "stop_strings": ["a", "e"]}
        yield "generate-stop", attempt(lambda: model.generate(inputs.prompts, **rules))
        yield ("stream", attempt(lambda: list(model.stream(inputs.prompts[0], max_new_tokens=NEW))))


def taped(model: regard.Model, rows: list[Any]) -> dict[str, Any]:
    """Everything that a run records, by its path on the tape."""
    tape = regard.Tape("*")
    model.logits(rows, tape=tape)
    return dict(tape.records)


def recorded(model: regard.Model, rows: list[Any]) -> list[Any]:
    """Records of attention weights and states."""
    return [vars(record) for record in model.record(rows[:1], values=("weights", "states"))]


def text_probes(place: Place) -> Probes:
    """What only models with a tokenizer do: labels of roles and of mentions, edits, int8."""
    mistakes = place.inputs / "mistakes"
    labeller = regard.load(mistakes / "labeller", "cpu")
    yield "labeller/predict", attempt(lambda: labeller.predict([("the owl saw", [2])]))
    bert = regard.load(place.inputs / "models" / "hf-bert-base-uncased", "cpu")
    file = place.work / "edits.toml"
    for kind, more in (
        ("layer-off", 'at = "trunk.blocks.0"'),
        ("head-off", 'at = "trunk.blocks.0"\nhead = 1'),
    ):
        file.write_text(f'[[edit]]\nkind = "{kind}"\n{more}\n')
        edited = attempt(lambda: bert.edited(regard.read_edits(file)).encode(TEXTS))
        yield f"edits/{kind}", edited
    for name in ("models/hf-gpt2", "models/hf-marian", "models/hf-bert-base-uncased"):
        model = attempt(lambda name=name: regard.load(place.inputs / name, precision="int8"))
        if isinstance(model, dict):
            yield f"int8/{Path(name).name}", model
            continue
        yield f"int8/{Path(name).name}", attempt(lambda model=model: model.encode(TEXTS))
        if "generate" in model.components:
            yield "int8/generate", attempt(lambda model=model: model.generate(TEXTS))
        if "translate" in model.components:
            yield "int8/translate", attempt(lambda model=model: model.translate(["cow dog"]))
