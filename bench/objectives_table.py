"""The tables of objectives.py, as Markdown: scores, gains over no pre-training, costs.

Intervals hold the mean over seeds in 95 of 100 cases, if scores are normal (Student's t; for
differences, Welch's). They are about seeds of fine-tuning: each objective was pre-trained once.
"""

from collections.abc import Callable, Iterable, Sequence
from math import inf, sqrt
from statistics import mean, variance
from typing import Any, NamedTuple

NONE = "none"
METRICS = {  # of a recipe: its task, and what is scored
    "glue-sst2": ("SST-2", "accuracy"),
    "glue-cola": ("CoLA", "Matthews"),
    "glue-mrpc": ("MRPC", "F1"),
    "conll2003": ("CoNLL-2003", "F1"),
}
NAMES = {
    NONE: "none",
    "masked-lm": "masked LM",
    "next-sentence": "masked LM + next sentence",
    "sentence-order": "masked LM + sentence order",
    "spans": "spans + boundary",
    "replaced-tokens": "replaced tokens",
    "permutation-lm": "permutation LM",
}
PAPERS = {  # whose objective it is
    "masked-lm": "roberta",
    "next-sentence": "bert",
    "sentence-order": "albert",
    "spans": "spanbert",
    "replaced-tokens": "electra",
    "permutation-lm": "xlnet",
}
LEVEL = 0.95


class Estimate(NamedTuple):
    """A mean, and how far below and above it the interval reaches."""

    mean: float
    margin: float

    def __str__(self) -> str:
        return f"{self.mean:.1f}" if self.margin == inf else f"{self.mean:.1f} ± {self.margin:.1f}"

    @property
    def signed(self) -> str:
        """As a difference."""
        return f"{self.mean:+.1f}" + ("" if self.margin == inf else f" ± {self.margin:.1f}")


def estimate(values: Sequence[float]) -> Estimate:
    """The mean of a sample, with Student's interval."""
    if len(values) < 2:
        return Estimate(mean(values), inf)
    return Estimate(mean(values), _t(len(values) - 1) * sqrt(variance(values) / len(values)))


def difference(values: Sequence[float], others: Sequence[float]) -> Estimate:
    """How much higher the first mean is, with Welch's interval: variances may differ."""
    apart = mean(values) - mean(others)
    if min(len(values), len(others)) < 2:
        return Estimate(apart, inf)
    parts = [variance(sample) / len(sample) for sample in (values, others)]
    if not sum(parts):
        return Estimate(apart, 0.0)
    sizes = (len(values) - 1, len(others) - 1)
    freedom = sum(parts) ** 2 / sum(v**2 / n for v, n in zip(parts, sizes, strict=True))
    return Estimate(apart, _t(freedom) * sqrt(sum(parts)))


def _t(freedom: float) -> float:
    from scipy.stats import t

    return float(t.ppf((1 + LEVEL) / 2, freedom))


def tables(lines: Sequence[dict[str, Any]]) -> str:
    """All tables of these results."""
    tuned, trained = ([x for x in lines if x["stage"] == stage] for stage in ("tune", "pretrain"))
    chosen = chosen_runs(tuned)
    tasks = [task for task in METRICS if any(run["task"] == task for run in chosen)]
    encoders = in_order(run["encoder"] for run in chosen)

    def values(encoder: str, task: str) -> list[float]:
        runs = [run for run in chosen if (run["encoder"], run["task"]) == (encoder, task)]
        return [run["scores"][METRICS[task][1]] for run in runs]

    def score(encoder: str, task: str) -> str:
        return str(estimate(values(encoder, task))) if values(encoder, task) else ""

    def gain(encoder: str, task: str) -> str:
        pair = values(encoder, task), values(NONE, task)
        return difference(*pair).signed if all(pair) else ""

    def rates(encoder: str, task: str) -> str:
        runs = [run for run in chosen if (run["encoder"], run["task"]) == (encoder, task)]
        return ", ".join(sorted({f"{run['rate']:.0e}" for run in runs}))

    others = [name for name in encoders if name != NONE]
    found = [
        _by_task("pre-training", encoders, tasks, score),
        _by_task("gain over none", others, tasks, gain),
        _by_task("learning rate", encoders, tasks, rates),
        costs(trained),
    ]
    return "\n\n".join(found)


def records(lines: Sequence[dict[str, Any]]) -> str:
    """The mean scores as measured.toml, by the papers whose objectives they are."""
    chosen = chosen_runs([run for run in lines if run["stage"] == "tune"])
    found = ["# Our results that no recipe expects: python bench/objectives.py records."]
    for encoder, paper in PAPERS.items():
        scores = []
        for task, names in METRICS.items():
            runs = [run for run in chosen if (run["encoder"], run["task"]) == (encoder, task)]
            if runs:
                score = mean(run["scores"][names[1]] for run in runs)
                scores.append(f'"{" ".join(names)}" = {score:.1f}')
        if scores:
            found.append(
                f'\n[{paper}."python bench/objectives.py all: tuned, mean of seeds"]\n'
                f'"4 layers, books, {NAMES[encoder]}" = {{ {", ".join(scores)} }}'
            )
    return "\n".join(found)


def in_order(encoders: Iterable[str]) -> list[str]:
    """Each of the encoders once, variants of an objective after it."""
    known = list(NAMES)
    return sorted({*encoders}, key=lambda name: (known.index(name.split("@")[0]), name))


def title_of(encoder: str) -> str:
    """The objective of an encoder, and the settings that a variant has."""
    objective, *settings = encoder.split("@")
    return ", ".join([NAMES[objective], *settings])


def chosen_runs(tuned: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each encoder and task the runs at the rate that the development set chose.

    Rates were compared with one seed, the lowest; if they are equally good, the lower one counts.
    """
    cells: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in tuned:
        cells.setdefault((run["encoder"], run["task"]), []).append(run)
    chosen = []
    for runs in cells.values():
        first = min(run["seed"] for run in runs)
        rate = best_rate([run for run in runs if run["seed"] == first])
        chosen += [run for run in runs if run["rate"] == rate]
    return chosen


def best_rate(runs: Sequence[dict[str, Any]]) -> float:
    """The rate with the highest score on the development set; of several, the lowest."""
    return max(runs, key=lambda run: (run["dev"], -run["rate"]))["rate"]


def _by_task(
    title: str, encoders: Sequence[str], tasks: Sequence[str], cell: Callable[[str, str], str]
) -> str:
    rows = [[title_of(one), *(cell(one, task) for task in tasks)] for one in encoders]
    return markdown([title, *(" ".join(METRICS[task]) for task in tasks)], rows)


def costs(trained: Sequence[dict[str, Any]]) -> str:
    """What pre-training cost, and what it reached on books that were held out."""
    latest = {run["encoder"]: run for run in trained}
    rows = []
    for name in in_order(latest):
        run = latest[name]
        cost = run["cost"]
        rows.append(
            [
                title_of(name),
                f"{run['steps']:,}",
                f"{cost['tokens'] / 1e6:.0f}",
                f"{cost['training_flops'] / 1e15:.2f}",
                f"{cost['device_seconds']:.0f}",
                ", ".join(f"{key} {value:.4g}" for key, value in run["dev"].items()),
            ]
        )
    columns = [
        "pre-training",
        "steps",
        "M tokens",
        "PFLOP",
        "seconds, GPU shared",
        "held-out books",
    ]
    return markdown(columns, rows)


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    head, *body = (f"| {' | '.join(line)} |" for line in (columns, *rows))
    return "\n".join([head, "|---" * len(columns) + "|", *body])
