"""The clock of the bench scripts, and how their peers are fed."""

import json
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

from marian_folders import sentences, write_marian
from regard.models.facts import change
from regard.models.paper import count_parameters
from regard.models.papers import electra
from regard.weights.files import weights_of
from regard.weights.weight_map import Extras

BENCH = Path(__file__).parents[2] / "bench"


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


def test_systems_take_turns_at_generation(monkeypatch, capsys):
    from generate import main

    monkeypatch.setattr(sys, "argv", ["generate.py", "--tiny", "--precision", "fp32"])
    main()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    systems = [one for one in lines if "batch" in one]
    assert {one["batch"] for one in systems} == {1, 3} and lines[-1]["size"] == "tiny"
    assert {one["system"] for one in systems} >= {"transformers fp32", "regard fp32, torch"}
    for one in systems:
        assert (
            one["tokens_per_second"][0] > 0 and one["identical"] == f"{one['batch']}/{one['batch']}"
        )


def test_systems_take_turns_at_pretraining_two_models(monkeypatch, capsys):
    from pretrain_electra import main

    monkeypatch.setattr(sys, "argv", ["pretrain_electra.py", "--tiny", "--peers", "eager"])
    main()
    ours, theirs, where = map(json.loads, capsys.readouterr().out.splitlines())
    assert ours["system"] == "regard" and theirs["system"] == "transformers, eager"
    assert all(one["rounds"] == 2 and one["tokens_per_second"][0] > 0 for one in (ours, theirs))
    assert theirs["regard_over_it"][0] > 0 and where["size"] == "tiny"
    untrained = np.log(2_000) + 50 * np.log(2)
    assert [ours["first_loss"], theirs["first_loss"]] == pytest.approx([untrained] * 2, rel=0.05)


@pytest.mark.parametrize("size", ["small", "base"])
def test_the_peer_has_the_generator_and_discriminator_of_the_paper(size):
    from pretrain_electra import SIZES, Pair, joint

    facts, sizes = joint(SIZES[size]), electra.PAPER.sizes
    assert facts.discriminator.trunk == sizes[size].trunk
    assert facts.generator.trunk == sizes[f"{size}-generator"].trunk
    with torch.device("meta"):
        assert count_parameters(Pair(facts)) == count_parameters(facts.build())


def test_the_peer_has_the_same_loss_of_replaced_tokens():
    from pretrain_electra import SIZES, Pair, collated, joint, objective_of, rows_of

    size = SIZES["tiny"]
    tiny = change(size.discriminator, dropout=0.0, attention_dropout=0.0)
    size = size._replace(discriminator=tiny)
    torch.manual_seed(1)
    facts, objective = joint(size), objective_of(size)
    model, pair = facts.build(), Pair(facts)
    model.generator.heads["mlm"].out.bias.data[7] = 100.0  # the only token that is ever drawn
    for of_model, of_pair in (
        (model.generator, pair.generator),
        (model.discriminator, pair.discriminator),
    ):
        written = electra.HF.weights.write(weights_of(of_model), Extras())
        assert not of_pair.load_state_dict(written, strict=False).unexpected_keys
    rows = rows_of(4, 64, 2_000, False, np.random.default_rng(1))
    losses, _ = objective(model, objective.collate(rows))
    weights = torch.from_numpy(sum(map(objective.weight, rows)))
    loss = pair(**collated(rows))
    torch.testing.assert_close((losses / weights).sum().float(), loss, rtol=1e-5, atol=0)
    loss.backward()
    (losses / weights).sum().backward()
    ours, theirs = (
        model.discriminator.trunk.embed.token.weight.grad,
        pair.generator.electra.embeddings.word_embeddings.weight.grad,
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


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
        assert Ours(given, "cpu", "fp32", fast=False)(ids) == Transformers(given, "cpu")(ids)
