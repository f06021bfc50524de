"""Peters et al. (2018) and Tenney et al. (2019): layers tell of different things, in an order."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from regard.core.errors import BadInput
from regard.experiments.findings.finding import (
    CannotShow,
    CheckInputs,
    DataUsed,
    Evidence,
    Finding,
    Judgement,
    judge_interval,
    weakest,
)
from regard.inference.model_runner import ModelRunner
from regard.inside.heads.report_heads import treebank_file
from regard.inside.probes.linear_probe import ProbeFit
from regard.inside.probes.probe_models import probe_layers
from regard.inside.probes.probe_tasks import ProbeData, read_data
from regard.metrics.intervals import Interval, interval, mean_interval, resampled
from regard.views.line_chart import Chart, ChartLine
from regard.views.palette import PAGE

WORDS = 1_500  # examples of each set, unless a limit is given
DRAWS = 4  # of sentences, for the interval of an expected layer
GAP = 0.1  # least difference of expected layers
TAGS, ARCS = "parts of speech", "dependency labels"
SENSES = "word senses"
SETS = ("train", "dev", "test")


def measure_order(inputs: CheckInputs) -> Evidence:
    """Expected layers of the mixes of probes of parts of speech and of dependencies."""
    model = _text_encoder(inputs)
    depth = model.facts.encoder.stack.depth
    if depth < 3 or not model.facts.attention_sites:
        raise CannotShow("it has fewer than three layers of self-attention")
    files = [treebank_file(inputs.data[0], name) for name in SETS]
    layers = [*range(depth + 1)]
    mixtures: dict[str, list[Sequence[float]]] = {TAGS: [], ARCS: []}
    for seed in range(inputs.seed, inputs.seed + DRAWS):
        for name, task in ((TAGS, "tags"), (ARCS, "arc-labels")):
            data = read_data(task, files, limit=inputs.limit or WORDS, seed=seed)
            (fit,) = probe_layers(model, data, [layers])
            mixtures[name].append(fit.mixture)
            inputs.note(f"{name}, draw {seed}: expected layer {expected_layer(fit.mixture):.2f}")
    expected = {name: [*map(expected_layer, every)] for name, every in mixtures.items()}
    means = {name: float(np.mean(values)) for name, values in expected.items()}
    gap = [later - earlier for earlier, later in zip(expected[TAGS], expected[ARCS], strict=True)]
    return Evidence(
        f"expected layer of {depth}: {TAGS} {means[TAGS]:.2f}, {ARCS} {means[ARCS]:.2f}",
        judge_order(mean_interval(gap)),
        DataUsed.of_files(files),
        ["task", "expected layer", *(f"layer {layer}" for layer in layers)],
        [
            [name, f"{means[name]:.2f}", *(f"{share:.3f}" for share in np.mean(every, axis=0))]
            for name, every in mixtures.items()
        ],
        [_mixture_chart(mixtures).svg(PAGE)],
        [
            f"weights of a learned mix of layers, mean of {DRAWS} draws of about "
            f"{inputs.limit or WORDS:,} examples; layer 0 is the embedding"
        ],
    )


def measure_senses(inputs: CheckInputs) -> Evidence:
    """Accuracy of probes of both layers of a biLM, on parts of speech and on word senses."""
    model = _text_encoder(inputs)
    depth = model.facts.encoder.stack.depth
    if depth != 2 or model.facts.attention_sites or inputs.loaded.facts.sides != ("trunk",):
        raise CannotShow("it is not a language model of two recurrent layers, as ELMo's is")
    treebank, senses = inputs.data
    files = {
        TAGS: [treebank_file(treebank, name) for name in SETS],
        SENSES: [_sense_file(senses, name) for name in SETS],
    }
    gains: dict[str, Interval] = {}
    rows = []
    for name, task in ((TAGS, "tags"), (SENSES, "pairs")):
        data = read_data(task, files[name], limit=inputs.limit, seed=inputs.seed)
        first, second = probe_layers(model, data, [[1], [2]])
        gains[name] = gain_interval(first, second, data)
        accuracies = (f"{100 * fit.correct.mean():.1f}" for fit in (first, second))
        rows.append([name, *accuracies, *(f"{bound:+.1f}" for bound in gains[name])])
        inputs.note(", ".join(rows[-1]))
    return Evidence(
        "; ".join(f"{name}: layer 1 {first}, layer 2 {second}" for name, first, second, *_ in rows),
        judge_senses(gains[TAGS], gains[SENSES]),
        DataUsed.of_files([path for each in files.values() for path in each]),
        ["task", "layer 1", "layer 2", "low", "high"],
        rows,
        [_accuracy_chart(rows).svg(PAGE)],
        ["accuracy of linear probes in percent; low and high: 95% interval of layer 2 - layer 1"],
    )


def _text_encoder(inputs: CheckInputs) -> ModelRunner:
    model = inputs.loaded.runner
    if model.reads_images or model.tokenizer is None:
        raise CannotShow("it reads no words")
    return model


def _sense_file(folder: Path, name: str) -> Path:
    """The pairs of a set in a folder of WiC."""
    files = sorted(folder.glob(f"{name}.data.txt*"))
    if len(files) != 1:
        raise BadInput(f"{folder}: no file, or several, called {name}.data.txt (WiC)")
    return files[0]


def expected_layer(mixture: Sequence[float]) -> float:
    """Σ l · s_l, the centre of gravity of a mix (Tenney et al., 2019, section 3.2)."""
    return sum(layer * share for layer, share in enumerate(mixture))


def gain_interval(first: ProbeFit, second: ProbeFit, data: ProbeData) -> Interval:
    """Interval, in points, of the accuracy of the second probe minus the first, over sentences."""
    _, numbers = np.unique(data.test.groups, return_inverse=True)
    columns = (second.correct, first.correct, np.ones(len(numbers)))
    counts = [np.bincount(numbers, each) for each in columns]
    sums = np.stack(counts, axis=1).astype(np.float64)
    return interval(resampled(sums, lambda total: 100 * (total[0] - total[1]) / total[2]))


def judge_order(difference: Interval) -> Judgement:
    """Reproduced if dependencies are resolved later than parts of speech, by a least difference."""
    return judge_interval(f"{ARCS} minus {TAGS}, in layers", difference, GAP, "+.2f")


def judge_senses(tags: Interval, senses: Interval) -> Judgement:
    """Reproduced if layer 1 is better for parts of speech, and layer 2 for senses."""
    fall = Interval(-tags.high, -tags.low)
    return weakest(
        judge_interval(f"{TAGS}, layer 1 minus layer 2, in points", fall, 0.0),
        judge_interval(f"{SENSES}, layer 2 minus layer 1, in points", senses, 0.0),
    )


def _mixture_chart(mixtures: Mapping[str, Sequence[Sequence[float]]]) -> Chart:
    lines = [
        ChartLine(name, [(float(x), float(y)) for x, y in enumerate(np.mean(every, axis=0))])
        for name, every in mixtures.items()
    ]
    ticks = [(x, f"{x:.0f}") for x, _ in lines[0].points]
    across, up = "layer (0: embedding)", "weight in the mix"
    return Chart("Mix of layers that a probe learns", across, up, ticks, lines, fitted=True)


def _accuracy_chart(rows: Sequence[Sequence[str]]) -> Chart:
    lines = [
        ChartLine(name, [(1.0, float(first)), (2.0, float(second))])
        for name, first, second, *_ in rows
    ]
    ticks = [(1.0, "1"), (2.0, "2")]
    return Chart("Probes of both layers", "layer", "accuracy in percent", ticks, lines, fitted=True)


SENSE_LAYERS = Finding(
    name="layer-senses",
    paper="Peters et al., 2018, arXiv:1802.05365, section 5.3",
    year=2018,
    claim="the first layer of a bidirectional language model tells more of parts of speech, the "
    "second more of word senses",
    published="ELMo: parts of speech about 97.3 (layer 1) and 96.8 (layer 2), word senses about "
    "67.4 F1 and 69.0 F1",
    rule="a linear probe of parts of speech is more accurate on layer 1, and one of word senses "
    "(WiC, not the paper's task) on layer 2, each by the whole 95% interval over sentences",
    model="a bidirectional language model of two recurrent layers (ELMo)",
    data=("folder of a treebank (train, dev and test .conllu)", "folder of WiC"),
    measure=measure_senses,
    options=("limit", "seed"),
)
LAYER_ORDER = Finding(
    name="layer-order",
    paper="Tenney et al., 2019, arXiv:1905.05950, section 3",
    year=2019,
    claim="an encoder resolves parts of speech in lower layers than dependencies",
    published="expected layer of BERT-large: parts of speech about 3.39, dependencies about 5.69",
    rule="the expected layer of a learned mix of layers is higher for dependency labels than for "
    f"parts of speech: the 95% interval (Student's t) of the difference in {DRAWS} draws of "
    f"sentences is above {GAP:g} layers",
    model="an encoder or causal model with three or more layers of self-attention",
    data=("folder of a treebank (train, dev and test .conllu)",),
    measure=measure_order,
    options=("limit", "seed"),
)
