"""Labels of images: the same loss as of rows, on normalised and, in training, augmented pixels."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from closeness import VALUES
from in_place import InPlace
from regard.core.batch import IGNORED, BatchLimits, ImageRow, pack_images
from regard.core.errors import BadInput
from regard.core.pytree import tensors_in
from regard.core.tape import Tape
from regard.data.batches.memory_dataset import ImageExamples
from regard.images.augment import Augmentation, Draws, Mixing
from regard.images.processor import ImageProcessor
from regard.models.facts import change
from regard.models.label_heads import LabelHead
from regard.models.papers import vit
from regard.models.papers.deit import DistilledLabelHead
from regard.models.pools import FirstTokens
from regard.objectives.images import ImageLabels
from regard.objectives.label_distillation import LabelDistillation, with_teacher
from regard.objectives.label_losses import Classification, MultiLabel

FACTS = change(vit.TINY, width=8, depth=1, heads=2, inner=8, patch_size=4, image_size=8)
FACTS = change(FACTS, output_heads=(LabelHead(3),))
PROCESSOR = ImageProcessor(size=(8, 8), mean=(0.1, 0.2, 0.3), std=(0.5, 0.4, 0.3))
PIXELS = np.random.default_rng(0).integers(0, 256, (5, 8, 8, 3), dtype=np.uint8)
TARGETS = [[0], [2], [1], [1], [0]]


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return FACTS.build()


def examples(keys=range(1, 6)):
    return ImageExamples.of(single_examples(keys))


def single_examples(keys=range(1, 6)):
    rows = PROCESSOR.training_rows(PIXELS)
    keyed = (type(row)(row.read, key) for row, key in zip(rows, keys, strict=True))
    return [*zip(keyed, TARGETS, strict=True)]


def first_of(count):
    return ImageExamples.of(single_examples()[:count])


def test_evaluation_reads_images_as_the_processor_does(model):
    objective = ImageLabels(Classification(), PROCESSOR, Augmentation(flip=True, erase=1.0))
    loss, nll = objective(model.eval(), objective.collate(examples()))
    read = np.stack([row.read() for row in PROCESSOR.rows(PIXELS)])
    logits = model(pack_images(torch.from_numpy(read))).by_head["label"]
    targets = torch.tensor(TARGETS).flatten()
    expected = torch.nn.functional.cross_entropy(logits, targets, reduction="sum")
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(nll, expected)


@pytest.mark.parametrize("mixing", [(0.0, 0.0), (0.8, 1.0)])
def test_what_is_drawn_follows_from_the_keys(model, mixing):
    augmentation = Augmentation(crop=1, flip=True, operations=2, erase=0.5)
    objective = ImageLabels(Classification(0.1), PROCESSOR, augmentation, Mixing(*mixing))
    model.train()
    losses = [
        objective(model, objective.collate(examples(keys)))[0].item()
        for keys in (range(1, 6), range(1, 6), range(2, 7))
    ]
    assert losses[0] == losses[1] != losses[2]


def mixed_loss(model, objective, mixed_B):
    """Cross-entropy of the first images by the shares of both labels, and what was mixed."""
    count, smoothing = len(mixed_B), objective.labels.smoothing
    images = torch.from_numpy(PIXELS[:count]).movedim(-1, 1) / 255
    draws = Draws(torch.arange(1, count + 1))
    images, share_B = objective.mixing(objective.augmentation(images, draws), mixed_B, draws)
    mean, std = (torch.tensor(values)[:, None, None] for values in (PROCESSOR.mean, PROCESSOR.std))
    logits_BV = model(pack_images((images - mean) / std)).by_head["label"]
    loss = 0.0
    for row in range(count):
        parts = ((row, share_B[row]), ((row + 1) % count, 1 - share_B[row]))
        for labelled, share in parts:
            target = torch.tensor(TARGETS[labelled])
            loss += share * F.cross_entropy(logits_BV[[row]], target, label_smoothing=smoothing)
    return loss, share_B


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("mixing", [(0.8, 0.0), (0.0, 1.0), (0.8, 1.0)])
def test_mixed_targets_count_by_their_shares(model, mixing, smoothing):
    objective = ImageLabels(Classification(smoothing), PROCESSOR, mixing=Mixing(*mixing))
    model.train()
    loss, nll = objective(model, objective.collate(examples()))
    expected, share_B = mixed_loss(model, objective, torch.full((5,), True))
    torch.testing.assert_close(loss, expected, **VALUES)
    assert loss.requires_grad and (share_B - 0.5).abs().max() > 0.1  # the shares are not alike
    if not smoothing:
        torch.testing.assert_close(nll, expected.detach(), **VALUES)


@pytest.mark.parametrize("mixing", [(0.0, 0.0), (0.8, 0.0), (0.0, 1.0), (0.8, 1.0)])
def test_a_filled_batch_has_the_loss_of_its_images(model, mixing):
    """Images that fill a batch count for nothing, and no image is mixed with one of them."""
    objective = ImageLabels(Classification(), PROCESSOR, Augmentation(flip=True), Mixing(*mixing))
    model.train()
    free, fixed = (objective.collate(first_of(4), limits) for limits in (None, LIMITS))
    assert len(fixed.inputs.tokens_T) == 7
    assert fixed.targets["label"].tolist() == [0, 2, 1, 1] + [IGNORED] * 3
    for batch, mixed in ((free, [True] * 4), (fixed, [True] * 3 + [False])):
        expected, share_B = mixed_loss(model, objective, torch.tensor(mixed))
        torch.testing.assert_close(objective(model, batch)[0], expected, **VALUES)
        assert mixing == (0.0, 0.0) or share_B[:3].min() < 1


LIMITS = BatchLimits(7, 9, 1)


def test_a_batch_may_be_empty(model):
    objective = ImageLabels(Classification(), PROCESSOR)
    batch = objective.collate([], LIMITS)
    assert batch.weight == 0 and objective(model.eval(), batch)[0].item() == 0


@pytest.mark.parametrize("limits", [None, LIMITS])
@pytest.mark.parametrize("weights", [None, (1.0, 2.0, 3.0)])
def test_columns_are_collated_as_single_images_are(limits, weights):
    labels, single = Classification(weights=weights), single_examples()
    objective = ImageLabels(labels, PROCESSOR)
    gathered = objective.gather(single)
    one, other = labels.collate(single, limits), objective.collate(gathered, limits)
    assert one.weight == other.weight == sum(map(objective.weight, single))
    torch.testing.assert_close(tensors_in(one), tensors_in(other), rtol=0, atol=0)
    assert [(row.key, [*target]) for row, target in gathered] == [
        (row.key, target) for row, target in single
    ]


def test_everything_a_step_reads_is_in_the_batch_or_the_model():
    """On a device without numbers, whatever is drawn; batches have one shape, full or not."""
    augmentation = Augmentation(2, 0.5, True, operations=2, erase=0.5)
    objective = ImageLabels(Classification(0.1), PROCESSOR, augmentation, Mixing(0.8, 1.0))
    batches = [objective.collate(some, LIMITS) for some in (examples(), first_of(2), [])]
    shapes = {tuple((one.shape, one.dtype) for one in tensors_in(batch)) for batch in batches}
    assert len(shapes) == 1
    objective.to("meta")
    with InPlace():
        loss, _ = objective(FACTS.build().to("meta").train(), batches[0].to("meta"))
        loss.backward()
    assert loss.is_meta


def test_images_may_have_several_labels(model):
    objective = ImageLabels(MultiLabel(3), PROCESSOR, Augmentation(flip=True))
    labelled = [(row, [1.0, 0.0, 1.0]) for row, _ in single_examples()]
    batch = objective.collate(ImageExamples.of(labelled))
    assert objective(model.train(), batch)[0].item() > 0


@pytest.mark.slow
def test_a_step_compiles_whole(model):
    objective = ImageLabels(
        Classification(), PROCESSOR, Augmentation(crop=1, operations=1), Mixing(0.8, 1.0)
    )
    batch = objective.collate(examples())
    model.train()
    compiled = torch.compile(objective.__call__, backend="eager", fullgraph=True)
    expected, _ = objective(model, batch)
    torch.testing.assert_close(compiled(model, batch)[0], expected)


@pytest.mark.slow
@pytest.mark.parametrize("hard", [True, False])
def test_a_step_with_a_teacher_and_two_heads_compiles_whole(hard):
    heads = {"pool": FirstTokens(2), "output_heads": (DistilledLabelHead(3),)}
    student = change(FACTS, prefix_tokens=2, **heads).build().train()
    logits = np.random.default_rng(1).normal(size=(5, 1, 3))
    pairs = zip(single_examples(), logits, strict=True)
    given = ImageExamples.of([with_teacher(example, one) for example, one in pairs])
    labels = LabelDistillation(Classification(), 3, hard=hard)
    objective = ImageLabels(labels, PROCESSOR, mixing=Mixing(0.8, 1.0))
    batch = objective.collate(given, LIMITS)
    compiled = torch.compile(objective.__call__, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(student, batch)[0], objective(student, batch)[0])


@pytest.mark.parametrize("mixing", [(0.0, 0.0), (0.8, 1.0)])
@pytest.mark.parametrize("weights", [None, (1.0, 2.0, 0.5)])
def test_a_teacher_is_mixed_like_the_labels(model, mixing, weights):
    """With all weight on a teacher that is as sure as the labels, the loss is theirs."""
    sure = 40 * np.eye(3, dtype=np.float32)
    given = [with_teacher((row, target), sure[target]) for row, target in single_examples()]
    labels = Classification(weights=weights)
    plain = ImageLabels(labels, PROCESSOR, Augmentation(flip=True), Mixing(*mixing))
    model.train()
    expected = plain(model, plain.collate(examples()))
    gathered = ImageExamples.of(given)
    for weight in (0.0, 1.0):
        taught = replace(plain, labels=LabelDistillation(labels, 3, 1.0, weight))
        batch = taught.collate(gathered)
        assert batch.weight == pytest.approx(sum(map(taught.weight, given)))
        torch.testing.assert_close(taught(model, batch), expected, rtol=1e-4, atol=1e-5)
        assert taught.collate(gathered, LIMITS).targets["teacher"].shape == (7, 3)


def test_a_batch_without_images_counts_for_nothing(model):
    for labels in (MultiLabel(3), LabelDistillation(Classification(), 3)):
        objective = ImageLabels(labels, PROCESSOR)
        batch = objective.collate([], LIMITS)
        assert batch.weight == 0 and objective(model.eval(), batch)[0].item() == 0


def test_images_of_several_sizes_are_no_batch():
    sizes = [PIXELS[0], PIXELS[1, :4]]
    rows = [ImageRow(lambda pixels=pixels: pixels) for pixels in sizes]
    with pytest.raises(BadInput, match="images of different sizes"):
        ImageExamples.of([(row, [0]) for row in rows])


@pytest.mark.parametrize("smoothing", [0.1, 0.5])
def test_targets_of_mixed_images_are_smoothed(model, smoothing):
    """(1 - ε) of the loss without smoothing, and ε of the mean over all labels."""
    tape, losses = Tape("heads.label.logits"), []
    model.train()
    for rate in (0.0, smoothing):
        objective = ImageLabels(Classification(rate), PROCESSOR, mixing=Mixing(0.8, 1.0))
        losses.append(objective(model, objective.collate(examples()), tape))
    (plain, plain_nll), (smoothed, nll) = losses
    logp_BV = tape.records["heads.label.logits"].log_softmax(-1)
    expected = (1 - smoothing) * plain - smoothing * logp_BV.mean(-1).sum()
    torch.testing.assert_close(smoothed, expected)
    torch.testing.assert_close(nll, plain_nll)
