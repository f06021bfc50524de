"""The clock of the bench scripts, and how their peers are fed."""

import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

from marian_folders import sentences, write_marian

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture(autouse=True)
def bench_on_path(monkeypatch):
    monkeypatch.syspath_prepend(BENCH)
    yield
    for script in BENCH.glob("*.py"):
        sys.modules.pop(script.stem, None)


@pytest.mark.parametrize("script", sorted(path.stem for path in BENCH.glob("*.py")))
def test_every_script_finds_what_it_imports(script):
    import_module(script)


def test_an_interval_holds_the_median_and_narrows_with_rounds():
    from measure import interval

    few, many = interval([3.0, 1.0, 2.0]), interval(list(range(101)))
    assert few == (1.0, 2.0, 3.0)
    assert many.median == 50 and 35 < many.low < 50 < many.high < 65


def test_intervals_miss_the_median_as_seldom_as_they_say():
    from measure import interval

    draw = np.random.default_rng(0)
    found = [interval(draw.exponential(size=20).tolist()) for _ in range(2_000)]
    missed = np.mean([not one.low <= np.log(2) <= one.high for one in found])
    assert 0.02 < missed <= 0.06


def test_an_order_is_clear_only_when_rounds_agree():
    from measure import clear

    assert clear({"a": [1.0] * 6, "b": [1.1] * 6})
    assert not clear({"a": [1.0] * 5, "b": [1.1] * 5})  # five of five is 1 in 16
    assert not clear({"a": [1.0, 1.2] * 5, "b": [1.1] * 10})


def test_turns_end_when_the_order_is_clear_or_time_is_up(monkeypatch):
    import measure

    now = [0.0]
    monkeypatch.setattr(measure.time, "perf_counter", lambda: now[0])

    def work(seconds):
        return lambda: now.__setitem__(0, now[0] + seconds)

    systems = {"fast": work(1.0), "slow": work(2.0)}
    assert len(measure.take_turns(systems, 2)["fast"]) == 2
    assert len(measure.take_turns(systems, 2, most=40)["slow"]) == 6
    assert len(measure.take_turns(systems, 50, limit=8.0)["slow"]) == 3


def test_the_translating_peer_gets_buckets_of_the_whole_corpus():
    from train_translator import bucketed, padding, pairs_within

    from regard.ground.batch import BatchLimits

    draw, limits = np.random.default_rng(1), BatchLimits(2_048, 256, 128)
    packed = [pairs_within(limits, draw) for _ in range(64)]
    pairs = [pair for batch in packed for pair in batch]
    batches = bucketed(pairs, limits.tokens, draw)
    assert sorted(map(id, pairs)) == sorted(id(pair) for batch in batches for pair in batch)
    assert padding(packed) > 0.5 and padding(batches) < 0.1
    widths = [max(max(map(len, pair)) + 1 for pair in batch) for batch in batches]
    assert all(len(batch) * width <= 2_048 for batch, width in zip(batches, widths, strict=True))


def test_ragged_rows_are_packed_for_one_and_bucketed_for_the_other():
    from pretrain_encoder import bucketed, length, packed, padding, rows_of

    from regard.ground.batch import BatchLimits

    draw, limits = np.random.default_rng(1), BatchLimits(8 * 64, 32, 64)
    rows = rows_of(64, 64, 2_000, True, draw)
    ours, theirs = packed(rows, limits, draw), bucketed(rows, 8, draw)
    for batches in (ours, theirs):
        assert sum(map(len, batches)) == 64
    assert all(sum(map(length, batch)) <= 512 for batch in ours)
    assert padding(theirs, ragged=False) < 0.15


def test_the_peer_on_a_cpu_reads_sentences_of_like_length():
    from encoder_cpu import chunks, padded, sentences

    rows = sentences(32, 1_000, np.random.default_rng(1))
    whole, parts = padded(rows), [padded(chunk) for chunk in chunks(rows, 8)]
    shares = [
        sum(int(one["attention_mask"].sum()) for one in some)
        / sum(one["input_ids"].numel() for one in some)
        for some in ([whole], parts)
    ]
    assert shares[0] < 0.5 and shares[1] > 0.7


def test_rows_are_grouped_by_length_as_the_trainer_is_configured():
    from dataclasses import fields

    from transformers import TrainingArguments
    from tune_encoder import by_length

    assert set(by_length()) <= {field.name for field in fields(TrainingArguments)}


def test_a_published_marian_folder_can_be_measured(tmp_path):
    from translate import Given, Ours, Transformers, stored_model

    write_marian(tmp_path / "marian")
    (tmp_path / "text").write_text("".join(source + "\n" for source, _ in sentences()[:4]))
    model, facts, marks, ids = stored_model(str(tmp_path / "marian"), str(tmp_path / "text"))
    assert marks.pad == marks.bos != marks.eos == ids[0][-1]
    given = Given(model, facts, marks, 1, 8)
    with torch.inference_mode():
        assert Ours(given, "cpu", "fp32", cpp=False)(ids) == Transformers(given, "cpu")(ids)
