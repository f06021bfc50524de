"""Fine-tuning through the one loop: every task learns, goes on exactly, leaves what can be used."""

import json
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.api import load
from regard.core.batch import IGNORED
from regard.core.errors import BadInput
from regard.data.batches.memory_dataset import MemoryDataset
from regard.models.folders import folder as folders
from regard.models.pools import FirstToken, MeanPool
from regard.tasks.question_answering import Answerer
from regard.training.distributed import World
from regard.training.loop import train
from regard.training.loop.events import DevEvent, ReportEvent
from regard.training.recipe import read
from regard.training.run import prepare
from regard.weights.files import weights_of
from small_tuning import KINDS, OTHERS, write_start, write_tuning
from verb import run as verb

ALONE = World(0, 1, torch.device("cpu"))
ASKED = {
    "one": "dog owl pig\n",
    "pairs": "dog pig\tdog owl\n",
    "several": "dog owl cow\n",
    "number": "dog owl pig\n",
    "tags": "dog owl pig\n",
    "numbers": "dog owl pig\n",
    "roles": "dog owl pig\n",
    "answer": "who?\tdog owl pig\n",
    "choose": '{"first": "dog", "choices": ["there is pig dog", "there is owl dog"]}\n',
}
SAID = {
    "one": "owl\t",
    "pairs": "owl\t",
    "several": "cow\towl",
    "number": "0.",
    "tags": "dog/O owl/S-BIRD pig/O",
    "roles": "[A0 dog] [V owl] pig",
    "answer": "owl\t",
    "choose": "1\t",
}


HEADS = {"classify": "label", "tag": "token_label", "answer": "span", "choose": "choice"}
HEADS |= {"roles": "token_label"}
OF_LABELS = {"one": ["no", "owl"], "pairs": ["no", "owl"], "tags": ["BIRD"], "roles": ["A0"]}


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    @cache
    def written(kind):
        folder = tmp_path_factory.mktemp(kind)
        write_tuning(folder, kind)
        return folder

    return written


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """A folder of an encoder that fills blanks and has no pooler, as transformers writes them."""
    return write_start(tmp_path_factory.mktemp("start") / "filler")


def prepared(corpus, out, *settings, resume=False, skip_bad=False):
    recipe = read(corpus / "owls.toml", settings)
    return prepare(recipe, out, ALONE, data=corpus, resume=resume, skip_bad=skip_bad)


def begun(start, *changes):
    """Settings that begin with a folder; its facts are not the recipe's."""
    begin = (f"model.start={start}", "model.size=", "text=false")
    return (*begin, "model.change={dropout=0.0, attention_dropout=0.0}", *changes)


def losses(run, resume=False):
    return [event.loss for event in train(run.job, resume=resume) if isinstance(event, ReportEvent)]


def data_of(run):
    """What a run learns from."""
    return run.job.evaluate.args[1].dataset


@pytest.mark.thinned
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "coreference"])  # its own test
def test_every_task_learns_and_leaves_a_model(corpora, tmp_path, kind):
    corpus, every = corpora(kind), ("train.evaluate_every=80", "train.checkpoint_every=80")
    run = prepared(corpus, tmp_path / "run", "train.steps=80", *every)
    seen, verdicts = [], []
    for event in train(run.job):
        seen += [event.loss] if isinstance(event, ReportEvent) else []
        verdicts += [event.verdict] if isinstance(event, DevEvent) else []
    assert seen[-1] < 0.4 * seen[0]
    assert verdicts[-1].value == verdicts[-1].figures[KINDS[kind]["metric"]] > 80
    run.finish(event.progress)
    stored = folders.read(run.model_folder)
    assert [one.name for one in stored.facts.output_heads] == [HEADS[KINDS[kind]["task"]]]
    assert stored.notes["longest"] == 40
    assert stored.notes["cost"]["training_flops"] > 0
    asked = ("evaluate", run.model_folder, corpus / "owls.toml", "--data", corpus, "--json")
    labels = ("--labels",) if kind in OF_LABELS else ()
    record = json.loads(verb(*asked, *labels).stdout)
    assert record[KINDS[kind]["metric"]] > 80 and KINDS[kind]["metric"] in record["intervals"]
    assert [one["label"] for one in record.get("labels", ())] == OF_LABELS.get(kind, [])
    said = verb("predict", run.model_folder, stdin=ASKED[kind]).stdout
    if kind == "numbers":
        values = [float(word.split("/")[1]) for word in said.split()]
        deviation = verdicts[-1].figures["loss"] ** 0.5  # the loss is the mean squared error
        assert 4 * deviation < 0.5 and values == pytest.approx([0, 1, 0], abs=4 * deviation)
    else:
        assert said.startswith(SAID[kind])


@pytest.mark.thinned
@pytest.mark.parametrize("kind", KINDS)
def test_resume_is_exact(corpora, tmp_path, kind):
    corpus = corpora(kind)
    straight = prepared(corpus, tmp_path / "a")
    all_losses = losses(straight)
    first, seen = prepared(corpus, tmp_path / "b"), []
    for event in train(first.job):  # as if the process died between two checkpoints
        seen += [event.loss] if isinstance(event, ReportEvent) else []
        if len(seen) == 8:
            break
    second = prepared(corpus, tmp_path / "b", resume=True)
    assert seen[:6] + losses(second, resume=True) == all_losses
    one, other = weights_of(straight.job.model), weights_of(second.job.model)
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.thinned
@pytest.mark.parametrize("kind", ["one", "several", "number", "tags", "numbers", "answer"])
def test_the_loss_does_not_depend_on_how_a_step_is_cut(corpora, tmp_path, kind):
    common = ("batches.tokens=100000", "model.change.dropout=0.0", "train.steps=4")
    corpus = corpora(kind)
    whole = prepared(corpus, tmp_path / "a", *common, "batches.rows=96")
    parts = prepared(corpus, tmp_path / "b", *common, "batches.rows=48", "batches.accumulate=2")
    assert losses(whole) == pytest.approx(losses(parts), abs=1e-4)


def test_it_begins_with_the_weights_of_a_folder(corpora, start, tmp_path):
    """What the task needs and the folder has not is drawn; what it has besides is left."""
    given = weights_of(folders.read(start).module)
    run = prepared(corpora("one"), tmp_path / "a", *begun(start))
    own = weights_of(run.job.model)
    assert own.keys() - given.keys() == {
        *("pool.dense.weight", "pool.dense.bias"),
        *("heads.label.out.weight", "heads.label.out.bias"),
    }
    assert all(torch.equal(own[name], given[name]) for name in own if name in given)
    assert own["pool.dense.weight"].std() > 0 and own["heads.label.out.bias"].eq(0).all()
    theirs = folders.read(start).tokenizer.words.encode("owl dog")
    assert run.tokenizer.words.encode("owl dog") == theirs
    other = prepared(corpora("one"), tmp_path / "b", *begun(start, "train.seed=2"))
    drawn = weights_of(other.job.model)["heads.label.out.weight"]
    assert not torch.equal(drawn, own["heads.label.out.weight"])
    for kind in ("tags", "answer"):
        tagger = prepared(corpora(kind), tmp_path / kind, *begun(start))
        assert "pool.dense.weight" not in weights_of(tagger.job.model)


def test_a_tuned_model_can_be_tuned_again(corpora, start, tmp_path):
    first = prepared(corpora("one"), tmp_path / "a", *begun(start, "train.steps=2"))
    *_, ended = train(first.job)
    first.finish(ended.progress)
    own = weights_of(folders.read(first.model_folder).module)
    again = prepared(corpora("pairs"), tmp_path / "b", *begun(first.model_folder))
    assert all(torch.equal(one, own[name]) for name, one in weights_of(again.job.model).items())
    assert losses(again)
    answers = prepared(corpora("answer"), tmp_path / "c", *begun(first.model_folder))
    drawn, there = answers.job.model.heads.span.out.weight, own["heads.label.out.weight"]
    assert drawn.shape == there.shape  # but means another task
    assert not torch.equal(drawn, there)


def test_a_start_that_reads_all_tokens_goes_on_to_do_so(corpora, tmp_path):
    settings = ("train.steps=2", "train.evaluate_every=2")
    run = prepared(corpora("one"), tmp_path / "start", "model.change.pool=mean", *settings)
    *_, ended = train(run.job)
    run.finish(ended.progress)
    for paper, layers in (("bert", '"all"'), ("spanbert", '"all"'), ("distilbert", "[1]")):
        start = begun(run.model_folder, f"model.paper={paper}", f"model.layers={layers}")
        again = prepared(corpora("one"), tmp_path / paper, *start)
        assert again.facts.pool == MeanPool() and again.paper.key == paper
    first = prepared(corpora("one"), tmp_path / "first", *start, "model.change.pool=first")
    assert first.facts.pool == FirstToken(dense=False)
    tagger = prepared(corpora("tags"), tmp_path / "tags", *start)
    assert tagger.facts.pool is None


def test_a_pool_that_no_summary_token_fits_is_refused_before_training(corpora, tmp_path):
    said = "model: the tokenizer puts the summary token first; the model needs it last or nowhere"
    with pytest.raises(BadInput, match=said):
        prepared(corpora("one"), tmp_path / "a", "model.change.pool=concat")


def test_a_head_is_taken_over_by_the_names_of_its_labels(corpora, start, tmp_path):
    first = prepared(corpora("one"), tmp_path / "a", *begun(start, "train.steps=2"))
    *_, ended = train(first.job)
    first.finish(ended.progress)
    stored = folders.read(first.model_folder)
    swapped = replace(stored.labels, names=stored.labels.names[::-1])
    folders.write(tmp_path / "swapped", replace(stored, labels=swapped))
    again = prepared(corpora("one"), tmp_path / "b", *begun(tmp_path / "swapped"))
    there = stored.module.heads.label.out.weight
    assert torch.equal(again.job.model.heads.label.out.weight, there.flip(0))
    others = replace(stored.labels, names=("this", "that"))
    folders.write(tmp_path / "others", replace(stored, labels=others))
    anew = prepared(corpora("one"), tmp_path / "c", *begun(tmp_path / "others"))
    assert not torch.isin(anew.job.model.heads.label.out.weight, there).any()
    assert torch.equal(anew.job.model.pool.dense.weight, stored.module.pool.dense.weight)


def test_a_model_is_evaluated_as_it_was_trained_and_keeps_that_elsewhere(corpora, tmp_path):
    corpus = corpora("answer")
    run = prepared(corpus, tmp_path / "a", "train.steps=1", "batches.longest=30")
    *_, ended = train(run.job)
    run.finish(ended.progress)
    model = load(run.model_folder)
    model.save(tmp_path / "hf", "hf")
    again = load(tmp_path / "hf")
    for name in ("longest", "stride", "question", "longest_answer", "threshold"):
        assert again.notes[name] == model.notes[name]
        setting = "max_length" if name == "longest" else name
        assert getattr(again.predictor, setting) == getattr(model.predictor, setting)
    longer = f"{tmp_path / 'longer.toml'}"
    text = (corpus / "owls.toml").read_text().replace("longest = 40", "longest = 500")
    Path(longer).write_text(text)  # more than the model has positions
    told = [
        verb("evaluate", one, longer, "--data", corpus)
        for one in (tmp_path / "hf", run.out / "model")
    ]
    assert all(one.exit_code == 0 for one in told)


def test_a_start_may_lie_beside_the_data(corpora, start, tmp_path):
    corpus = corpora("one")
    (corpus / "beside").symlink_to(start)
    run = prepared(corpus, tmp_path / "a", *begun("beside", "train.steps=1"))
    assert len(losses(run)) == 1


def test_what_is_held_out_is_the_same_for_every_seed(corpora, tmp_path):
    runs = [
        prepared(
            corpora("one"), tmp_path / str(seed), "data.dev={held_out=30}", f"train.seed={seed}"
        )
        for seed in (1, 2)
    ]
    examples = [data_of(run) for run in runs]
    assert [len(one.train) for one in examples] == [66, 66]
    for one, other in zip(examples[0].dev, examples[1].dev, strict=True):
        assert one[0].tokens.tolist() == other[0].tokens.tolist()
    assert len(examples[0].dev_examples) == 30


def test_classes_can_weigh_unlike(corpora, tmp_path):
    settings = ("labels.weights={owl=3}", "train.steps=2")
    assert prepared(corpora("one"), tmp_path / "a", *settings).job.objective.weights == (1.0, 3.0)
    run = prepared(corpora("tags"), tmp_path / "b", "labels.weights=balanced", "train.steps=2")
    coded = data_of(run).train
    goals = np.concatenate([goals for _, goals in coded])
    counts = np.bincount(goals[goals != IGNORED], minlength=5)  # owls are single words
    wanted = counts.sum() / (counts > 0).sum() / np.maximum(counts, 1)
    assert run.job.objective.weights == pytest.approx(tuple(np.where(counts, wanted, 1)))
    assert len(losses(run)) == 2


def test_tags_are_converted_to_the_scheme_of_the_recipe(corpora, tmp_path):
    names = prepared(corpora("tags"), tmp_path / "a").labels.names
    assert names == ("B-BIRD", "E-BIRD", "I-BIRD", "O", "S-BIRD")
    plain = prepared(corpora("tags"), tmp_path / "b", "labels.scheme=IOB2").labels.names
    assert plain == ("B-BIRD", "I-BIRD", "O")
    iob1 = prepared(corpora("tags"), tmp_path / "c", "labels.scheme=IOB1").labels.names
    assert iob1 == ("B-BIRD", "I-BIRD", "O")


def test_tags_that_training_does_not_have_are_those_of_known_entities_only(tmp_path):
    write_tuning(tmp_path, "tags", 8, 4)
    for name in ("train", "dev"):
        owls = (tmp_path / f"{name}.conll").read_text().replace("B-", "I-")
        (tmp_path / f"{name}.conll").write_text(owls)  # IOB1, as CoNLL-2003 has it
    longer = "great I-BIRD\nhorned I-BIRD\nowl I-BIRD\nand O\nowl I-BIRD\n\n"
    (tmp_path / "dev.conll").write_text(longer)
    run = prepared(tmp_path, tmp_path / "a")
    ((_, targets),) = data_of(run).dev
    found = [run.labels.names[target] for target in targets if target != IGNORED]
    assert found == ["B-BIRD", "I-BIRD", "E-BIRD", "O", "S-BIRD"]
    (tmp_path / "dev.conll").write_text(longer.replace("and O", "Ulm I-CITY"))
    with pytest.raises(BadInput, match=r"dev\.conll:1: no label is called 'I-CITY'; known: B-BIRD"):
        prepared(tmp_path, tmp_path / "b")


def test_long_sentences_and_contexts_are_read_in_windows(corpora, tmp_path):
    run = prepared(corpora("tags"), tmp_path / "a", "batches.longest=6")
    coded = data_of(run).train
    assert len(coded) > 96 and max(len(row.tokens) for row, _ in coded) <= 6
    words = sum((goals != IGNORED).sum() for _, goals in coded)
    assert words == sum(
        len(line.split()) == 2
        for line in (corpora("tags") / "train.conll").read_text().splitlines()
    )
    small = ("batches.longest=9", "answers.stride=1")
    answering = prepared(corpora("answer"), tmp_path / "b", *small)
    asked, text = data_of(answering), answering.tokenizer
    ends = [end for _, end in asked.train]
    assert len(ends) > 96 and (0, 0) in ends and any(end != (0, 0) for end in ends)
    for row, (first, last) in asked.train:
        if (first, last) != (0, 0):
            assert text.decode(row.tokens[first : last + 1]) == "owl"


def test_questions_are_answered_with_the_settings_of_training(corpora, tmp_path):
    run = prepared(corpora("answer"), tmp_path / "a", "train.steps=1", "answers.threshold=1.5")
    *_, ended = train(run.job)
    run.finish(ended.progress)
    predictor = load(run.model_folder).predictor
    assert isinstance(predictor, Answerer)
    assert (predictor.max_length, predictor.stride, predictor.question) == (40, 8, 8)
    assert (predictor.longest_answer, predictor.threshold) == (3, 1.5)


def test_a_step_costs_what_its_rows_cost(corpora, tmp_path):
    run = prepared(corpora("choose"), tmp_path / "a")
    (question,) = data_of(run).train[:1]
    lengths = tuple(len(row.tokens) for row in question[0])
    assert len(lengths) == 4
    assert run.job.flops([lengths]) == run.facts.training_flops([lengths])


def test_all_metrics_are_reported_whichever_chooses_the_weights(corpora, tmp_path):
    run = prepared(corpora("one"), tmp_path / "a", "train.metric=loss", "train.steps=6")
    (verdict,) = [event.verdict for event in train(run.job) if isinstance(event, DevEvent)]
    assert verdict.figures.keys() == {"loss", "accuracy", "macro-F1", "Matthews"}
    assert verdict.value == -verdict.figures["loss"]


@pytest.mark.parametrize(
    ("kind", "settings", "said"),
    [
        (
            "one",
            ["model.start=nowhere", "model.size=", "text=false"],
            "model.start: nowhere: no such folder, and not in the cache of the hub",
        ),
        (
            "one",
            ["model.start=no/such/folder", "model.size=", "text=false"],
            "model.start: no/such/folder is no folder, here or under",
        ),
        ("one", ["batches.longest=49"], "rows of 49 tokens, but the encoder has 48 positions"),
        ("one", ["data.train.reader=SQuAD"], "no reader for task 'classify' is called 'SQuAD'"),
        ("one", ["data.train.reader=tvs"], "did you mean 'tsv'"),
        ("one", ["data.test.options={texts=['txt']}"], "no column 'txt'"),
        (
            "one",
            ["model.paper=transformer", "model.size=base", "model.change={}"],
            "transformer is an encoder-decoder",
        ),
        (
            "one",
            ["model.target=transformer:base"],
            "model.target: models of this task have no decoder",
        ),
        (
            "one",
            ["model.change.vocab=4"],
            "model.change.vocab cannot be set: it follows from text.vocab",
        ),
        ("one", ["train.metric=bleu"], "no measure of task 'classify'"),
        ("one", ["labels.scheme=IOB2"], "labels.scheme cannot be used"),
        ("several", ["train.smoothing=0.1"], "train.smoothing cannot be used with task 'classify'"),
        ("answer", ["train.smoothing=0.1"], "smoothing cannot be used with task 'answer'"),
        ("choose", ["train.smoothing=0.1"], "smoothing cannot be used with task 'choose'"),
        ("one", ["optimiser.freeze=embed"], r"setting \S+: optimiser.freeze: write a list, as in"),
        ("one", ["labels.weights=[1, 2]"], "labels.weights: write a table, as in"),
        ("one", ["task=tag"], "keys outside of tables can only be set in a recipe file"),
        (
            "several",
            ["labels.weights=balanced"],
            "weights cannot be used with labels of kind 'several'",
        ),
        ("tags", ["labels.kind=several"], "labels.kind: Input should be 'one' or 'number'"),
        ("tags", ["labels.positive=O"], "labels.positive cannot be used"),
        ("answer", ["labels.kind=number"], "labels cannot be used"),
        ("choose", ["answers.stride=3"], "answers cannot be used"),
        ("one", ["data.train.file=nowhere.tsv"], "nowhere.tsv"),
    ],
)
def test_what_makes_no_sense_is_reported(corpora, tmp_path, kind, settings, said):
    with pytest.raises(BadInput, match=said):
        prepared(corpora(kind), tmp_path / "run", *settings)
    if "data.train" not in settings[0]:
        assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["depth", "stack.depth"])
def test_layers_of_a_start_are_not_dropped_in_silence(corpora, start, tmp_path, name):
    shallow = begun(start, f'model.change={{"{name}"=1}}')
    said = r"model\.change: a depth of 1 would drop layers of model\.start, which has 2"
    with pytest.raises(BadInput, match=said):
        prepared(corpora("one"), tmp_path / "a", *shallow)
    assert not (tmp_path / "a").exists()


def test_a_start_that_does_not_fit_is_reported(corpora, start, tmp_path):
    with pytest.raises(BadInput, match=r"model\.start: trunk\.\S+ has another shape"):
        prepared(corpora("one"), tmp_path / "a", *begun(start, "model.change={width=32}"))


def test_a_start_that_is_no_encoder_is_reported(corpora, small_run, tmp_path):
    with pytest.raises(BadInput, match="holds a model of Transformer, not of BERT"):
        prepared(corpora("one"), tmp_path / "a", *begun(small_run / "run" / "model"))


@pytest.mark.parametrize("part", ["dev", "test"])
def test_a_label_that_cannot_be_learned_is_named_by_its_line(corpora, tmp_path, part):
    other = copied(corpora("one"), tmp_path)
    with (other / f"{part}.tsv").open("a") as file:
        file.write("dog\teagle\n")
    said = rf"{part}\.tsv:26: no label is called 'eagle'; known: no, owl"
    with pytest.raises(BadInput, match=said):
        prepared(other, tmp_path / "run")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("one", r"train\.tsv:2: its label is hidden: .*options\.label does not name its column"),
        ("answer", r"question q0: its answers are hidden"),
        ("choose", r"train\.csv:2: the right choice is hidden"),
    ],
)
def test_hidden_labels_are_not_learned_from(corpora, tmp_path, kind, said):
    other = copied(corpora(kind), tmp_path)
    settings = []
    if kind == "one":
        for part in ("train", "dev", "test"):
            settings.append(f"data.{part}.options={{texts=['text']}}")
        settings += ["labels.names={}"]
        with pytest.raises(BadInput, match=said):
            prepared(other, tmp_path / "run", *settings)
        return
    path = next(other.glob("train.*"))
    if kind == "answer":
        content = json.loads(path.read_text())
        content["data"][0]["paragraphs"][0]["qas"][0]["answers"] = []
        path.write_text(json.dumps(content))
    else:
        lines = path.read_text().splitlines()
        path.write_text("\n".join(line.rsplit(",", 1)[0] for line in lines) + "\n")
    with pytest.raises(BadInput, match=said):
        prepared(other, tmp_path / "run")


def test_a_hidden_test_label_is_reported_before_training(corpora, tmp_path):
    settings = ["data.test.options={texts=['text']}"]
    with pytest.raises(BadInput, match=r"test\.tsv:2: its label is hidden"):
        prepared(corpora("one"), tmp_path / "run", *settings)


def test_a_label_that_is_not_a_number_is_reported(corpora, tmp_path):
    other = copied(corpora("number"), tmp_path)
    with (other / "train.tsv").open("a") as file:
        file.write("dog\ttall\n")
    with pytest.raises(BadInput, match=r"train\.tsv:98: tall is not a number"):
        prepared(other, tmp_path / "run")


def test_questions_have_equally_many_choices(corpora, tmp_path):
    run = prepared(corpora("choose"), tmp_path / "a")
    rows, label = data_of(run).train[0]
    task = run.job.evaluate.args[0]
    with pytest.raises(BadInput, match="questions have 2, 4 choices"):
        task.make_objective(None, [(rows, label), (rows[:2], 0)])


def test_bad_lines_can_be_left_out(corpora, tmp_path):
    other = copied(corpora("one"), tmp_path)
    with (other / "train.tsv").open("a") as file:
        file.write("\towl\n")
    with pytest.raises(BadInput, match=r"train\.tsv:98"):
        prepared(other, tmp_path / "run")
    run = prepared(other, tmp_path / "run", skip_bad=True)
    assert sum(run.dropped.values()) == 1 and len(data_of(run).train) == 96


def test_bad_lines_of_a_test_set_can_be_left_out(corpora, tmp_path):
    other = copied(corpora("one"), tmp_path)
    with (other / "test.tsv").open("a") as file:
        file.write("\towl\n")
    asked = ("train", other / "owls.toml", "--data", other, "--out", tmp_path / "run")
    assert "test.tsv:26" in verb(*asked, code=2).stderr
    done = verb(*asked, "--skip-bad")
    assert done.stdout.startswith("accuracy ") and "examples:24|" in done.stdout
    asked = ("evaluate", tmp_path / "run" / "model", other / "owls.toml", "--data", other)
    assert "test.tsv:26" in verb(*asked, code=2).stderr
    assert "dropped: 1 empty" in verb(*asked, "--skip-bad").stderr


def test_what_is_positive_must_be_a_label(corpora, tmp_path):
    said = "labels.positive: no label is called 'foo'; known: 'no', 'owl'"
    with pytest.raises(BadInput, match=said):
        prepared(corpora("one"), tmp_path / "run", "labels.positive=foo")


@pytest.mark.parametrize("kind", ["one", "tags", "numbers", "answer", "choose"])
def test_every_example_counts_in_the_mark_of_data(corpora, tmp_path, kind):
    examples = data_of(prepared(corpora(kind), tmp_path / "run")).train
    *others, (rows, goal) = examples
    assert MemoryDataset(examples[:1] + [*examples][1:]).fingerprint == examples.fingerprint
    assert MemoryDataset([(rows, goal), *[*examples][1:]]).fingerprint != examples.fingerprint
    (other_rows, other_goal) = next(one for one in others if repr(one[1]) != repr(goal))
    assert MemoryDataset([*others, (other_rows, goal)]).fingerprint != examples.fingerprint
    assert MemoryDataset([*others, (rows, other_goal)]).fingerprint != examples.fingerprint
    assert MemoryDataset([*others, (rows, goal)]).fingerprint == examples.fingerprint


def test_data_that_changed_is_reported(corpora, tmp_path):
    list(train(prepared(corpora("one"), tmp_path / "run").job))
    other = copied(corpora("one"), tmp_path)
    with (other / "train.tsv").open("a") as file:
        file.write(f"{OTHERS[0]}\tno\n")
    again = prepared(other, tmp_path / "run", "train.steps=13", resume=True)
    started = next(iter(train(again.job, resume=True)))
    assert any(one.startswith("data was 96 rows") for one in started.differences)


def test_data_that_changed_is_refused_where_dev_is_held_out_of_it(corpora, tmp_path):
    """Examples that have been trained on would be in the development set."""
    other = copied(corpora("one"), tmp_path)
    held_out = ("data.dev={held_out=8}", "train.steps=2")
    list(train(prepared(other, tmp_path / "run", *held_out).job))
    again = prepared(other, tmp_path / "run", *held_out, resume=True)
    assert next(iter(train(again.job, resume=True))).differences == ()
    with (other / "train.tsv").open("a") as file:
        file.write(f"{OTHERS[0]}\tno\n")
    changed = prepared(other, tmp_path / "run", *held_out, resume=True)
    with pytest.raises(BadInput, match=r"data was 88 rows, .*, is 89 rows, .*held_out"):
        next(iter(train(changed.job, resume=True)))


def copied(corpus, tmp_path):
    folder = tmp_path / "other"
    folder.mkdir()
    for path in corpus.iterdir():
        if path.is_file():
            (folder / path.name).write_text(path.read_text())
    return folder


@pytest.mark.parametrize("kind", ["one", "tags", "answer", "choose"])
def test_rows_are_no_longer_than_the_tokenizer_of_a_start_allows(kind, start, tmp_path):
    write_tuning(tmp_path, kind, 8, 4)
    short = tmp_path / "short"
    shutil.copytree(start, short)
    config = json.loads((short / "tokenizer_config.json").read_text())
    (short / "tokenizer_config.json").write_text(json.dumps({**config, "model_max_length": 9}))
    more = ["answers.stride=1"] if kind == "answer" else []
    run = prepared(tmp_path, tmp_path / "run", *begun(short, *more))
    assert run.tokenizer.longest == 9 < run.job.recipe.batches.longest
    batch = run.job.objective.collate([*run.job.sampler.dataset])
    assert batch.inputs.layout.longest == 9
