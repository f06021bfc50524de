"""Labels learned from a teacher: loss and gradients, its predictions, and what is refused."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from closeness import VALUES
from regard.api import load
from regard.core.batch import IGNORED, BatchLimits, pack_images
from regard.core.errors import BadInput
from regard.models.facts import change
from regard.models.folders import folder as folders
from regard.models.label_heads import LabelHead, TokenLabelHead
from regard.models.papers import bert, deit
from regard.models.papers.deit import DistilledLabelHead
from regard.models.pools import FirstToken, FirstTokens
from regard.objectives.label_distillation import LabelDistillation, with_teacher, without_teacher
from regard.objectives.label_losses import Classification, TokenClassification
from regard.text.label_sets import SingleLabelSet
from regard.text.tokenizers.encoder_tokenizer import train_encoder_tokenizer
from regard.training.loop import train
from regard.training.recipe import read, task_of
from regard.training.run import prepare
from regard.weights.files import weights_of
from small import WORDS
from small_runs import ALONE, check_resume
from small_tuning import write_start, write_tuning

FACTS = change(bert.TINY, vocab=40, width=16, inner=32, longest=20, dropout=0.0)
KINDS = {
    "label": (Classification, LabelHead(3)),
    "token_label": (TokenClassification, TokenLabelHead(3)),
}


def examples(per_token, count=5):
    draw = np.random.default_rng(0)
    made = []
    for length in draw.integers(3, 12, count).tolist():
        places = length if per_token else 1
        targets = draw.integers(0, 3, places)
        targets[1::2] = IGNORED
        example = (draw.integers(5, 40, length), targets)
        made.append(with_teacher(example, draw.normal(size=(places, 3)).astype(np.float32)))
    return made


def built(head):
    torch.manual_seed(0)
    pool = FirstToken() if head.per_row else None
    return change(FACTS, pool=pool, output_heads=(head,)).build().eval()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weights", [None, (1.0, 2.0, 0.5)])
def test_loss_and_gradients_are_those_of_a_plain_formula(kind, weights):
    objective, head = KINDS[kind]
    taught = LabelDistillation(objective(weights=weights), 3, temperature=3.0, teacher_weight=0.7)
    model, given = built(head), examples(kind == "token_label")
    batch = taught.collate(given)
    assert batch.weight == pytest.approx(sum(map(taught.weight, given)))
    loss, nll = taught(model, batch)
    loss.backward()
    ours = {
        name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None
    }
    model.zero_grad()
    logits_NV = model(batch.inputs).by_head[kind]
    plain = [without_teacher(example) for example in given]
    targets_N = torch.from_numpy(np.concatenate([target for _, target in plain]))
    teacher_NV = torch.from_numpy(np.concatenate([target[:, 1:] for _, target in given]))
    real = targets_N != IGNORED
    logits_NV, targets_N, teacher_NV = logits_NV[real], targets_N[real], teacher_NV[real]
    of_class = torch.ones(3) if weights is None else torch.tensor(weights)
    hard = (F.cross_entropy(logits_NV, targets_N, reduction="none") * of_class[targets_N]).sum()
    divergence_NV = F.kl_div(
        F.log_softmax(logits_NV / 3, dim=-1), F.softmax(teacher_NV / 3, dim=-1), reduction="none"
    )
    soft = 9 * (divergence_NV.sum(-1) * of_class[targets_N]).sum()
    expected = 0.3 * hard + 0.7 * soft
    expected.backward()
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(nll, hard.detach())
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(ours[name], parameter.grad, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_hard_distillation_learns_the_most_probable_class_of_the_teacher(kind):
    objective, head = KINDS[kind]
    taught = LabelDistillation(objective(0.1), 3, teacher_weight=0.7, hard=True)
    model, given = built(head), examples(kind == "token_label")
    loss, nll = taught(model, batch := taught.collate(given))
    logits_NV, targets_N = model(batch.inputs).by_head[kind], batch.targets[kind]
    real = targets_N != IGNORED
    chosen_N = batch.targets["teacher"].argmax(-1)[real]
    labels = F.cross_entropy(logits_NV[real], targets_N[real], label_smoothing=0.1, reduction="sum")
    expected = F.cross_entropy(logits_NV[real], chosen_N, reduction="sum")
    torch.testing.assert_close(loss, 0.3 * labels + 0.7 * expected)
    unsmoothed = F.cross_entropy(logits_NV[real], targets_N[real], reduction="sum")
    torch.testing.assert_close(nll, unsmoothed.detach())


@pytest.mark.parametrize("hard", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_mixed_targets_have_the_weights_of_their_own_class(kind, hard):
    """Mixup: the second loss of an example is that against the targets of another."""
    objective, head = KINDS[kind]
    of_class = (1.0, 3.0, 0.2)
    temperature = {} if hard else {"temperature": 2.0}
    taught = LabelDistillation(
        objective(weights=of_class), 3, teacher_weight=0.7, hard=hard, **temperature
    )
    model, given = built(head), examples(kind == "token_label", 12)
    batch, places = taught.collate(given), 2
    outputs, targets_N = model(batch.inputs), batch.targets[kind].tolist()
    assert len({*targets_N} - {IGNORED}) == 3
    shares_N = torch.linspace(0.1, 0.9, len(targets_N))
    expected = 0.0
    for number, logits_V in enumerate(outputs.by_head[kind]):
        other = (number + places) % len(targets_N)
        if (label := targets_N[other]) == IGNORED:
            continue
        teacher_V = batch.targets["teacher"][other]
        of_label = F.cross_entropy(logits_V, torch.tensor(label))
        if hard:
            of_teacher = F.cross_entropy(logits_V, teacher_V.argmax())
        else:
            given_V, wanted_V = (logits_V / 2).log_softmax(-1), (teacher_V / 2).softmax(-1)
            of_teacher = 4 * (wanted_V * (wanted_V.log() - given_V)).sum()
        weight = of_class[label] * shares_N[number]
        expected += weight * (0.3 * of_label + 0.7 * of_teacher)
    loss, _ = taught.loss_by_shares(outputs, batch, shares_N, places)
    torch.testing.assert_close(loss, expected)


IMAGES = change(deit.TINY, width=8, depth=1, heads=2, inner=8, patch_size=4, image_size=8)


def distilled_gradients(teacher_weight, *, hard):
    """The gradients of both heads of a DeiT, and those of a plain formula."""
    torch.manual_seed(0)
    head = DistilledLabelHead(3)
    model = change(IMAGES, pool=FirstTokens(2), output_heads=(head,), init_std=0.5).build()
    images = torch.randn(4, 3, 8, 8)
    targets_N, teacher_NV = torch.tensor([0, 2, 1, 1]), torch.randn(4, 3)
    objective = LabelDistillation(
        Classification(), 3, temperature=2.0, teacher_weight=teacher_weight, hard=hard
    )
    rows = [
        with_teacher((None, [n]), one[None].numpy())
        for n, one in zip(targets_N, teacher_NV, strict=True)
    ]
    batch = objective.with_targets(pack_images(images), [target for _, target in rows])
    outputs = model(batch.inputs)
    of_class, of_token = model.heads["label"].out
    first_BD, second_BD = model(batch.inputs).pooled_BD.chunk(2, -1)
    mean = (of_class(first_BD) + of_token(second_BD)) / 2
    torch.testing.assert_close(outputs.by_head["label"], mean)
    objective.loss(outputs, batch)[0].backward()
    found = {name: one.grad for name, one in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = None
    chosen_N = teacher_NV.argmax(-1)
    loss = (1 - teacher_weight) * F.cross_entropy(of_class(first_BD), targets_N, reduction="sum")
    if hard:
        taught = F.cross_entropy(of_token(second_BD), chosen_N, reduction="sum")
    else:
        logp_NV = F.log_softmax(of_token(second_BD) / 2, -1)
        taught = 4 * F.kl_div(logp_NV, F.softmax(teacher_NV / 2, -1), reduction="sum")
    (loss + teacher_weight * taught).backward()
    for name, one in model.named_parameters():
        torch.testing.assert_close(found[name], one.grad, rtol=1e-4, atol=1e-5)
    return [found[f"heads.label.out.{number}.weight"] for number in (0, 1)]


@pytest.mark.parametrize("hard", [True, False])
def test_the_head_of_a_distillation_token_learns_from_the_teacher_alone(hard):
    both, labels, teacher = (distilled_gradients(weight, hard=hard) for weight in (0.5, 0.0, 1.0))
    assert not labels[1].any() and not teacher[0].any()
    torch.testing.assert_close(both[0], labels[0] / 2)
    torch.testing.assert_close(both[1], teacher[1] / 2)
    assert both[0].any() and both[1].any()


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_fixed_shape_has_the_same_loss(kind):
    objective, head = KINDS[kind]
    taught = LabelDistillation(objective(), 3)
    model, given = built(head), examples(kind == "token_label")
    fixed = taught.collate(given, BatchLimits(64, 8, 16))
    shapes = {name: one.shape for name, one in fixed.targets.items()}
    assert shapes == {
        name: one.shape
        for name, one in taught.collate(given[:2], BatchLimits(64, 8, 16)).targets.items()
    }
    for one, other in zip(taught(model, fixed), taught(model, taught.collate(given)), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("kind", KINDS)
def test_a_student_that_equals_its_teacher_has_no_divergence(kind):
    objective, head = KINDS[kind]
    model, given = built(head), examples(kind == "token_label")
    taught = LabelDistillation(objective(), 3, temperature=2.0, teacher_weight=1.0)
    batch = taught.collate(given)
    logits_NV = model(batch.inputs).by_head[kind].detach()
    loss, _ = taught(model, replace(batch, targets={**batch.targets, "teacher": logits_NV}))
    assert loss.item() == pytest.approx(0, abs=1e-5)
    loss.backward()
    assert max(one.grad.abs().max() for one in model.parameters() if one.grad is not None) < 1e-5


@pytest.fixture(scope="module", params=["one", "tags"])
def corpus(request, tmp_path_factory):
    """Small data, and a random teacher with another tokenizer than that of students."""
    folder = tmp_path_factory.mktemp(request.param)
    write_tuning(folder, request.param)
    write_start(folder / "start")
    text = train_encoder_tokenizer([" ".join(WORDS)], "wordpiece", 60, longest=48)
    names = ("owl", "no") if request.param == "one" else ("O", "I-BIRD")
    head = (LabelHead if request.param == "one" else TokenLabelHead)(2)
    sizes = {"vocab": len(text.words), "width": 16, "inner": 32, "longest": 48, "init_std": 0.5}
    pool = FirstToken() if head.per_row else None
    facts = change(bert.TINY, pool=pool, output_heads=(head,), **sizes)
    torch.manual_seed(5)
    labels = SingleLabelSet(names)
    loaded = folders.LoadedModel(bert.PAPER, facts, facts.build().eval(), text, labels)
    folders.write(folder / "teacher", loaded)
    return folder


def prepared(corpus, out, *settings, resume=False):
    begin = ("model.start=start", "model.size=", "text=false", "model.change={dropout=0.0}")
    if corpus.name.startswith("tags"):
        begin = (*begin, "labels.scheme=")
    recipe = read(corpus / "owls.toml", [*begin, "distillation.teacher=teacher", *settings])
    return prepare(recipe, out, ALONE, data=corpus, resume=resume)


def divergence(run, corpus):
    """How far the predictions of a trained student are from those of the teacher."""
    task = task_of(run.job.recipe)
    dev = task.read(run.job.recipe.data.dev, corpus)
    teacher, student = (
        load(corpus / "teacher", "cpu").predictor,
        load(run.model_folder, "cpu").predictor,
    )
    inputs = [getattr(one, "words", None) or one.texts[0] for one in dev]
    order = student.labels.order_in(teacher.labels)
    logits = [
        torch.cat([one.view(-1, 2) for one in predictor.logits(inputs)])
        for predictor in (student, teacher)
    ]
    student_NV, teacher_NV = logits[0], logits[1][:, order]
    return F.kl_div(
        student_NV.log_softmax(-1), teacher_NV.softmax(-1), reduction="batchmean"
    ).item()


@pytest.mark.slow
def test_a_student_learns_the_predictions_of_its_teacher(corpus, tmp_path):
    far = []
    for weight in (0.0, 1.0):
        settings = (f"distillation.weight={weight}", "train.steps=24", "train.metric=loss")
        every = ("train.evaluate_every=24", "train.checkpoint_every=24")
        run = prepared(corpus, tmp_path / str(weight), *settings, *every)
        *_, ended = train(run.job)
        run.finish(ended.progress)
        assert "teacher" not in {name.split(".")[0] for name in weights_of(run.job.model)}
        far.append(divergence(run, corpus))
    assert far[1] < 0.4 * far[0]


def test_the_logits_are_those_of_the_teacher_in_the_order_of_the_labels(corpus, tmp_path):
    run = prepared(corpus, tmp_path / "run")
    data = run.job.evaluate.args[1].dataset
    examples = run.job.evaluate.args[0].read(run.job.recipe.data.train, corpus)
    predictor = load(corpus / "teacher", "cpu").predictor
    order = run.labels.order_in(predictor.labels)
    assert order == [1, 0]
    for example, (_, target) in zip(examples[:8], data.train, strict=False):
        inputs = getattr(example, "words", None) or example.texts[0]
        (logits,) = predictor.logits([inputs])
        real = target[:, 0] != IGNORED
        expected = logits.view(-1, 2)[:, order].float().numpy()
        np.testing.assert_allclose(target[real, 1:], expected, **VALUES)
        assert real.any() and not target[~real, 1:].any()


@pytest.mark.slow
def test_resume_is_exact_and_reads_the_teachers_predictions_again(corpus, tmp_path):
    check_resume(partial(prepared, corpus), tmp_path, 8, 6)
    kept = tmp_path / "b" / "data" / "teacher.safetensors"
    kept.write_bytes(kept.read_bytes()[:50])
    with pytest.raises(BadInput, match=r"teacher.safetensors: cannot be read"):
        prepared(corpus, tmp_path / "b", resume=True)


def test_what_cannot_teach_is_refused_in_one_line(corpus, tmp_path):
    said = {
        "distillation.teacher=no/such/folder": "distillation.teacher: no/such/folder is no folder",
        "distillation.teacher=start": "distillation.teacher: start was not fine-tuned for task",
        "distillation.weight=2": "distillation.weight",
        "distillation.temperature=0": "distillation.temperature",
        "labels.kind=number": "distillation.teacher cannot be used",
    }
    for setting, message in said.items():
        with pytest.raises(BadInput, match=message) as refused:
            prepared(corpus, tmp_path / "run", setting)
        assert "\n" not in str(refused.value) and not (tmp_path / "run").exists()
    with pytest.raises(BadInput, match=r'cannot be used where distillation\.kind is "hard"'):
        prepared(corpus, tmp_path / "run", "distillation.kind=hard", "distillation.temperature=3")
    stored = folders.read(corpus / "teacher")
    others = replace(stored.labels, names=("this", "that"))
    folders.write(tmp_path / "others", replace(stored, labels=others))
    with pytest.raises(BadInput, match=r"teacher: its labels are this, that, not"):
        prepared(corpus, tmp_path / "run", f"distillation.teacher={tmp_path / 'others'}")
