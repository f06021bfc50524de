"""Dosovitskiy et al. (2020): heads of low layers differ in distance, high layers attend far."""

from collections.abc import Sequence
from typing import cast

import numpy as np

from regard.core.errors import BadInput
from regard.data.readers.image_files import image_files
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
from regard.inside.heads.head_weights import over_words, run_heads
from regard.inside.heads.measures import distance
from regard.metrics.intervals import Interval, interval, resampled
from regard.text.segmentation import LabelledImage
from regard.views.line_chart import Chart, ChartLine
from regard.views.palette import PAGE

IMAGES = 128  # read unless a limit is given
LAYERS = 4  # fewest layers that can be compared by halves
SHARE = 0.1  # least growth and spread, as a share of the distance of uniform attention


def measure(inputs: CheckInputs) -> Evidence:
    """Mean distance of attention of every head, image by image."""
    model = inputs.loaded.runner
    if not model.reads_images or not model.facts.attention_sites:
        raise CannotShow("it reads no images, or has no attention between patches")
    (site,) = model.sites
    if site.layers < LAYERS or len({*site.heads}) > 1 or site.heads[0] < 2:
        raise CannotShow(f"it has fewer than {LAYERS} layers, or layers without several heads")
    (folder,) = inputs.data
    if not folder.is_dir():
        raise BadInput(f"{folder}: not a folder of images")
    files = [*image_files(folder)][: inputs.limit or IMAGES]
    if not files:
        raise BadInput(f"{folder}: no images in this folder")
    require_examples(len(files), "images")
    rows = [model.read(str(path)) for path in files]
    grid = cast(LabelledImage, rows[0][site.side]).grid
    by_image = np.zeros((len(rows), site.layers, site.heads[0]))
    for number, _, layers in run_heads(model, rows, [site]):
        words = over_words(rows[number], site, layers, {})
        for layer, weights_HLS in enumerate(words.layers):
            sums_H, count = distance(weights_HLS, words)
            by_image[number, layer] = sums_H / count
    mean_LH = by_image.mean(0)
    first, last = _halves(mean_LH)
    return Evidence(
        f"{first:.2f} patches in the lower half of the layers, {last:.2f} in the upper; spread of "
        f"heads {mean_LH[0].std():.2f} in the first layer, {mean_LH[-1].std():.2f} in the last",
        judge(*intervals(by_image), uniform_distance(grid)),
        DataUsed.of_files(files)._replace(name=f"{len(files):,} images of {folder.name}"),
        ["layer", "mean", "spread", *(f"head {head}" for head in range(site.heads[0]))],
        [
            [str(layer), *(f"{value:.2f}" for value in (each_H.mean(), each_H.std(), *each_H))]
            for layer, each_H in enumerate(mean_LH)
        ],
        [_chart(mean_LH).svg(PAGE)],
        [
            f"distance in patches, weighted by attention, mean over {len(files):,} images; spread: "
            "standard deviation over the heads of a layer"
        ],
    )


def intervals(distances_NLH: np.ndarray) -> tuple[Interval, Interval]:
    """Intervals over images: growth of distance with depth, and how much less heads differ above.

    The first is the mean distance of the upper half of the layers minus the lower half's, the
    second the spread of heads in the first layer minus the spread in the last.
    """
    images, layers, heads = distances_NLH.shape
    statistics = np.concatenate([distances_NLH.reshape(images, -1), np.ones((images, 1))], axis=1)

    def means(sums: np.ndarray) -> np.ndarray:
        return (sums[:-1] / sums[-1]).reshape(layers, heads)

    def growth(sums: np.ndarray) -> float:
        lower, upper = _halves(means(sums))
        return upper - lower

    def spread(sums: np.ndarray) -> float:
        mean_LH = means(sums)
        return float(mean_LH[0].std() - mean_LH[-1].std())

    return interval(resampled(statistics, growth)), interval(resampled(statistics, spread))


def uniform_distance(grid: tuple[int, int]) -> float:
    """Mean distance in patches of a head that attends to all patches alike."""
    patches = np.argwhere(np.ones(grid, bool))
    return float(np.linalg.norm(patches[:, None] - patches, axis=-1).mean())


def judge(growth: Interval, spread: Interval, uniform: float) -> Judgement:
    """Reproduced if distance grows with depth, and heads differ more in the first layer.

    Both by a share of the distance of ``uniform`` attention: more images make any difference sure.
    """
    least = SHARE * uniform
    return weakest(
        judge_interval("the growth of distance with depth", growth, least, "+.2f"),
        judge_interval("the spread of heads, first minus last layer", spread, least, "+.2f"),
    )


def _halves(mean_LH: np.ndarray) -> tuple[float, float]:
    """Mean over the lower and the upper half of the layers; a middle layer is in neither."""
    half = len(mean_LH) // 2
    return float(mean_LH[:half].mean()), float(mean_LH[-half:].mean())


def _chart(mean_LH: np.ndarray) -> Chart:
    layers: Sequence[int] = range(len(mean_LH))
    lines = [
        ChartLine(f"head {head}", [*zip(map(float, layers), each_L.tolist(), strict=True)])
        for head, each_L in enumerate(mean_LH.T)
    ]
    ticks = [(float(layer), str(layer)) for layer in layers]
    return Chart("Distance of attention", "layer", "mean distance in patches", ticks, lines)


FINDING = Finding(
    name="attention-distance",
    paper="Dosovitskiy et al., 2020, arXiv:2010.11929, section 4.5 and figure 7",
    year=2020,
    claim="in low layers of a ViT some heads attend to near patches and others to the whole image; "
    "attention distance grows with depth",
    published="figure 7 of the paper, ViT-L/16: distances of heads spread widely in the lowest "
    "layers, and all are large in the highest",
    rule="mean distance is larger in the upper half of the layers than in the lower half, and the "
    "standard deviation over heads larger in the first layer than in the last, each by more than "
    f"{SHARE:.0%} of the distance of uniform attention, by the whole 95% interval over images",
    model=f"a ViT with {LAYERS} layers or more, and several heads",
    data=("folder of images",),
    measure=measure,
    options=("limit",),
)
