"""Controls of probes: random weights, labels by form alone, and labels drawn at random."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np
import torch

from regard.inside.inspected_model import InspectedModel


def with_random_weights(model: InspectedModel, seed: int) -> InspectedModel:
    """Copy of a model with the same facts and tokenizer, and weights drawn anew."""
    device = next(model.module.parameters()).device
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = model.facts.build().eval().to(device)
    return replace(model, runner=model.runner.with_module(module))


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
