"""What a resumed run must not lose, mistake or begin again."""

import json
import os
import shutil
from dataclasses import replace

import pytest
import torch

from regard.core.errors import BadInput
from regard.core.files import temporary_name
from regard.training.branch import branch_run
from regard.training.checkpoint import Checkpoints
from regard.training.distributed import World
from regard.training.loop import seed_everything, train
from regard.training.loop.events import DevResult, EndEvent, ReportEvent, SaveEvent
from regard.training.loop.trainer import RunningTotals
from regard.training.metrics_log import MetricsLog
from regard.training.recipe import read
from regard.training.run import prepare
from small import write_corpus
from thread_ranks import run_ranks

ALONE = World(0, 1, torch.device("cpu"))
TIMES = ("seconds", "tokens_per_second")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder)
    return folder


def prepared(corpus, out, *settings, resume=False, **limits):
    recipe = read(corpus / "small.toml", settings)
    return prepare(recipe, out, ALONE, data=corpus, resume=resume, **limits)


def figures_of(events):
    """What a journal says of events, but for the times."""
    lines = filter(None, (event.figures for event in events))
    return [{name: one for name, one in line.items() if name not in TIMES} for line in lines]


@pytest.mark.parametrize("resume", [False, True])
def test_a_finished_model_outlives_its_checkpoints(corpus, tmp_path, resume):
    """Checkpoints may be removed to save space; the same command must not begin again."""
    run = prepared(corpus, tmp_path / "run")
    *_, ended = train(run.job)
    run.finish(ended.progress)
    shutil.rmtree(run.job.checkpoints.folder)
    before = (run.model_folder / "model.safetensors").read_bytes()
    with pytest.raises(BadInput, match="has a finished model, but no checkpoints"):
        prepared(corpus, tmp_path / "run", resume=resume)
    assert (run.model_folder / "model.safetensors").read_bytes() == before


@pytest.mark.parametrize("table", ["batches", "train"])
def test_a_recipe_that_is_damaged_is_another_recipe(corpus, tmp_path, table):
    prepared(corpus, tmp_path / "run").lock.release()
    path = tmp_path / "run" / "recipe.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), table: "gone"}))
    with pytest.raises(BadInput, match=rf"another recipe \(differs in: {table}\."):
        prepared(corpus, tmp_path / "run", resume=True)


@pytest.mark.slow
@pytest.mark.parametrize("rare", ["train.report_every=5", "train.report_every=100"])
def test_reports_between_checkpoints_are_the_same(corpus, tmp_path, rare):
    straight = figures_of(train(prepared(corpus, tmp_path / "a", rare).job))
    seen = []
    for event in train(prepared(corpus, tmp_path / "b", rare).job):
        seen.append(event)
        if isinstance(event, SaveEvent) and event.progress.step == 9:
            break
    resumed = prepared(corpus, tmp_path / "b", rare, resume=True)
    rest = list(train(resumed.job, resume=True))
    assert figures_of(seen) + figures_of(rest) == straight
    assert all(event.tokens_per_second > 0 for event in rest if isinstance(event, ReportEvent))


def test_a_run_that_is_stopped_reports_as_if_it_were_not(corpus, tmp_path):
    rare = "train.report_every=5"
    straight = figures_of(train(prepared(corpus, tmp_path / "a", rare).job))
    left = iter([False] * 6 + [True])
    stopped = prepared(corpus, tmp_path / "b", rare, stop_requested=lambda: next(left))
    seen = list(train(stopped.job))
    assert seen[-1].reason == "request" and seen[-1].progress.step == 7
    rest = train(prepared(corpus, tmp_path / "b", rare, resume=True).job, resume=True)
    assert figures_of(seen) + figures_of(rest) == straight


def scripted(*values):
    left = iter(values)
    return lambda model: DevResult(next(left), {})


@pytest.mark.parametrize("before", [1, 2, 3])
@pytest.mark.parametrize("now", [1, 2, 3])
def test_losses_of_all_processes_are_reported_by_any_number_of_them(before, now):
    """The first report after a checkpoint is that of a run which was not stopped."""

    def begun(world):
        totals = RunningTotals.zeros(world.device)
        totals.add(torch.tensor(2.0**world.rank), torch.tensor(0.5**world.rank))
        totals.count(torch.tensor([4.0]), tokens=7, room=9)
        return totals.to_store(world), totals.means(world)

    def resumed(world):
        totals = RunningTotals.stored(pending, world, "checkpoint")
        return totals.means(world), totals.to_store(world).tokens

    (pending, means), *_ = run_ranks(before, begun)
    whole = {1: (0.25, 0.25), 2: (0.75, 0.375), 3: (1.75, 0.4375)}
    assert means == whole[before]
    assert run_ranks(now, resumed) == [(means, 7)] * now


def test_a_run_that_ran_out_of_patience_stays_ended(corpus, tmp_path):
    changes = ("train.steps=100", "train.evaluate_every=1")
    run = prepared(corpus, tmp_path / "run", *changes, "train.patience=2")
    run.job.evaluate = scripted(3.0, 2.0, 1.0)
    assert list(train(run.job))[-1].reason == "patience"
    again = prepared(corpus, tmp_path / "run", *changes, "train.patience=2", resume=True)
    _, ended = train(again.job, resume=True)
    assert (ended.reason, ended.progress.step) == ("patience", 3)
    longer = prepared(corpus, tmp_path / "run", *changes, "train.patience=3", resume=True)
    longer.job.evaluate = scripted(1.0)
    *_, ended = train(longer.job, resume=True)
    assert (ended.reason, ended.progress.step) == ("patience", 4)


def test_a_verdict_that_is_no_number_is_never_the_best(corpus, tmp_path):
    changes = ("train.steps=3", "train.evaluate_every=1")
    run = prepared(corpus, tmp_path / "run", *changes)
    run.job.evaluate = scripted(float("nan"), 1.0, float("inf"))
    *_, ended = train(run.job)
    assert (ended.progress.best, ended.progress.best_step) == (1.0, 2)
    none = prepared(corpus, tmp_path / "none", *changes)
    none.job.evaluate = scripted(*[float("nan")] * 3)
    *_, ended = train(none.job)
    assert ended.progress.best is None
    assert none.finish(ended.progress) == "step 3"


@pytest.mark.parametrize("how", ["text", "dropout"])
def test_changed_data_of_equal_lengths_is_noticed(corpus, tmp_path, how):
    changes = ("text.dropout=0.1",) if how == "dropout" else ()
    data = tmp_path / "data"
    shutil.copytree(corpus, data)
    list(train(prepared(data, tmp_path / "run", *changes).job))
    source = data / "train.src"
    lines = [line.split() for line in source.read_text().splitlines()]
    changed = next(line for line in lines if line != line[::-1])
    changed.reverse()
    source.write_text("".join(" ".join(line) + "\n" for line in lines))
    again = prepared(data, tmp_path / "run", *changes, "train.steps=14", resume=True)
    started = next(iter(train(again.job, resume=True)))
    assert any(one.startswith("data was 120 pairs") for one in started.differences)


def test_a_run_whose_held_out_examples_would_be_others_is_not_resumed(corpus, tmp_path):
    """A part of the new dev set would be examples that the model was trained on."""
    data = tmp_path / "data"
    shutil.copytree(corpus, data)
    settings = ("data.dev={held_out=8}", "train.checkpoint_every=2")
    list(train(prepared(data, tmp_path / "run", *settings).job))
    again = prepared(data, tmp_path / "run", *settings, "train.steps=14", resume=True)
    assert next(iter(train(again.job, resume=True))).differences == ()
    again.release()
    for side in ("src", "tgt"):
        lines = (data / f"train.{side}").read_text().splitlines(keepends=True)
        (data / f"train.{side}").write_text("".join([*lines[1:], lines[0]]))
    changed = prepared(data, tmp_path / "run", *settings, "train.steps=14", resume=True)
    said = r"the training data was 1\d\d pairs.*: other examples would be held out"
    with pytest.raises(BadInput, match=said):
        list(train(changed.job, resume=True))


def journal_after(corpus, out):
    """A run with its journal."""
    run = prepared(corpus, out)
    journal = MetricsLog(out)
    for event in train(run.job):
        journal.write(event)
    return journal.path


def test_a_damaged_line_of_the_journal_is_named(corpus, tmp_path):
    path = journal_after(corpus, tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], lines[2].replace(b"loss", b"l\xffss"), *lines[3:]]))
    with pytest.raises(BadInput, match=r"metrics\.jsonl:3: damaged; delete this line"):
        MetricsLog(tmp_path, after_step=6)
    path.write_bytes(b"".join(lines[:9]) + b'{"event": "train", "st\xff\x00')  # at the end: a kill
    MetricsLog(tmp_path, after_step=6)
    assert [json.loads(line)["step"] for line in path.read_bytes().splitlines()] == [
        *range(1, 7),
        6,
    ]
    path.write_bytes(b"\xff\n" + lines[0])
    MetricsLog(tmp_path)  # a run that begins keeps nothing
    assert path.read_bytes() == b""


def test_a_stray_name_among_checkpoints_does_not_block(corpus, tmp_path):
    run = prepared(corpus, tmp_path / "run")
    list(train(run.job))
    places = Checkpoints(tmp_path / "run" / "checkpoints")
    places.place(20).write_text("a file")
    places.place(15).mkdir()
    (places.folder / "step-14").mkdir()
    (places.folder / ".step-00000013.tmp").write_text("a file")
    changes = ("train.steps=15", "train.evaluate_every=6")
    longer = prepared(corpus, tmp_path / "run", *changes, resume=True)
    events = list(train(longer.job, resume=True))
    assert isinstance(events[-1], EndEvent) and events[0].progress.step == 12
    assert places.steps()[-1] == 15


def test_a_journal_that_is_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "metrics.jsonl")
    with pytest.raises(BadInput, match=r"metrics\.jsonl: cannot be read \(not a regular file\)"):
        MetricsLog(tmp_path)


def test_a_resumed_run_sweeps_what_was_killed_on_another_host(corpus, tmp_path, monkeypatch):
    prepared(corpus, tmp_path / "run").lock.release()
    with monkeypatch.context() as patched:
        patched.setattr("socket.gethostname", lambda: "elsewhere")
        left = temporary_name(tmp_path / "run" / "data" / "train.bin")
    left.touch()
    prepared(corpus, tmp_path / "run", resume=True)
    assert not left.exists()


@pytest.mark.parametrize("resume", [False, True])
def test_a_kill_during_the_first_write_blocks_nothing(corpus, tmp_path, resume):
    out = tmp_path / "run"
    out.mkdir()
    left = temporary_name(out / "recipe.json").name.replace(f"-{os.getpid()}", f"-{2**31 - 1}")
    (out / left).write_text("{")
    prepared(corpus, out, resume=resume)
    assert (out / "recipe.json").is_file() and not (out / left).exists()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_run_whose_folder_was_removed_is_an_error(corpus, tmp_path, replaced):
    out = tmp_path / "run"
    run = prepared(corpus, out, "train.checkpoint_every=5")
    with pytest.raises(BadInput, match="run: was removed or replaced during the run"):
        for event in train(run.job):
            if isinstance(event, SaveEvent) and out.exists():
                out.rename(tmp_path / "gone")
                if replaced:
                    other = prepared(corpus, out)
    run.release()
    assert out.exists() == replaced
    if replaced:  # what the other run has written so far is left alone
        assert (out / "recipe.json").is_file() and other.lock.in_place
        other.release()


def test_the_folder_is_checked_before_the_model_is_written(corpus, tmp_path):
    run = prepared(corpus, tmp_path / "run")
    *_, last = train(run.job)
    (tmp_path / "run").rename(tmp_path / "gone")
    with pytest.raises(BadInput, match="was removed or replaced"):
        run.finish(last.progress)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["model", "optimiser", "average"])
def test_one_flipped_bit_of_a_checkpoint_is_found(corpus, tmp_path, name):
    run = prepared(corpus, tmp_path / "run", "train.ema=0.9")
    list(train(run.job))
    places = run.job.checkpoints
    path = places.place(12) / f"{name}.safetensors"
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    changes = ("train.ema=0.9", "train.steps=14")
    again = prepared(corpus, tmp_path / "run", *changes, resume=True)
    advice = r"delete .*step-00000012 to go on from step 9, which is whole"
    with pytest.raises(BadInput, match=rf"{name}\.safetensors: damaged .*; {advice}"):
        list(train(again.job, resume=True))
    shutil.rmtree(places.place(12))
    started = next(iter(train(again.job, resume=True)))
    assert started.progress.step == 9


def test_the_last_two_checkpoints_are_kept_and_the_best(corpus, tmp_path):
    changes = ("train.steps=5", "train.checkpoint_every=1", "train.evaluate_every=1")
    run = prepared(corpus, tmp_path / "run", *changes)
    run.job.evaluate = scripted(1.0, 3.0, 2.0, 2.0, 2.0)
    seen = [run.job.checkpoints.steps() for event in train(run.job) if isinstance(event, SaveEvent)]
    assert seen == [[0], [0, 1], [1, 2], [2, 3], [2, 3, 4], [2, 4, 5]]


def test_the_last_that_are_averaged_are_kept(corpus, tmp_path):
    changes = ("train.steps=6", "train.checkpoint_every=1", "train.evaluate_every=1")
    run = prepared(corpus, tmp_path / "run", *changes, "train.average=3")
    run.job.evaluate = scripted(*map(float, range(6)))
    seen = [run.job.checkpoints.steps() for event in train(run.job) if isinstance(event, SaveEvent)]
    assert seen == [[0], [0, 1], [1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 6]]


def test_every_slice_of_every_step_has_a_seed_of_its_own(corpus, tmp_path, monkeypatch):
    """Else dropout would fall alike on all slices of a step."""
    seeded = []

    def note(*key):
        seeded.append(key)
        seed_everything(*key)

    run = prepared(corpus, tmp_path / "run", "train.steps=2", "batches.accumulate=3")
    monkeypatch.setattr("regard.training.loop.trainer.seed_everything", note)
    list(train(run.job))
    assert seeded == [(1, step, part) for step in (1, 2) for part in (0, 1, 2)]
    draws = [seed_everything(*key) or torch.rand(1).item() for key in [*seeded, (2, 1, 0)]]
    assert len(set(draws)) == 7


def test_a_kill_between_the_last_save_and_its_pruning_leaves_nothing(corpus, tmp_path):
    run = prepared(corpus, tmp_path / "run")
    list(train(run.job))
    places = run.job.checkpoints
    expected = places.steps()
    progress, tensors = places.load(9)
    places.save(replace(progress, step=3), tensors)
    shutil.copytree(places.place(9), places.folder / ".step-00000006.tmp")
    again = prepared(corpus, tmp_path / "run", resume=True)
    list(train(again.job, resume=True))
    assert places.steps() == expected
    assert not list(places.folder.glob(".*"))


@pytest.mark.parametrize(("warmup", "of_10"), [('"auto"', 1), ("0.5", 5), ("3", 3)])
def test_a_longer_run_keeps_its_warm_up_and_says_so(corpus, tmp_path, warmup, of_10):
    """The rates of "auto" and of a share would change with the number of steps."""
    out, rates, lines = tmp_path / "run", {}, []
    for steps in (10, 20, 20):
        settings = (f"optimiser.warmup={warmup}", f"train.steps={steps}")
        run = prepared(corpus, out, *settings, resume=bool(rates))
        start, *events = train(run.job, resume=bool(rates))
        run.release()
        rates |= {e.progress.step: e.rate for e in events if isinstance(e, ReportEvent)}
        lines.append(str(start))
    rate = run.job.recipe.optimiser.rate
    assert [*rates] == [*range(1, 21)]
    shares = [min(step / of_10, (of_10 / step) ** 0.5) for step in rates]
    assert [*rates.values()] == pytest.approx([rate * share for share in shares])
    remark = f"train.steps was 10, is 20; the warm-up of the learning rate has {of_10} steps"
    assert [remark in line for line in lines] == [False, True, False]


def test_a_branch_with_another_warm_up_has_it(corpus, tmp_path):
    run = prepared(corpus, tmp_path / "run")
    *_, end = train(run.job)
    run.release()
    settings = ("optimiser.warmup=20", "train.steps=14")
    branch_run(
        tmp_path / "run",
        end.progress.step,
        tmp_path / "branch",
        read(corpus / "small.toml", settings),
    )
    branch = prepared(corpus, tmp_path / "branch", *settings, resume=True)
    start, *_ = train(branch.job, resume=True)
    assert start.progress.settings["warmup_steps"] == 20
    assert start.remarks == (
        "train.steps was 12, is 14; the warm-up of the learning rate has 20 steps",
    )
