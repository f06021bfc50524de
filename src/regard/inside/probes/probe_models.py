"""Probes of models on a task, layer by layer, each with its controls."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

import numpy as np
import torch

from regard.core.errors import BadInput
from regard.inference.model_runner import ModelRunner
from regard.inside.probes.linear_probe import ProbeFit, ProbeSplit, fit_probe, number_labels
from regard.inside.probes.probe_report import (
    LayerScore,
    MixScore,
    ModelScores,
    ProbeReport,
    ProbeScore,
)
from regard.inside.probes.probe_tasks import ProbeData
from regard.inside.probes.word_states import LayerStates, Pieces, read_states
from regard.metrics.intervals import interval, resampled


def probe_models(
    models: Mapping[str, ModelRunner],
    data: ProbeData,
    task: str,
    *,
    layers: Sequence[int] | None = None,
    pieces: Pieces = "mean",
    seed: int = 0,
    note: Callable[[str], None] = lambda message: None,
) -> ProbeReport:
    """Train probes on the layers of models by name, and score them on the test set.

    Each model is compared with the same model with random weights, with a control task on its
    own states, and with the majority of labels by form. ``note`` is called after each model.
    """
    scores = []
    for name, model in models.items():
        own = tuple(read_states(model, examples, layers, pieces) for examples in data)
        random = with_random_weights(model, seed)
        drawn = tuple(read_states(random, examples, layers, pieces) for examples in data)
        left_out = sum(int((~states.known).sum()) for states in own)
        known = ProbeData(*(each.choose(of.known) for each, of in zip(data, own, strict=True)))
        scores.append(score_states(name, known, own, drawn, seed, left_out))
        note(f"{name}: {len(scores[-1].layers)} layers probed")
    return ProbeReport(task, tuple(scores))


def score_states(
    name: str,
    data: ProbeData,
    own: Sequence[LayerStates],
    drawn: Sequence[LayerStates],
    seed: int = 0,
    left_out: int = 0,
) -> ModelScores:
    """Probe recorded states of a model (``own``) and of one with random weights (``drawn``)."""
    groups = data.test.groups
    labels = number_labels(*(each.labels for each in data))
    forms = [each.forms for each in data]
    controlled = [control_labels(data.train.labels, of_set, seed) for of_set in forms]
    control = number_labels(*controlled)

    def score(fit: ProbeFit) -> ProbeScore:
        return score_examples(fit.correct, groups, fit.dev_accuracy, fit.strength)

    layers = [*own[0].layers]
    tasks = ((own, labels), (drawn, labels), (own, control))
    by_layer = [
        LayerScore(layer, *(score(_fit(states, [layer], gold)) for states, gold in tasks))
        for layer in layers
    ]
    mixes = []
    widths = {states.shape[1] for states in own[0].layers.values()}
    if len(layers) > 1 and len(widths) == 1:
        for states in (own, drawn):
            fit = _fit(states, layers, labels)
            mixes.append(MixScore(score(fit), tuple(layers), fit.mixture))
    pairs = [*zip(forms[0], data.train.labels, strict=True)]
    guesses = majority_by_form(pairs, forms[2])
    right = np.array(
        [guess == label for guess, label in zip(guesses, data.test.labels, strict=True)]
    )
    counts = tuple(len(each.examples) for each in data)
    mix, random_mix = mixes or (None, None)
    majority = score_examples(right, groups)
    return ModelScores(name, tuple(by_layer), mix, random_mix, majority, counts, left_out)


def _fit(
    states: Sequence[LayerStates], layers: Sequence[int], labels: Sequence[np.ndarray]
) -> ProbeFit:
    """Fit a probe of some layers on the states and labels of train, dev and test."""
    chosen = [[of_set.layers[layer] for layer in layers] for of_set in states]
    return fit_probe(*map(ProbeSplit, chosen, labels))


def probe_layers(
    model: ModelRunner, data: ProbeData, groups: Sequence[Sequence[int]], pieces: Pieces = "mean"
) -> list[ProbeFit]:
    """Probes of a model on groups of layers, a mix for a group of several, without controls.

    Sentences that are too long for the model are an error.
    """
    layers = sorted({layer for group in groups for layer in group})
    states = [read_states(model, examples, layers, pieces) for examples in data]
    if not all(of_set.known.all() for of_set in states):
        raise BadInput("probes: a sentence has more tokens than the model has positions")
    labels = number_labels(*(each.labels for each in data))
    return [_fit(states, group, labels) for group in groups]


def score_examples(
    correct: np.ndarray,
    groups: np.ndarray,
    dev_accuracy: float | None = None,
    strength: float | None = None,
) -> ProbeScore:
    """Accuracy, with a 95% interval over resampled groups of examples."""
    _, numbers = np.unique(groups, return_inverse=True)
    sums = [np.bincount(numbers, each) for each in (correct, np.ones(len(correct)))]
    scores = resampled(np.stack(sums, axis=1), lambda totals: totals[0] / totals[1])
    return ProbeScore(float(correct.mean()), interval(scores), dev_accuracy, strength)


def with_random_weights(model: ModelRunner, seed: int) -> ModelRunner:
    """Copy of a model with the same facts and tokenizer, and weights drawn anew."""
    device = next(model.module.parameters()).device
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = model.facts.build().eval().to(device)
    return model.with_module(module)


def majority_by_form(train: Sequence[tuple[str, str]], forms: Sequence[str]) -> list[str]:
    """Most frequent label of each form in training; of unknown forms, the most frequent of all.

    ``train`` has pairs (form, label). Of labels that are equally frequent, the first one counts.
    """
    overall = Counter(label for _, label in train)
    by_form: dict[str, Counter[str]] = {}
    for form, label in train:
        by_form.setdefault(form, Counter())[label] += 1
    (default, _), *_ = overall.most_common(1)
    return [by_form[form].most_common(1)[0][0] if form in by_form else default for form in forms]


def control_labels(labels: Sequence[str], forms: Sequence[str], seed: int) -> list[str]:
    """Labels of a control task (Hewitt and Liang, 2019, arXiv:1909.03368, section 2).

    Each form has a label drawn at random with the frequencies of ``labels``. It depends on the
    form, the frequencies and the seed alone, so that training and test sets agree.
    """
    counts = Counter(labels)
    names = sorted(counts)
    shares = np.array([*accumulate(counts[name] for name in names)]) / len(labels)
    drawn = {form: _uniform(form, seed) for form in {*forms}}
    return [names[int(np.searchsorted(shares, drawn[form], side="right"))] for form in forms]


def _uniform(form: str, seed: int) -> float:
    """Random number in [0, 1) of a form."""
    return float(np.random.default_rng([seed, *form.encode(errors="surrogatepass")]).random())
