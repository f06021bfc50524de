"""Distillation in pre-training: losses and gradients, the teacher, whole runs, what is refused."""

import re
import shutil
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from closeness import SCALARS, VALUES
from regard.core.batch import BatchLimits
from regard.core.errors import BadInput
from regard.models import start as starts
from regard.models.facts import change
from regard.models.folders import folder as folders
from regard.objectives.by_name import ObjectiveTables
from regard.objectives.distillation import Distillation, Teacher
from regard.objectives.masked_lm import MaskedLM
from regard.objectives.sum import Sum
from regard.text.tokenizers.encoder_tokenizer import train_encoder_tokenizer
from regard.training.loop import train
from regard.training.loop.events import DevEvent, ReportEvent
from regard.training.recipe import read
from regard.training.run import prepare
from regard.weights.files import read_tensors, weights_of
from small_documents import RECIPE, training_loss_of_dev, write_animals
from small_runs import ALONE, check_resume
from small_teacher import write_teacher


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Documents, and beside them a teacher."""
    folder = write_animals(tmp_path_factory.mktemp("documents"), documents=10)
    write_teacher(folder / "teacher")
    return folder


@pytest.fixture(scope="module")
def teacher(data):
    return folders.read(data / "teacher")


def summed(model, **settings):
    teacher = Teacher("teacher")
    teacher.use(model)
    return Sum(MaskedLM(loss_weight=2.0), Distillation(teacher, **settings))


def student(model, objective, **changes):
    torch.manual_seed(1)
    return change(objective.fit(model.facts), depth=2, **changes).build().eval()


def examples(objective, tokenizer, count=5):
    draw = np.random.default_rng(0)
    rows = [
        (tokenizer.row(draw.integers(5, len(tokenizer.words), n)), None)
        for n in draw.integers(8, 19, count).tolist()
    ]
    return objective.annotator(tokenizer)(rows, np.arange(count), (0, 0))


@pytest.mark.parametrize("all_tokens", [False, True])
@pytest.mark.parametrize("limits", [None, BatchLimits(128, 8, 20)], ids=["free", "fixed"])
def test_losses_and_gradients_are_those_of_plain_formulas(teacher, all_tokens, limits):
    objective = summed(teacher, temperature=3.0, loss_weight=5.0, all_tokens=all_tokens)
    model, given = student(teacher, objective), examples(objective, teacher.tokenizer)
    batch = objective.collate(given, limits)
    weights = np.sum([objective.weight(example) for example in given], axis=0)
    masked = sum(len(example.positions["mlm"]) for example in given)
    tokens = sum(len(example.row.tokens) for example in given)
    assert weights.tolist() == [masked, tokens if all_tokens else masked, tokens]
    losses, nlls = objective(model, batch)
    (losses / torch.tensor(weights)).sum().backward()
    ours = {name: one.grad.clone() for name, one in model.named_parameters()}
    model.zero_grad()
    plain = objective.collate(given).inputs
    whole, of_teacher = model(plain), teacher.module(plain)
    at = torch.from_numpy(
        np.concatenate(
            [
                np.asarray(example.positions["mlm"]) + start
                for example, start in zip(
                    given, np.cumsum([0, *(len(one.row.tokens) for one in given[:-1])]), strict=True
                )
            ]
        )
    )
    originals = torch.from_numpy(np.concatenate([one.targets["mlm"] for one in given]))
    chosen = slice(None) if all_tokens else at
    hard = F.cross_entropy(whole.by_head["mlm"][at], originals.long())
    soft = 9 * F.kl_div(
        F.log_softmax(whole.by_head["mlm"][chosen] / 3, dim=-1),
        F.softmax(of_teacher.by_head["mlm"][chosen].detach() / 3, dim=-1),
        reduction="batchmean",
    )
    cosine = F.cosine_embedding_loss(
        whole.encoded.states_TD, of_teacher.encoded.states_TD.detach(), torch.ones(tokens)
    )
    expected = torch.stack([2 * hard, 5 * soft, cosine])
    torch.testing.assert_close((losses / torch.tensor(weights)).float(), expected, **VALUES)
    assert nlls[1].item() == pytest.approx(losses[1].item() / 5, **SCALARS)
    expected.sum().backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(ours[name], parameter.grad, atol=1e-5, rtol=1e-4)


def test_a_student_that_equals_its_teacher_has_no_loss_but_that_of_masked_lm(teacher):
    objective = summed(teacher)
    model = objective.fit(teacher.facts).build().eval()
    model.load_state_dict(teacher.module.state_dict(), strict=False)
    losses, _ = objective(model, objective.collate(examples(objective, teacher.tokenizer)))
    assert losses[0] > 1 and losses[1:].tolist() == pytest.approx([0, 0], abs=1e-3)


def test_the_teacher_is_in_evaluation_without_gradients_and_no_part_of_the_student(teacher):
    objective = summed(teacher)
    batch = objective.collate(examples(objective, teacher.tokenizer))
    one, other = (objective.with_teachers(batch).targets["teacher_states"] for _ in range(2))
    assert torch.equal(one, other) and not one.requires_grad
    taught = objective.objectives[1].teacher.module
    assert not any(parameter.requires_grad for parameter in taught.parameters())


@pytest.mark.native("bf16")
def test_the_teacher_runs_in_the_precision_of_the_student(teacher):
    objective = summed(teacher)
    batch = objective.collate(examples(objective, teacher.tokenizer))
    with torch.autocast("cpu", torch.bfloat16):
        logits_NV = objective.with_teachers(batch).targets["teacher_logits"]
    assert logits_NV.dtype == torch.bfloat16


def test_the_counted_operations_are_those_of_student_and_teacher(teacher):
    lengths = [(12,), (7,)]
    objective = summed(teacher)
    facts = objective.fit(teacher.facts)
    alone = Sum(MaskedLM()).flops(facts, lengths)
    assert objective.flops(facts, lengths) == pytest.approx(alone * 4 / 3)
    everywhere = summed(teacher, all_tokens=True)
    assert everywhere.expected_positions(100) == {}
    assert everywhere.flops(facts, lengths) > objective.flops(facts, lengths)


def settings(*others):
    return (
        *("model.size=", "model.start=teacher", "model.layers=every second", "text=false"),
        *("model.change={dropout=0.0}", "objective.next-sentence=false"),
        *("objective.masked-lm.weight=2.0", "objective.distillation.teacher=teacher", *others),
    )


def prepared(data, out, *others, resume=False):
    recipe = read(data / "animals.toml", settings(*others))
    return prepare(recipe, out, ALONE, data=data, resume=resume)


def reports(run, resume=False):
    return [event for event in train(run.job, resume=resume) if isinstance(event, ReportEvent)]


def test_a_run_brings_the_student_nearer_to_its_teacher_and_keeps_only_the_student(data, tmp_path):
    run = prepared(data, tmp_path / "run", "train.steps=12")
    events = [*train(run.job)]
    first, *_, last = [event.verdict.figures for event in events if isinstance(event, DevEvent)]
    assert last["divergence"] < first["divergence"]
    assert last["state_distance"] < first["state_distance"] and "perplexity" in last
    run.finish(events[-1].progress)
    stored = folders.read(run.model_folder)
    assert stored.facts.trunk.stack.depth == 3 and stored.facts.head_names == ("mlm",)
    own = {*weights_of(run.job.model)}
    assert {
        *read_tensors(tmp_path / "run" / "checkpoints" / "step-00000012" / "model.safetensors")
    } == own
    assert {*weights_of(stored.module)} == own


@pytest.mark.parametrize("tokens", ["masked", "all"])
def test_the_judge_weighs_losses_as_training_does(data, tmp_path, tokens):
    run = prepared(data, tmp_path / "run", f"objective.distillation.tokens={tokens}")
    run.job.model.eval()
    loss = run.job.evaluate(run.job.model).figures["loss"]
    assert loss == pytest.approx(training_loss_of_dev(run), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("tokens", ["masked", "all"])
def test_resume_is_exact(data, tmp_path, tokens):
    other = f"objective.distillation.tokens={tokens}"
    check_resume(lambda out, resume: prepared(data, out, other, resume=resume), tmp_path, 6, 4)


@pytest.mark.slow
def test_a_resumed_run_says_that_its_teacher_is_another_one(data, tmp_path):
    shutil.copytree(data / "teacher", data / "changing")
    other = "objective.distillation.teacher=changing"
    run = prepared(data, tmp_path / "run", other, "train.steps=4")
    first, *_ = train(run.job)
    assert first.differences == ()
    again = prepared(data, tmp_path / "run", other, "train.steps=6", resume=True)
    assert next(train(again.job, resume=True)).differences == ()
    starts._read.cache_clear()
    write_teacher(data / "changing", seed=6)
    changed = prepared(data, tmp_path / "run", other, "train.steps=6", resume=True)
    (difference,) = next(train(changed.job, resume=True)).differences
    assert re.fullmatch(r"data was (.*), teacher (\w+), is \1, teacher (?!\2)\w+", difference)


def test_a_distilbert_that_lists_no_objectives_needs_a_teacher_and_has_the_papers_weights(tmp_path):
    path = tmp_path / "distilbert.toml"
    path.write_text(RECIPE.replace('"bert"', '"distilbert"'))
    others = ("model.size=base", "text=false")
    with pytest.raises(BadInput, match=r"objective.distillation.teacher is missing"):
        read(path, others)
    recipe = read(path, (*others, "objective.distillation.teacher=folder"))
    masked, soft, cosine = recipe.tables[ObjectiveTables].sum(0.0).members
    assert (masked.loss_weight, soft.loss_weight, cosine.loss_weight) == (2.0, 5.0, 1.0)
    assert masked.name == "masked-lm" and soft.temperature == 2.0 and not soft.all_tokens


def test_a_student_from_scratch_has_the_vocabulary_of_its_teacher(data, teacher, tmp_path):
    given = (
        *("model.paper=distilbert", "model.size=base", "text=false"),
        "model.change={depth=1, width=16, heads=2, inner=32, longest=32}",
        *("objective.next-sentence=false", "objective.masked-lm.weight=2.0"),
        *("objective.distillation.teacher=teacher", "train.steps=2", "train.evaluate_every=2"),
    )
    run = prepare(read(data / "animals.toml", given), tmp_path / "run", ALONE, data=data)
    assert run.tokenizer.words.fingerprint == teacher.tokenizer.words.fingerprint
    assert run.facts.trunk.embed.vocab == teacher.facts.trunk.embed.vocab
    (*_, ended) = train(run.job)
    run.finish(ended.progress)
    assert folders.read(run.model_folder).paper.name == "DistilBERT"


def test_a_teacher_may_have_an_id_of_the_hub(data, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(starts, "fetch", lambda name: asked.append(name) or data / "teacher")
    prepared(data, tmp_path / "run", "objective.distillation.teacher=org/teacher")
    assert {*asked} == {"org/teacher"}


@cache
def other_words():
    return train_encoder_tokenizer(["seal otter and other words"], "wordpiece", 60, longest=48)


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("others", "said"),
    [
        (["model.start=wide"], r"has states of size 16, but the student of size 32; cosine = 0"),
        (["objective.masked-lm=false"], "trains the masked-LM head: list masked-lm as well"),
        (
            ["objective.distillation.teacher=no/such/folder"],
            r"teacher: no/such/folder is no folder",
        ),
        (["objective.distillation.teacher=tagger"], "teacher: tagger has no masked-LM head"),
        (["objective.distillation.teacher=short"], "has 8 positions, but batches.longest is 32"),
        (
            ["objective.distillation.teacher=other"],
            "its vocabulary differs from that of model.start",
        ),
        (["objective.distillation.temperature=0"], "temperature"),
        (["objective.distillation.tokens=some"], "tokens: Input should be 'masked' or 'all'"),
        (["text.vocab=90"], "text cannot be used beside"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line_and_nothing_is_written(
    data, teacher, tmp_path, others, said
):
    write_teacher(data / "wide", width=32)
    write_teacher(data / "short", longest=8)
    facts = teacher.facts.with_heads()
    headless = replace(teacher, facts=facts, module=facts.build())
    folders.write(data / "tagger", headless)
    text = other_words()
    smaller = change(teacher.facts, vocab=len(text.words))
    folders.write(
        data / "other", replace(teacher, facts=smaller, module=smaller.build(), tokenizer=text)
    )
    with pytest.raises(BadInput, match=said) as refused:
        prepared(data, tmp_path / "run", *others)
    assert "\n" not in str(refused.value) and not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_student_of_another_width_learns_without_the_cosine(data, tmp_path):
    write_teacher(data / "wide", width=32)
    run = prepared(
        data,
        tmp_path / "run",
        "model.start=wide",
        "objective.distillation.cosine=0",
        "train.steps=2",
    )
    assert len(reports(run)) == 2
