"""Pre-training end to end: blanks as the paper draws them, anew each epoch, exact when resumed."""

import json
import lzma
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch

from bert_folders import agree, our_values, read_by_reference, their_values
from regard.api import load
from regard.core.batch import TokenRow
from regard.core.errors import BadInput
from regard.data.batches.sampler import START
from regard.data.batches.training_data import held_out_indices
from regard.data.readers.sources import sample_texts
from regard.models.folders.folder import read as read_folder
from regard.tasks import plan, pretrain
from regard.training.loop import train
from regard.training.loop.events import DevEvent, ReportEvent
from regard.training.loop.steps import read_steps
from regard.training.recipe import read
from regard.training.recipe_files import find
from regard.training.run import prepare
from regard.weights.files import weights_of
from small_documents import KINDS, RECIPE, training_loss_of_dev, write_animals
from small_runs import ALONE, check_resume, losses

RTE = [("otter", "entailment"), ("ibex", "not_entailment")]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_animals(tmp_path_factory.mktemp("animals"))


FULL = "objective.next-sentence=false"


def prepared(corpus, out, *settings, resume=False):
    recipe = read(corpus / "animals.toml", settings)
    return prepare(recipe, out, ALONE, data=corpus, resume=resume)


def epochs(run, count):
    """The rows of whole epochs, by number, as they reach the objective."""
    found = [{} for _ in range(count)]
    before = 0
    for cursor, batch in run.job.sampler.batches():
        if before == count:
            return found
        found[before] |= dict(zip(batch.indices.tolist(), batch.read(), strict=True))
        before = cursor.epoch
    return found


def originals(example):
    tokens = np.array(example.row.tokens)
    tokens[example.positions["mlm"]] = example.targets["mlm"]
    return tokens


def same_positions(one, other):
    return np.array_equal(one.positions["mlm"], other.positions["mlm"])


@pytest.mark.parametrize("settings", [(), (FULL,), ("objective.masked-lm.whole_words=true",)])
def test_blanks_in_batches_are_those_of_the_paper(corpus, tmp_path, settings):
    run = prepared(corpus, tmp_path / "run", *settings)
    special, seen = run.tokenizer.special, {"mask": 0, "same": 0, "other": 0}
    blanks = tokens = 0
    for rows in epochs(run, 8):
        batch = run.job.objective.collate([*rows.values()])
        now, goals = batch.inputs.tokens_T[batch.positions["mlm"]], batch.targets["mlm"]
        assert not special & set(goals.tolist())
        assert not (special - {run.tokenizer.mask}) & set(now.tolist())
        masked, same = now == run.tokenizer.mask, now == goals
        seen["mask"] += int(masked.sum())
        seen["same"] += int(same.sum())
        seen["other"] += int((~masked & ~same).sum())
        blanks, tokens = blanks + len(now), tokens + batch.tokens
    assert blanks / tokens == pytest.approx(0.15, abs=0.01)
    assert seen["mask"] / blanks == pytest.approx(0.8, abs=0.02)
    assert seen["same"] / blanks == pytest.approx(0.1, abs=0.02)
    assert seen["other"] / blanks == pytest.approx(0.1, abs=0.02)


def test_whole_words_are_chosen_with_all_their_pieces(corpus, tmp_path):
    run = prepared(
        corpus, tmp_path / "run", "objective.masked-lm.whole_words=true", "text.vocab=80"
    )
    goes_on, pieces = run.tokenizer.continues, 0
    for one in epochs(run, 1)[0].values():
        tokens, chosen = originals(one), set(one.positions["mlm"].tolist())
        for at in range(1, len(tokens)):
            if goes_on[tokens[at]] and tokens[at - 1] not in run.tokenizer.special:
                assert (at in chosen) == (at - 1 in chosen)
                pieces += 1
    assert pieces > 100


def test_half_of_the_second_passages_follow(corpus, tmp_path):
    """Of long documents; the last sentence of one has none that follows."""
    long = write_animals(tmp_path, documents=8, sentences=300)
    run = prepared(long, tmp_path / "run")
    rows = [one for epoch in epochs(run, 4) for one in epoch.values()]
    follows = [one.targets["sentence_pair"] for one in rows]
    assert set(follows) == {0, 1}
    assert np.mean(follows) == pytest.approx(0.5, abs=0.06)
    for one in rows:
        assert sorted(set(one.row.segments.tolist())) == [0, 1]
    full = prepared(corpus, tmp_path / "full", FULL)
    assert all(one.targets.keys() == {"mlm"} for one in epochs(full, 1)[0].values())


def test_blanks_differ_between_epochs_and_between_seeds(corpus, tmp_path):
    run = prepared(corpus, tmp_path / "run", FULL)
    first, second = epochs(run, 2)
    assert first.keys() == second.keys()
    assert all((originals(first[n]) == originals(second[n])).all() for n in first)
    assert np.mean([same_positions(first[n], second[n]) for n in first]) < 0.1
    again = epochs(run, 1)[0]
    assert all((again[n].row.tokens == first[n].row.tokens).all() for n in first)
    other = epochs(prepared(corpus, tmp_path / "other", FULL, "train.seed=2"), 1)[0]
    assert np.mean([same_positions(first[n], other[n]) for n in first]) < 0.1


def test_a_row_is_the_same_whatever_is_read_with_it(corpus, tmp_path):
    reader = prepared(corpus, tmp_path / "run").job.sampler.dataset.read
    together = reader(3, np.arange(40))
    for number in (0, 7, 39):
        (alone,) = reader(3, np.array([number]))
        for one, other in zip(alone.row, together[number].row, strict=True):
            assert np.array_equal(one, other)
        assert alone.positions.keys() == {"mlm"}
        assert alone.targets.keys() == {"mlm", "sentence_pair"}
        assert same_positions(alone, together[number])
        for head, targets in alone.targets.items():
            assert np.array_equal(targets, together[number].targets[head])


@pytest.mark.thinned
@pytest.mark.parametrize(
    "settings", [(), (FULL, "objective.masked-lm.whole_words=true")], ids=["pairs", "full"]
)
@pytest.mark.parametrize(("killed", "saved", "epoch"), [(6, 4, 0), (14, 12, 1)])
def test_resume_is_exact(corpus, tmp_path, settings, killed, saved, epoch):
    """From the middle of the first epoch over its end, and from the middle of the second."""

    def begin(out, resume):
        sizes = ("batches.tokens=768", "batches.rows=72", "train.steps=16")
        run = prepared(corpus, out, *settings, *sizes, resume=resume)
        if resume:
            cursor = run.job.checkpoints.load(saved)[0].cursor
            assert cursor.epoch == epoch and cursor.batch > 0
        return run

    straight = check_resume(begin, tmp_path, killed, saved)
    assert straight.job.checkpoints.load(16)[0].cursor.epoch == 1


def test_it_learns_and_its_folder_serves(corpus, tmp_path):
    """Words and passages from what the others are about; then blanks, then transformers."""
    once = [f"train.{what}=150" for what in ("steps", "evaluate_every", "checkpoint_every")]
    changes = (*once, "model.change.dropout=0.0")
    run = prepared(corpus, tmp_path / "run", *changes, "train.report_every=50")
    events = list(train(run.job))
    reports = [event.loss for event in events if isinstance(event, ReportEvent)]
    figures = [event.verdict.figures for event in events if isinstance(event, DevEvent)][-1]
    assert reports[-1] < reports[0] - 1
    assert figures["perplexity"] < 15  # that of words without their neighbours is about 16
    assert figures["next_sentence"] > 60
    assert figures["loss"] > np.log(figures["perplexity"])
    run.finish(events[-1].progress)
    model = load(run.model_folder, "cpu")
    assert model.notes["cost"]["training_flops"] > 0
    (said,) = model.fill(["ibex eagle. ibex [MASK]. marmot raven. ibex eagle."], top=3)
    assert {one.word for one in said.blanks[0]} & {*KINDS["stone"], "."}

    model.save(tmp_path / "hf", "hf")
    theirs = read_by_reference(tmp_path / "hf")
    assert type(theirs).__name__ == "BertForPreTraining"
    rows = [TokenRow([2, 9, 8, 3, 7, 3], [0, 0, 0, 0, 1, 1]), TokenRow([2, 11, 3], [0, 0, 0])]
    agree(our_values(read_folder(run.model_folder), rows), their_values(theirs, rows))


def test_full_rows_leave_a_masked_language_model(corpus, tmp_path):
    run = prepared(corpus, tmp_path / "run", FULL)
    *_, ended = train(run.job)
    run.finish(ended.progress)
    load(run.model_folder, "cpu").save(tmp_path / "hf", "hf")
    theirs = read_by_reference(tmp_path / "hf")
    assert type(theirs).__name__ == "BertForMaskedLM"
    rows = [TokenRow([2, 9, 8, 3], [0] * 4)]
    agree(our_values(read_folder(run.model_folder), rows), their_values(theirs, rows))


def test_a_model_goes_on_where_another_ended(corpus, tmp_path):
    run = prepared(corpus, tmp_path / "run")
    *_, ended = train(run.job)
    run.finish(ended.progress)
    start = f"model.start={run.model_folder}"
    begin = (start, "model.size=", "text=false", "model.change={}")
    again = prepared(corpus, tmp_path / "again", *begin, FULL)
    before, now = weights_of(read_folder(run.model_folder).module), weights_of(again.job.model)
    assert now.keys() < before.keys()  # pooling and the next sentence are gone
    assert all(torch.equal(before[name], now[name]) for name in now)
    assert again.tokenizer.words.fingerprint == run.tokenizer.words.fingerprint


def test_tuning_begins_with_its_trunk_and_its_pooling(corpus, tmp_path):
    run = prepared(corpus, tmp_path / "run")
    *_, ended = train(run.job)
    run.finish(ended.progress)
    rows = [f"{n}\tseal otter\tseal {word}\t{said}" for n, (word, said) in enumerate(RTE * 4)]
    (tmp_path / "rte.tsv").write_text("\n".join(["index\tsentence1\tsentence2\tlabel", *rows, ""]))
    file = '{ reader = "RTE", file = "rte.tsv" }'
    changes = [f"data.{part}={file}" for part in ("train", "dev", "test")]
    changes += [f"model.start={run.model_folder}", "model.change={}", "batches.longest=32"]
    tuned = prepare(read(find("glue-rte"), changes), tmp_path / "tuned", ALONE, data=tmp_path)
    before, now = weights_of(read_folder(run.model_folder).module), weights_of(tuned.job.model)
    same = [name for name in now if not name.startswith("heads.")]
    assert {name.split(".")[0] for name in same} == {"trunk", "pool"}
    assert all(torch.equal(before[name], now[name]) for name in same)
    assert tuned.tokenizer.words.fingerprint == run.tokenizer.words.fingerprint


def test_the_judge_asks_the_same_whatever_the_seed(corpus, tmp_path):
    one, other = (
        prepared(corpus, tmp_path / name, f"train.seed={name}", "model.change.dropout=0.0")
        for name in "12"
    )
    other.job.model.load_state_dict(one.job.model.state_dict())
    one.job.model.eval(), other.job.model.eval()
    verdicts = [run.job.evaluate(one.job.model) for run in (one, other, one)]
    assert verdicts[0] == verdicts[1] == verdicts[2]
    assert verdicts[0].figures.keys() == {"loss", "perplexity", "accuracy", "next_sentence"}
    assert verdicts[0].value == -verdicts[0].figures["loss"]


ELECTRA = (
    *("objective.masked-lm=false", "objective.next-sentence=false", "objective.replaced-tokens={}"),
    *("model.paper=electra", "model.size=base"),
)


@pytest.mark.parametrize("settings", [(), ("objective.masked-lm.weight=3",), ELECTRA])
def test_the_judge_weighs_losses_as_training_does(corpus, tmp_path, settings):
    run = prepared(corpus, tmp_path / "run", *settings)
    run.job.model.eval()
    loss = run.job.evaluate(run.job.model).figures["loss"]
    assert loss == pytest.approx(training_loss_of_dev(run), rel=1e-5)


def test_what_is_held_out_is_not_learned_from(corpus, tmp_path):
    """Neither in rows nor in the vocabulary."""
    texts = (corpus / "animals.txt").read_text().split("\n\n")
    kept, away = held_out_indices(24, 4)
    assert sorted([*away, *kept]) == list(range(24)) and len(away) == 4
    folder = tmp_path / "marked"
    folder.mkdir()
    for number in away:
        texts[number] = texts[number].replace("otter", "puppy").replace("raven", "puppy")
        texts[number] += "\npuppy puppy puppy."
    with lzma.open(folder / "animals.jsonl.xz", "wt") as file:
        file.writelines(json.dumps({"story": text}) + "\n" for text in texts)
    (folder / "animals.toml").write_text(RECIPE)
    source = '{ documents = "animals.jsonl.xz", key = "story" }'
    run = prepared(folder, tmp_path / "run", f"data.train={source}")
    unknown = run.tokenizer.unk
    assert run.tokenizer.words.encode_all(["p"]) == [[unknown]]  # a letter only held out
    assert not any(unknown in originals(one) for one in epochs(run, 1)[0].values())


def test_a_vocabulary_is_learned_from_a_sample(corpus, tmp_path, monkeypatch):
    texts = [f"text {number}" for number in range(1000)]
    some = list(sample_texts(iter(texts), 0.1))
    assert 0.09 < sum(map(len, some)) / sum(map(len, texts)) <= 0.1
    assert texts.index(some[-1]) > 900
    assert list(sample_texts(iter(texts), 1.0)) == texts
    learned = []
    keep = plan.learn_tokenizer

    def learn(family, texts, *settings):
        learned.append([*texts])
        return keep(family, learned[-1], *settings)

    monkeypatch.setattr(plan, "learn_tokenizer", learn)
    monkeypatch.setattr(pretrain, "SAMPLE", 5_000)
    prepared(corpus, tmp_path / "run")
    assert 4_000 < sum(map(len, learned[0])) <= 5_000


def test_batches_are_nearly_full(corpus, tmp_path):
    run = prepared(corpus, tmp_path / "run", "batches.tokens=2048", "batches.rows=160")
    batches = islice(run.job.sampler.batches(), 5)
    fills = [batch.lengths.sum() / 2048 for _, batch in batches]
    assert np.median(fills) > 0.97  # all but the last of a window


def test_too_few_documents_that_are_held_out_are_named_by_their_key(corpus, tmp_path):
    said = (
        r"^data\.dev\.held_out \(1 of .*animals\.txt\): next-sentence prediction .* two documents$"
    )
    with pytest.raises(BadInput, match=said):
        prepared(corpus, tmp_path / "run", "data.dev.held_out=1")


def test_reading_ahead_says_what_is_wrong(corpus, tmp_path):
    job = prepared(corpus, tmp_path / "run").job

    def broken(passages, numbers, key):
        raise BadInput("animals.txt: gone")

    dataset = replace(job.sampler.dataset, annotate=broken)
    assert dataset.ahead > 0
    with pytest.raises(BadInput, match="gone"):
        next(read_steps(replace(job, sampler=replace(job.sampler, dataset=dataset)), START))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["data.train.documents=nothing.txt"], "nothing.txt: no such file"),
        (["data.train.documents=-"], "documents cannot be standard input"),
        (["data.dev.held_out=24"], "24 of 24 leaves no training examples"),
        (["data.test.documents=animals.txt"], "data.test cannot be used"),
        (["data.train.csv=x.csv"], "without other keys"),
        (["data.dev.key=story"], "key: only documents"),
        (
            ["text.kind=bpe"],
            "text.kind cannot be used as 'bpe' with model.paper = 'bert', whose tokenizer is "
            "'wordpiece': choose byte-bpe or unigram or wordpiece",
        ),
        (["text.normalise=nfkc"], "whose tokenizer is 'wordpiece': remove the key"),
        (
            ["model.paper=gpt", "model.size=base", "text.kind=", "objective.masked-lm.rate=0.15"],
            "objective: masked LM needs a mask token, which tokenizers 'gpt-bpe' lack: choose",
        ),
        (["batches.longest=64"], "64 tokens, but the encoder has 32 positions"),
        (
            ["model.paper=transformer", "model.size=base"],
            "is an encoder-decoder; this task needs an encoder",
        ),
        (["model.change.vocab=9"], "model.change.vocab cannot be set"),
        (
            ["model.change.segments=1"],
            "next-sentence: the model needs two segments, one per passage; "
            "BERT's own objectives (masked-lm, next-sentence) are used where a recipe has no",
        ),
        (
            ["objective.span-boundary.rate=0.15"],
            "train the same head; choose one; BERT's own objectives",
        ),
        (["model.target=cho:base"], "model.target: models of this task have no decoder"),
        (
            ["model.paper=lin", "model.size=last", "model.change={}", FULL],
            "the tokenizer of Lin has no mask token",
        ),
        (
            ["model.source=lin:laptop", "model.change={}", FULL],
            "output and token vectors can be tied only if their shapes agree",
        ),
        (["train.metric=accuracy"], "no measure of task 'pretrain'"),
        (["objective.masked-lm.rate=0"], "objective.masked-lm.rate"),
        (["objective.masked-lm.rates=0.1"], "did you mean 'rate'"),
    ],
)
def test_mistakes_are_reported_in_one_line(corpus, tmp_path, settings, said):
    with pytest.raises(BadInput) as caught:
        prepared(corpus, tmp_path / "run", *settings)
    assert said in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "sizes",
    ["{width=16, embedding=32}", "{width=16, embedding=8, tied=false}"],
    ids=["tied", "untied"],
)
def test_a_recurrent_trunk_can_be_pre_trained(corpus, tmp_path, sizes):
    changes = ("model.source=lin:laptop", f"model.change={sizes}", "model.change.dropout=0.0")
    run = prepared(corpus, tmp_path / "run", *changes, FULL, "train.steps=8")
    found = losses(run)
    assert found[-1] < found[0]


def test_a_resumed_run_draws_the_same_masks(corpus, tmp_path):
    prepared(corpus, tmp_path / "run")
    with pytest.raises(BadInput, match=r"differs in: objective\.masked-lm"):
        prepared(corpus, tmp_path / "run", "objective.masked-lm.rate=0.3", resume=True)
