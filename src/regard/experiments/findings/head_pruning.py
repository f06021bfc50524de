"""Michel et al. (2019) and Voita et al. (2019): a model hardly needs many of its heads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

from regard.api import Model
from regard.core.device import device_named
from regard.core.errors import BadInput
from regard.experiments.ablation_runs import ScoredSet
from regard.experiments.findings.finding import (
    CannotShow,
    CheckInputs,
    DataUsed,
    Evidence,
    Finding,
    Judgement,
    judge_interval,
    require_examples,
    weakest,
)
from regard.inference.model_runner import ModelRunner
from regard.inside.ablation import best_metric
from regard.inside.heads.importance import LossBatch, head_importance
from regard.inside.pruning.curve import PruningCurve, pruning_curve
from regard.inside.pruning.gates import closed_share, learn_gates
from regard.inside.pruning.orders import Order, order_by
from regard.inside.pruning.remove_heads import prunable_sites
from regard.inside.pruning.task_loss import loss_batches
from regard.metrics.intervals import ExampleStatistics, Interval, interval, resampled_rows
from regard.metrics.translation import MetricScore
from regard.models.attention_site import AttentionSite
from regard.models.folders import folder as folders
from regard.models.folders.hub import local_folder
from regard.models.folders.loaded_model import LoadedModel
from regard.training.recipe import read
from regard.training.recipe_files import find
from regard.views.palette import PAGE

EXAMPLES = 256  # training examples for importance and gates
RANDOM_ORDERS = 2
MICHEL, VOITA = 0.4, 38 / 48  # shares of heads that the papers remove
POINTS, BLEU = 3.0, 1.0  # most that the score may fall
PENALTY, EPOCHS = 0.01, 5  # of gates


@dataclass(frozen=True, eq=False)
class PruningRun:
    """A model, the examples that score it, and batches of training examples with losses."""

    loaded: LoadedModel
    scored: ScoredSet
    batches: Sequence[LossBatch]
    files: Sequence[Path]

    @classmethod
    def of(cls, inputs: CheckInputs) -> "PruningRun":
        """Read a model, and the files of its recipe."""
        assert inputs.recipe is not None
        described = read(find(inputs.recipe))
        (data,) = inputs.data
        scored = ScoredSet.of(described, data, inputs.limit, on_test=False)
        require_examples(len(scored.examples), scored.task.unit)
        loaded = folders.read(local_folder(inputs.model), device_named(inputs.device))
        model, train = Model(loaded), described.data.train
        contents = islice(scored.task.contents(train, data), 4 * EXAMPLES)  # some are too long
        longest = described.batches.longest
        batches = loss_batches(
            model.runner, contents, model.labels, inputs=EXAMPLES, longest=longest
        )
        own = described.data.dev if scored.name == "dev" else described.data.test
        files = [path for each in (train, own) if each is not None for path in each.paths(data)]
        return cls(loaded, scored, batches, files)

    @property
    def inspected(self) -> ModelRunner:
        """The model as reports on its inside see it."""
        return Model(self.loaded).runner

    def score(self, model: LoadedModel, metric: str | None = None) -> MetricScore:
        """Score of a model by a metric; default: the metric of the recipe."""
        scores = {each.name: each for each in self.scored.score(Model(model))}
        return scores[metric or best_metric([*scores], self.scored.preferred)]


def measure_importance(inputs: CheckInputs) -> Evidence:
    """Score without 40% of all heads, the least important first, beside random orders."""
    sites = _sites(inputs)
    run = PruningRun.of(inputs)
    importance = head_importance(run.inspected, run.batches)
    return _evidence(
        inputs, run, sites, partial(order_by, importance), "importance", MICHEL, POINTS
    )


def measure_gates(inputs: CheckInputs) -> Evidence:
    """Score without 38 of 48 encoder heads, in the order of learned gates."""
    facts = inputs.loaded.facts
    if len(facts.sides) < 2:
        raise CannotShow("it is no translator: the finding is about the encoder of one")
    sites = [site for site in _sites(inputs) if site.side == facts.sides[0]]
    if not sites:
        raise CannotShow("heads of its encoder cannot be removed")
    run = PruningRun.of(inputs)
    gates = learn_gates(
        run.inspected, run.batches, sites, penalty=PENALTY, epochs=EPOCHS, seed=inputs.seed
    )
    inputs.note(f"gates: {closed_share(gates):.1%} of the heads are closed")
    return _evidence(inputs, run, sites, partial(order_by, gates), "gates", VOITA, BLEU)


def _sites(inputs: CheckInputs) -> list[AttentionSite]:
    """Sites of the model whose heads can be removed."""
    try:
        return prunable_sites(inputs.loaded.facts)
    except BadInput as error:
        raise CannotShow(str(error)) from None


def _evidence(
    inputs: CheckInputs,
    run: PruningRun,
    sites: Sequence[AttentionSite],
    order_of: Callable[[Sequence[AttentionSite]], Order],
    method: str,
    share: float,
    most: float,
) -> Evidence:
    """Curve, and the change of the score at one share with its interval over examples."""
    whole = run.score(run.loaded)
    metric = whole.name
    (name,) = {site.name for site in sites} if len(sites) == 1 else {"all"}
    curve = pruning_curve(
        run.loaded,
        {name: sites},
        order_of,
        partial(run.score, metric=metric),
        whole=whole.value,
        metric=metric,
        method=method,
        shares=sorted({0.2, share, 0.6}),
        seeds=range(inputs.seed, inputs.seed + RANDOM_ORDERS),
        note=inputs.note,
    )
    point = next(each for each in curve.points if each.share == share)
    curve = with_removed_shares(curve)
    columns, _ = curve.table()
    return Evidence(
        f"{metric} {whole.value:.1f}; without {point.removed} of {point.heads} heads "
        f"{point.score:.1f}, in random orders {point.mean:.1f}",
        judge(change_interval(whole, point.statistics), point.score, point.random, most),
        DataUsed.of_files(run.files),
        columns,
        curve.report(inputs.model).rows,
        [curve.chart(each).svg(PAGE) for each in curve.sites],
        [
            f"scored on {len(run.scored.examples):,} {run.scored.task.unit}; {method} from "
            f"{EXAMPLES} training examples; the weights of the model are not trained further"
        ],
    )


def with_removed_shares(curve: PruningCurve) -> PruningCurve:
    """The curve with the shares that were removed: a share of few heads is rounded."""
    points = (replace(point, share=point.removed / point.heads) for point in curve.points)
    return replace(curve, points=tuple(points))


def change_interval(whole: MetricScore, after: ExampleStatistics | None) -> Interval:
    """Interval of the change of a score, over resampled examples of both models."""
    before = whole.statistics
    if before is None or after is None:
        raise CannotShow(f"{whole.name} of single examples is not known: there is no interval")
    first, second = (resampled_rows(each.rows, each.measure) for each in (before, after))
    return interval(second - first)


def judge(change: Interval, score: float, random: Sequence[float], most: float) -> Judgement:
    """Reproduced if the score falls by less than ``most``, and less than in random orders."""
    kept = judge_interval("the change of the score", change, -most)
    mean = sum(random) / len(random)
    if score > mean:
        beaten = Judgement("reproduced", f"the score is above that of random orders ({mean:.1f})")
    else:
        reason = f"the score is not above that of random orders ({mean:.1f})"
        beaten = Judgement("not reproduced", reason)
    return weakest(kept, beaten)


IMPORTANCE = Finding(
    name="head-pruning",
    paper="Michel et al., 2019, arXiv:1905.10650, section 4",
    year=2019,
    claim="many heads can be removed after training, the least important first, without a "
    "noticeable loss",
    published="about 40% of the heads of BERT on MNLI, and about 20% of those of a large "
    "Transformer for WMT",
    rule=f"without {MICHEL:.0%} of all heads, the least important first, the score falls by less "
    f"than {POINTS:g} points, by the whole 95% interval over examples, and is above the mean of "
    f"{RANDOM_ORDERS} random orders",
    model="a classifier, language model or translator with removable heads",
    measure=measure_importance,
    data=("folder of the recipe's data files",),
    options=("recipe", "limit", "seed"),
)
GATES = Finding(
    name="head-gates",
    paper="Voita et al., 2019, arXiv:1905.09418, section 6",
    year=2019,
    claim="most heads of the encoder of a translator can be removed by learned gates, with hardly "
    "a loss of BLEU",
    published="38 of 48 encoder heads removed for 0.15 BLEU, WMT English to Russian; the model is "
    "trained further with its gates",
    rule=f"without {VOITA:.0%} of the encoder heads, in the order of learned gates, the score "
    f"falls by less than {BLEU:g} point, by the whole 95% interval over examples, and is above the "
    f"mean of {RANDOM_ORDERS} random orders; unlike in the paper, weights stay as they are",
    model="a translator with removable encoder heads",
    measure=measure_gates,
    data=("folder of the recipe's data files",),
    options=("recipe", "limit", "seed"),
)
