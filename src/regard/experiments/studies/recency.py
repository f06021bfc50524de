"""Recency: gradient norms by distance from the last token, and their effect on classifiers.

In a recurrent network the gradient of the final state passes through every state in between and
shrinks at each (Bengio et al., 1994); with attention it reaches each token directly. The final
state is the pooled state of a classifier, or the state of the last token of a language model.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard import (
    BadInput,
    Chart,
    ChartLine,
    Layout,
    Model,
    Report,
    Tape,
    load,
    pack,
    seed_everything,
    spread,
    train_events,
)
from regard.experiments.studies.agreement_data import (
    AgreementPrefix,
    long_prefixes,
    make_agreement,
    write,
)

INPUT = "trunk.embed.output"
ROWS, TOKENS = 32, 16_384  # texts, and tokens of all their copies, per batch
LAST = "model.size=last"
TRANSFORMER = "model.change={width=64, inner=256, heads=4, depth=2, dropout=0.0}"
READERS = {
    "RNN, last state": (LAST, "model.change.cell=rnn"),
    "LSTM, last state": (LAST,),
    "LSTM, attention": (),
    "Transformer": (LAST, "model.source=transformer:laptop", TRANSFORMER),
}
QUICK = ("train.steps=20", "train.evaluate_every=20", "train.checkpoint_every=20")
TEXTS, BETWEEN = 64, 12  # the charts are drawn from 64 prefixes of 38 words
UNTRAINED, TRAINED = "untrained", "trained"
Curves = Mapping[str, np.ndarray]
"""Gradient norms by name: ``norms[n]`` is for the token n positions from the end."""


def gradient_norms(model: nn.Module, texts: Sequence[Sequence[int]]) -> np.ndarray:
    """Frobenius norm of ∂ final / ∂ x_i by the distance of i from the end, mean over texts.

    The model is a classifier or a language model; x_i is the embedding of token i.
    """
    texts = [ids for ids in texts if len(ids)]
    longest = max(map(len, texts), default=0)
    sums, counts = np.zeros(longest), np.zeros(longest)
    with torch.no_grad():
        size = _forward(model, texts[:1]).final_BD.shape[1] if longest else 0
    for start in range(0, len(texts), ROWS):
        for squares_L in _squares(model, texts[start : start + ROWS], size):
            sums[: len(squares_L)] += squares_L.sqrt().flip(0).cpu().numpy()
            counts[: len(squares_L)] += 1
    return sums / np.maximum(counts, 1)


class _Forward(NamedTuple):
    """Embeddings of a batch, its final states and its layout."""

    x_TD: Tensor
    final_BD: Tensor
    layout: Layout


def _forward(model: Any, texts: Sequence[Sequence[int]]) -> _Forward:
    batch = pack(texts).to(next(model.parameters()).device)
    tape = Tape(INPUT, edits={INPUT: lambda _, x_TD: x_TD.detach().requires_grad_()})
    encoded = model.encode(batch, tape=tape)
    final_BD = model.pooled(encoded)
    if final_BD is None:
        final_BD = encoded.states_TD[batch.layout.offsets[1:] - 1]
    return _Forward(tape.records[INPUT], final_BD, batch.layout)


def _squares(model: nn.Module, texts: Sequence[Sequence[int]], size: int) -> list[Tensor]:
    """Compute ‖∂ final / ∂ x_i‖² for every token, summed over the dimensions of the final state.

    Rows of a batch are independent, so one backward pass over several copies of a text gives the
    gradients of as many dimensions of its final state.
    """
    copies = min(size, max(1, TOKENS // max(1, sum(map(len, texts)))))
    sums: list[Tensor] = []
    for first in range(0, size, copies):
        dimensions = range(first, min(first + copies, size))
        # cuDNN computes gradients of RNNs only in training mode.
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            run = _forward(model, [ids for ids in texts for _ in dimensions])
            dimension_B = torch.tensor([*dimensions] * len(texts), device=run.x_TD.device)
            total = run.final_BD.gather(1, dimension_B[:, None]).sum()
            (gradient_TD,) = torch.autograd.grad(total, run.x_TD)
        rows = run.layout.split(gradient_TD.double().square().sum(1))
        starts = range(0, len(rows), len(dimensions))
        part = [torch.stack(rows[at : at + len(dimensions)]).sum(0) for at in starts]
        sums = [a + b for a, b in zip(sums, part, strict=True)] if sums else part
    return sums


def gradient_chart(title: str, curves: Curves) -> Chart:
    """Gradient norm by distance, on a logarithmic scale, which cannot show 0."""
    lines = [
        ChartLine(name, [(n, float(norm)) for n, norm in enumerate(norms) if norm > 0])
        for name, norms in curves.items()
    ]
    last = max((x for line in lines for x, _ in line.points), default=1)
    step = max(1, round(last / 8))
    ticks = [(float(x), str(x)) for x in range(0, int(last) + 1, step)]
    ticks = ticks if ticks[-1][0] == last else [*ticks, (float(last), "")]
    across, up = "distance from the last token", "gradient norm of the final state"
    return Chart(title, across, up, ticks, lines, decades=True)


# --- models of your own ---------------------------------------------------------------------------


def compare_models(models: Mapping[str, Model], texts: list[str]) -> tuple[Curves, Report]:
    """Gradient norms of models by name, and of the same architectures with random weights."""
    ids = {name: _readable(model, texts) for name, model in models.items()}
    curves = {}
    for name, model in models.items():
        prefix = f"{name}, " if len(models) > 1 else ""
        curves[prefix + UNTRAINED] = gradient_norms(_untrained(model, 0), ids[name])
        curves[prefix + TRAINED] = gradient_norms(model.module, ids[name])
    papers = ", ".join(dict.fromkeys(model.paper.name for model in models.values()))
    title = f"{papers}: gradient norm over distance"
    chart = gradient_chart(f"{title}: influence", curves)
    return curves, Report(title, charts={"influence": chart})


def _readable(model: Model, texts: list[str]) -> list[list[int]]:
    """Token ids of the texts; BadInput if the model cannot be measured or cannot read them."""
    encoder = model.encoder
    if encoder.facts.pool is None and not encoder.facts.writes:
        raise BadInput("this model has no pooled state: recency needs a classifier or a causal LM")
    if encoder.text.template.specials(1):
        raise BadInput("this classifier reads special tokens: recency needs a model without them")
    rows = [ids for ids in encoder.text.words.encode_all(texts) if ids]
    if not rows:
        raise BadInput("there is no text")
    longest, limit = max(map(len, rows)), encoder.truncation
    if limit is not None and longest > limit:
        raise BadInput(f"a text has {longest:,} tokens, and the model reads at most {limit:,}")
    return rows


def _untrained(model: Model, *key: int) -> nn.Module:
    """Module with the architecture of a model and random weights, from a key of seeds."""
    seed_everything(*key)
    return model.facts.build().eval().to(model.device)


def distance_records(curves: Curves) -> Iterator[dict[str, object]]:
    """Records for JSON: gradient norms at each distance."""
    for distance in range(min(map(len, curves.values()))):
        yield {"distance": distance, **{name: norms[distance] for name, norms in curves.items()}}


def distance_table(curves: Curves) -> tuple[list[str], list[list[str]]]:
    """Columns and rows: gradient norms at distances that are powers of two, and at the longest."""
    distances = range(min(map(len, curves.values())))
    chosen = sorted({0, *(2**power for power in range(12)), len(distances) - 1})
    rows = [
        [str(distance), *(f"{norms[distance]:.3g}" for norms in curves.values())]
        for distance in chosen
        if distance in distances
    ]
    return ["tokens from the end", *curves], rows


# --- four classifiers -----------------------------------------------------------------------------


def table_caption(seeds: int) -> str:
    """Explanation of the table."""
    figures = "one seed" if seeds == 1 else f"means of {seeds} seeds ± their standard deviation"
    return (
        "accuracy of choosing is or are after a prefix with three nouns between subject and verb, "
        f"of which 0 to 3 have the other number; at most one had in training; {figures}. "
        "Classifiers of prefixes, not language models."
    )


def study_readers(
    out: Path, device: str | None, seeds: int, quick: bool, note: Callable[[str], None]
) -> tuple[Report, list[dict[str, object]]]:
    """Train four classifiers with each seed; return charts and table, and records for JSON.

    The data, the models, the charts, the page and its figures are written to ``out``; ``note`` is
    called with the accuracies of each model.
    """
    data, corpus = make_agreement(*((400, 40, 40) if quick else ())), out / "corpus"
    write(data, corpus)
    prefixes = [prefix.text for prefix in long_prefixes(TEXTS, BETWEEN)]
    charts: dict[str, dict[str, np.ndarray]] = {UNTRAINED: {}, TRAINED: {}}
    rows, records = [], []
    for name, settings in READERS.items():
        scores: list[list[float]] = []
        for seed in range(1, seeds + 1):
            folder = out / f"{name.lower().replace(',', '').replace(' ', '-')}-{seed}"
            options = (*settings, f"train.seed={seed}", *(QUICK if quick else ()))
            for _ in train_events("agreement", corpus, folder, settings=options, device=device):
                pass
            model = load(folder / "model", device)
            scores.append([_accuracy(model, test) for test in data.tests])
            note(f"{name}, seed {seed}: {'  '.join(f'{score:.1f}' for score in scores[-1])}")
            if seed == 1:
                ids = model.encoder.text.words.encode_all(prefixes)
                charts[UNTRAINED][name] = gradient_norms(_untrained(model, seed, 0), ids)
                charts[TRAINED][name] = gradient_norms(model.module, ids)
        count = model.paper.parameters(model.facts)
        tests = list(zip(*scores, strict=True))
        rows.append([name, *map(spread, tests), f"{count:,}"])
        records.append({"reader": name, "accuracy by attractors": tests, "parameters": count})
    title, columns = "How far back a reader hears", ["reader", "0 attractors", "1", "2", "3"]
    drawn = {name: gradient_chart(f"{title}: {name}", each) for name, each in charts.items()}
    caption = "charts: seed 1, 64 prefixes of 38 words, mean Frobenius norm by distance"
    notes = table_caption(seeds), caption
    report = Report(title, [*columns, "parameters"], rows, drawn, notes)
    for name, chart in report.charts.items():
        (out / f"{name}.svg").write_text(chart.svg(), encoding="utf-8")
    (out / "recency.html").write_text(report.html(), encoding="utf-8")
    norms = {
        name: {reader: curve.tolist() for reader, curve in each.items()}
        for name, each in charts.items()
    }
    data_of_charts = {"readers": records, "gradient norms by distance": norms}
    (out / "recency.json").write_text(json.dumps(data_of_charts, indent=1), encoding="utf-8")
    return report, records


def _accuracy(model: Model, prefixes: Sequence[AgreementPrefix]) -> float:
    """Percentage of prefixes whose verb is predicted."""
    labels = [each.label for each in model.predict([prefix.text for prefix in prefixes])]
    right = [label == prefix.verb for label, prefix in zip(labels, prefixes, strict=True)]
    return 100 * (sum(right) / len(right))
