"""The loop: it learns, it goes on exactly, its loss does not depend on how a step is cut."""

import json
from dataclasses import replace

import pytest
import torch

from regard.core.errors import BadInput
from regard.inference.translator import EMPTY, Translation
from regard.models.folders.folder import read as read_folder
from regard.tasks import translate as translation
from regard.training.distributed import World
from regard.training.loop import train
from regard.training.loop.events import (
    DevEvent,
    DevResult,
    EndEvent,
    ReportEvent,
    SaveEvent,
    StartEvent,
)
from regard.training.loop.run_store import RunStore
from regard.training.loop.trainer import Diverged, RunningTotals, Trainer
from regard.training.metrics_log import MetricsLog
from regard.training.parallel import Parallel
from regard.training.precision import Precision
from regard.training.recipe import read
from regard.training.run import prepare
from regard.training.run_events import run_events
from regard.weights.files import weights_of
from small import write_corpus

ALONE = World(0, 1, torch.device("cpu"))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder)
    return folder


def prepared(corpus, out, *settings, resume=False, **limits):
    recipe = read(corpus / "small.toml", settings)
    return prepare(recipe, out, ALONE, data=corpus, resume=resume, **limits)


def losses(run, resume=False):
    return [event.loss for event in train(run.job, resume=resume) if isinstance(event, ReportEvent)]


def test_it_learns_and_leaves_a_model(corpus, tmp_path):
    every = [f"train.{event}_every=20" for event in ("report", "evaluate", "checkpoint")]
    run = prepared(corpus, tmp_path / "run", "train.steps=60", *every)
    events = list(train(run.job))
    assert isinstance(events[0], StartEvent)
    assert isinstance(events[-1], EndEvent) and events[-1].reason == "steps"
    reports = [event for event in events if isinstance(event, ReportEvent)]
    assert reports[-1].loss < reports[0].loss - 0.5
    assert any(isinstance(event, SaveEvent) for event in events)
    run.finish(events[-1].progress)
    stored = read_folder(tmp_path / "run" / "model")
    assert stored.notes["cost"]["tokens"] == events[-1].progress.tokens > 0
    assert stored.notes["cost"]["training_flops"] > 0


def test_tokens_of_reports_are_those_of_the_examples(corpus, tmp_path):
    """With the special ones, and without what a batch is padded to."""
    run = prepared(corpus, tmp_path, "train.steps=4", "batches.pad_to_multiple=64")
    before = 0
    events = (event for event in train(run.job) if isinstance(event, ReportEvent))
    for event, (_, batch) in zip(events, run.job.sampler.batches(), strict=False):
        tokens = sum(len(source) + len(target) + 2 for source, target in batch.read())
        assert event.progress.tokens - before == tokens
        assert event.fill == tokens / (2 * 256)
        before = event.progress.tokens


@pytest.mark.slow
def test_accumulation_keeps_the_loss_per_token(corpus, tmp_path):
    """Two batches a step give the gradient of both together, not the mean of two means."""
    common = ("batches.tokens=100000", "model.change.dropout=0.0")
    whole = prepared(corpus, tmp_path / "a", *common, "batches.rows=120")
    parts = prepared(corpus, tmp_path / "b", *common, "batches.rows=60", "batches.accumulate=2")
    assert losses(whole)[:4] == pytest.approx(losses(parts)[:4], abs=2e-5)


@pytest.mark.parametrize("extra", [(), ("train.ema=0.9",), ("text.dropout=0.1",)])
def test_resume_is_exact(corpus, tmp_path, extra):
    straight = prepared(corpus, tmp_path / "a", *extra)
    all_losses = losses(straight)
    first = prepared(corpus, tmp_path / "b", *extra)
    seen = []
    for event in train(first.job):  # as if the process died between two checkpoints
        if isinstance(event, ReportEvent):
            seen.append(event.loss)
        if len(seen) == 8:
            break
    second = prepared(corpus, tmp_path / "b", *extra, resume=True)
    rest = losses(second, resume=True)
    assert seen[:6] + rest == all_losses
    one, other = weights_of(straight.job.model), weights_of(second.job.model)
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_the_first_error_ends_a_run(corpus, tmp_path, monkeypatch):
    """Not that of the checkpoint that is being written."""

    def fail(which):
        raise BadInput(f"the {which} error")

    monkeypatch.setattr(Trainer, "step", lambda self: fail("first"))
    monkeypatch.setattr(RunStore, "wait", lambda self: fail("second"))
    with pytest.raises(BadInput, match="the first error"):
        losses(prepared(corpus, tmp_path / "run"))


def test_a_run_that_resumes_with_another_kind_says_so(corpus, tmp_path, monkeypatch):
    losses(prepared(corpus, tmp_path / "run", "train.steps=3"))
    monkeypatch.setattr(Parallel, "kind", "fsdp")
    started = next(iter(train(prepared(corpus, tmp_path / "run", resume=True).job, resume=True)))
    assert started.differences == ("kind was ddp, is fsdp",)


def test_the_journal_forgets_what_is_done_again(corpus, tmp_path):
    run = prepared(corpus, tmp_path / "run")
    journal = MetricsLog(run.out)
    for event in train(run.job):
        journal.write(event)
    path = run.out / "metrics.jsonl"
    path.write_text(path.read_text() + '{"event": "train", "st')  # cut off by a kill
    MetricsLog(run.out, after_step=6)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert max(line["step"] for line in lines) == 6
    assert [line["step"] for line in lines if line["event"] == "train"] == [1, 2, 3, 4, 5, 6]


def test_patience(corpus, tmp_path):
    run = prepared(
        corpus,
        tmp_path / "run",
        "train.steps=100",
        "train.evaluate_every=1",
        "train.patience=3",
        "optimiser.rate=1e-12",
    )
    run.job.evaluate = _scripted([1.0, 2.0, 1.5, 1.4, 2.0, 9.0])
    events = list(train(run.job))
    assert events[-1].reason == "patience"
    assert events[-1].progress.step == 5
    assert events[-1].progress.best_step == 2
    assert 2 in run.job.checkpoints.steps()  # the best is kept
    run.finish(events[-1].progress)
    kept = read_folder(run.model_folder)
    best = run.job.checkpoints.load(2)[1]["model"]
    assert all(torch.equal(weights_of(kept.module)[name], best[name]) for name in best)


def _scripted(values):
    left = iter(values)

    def judge(model):
        value = next(left)
        return DevResult(value, {"loss": -value})

    return judge


def test_averaging_keeps_the_mean_of_the_last(corpus, tmp_path):
    run = prepared(corpus, tmp_path / "run", "train.average=3")
    *_, ended = train(run.job)
    said = run.finish(ended.progress)
    assert said == "mean of steps 6, 9, 12"
    last = [run.job.checkpoints.load(step)[1]["model"] for step in (6, 9, 12)]
    kept = weights_of(read_folder(run.model_folder).module)
    for name, tensor in kept.items():
        mean = sum(one[name].double() for one in last) / 3
        torch.testing.assert_close(tensor.double(), mean, atol=1e-7, rtol=0)


def test_the_moving_average_is_what_is_judged_and_kept(corpus, tmp_path):
    """A second run without it, of the same seed, has the weights that are averaged."""
    name, every = "source.embed.token.weight", "train.checkpoint_every=1"
    run = prepared(corpus, tmp_path / "run", "train.ema=0.5", "train.steps=6", every)
    judge, judged = run.job.evaluate, []

    def judging(model):
        judged.append(weights_of(model)[name].clone())
        return judge(model)

    run.job.evaluate = judging
    weights, averages = {}, {}
    for event in train(run.job):
        if isinstance(event, SaveEvent):
            _, tensors = run.job.checkpoints.load(event.progress.step)
            weights[event.progress.step] = tensors["model"][name]
            averages[event.progress.step] = tensors["average"][name]
    plain = prepared(corpus, tmp_path / "plain", "train.steps=6")
    list(train(plain.job))
    _, tensors = plain.job.checkpoints.load(6)
    assert torch.equal(tensors["model"][name], weights[6])  # judging does not touch the weights
    assert torch.equal(averages[0], weights[0])
    for step in range(1, 7):
        decay = min(0.5, (1 + step) / (10 + step))
        wanted = decay * averages[step - 1] + (1 - decay) * weights[step]
        torch.testing.assert_close(averages[step], wanted)
    assert len(judged) == 1 and torch.equal(judged[0], averages[6])
    assert not torch.equal(judged[0], weights[6])
    assert run.finish(event.progress) == "moving average at step 6"
    stored = read_folder(tmp_path / "run" / "model")
    assert torch.equal(weights_of(stored.module)[name], averages[6])


def test_a_loss_that_is_no_number_stops_with_the_step(corpus, tmp_path):
    run = prepared(corpus, tmp_path / "run", "train.report_every=4")
    objective, calls = run.job.objective, []

    class Spoilt(type(objective)):
        def __call__(self, model, batch, **more):
            calls.append(1)
            loss, nll = super().__call__(model, batch, **more)
            return (loss * float("nan"), nll) if len(calls) == 5 else (loss, nll)

    run.job.objective = Spoilt(objective.bos, objective.eos)
    with pytest.raises(BadInput, match=r"not a number at step 5;.*optimiser\.rate"):
        list(train(run.job))
    assert run.job.checkpoints.steps()[-1] == 3
    assert all(t.isfinite().all() for t in run.job.checkpoints.load(3)[1]["model"].values())


@pytest.mark.parametrize("report_every", [1, 5, 50])
def test_an_exploding_loss_ends_the_run_and_keeps_the_best_model(corpus, tmp_path, report_every):
    """Also if the first report comes long after the explosion."""
    run = prepared(corpus, tmp_path / "run", f"train.report_every={report_every}")
    objective, calls = run.job.objective, []

    class Exploding(type(objective)):
        def __call__(self, model, batch, **more):
            calls.append(1)
            loss, nll = super().__call__(model, batch, **more)
            return (loss * 1e6, nll) if len(calls) >= 8 else (loss, nll)

    run.job.objective = Exploding(objective.bos, objective.eos)
    with pytest.raises(Diverged, match=r"training diverges.*optimiser\.rate.*model \(step 6\)"):
        list(run_events(run))
    assert run.job.checkpoints.steps()[-1] == 6
    assert read_folder(run.model_folder).notes["weights"] == "step 6"


@pytest.mark.parametrize("resumed", [False, True])
def test_a_loss_is_compared_with_that_of_the_first_step(corpus, tmp_path, resumed):
    run = prepared(corpus, tmp_path / "run", "train.report_every=5", "train.steps=6")
    trainer = Trainer(run.job)
    trainer.start(resume=False)
    trainer.step()
    first, _ = trainer.totals.means(run.job.world)
    trainer.save()
    if resumed:
        trainer = Trainer(run.job)
        trainer.start(resume=True)
    trainer.step()
    assert trainer.progress.first_loss == first
    assert not trainer._exploded(first) and trainer._exploded(51 * first)


def test_a_nonsensical_result_is_never_the_best(corpus, tmp_path):
    job = prepared(corpus, tmp_path / "run").job
    results = iter([DevResult(5.0, {"loss": 1e9}), DevResult(1.0, {"loss": 1.0})])
    job.evaluate = lambda model: next(results)
    dev = [event for event in train(job) if isinstance(event, DevEvent)]
    assert [event.best for event in dev] == [False, True]
    assert "(best)" not in dev[0].lines(12)[0]


def test_equal_results_are_told_apart_by_the_loss(corpus, tmp_path):
    changes = ("train.steps=100", "train.evaluate_every=1", "train.patience=4")
    run = prepared(corpus, tmp_path / "run", *changes)
    losses = iter([0.5, 0.6, 0.4, 0.4, 0.3])
    run.job.evaluate = lambda model: DevResult(1.0, {"accuracy": 1.0, "loss": next(losses)})
    events = list(train(run.job))
    dev = [event.best for event in events if isinstance(event, DevEvent)]
    assert dev == [True, False, True, False, True]
    progress = events[-1].progress
    assert (progress.best, progress.best_step, progress.best_loss) == (1.0, 5, 0.3)
    assert (progress.stale, events[-1].reason) == (4, "patience")  # the metric did not improve


def test_a_time_budget_ends_with_a_model(corpus, tmp_path):
    run = prepared(corpus, tmp_path / "run", "train.steps=100000", budget_seconds=0.5)
    *_, ended = train(run.job)
    assert ended.reason == "time"
    assert run.job.checkpoints.steps()[-1] == ended.progress.step


def test_judging_by_bleu(corpus, tmp_path):
    run = prepared(corpus, tmp_path / "run", "train.metric=bleu", "train.steps=6")
    verdicts = [event.verdict for event in train(run.job) if isinstance(event, DevEvent)]
    assert 0 <= verdicts[0].figures["bleu"] <= 100
    assert verdicts[0].value == verdicts[0].figures["bleu"]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_bleu_judges_in_the_precision_of_the_run(corpus, tmp_path, monkeypatch, precision, device):
    recipe = read(corpus / "small.toml", ["train.metric=bleu"])
    job = prepare(recipe, tmp_path / "run", World(0, 1, torch.device(device)), data=corpus).job
    seen = []

    def translate(self, texts, search):
        half = torch.is_autocast_enabled(device)
        seen.append(torch.get_autocast_dtype(device) if half else torch.float32)
        return [[Translation(text, 0.0, EMPTY, "eos")] for text in texts]

    monkeypatch.setattr("regard.tasks.pair_task.mean_nll", lambda *given: 1.0)
    monkeypatch.setattr(translation.Translator, "translate", translate)
    trainer = Trainer(job)
    trainer.trainable.precision = Precision(precision, "as asked")
    trainer.totals = RunningTotals.zeros(job.world.device)
    trainer.evaluate()
    assert seen == [{"fp32": torch.float32, "bf16": torch.bfloat16}[precision]]


def test_a_folder_that_holds_a_run_is_not_overwritten(corpus, tmp_path):
    run = prepared(corpus, tmp_path / "run")
    list(train(run.job))
    with pytest.raises(BadInput, match="already has a run"):
        prepared(corpus, tmp_path / "run")
    with pytest.raises(BadInput, match=r"differs in: optimiser\.rate"):
        prepared(corpus, tmp_path / "run", "optimiser.rate=0.5", resume=True)
    longer = prepared(corpus, tmp_path / "run", "train.steps=15", resume=True)
    *_, ended = train(longer.job, resume=True)
    assert ended.progress.step == 15


def test_a_run_that_is_done_does_nothing_more(corpus, tmp_path):
    run = prepared(corpus, tmp_path / "run")
    list(train(run.job))
    again = prepared(corpus, tmp_path / "run", resume=True)
    started, ended = train(again.job, resume=True)
    assert ended.reason == "steps"
    assert ended.progress == started.progress
    assert again.job.checkpoints.steps()[-1] == 12


def test_settings_that_differ_are_reported(corpus, tmp_path):
    run = prepared(corpus, tmp_path / "run")
    list(train(run.job))
    progress, tensors = run.job.checkpoints.load(12)
    before = {**progress.settings, "torch": "1.0", "threads": 64}
    run.job.checkpoints.save(replace(progress, settings=before), tensors)
    again = prepared(corpus, tmp_path / "run", "train.steps=14", resume=True)
    started = next(iter(train(again.job, resume=True)))
    assert any("torch was 1.0" in one for one in started.differences)
    assert any("threads was 64" in one for one in started.differences)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["model.change.position=learned", "model.change.source.longest=31"], "source side has 31"),
        (["model.change.position=learned", "model.change.target.longest=31"], "target side has 31"),
        (["text.joint=false", "model.change.tie=all"], "tie must be 'target' or 'none'"),
        (["model.change.vocab=9"], "follows from text.vocab"),
        (["model.change.heads=0"], "^model.change.heads: heads must be at least 1"),
        (["model.change.heads=two"], "^model.change.heads: heads of Stack must be int"),
        (["model.change.activation=swush"], "^model.change.activation: no activation"),
        (["model.change.attention_dropout=1.5"], "attention_dropout must be at least 0"),
        (["model.change.cross=false"], "cross must be true in the target stack"),
        (
            ["batches.longest=300"],
            r"^batches\.longest: a row of 300 tokens does not fit into a batch of \d+ \(batches",
        ),
        (["model.size=huge"], "no size 'huge'"),
        (["model.paper=xlm"], "no paper"),
        (["model.change.heads=3"], "is not divisible by 3 heads"),
        (["model.change.hedas=3"], "^model.change.hedas: .* did you mean 'heads'"),
        (["batches.longest=1"], "at most 1 tokens"),
    ],
)
def test_what_cannot_be_built_is_reported(corpus, tmp_path, settings, said):
    with pytest.raises(BadInput, match=said):
        list(train(prepared(corpus, tmp_path / "run", *settings).job))
    if settings != ["batches.longest=1"]:  # known only when the data has been read
        assert not (tmp_path / "run").exists()


def test_separate_vocabularies_with_the_target_tied(corpus, tmp_path):
    run = prepared(corpus, tmp_path / "run", "text.joint=false")
    assert losses(run)


def test_only_regular_checkpoints_are_averaged(corpus, tmp_path):
    """Neither a new best nor a stop between two of them changes what the run leaves behind."""
    changes = ("train.average=3", "train.evaluate_every=1", "train.patience=0")
    run = prepared(corpus, tmp_path / "run", *changes)
    *_, ended = train(run.job)
    assert run.finish(ended.progress) == "mean of steps 6, 9, 12"


def test_a_foreign_folder_is_left_alone(corpus, tmp_path):
    out = tmp_path / "mine"
    (out / "model").mkdir(parents=True)
    (out / "model" / "config.json").write_text("precious")
    with pytest.raises(BadInput, match="has files that are not of a run"):
        prepared(corpus, out)
    assert (out / "model" / "config.json").read_text() == "precious"
    assert [path.name for path in out.iterdir()] == ["model"]


def test_resuming_before_the_first_word_begins_but_never_in_a_foreign_folder(corpus, tmp_path):
    run = prepared(corpus, tmp_path / "nothing yet", resume=True)
    assert next(iter(train(run.job, resume=True))).progress.step == 0
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("precious")
    with pytest.raises(BadInput, match="has files that are not of a run"):
        prepared(corpus, tmp_path / "mine", resume=True)


def test_a_run_that_failed_before_its_first_step_can_be_started_again(corpus, tmp_path):
    with pytest.raises(BadInput, match="at most 1 tokens"):
        list(train(prepared(corpus, tmp_path / "run", "batches.longest=1").job))
    assert losses(prepared(corpus, tmp_path / "run"))


def test_a_resume_may_change_how_it_is_shown(corpus, tmp_path):
    list(train(prepared(corpus, tmp_path / "run").job))
    again = prepared(corpus, tmp_path / "run", "train.report_every=2", "decode.beam=1", resume=True)
    assert isinstance(list(train(again.job, resume=True))[-1], EndEvent)


def test_data_that_changed_is_reported(corpus, tmp_path):
    list(train(prepared(corpus, tmp_path / "run").job))
    other = tmp_path / "other"
    other.mkdir()
    write_corpus(other, train=60)
    again = prepare(
        read(corpus / "small.toml", ["train.steps=14"]),
        tmp_path / "run",
        ALONE,
        data=other,
        resume=True,
    )
    started = next(iter(train(again.job, resume=True)))
    assert any(one.startswith("data was 120 pairs") for one in started.differences)


@pytest.mark.parametrize("name", ["model", "optimiser"])
def test_a_checkpoint_that_lacks_a_file_is_named(corpus, tmp_path, name):
    run = prepared(corpus, tmp_path / "run")
    list(train(run.job))
    (run.job.checkpoints.place(12) / f"{name}.safetensors").unlink()
    again = prepared(corpus, tmp_path / "run", "train.steps=14", resume=True)
    with pytest.raises(BadInput, match=f"{name}.safetensors is missing"):
        list(train(again.job, resume=True))


def test_the_test_set_is_looked_at_before_training(corpus, tmp_path):
    with pytest.raises(BadInput, match=r"nowhere\.src: cannot be read"):
        prepared(corpus, tmp_path / "run", 'data.test.source="nowhere.src"')
    assert not (tmp_path / "run").exists()


def test_a_run_that_goes_on_elsewhere_names_the_precision_it_would_have_there(
    corpus, tmp_path, monkeypatch
):
    monkeypatch.setattr("regard.training.precision.has_bf16_units", lambda device: False)
    list(train(prepared(corpus, tmp_path, "train.precision=auto", "train.steps=2").job))
    monkeypatch.setattr("regard.training.precision.has_bf16_units", lambda device: True)
    monkeypatch.setattr("regard.training.precision.has_bf16", lambda device: True)
    asked = ("train.precision=auto", "train.steps=4")
    start, *_ = train(prepared(corpus, tmp_path, *asked, resume=True).job, resume=True)
    assert start.lines()[0].startswith("precision fp32 (as before; here auto is bf16: the CPU has")


@pytest.mark.parametrize(("before", "now"), [("auto", "fp32"), ("fp32", "auto")])
def test_auto_is_the_precision_of_the_run_when_it_is_resumed(
    corpus, tmp_path, monkeypatch, before, now
):
    monkeypatch.setattr("regard.training.precision.has_bf16_units", lambda device: False)
    monkeypatch.setattr("regard.training.precision.has_bf16", lambda device: True)
    list(train(prepared(corpus, tmp_path, f"train.precision={before}", "train.steps=2").job))
    prepared(corpus, tmp_path, f"train.precision={now}", resume=True).lock.release()
    with pytest.raises(BadInput, match=r"another recipe \(differs in: train\.precision\)"):
        prepared(corpus, tmp_path, "train.precision=bf16", resume=True)


def test_a_run_in_bf16_does_not_go_on_where_there_is_none(corpus, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("regard.training.precision.has_bf16_units", lambda device: True)
        run = prepared(corpus, tmp_path, "train.precision=auto")
        events = train(run.job)
        next(event for event in events if isinstance(event, SaveEvent))
    monkeypatch.setenv("REGARD_HIDE", "bf16")
    run = prepared(corpus, tmp_path, "train.precision=auto", resume=True)
    with pytest.raises(
        BadInput, match=r"bf16 \(as before\): the CPU has no .*; resume on a machine"
    ):
        next(train(run.job, resume=True))
    with pytest.raises(BadInput, match=r"bf16 \(as asked\): the CPU has no"):
        prepared(corpus, tmp_path / "new", "train.precision=bf16")
    assert not (tmp_path / "new").exists()
    with monkeypatch.context() as patched:
        patched.setattr("regard.training.precision.has_bf16", lambda device: True)
        prepared(corpus, tmp_path / "asked", "train.precision=bf16").lock.release()
    with pytest.raises(
        BadInput, match=r"bf16 \(as asked\): the CPU has no .*; resume on a machine"
    ):
        prepared(corpus, tmp_path / "asked", "train.precision=bf16", resume=True)
