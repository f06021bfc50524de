"""The clock of the bench scripts, and how their peers are fed."""

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
from small_tuning import write_start, write_tuning

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
    import worker

    now = [0.0]
    monkeypatch.setattr(worker.time, "perf_counter", lambda: now[0])

    def work(seconds):
        return lambda: now.__setitem__(0, now[0] + seconds)

    systems = measure.timed_here({"fast": work(1.0), "slow": work(2.0)})
    assert measure.take_turns(systems, 2) == {"fast": [1.0] * 2, "slow": [2.0] * 2}
    assert len(measure.take_turns(systems, 2, most=40)["slow"]) == 6
    assert len(measure.take_turns(systems, 50, limit=8.0)["slow"]) == 3


def test_the_translating_peer_gets_buckets_of_the_whole_corpus():
    from corpus import bucketed_pairs, pair_padding, sentence_pairs

    packed = sentence_pairs(64, tokens=2_048, rows=256, longest=128, vocab=32_000)
    pairs = [pair for batch in packed for pair in batch]
    batches = bucketed_pairs(pairs, 2_048)
    assert sorted(map(id, pairs)) == sorted(id(pair) for batch in batches for pair in batch)
    assert pair_padding(packed) > 0.5 and pair_padding(batches) < 0.1
    widths = [max(max(map(len, pair)) + 1 for pair in batch) for batch in batches]
    assert all(len(batch) * width <= 2_048 for batch, width in zip(batches, widths, strict=True))


def test_ragged_rows_are_packed_for_one_and_bucketed_for_the_other():
    from corpus import bucketed_rows, masked_rows, row_length, row_padding
    from ours import packed

    from regard.core.batch import BatchLimits

    rows = masked_rows(64, 64, 2_000, ragged=True)
    ours = packed(rows, BatchLimits(8 * 64, 32, 64), np.random.default_rng(1))
    theirs = bucketed_rows(rows, 8)
    for batches in (ours, theirs):
        assert sum(map(len, batches)) == 64
    assert all(sum(map(row_length, batch)) <= 512 for batch in ours)
    assert row_padding(theirs) < 0.15


@pytest.mark.thinned
@pytest.mark.parametrize("options", [[], ["--ragged"]])
def test_systems_take_turns_at_masked_lm(options, printed):
    import pretrain_encoder

    ours, *theirs, place = printed(pretrain_encoder, "--tiny", "--peers", "eager", *options)
    assert ours["system"] == "regard" and ours["tokens_per_second"][0] > 0
    assert [one["system"] for one in theirs] == ["transformers, eager"]
    assert all(one["regard_over_it"][0] > 0 for one in theirs)
    untrained = [one["first_loss"] for one in (ours, *theirs)]
    assert untrained == pytest.approx([np.log(1_200)] * len(untrained), rel=0.05)
    assert place["ragged"] == bool(options) and (theirs[0]["padding"] > 0) == bool(options)


@pytest.mark.slow  # forms are traced
def test_all_forms_of_the_peer_have_the_same_loss_of_masked_lm():
    """Without dropout, in fp32, no form leaves out a target."""
    import pretrain_encoder
    from peers.bert import masked_lm

    facts = change(pretrain_encoder.facts_of("smallest", ragged=True), dropout=0.0)
    config = pretrain_encoder.bert.HF.config_of(facts)
    corpus = {"count": 8, "length": 32, "vocab": 1_200, "ragged": False}
    losses = []
    for form in ("eager", "unmasked", "gathered"):
        torch.manual_seed(1)
        losses.append(masked_lm(form, config, corpus, 4, pretrain_encoder.ADAMW).work())
    for other in losses[1:]:
        torch.testing.assert_close(other, losses[0], rtol=1e-4, atol=1e-4)


def test_systems_take_turns_at_training_translators(printed):
    import train_translator

    ours, theirs, place = printed(train_translator, "--tiny", "--peers", "eager")
    assert ours["system"] == "regard" and theirs["system"] == "transformers, eager"
    assert theirs["regard_over_it"][0] > 0 and theirs["padding"] > 0 and place["pairs"] > 4


def test_both_translators_learn_alike(printed):
    import train_translator

    *steps, apart = printed(train_translator, "--tiny", "--tokens", "256", "--curves", "3")
    assert len(steps) == 3 and apart["largest"] < 1e-5


def test_systems_take_turns_at_generation(printed):
    import generate

    lines = printed(generate, "--tiny", "--precision", "fp32")
    systems = [one for one in lines if "batch" in one]
    assert {one["batch"] for one in systems} == {1, 3} and lines[-1]["size"] == "tiny"
    assert {one["system"] for one in systems} >= {"transformers fp32", "regard fp32, torch"}
    for one in systems:
        assert (
            one["tokens_per_second"][0] > 0 and one["identical"] == f"{one['batch']}/{one['batch']}"
        )


@pytest.mark.slow
@pytest.mark.parametrize("beam", [1, 3])
def test_every_form_of_a_translator_gives_the_same_translations(beam, printed, monkeypatch):
    import translate

    options = ["--beam", str(beam), "--precision", "fp32", "--peers", "eager", "static", "compiled"]
    monkeypatch.setattr(translate, "WORDS", 8)
    *systems, _ = printed(translate, "--tiny", *options)
    assert len(systems) == 2 * 5 and all(one["identical"] == "4/4" for one in systems)
    ours = next(one for one in systems if one["system"] == "regard fp32")
    assert set(ours["ratio"]) == {
        "transformers fp32",
        "transformers fp32, static cache",
        "transformers fp32, compiled",
    }


def test_systems_take_turns_at_pretraining_two_models(printed):
    import pretrain_electra

    ours, theirs, where = printed(pretrain_electra, "--tiny", "--peers", "eager")
    assert ours["system"] == "regard" and theirs["system"] == "transformers, eager"
    assert all(one["rounds"] == 2 and one["tokens_per_second"][0] > 0 for one in (ours, theirs))
    assert theirs["regard_over_it"][0] > 0 and where["size"] == "tiny"
    untrained = np.log(2_000) + 50 * np.log(2)
    assert [ours["first_loss"], theirs["first_loss"]] == pytest.approx([untrained] * 2, rel=0.05)


@pytest.mark.parametrize("size", ["small", "base"])
def test_the_peer_has_the_generator_and_discriminator_of_the_paper(size):
    from peers.electra import Pair
    from pretrain_electra import SIZES, WEIGHT, configs_of, joint

    facts, sizes = joint(SIZES[size]), electra.PAPER.sizes
    assert facts.discriminator.trunk == sizes[size].trunk
    assert facts.generator.trunk == sizes[f"{size}-generator"].trunk
    with torch.device("meta"):
        assert count_parameters(Pair(**configs_of(facts), weight=WEIGHT)) == count_parameters(
            facts.build()
        )


def test_the_peer_has_the_same_loss_of_replaced_tokens():
    from corpus import masked_rows
    from ours import annotated
    from peers.electra import Pair, collated
    from pretrain_electra import SIZES, WEIGHT, configs_of, joint, objective_of

    size = SIZES["tiny"]
    tiny = change(size.discriminator, dropout=0.0, attention_dropout=0.0)
    size = size._replace(discriminator=tiny)
    torch.manual_seed(1)
    facts, objective = joint(size), objective_of(size)
    model, pair = facts.build(), Pair(**configs_of(facts), weight=WEIGHT)
    model.generator.heads["mlm"].out.bias.data[7] = 100.0  # the only token that is ever drawn
    for of_model, of_pair in (
        (model.generator, pair.generator),
        (model.discriminator, pair.discriminator),
    ):
        written = electra.HF.weights.write(weights_of(of_model), Extras())
        assert not of_pair.load_state_dict(written, strict=False).unexpected_keys
    masked = masked_rows(4, 64, 2_000)
    rows = [annotated(row) for row in masked]
    losses, _ = objective(model, objective.collate(rows))
    weights = torch.from_numpy(sum(map(objective.weight, rows)))
    loss = pair(**{name: torch.from_numpy(table) for name, table in collated(masked).items()})
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

    from peers.trainer import by_length
    from transformers import TrainingArguments

    assert set(by_length()) <= {field.name for field in fields(TrainingArguments)}


def test_a_task_is_tuned_and_scored(tmp_path, printed):
    """The Trainer itself needs accelerate, so that only what it is given is tested."""
    import tune_encoder

    recipe = write_tuning(tmp_path, "one")
    text = recipe.read_text()
    cut = slice(text.index("[model]"), text.index("[batches]"))
    recipe.write_text(text.replace(text[cut], "").replace("[text]\nvocab = 90\nlower = true\n", ""))
    start = write_start(tmp_path / "start")
    options = ["--start", str(start), "--data", str(tmp_path), "--peers"]
    *runs, place = printed(tune_encoder, str(recipe), *options)
    (ours,) = runs
    assert ours["system"] == "regard" and ours["steady"] > 0 and ours["accuracy"] >= 0
    assert place["torch"]


def test_rows_and_model_of_the_trainer_are_those_of_regard(tmp_path):
    import tune_encoder
    from peers.trainer import Padded, read_model

    recipe_file = write_tuning(tmp_path, "one")
    recipe = tune_encoder.recipe_of(str(recipe_file), [])
    run = tune_encoder.prepare(recipe, tmp_path / "run", tune_encoder.World.join(), data=tmp_path)
    tune_encoder.write_start(run, recipe, tmp_path / "start")
    rows = tune_encoder.json.loads((tmp_path / "start" / "rows.json").read_text())
    model = read_model(str(tmp_path / "start"), dropout=0.0).eval()
    examples, collator = tune_encoder.examples_of(run)[:8], Padded()
    batch = run.job.objective.collate(examples)
    loss = run.job.objective(run.job.model.eval(), batch)[0] / batch.weight
    torch.testing.assert_close(model(**collator(rows[:8])).loss, loss, rtol=1e-5, atol=1e-6)
    assert 0 < collator.share < 1


@pytest.mark.slow
def test_a_published_marian_folder_can_be_measured(tmp_path, printed, monkeypatch):
    import translate

    monkeypatch.setattr(translate, "TRAINED_WORDS", 8)
    write_marian(tmp_path / "marian")
    (tmp_path / "text").write_text("".join(source + "\n" for source, _ in sentences()[:4]))
    options = ["--model", str(tmp_path / "marian"), "--text", str(tmp_path / "text")]
    options += ["--precision", "fp32", "--peers", "eager"]
    theirs, *ours, _ = printed(translate, "--tiny", *options)
    assert theirs["system"] == "transformers fp32"
    assert all(one["identical"] == "4/4" for one in ours)
    (_, _, marks), source = translate.stored_model(str(tmp_path / "marian"))
    assert marks.pad == marks.bos != marks.eos == source.eos
