"""``regard.train``: recipes and data from memory, by the same rules as from files."""

import json
import re
import tomllib
from itertools import islice

import pytest

import regard
from regard import BadInput, DevEvent, EndEvent, ReportEvent, SaveEvent, ScoreEvent, StartEvent
from regard.training.loop.trainer import Trainer
from regard.training.recipe import read, task_of
from regard.training.run_events import score_tests
from small import RECIPE, tensors_of, write_corpus
from small_documents import write_animals
from small_labels import write_owls
from small_rnn import write_streams
from small_tuning import write_tuning

EVENTS = (StartEvent, ReportEvent, DevEvent, SaveEvent, ScoreEvent, EndEvent)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder)
    return folder


@pytest.fixture(scope="module")
def pairs(corpus):
    return {
        name: list(
            zip(
                (corpus / f"{name}.src").read_text().splitlines(),
                (corpus / f"{name}.tgt").read_text().splitlines(),
                strict=True,
            )
        )
        for name in ("train", "dev", "test")
    }


def tables() -> dict:
    content = tomllib.loads(RECIPE)
    del content["data"]
    return content


def run(*given, **options) -> list:
    events = list(regard.train(*given, device="cpu", **options))
    assert all(type(event) in EVENTS for event in events)
    assert type(events[0]) is StartEvent and type(events[-1]) is EndEvent
    return events


def weights(folder) -> bytes:
    return (folder / "model" / "model.safetensors").read_bytes()


def test_pairs_in_memory_are_like_those_in_files(corpus, pairs, tmp_path):
    run(corpus / "small.toml", corpus, tmp_path / "files")
    run(tables(), pairs, tmp_path / "memory")
    assert weights(tmp_path / "files") == weights(tmp_path / "memory")
    model = regard.load(tmp_path / "memory" / "model", "cpu")
    assert model.translate(["dog cow"])[0][0].text is not None
    lines = (tmp_path / "memory" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines if '"dev"' in line] == [6, 12]


def examples(kind, recipe, folder):
    """The examples of files as a caller would have them."""
    task = task_of(read(recipe))
    found = {
        name: task.read(getattr(task.tables.data, name), folder)
        for name in ("train", "dev", "test")
    }

    def value(one):
        match kind:
            case "tags" | "numbers":
                return list(one.words), list(one.tags)
            case "roles":
                frames = [
                    {
                        "index": frame.predicate,
                        "args": [[start, end - 1, label] for start, end, label in frame.arguments],
                    }
                    for frame in one.frames
                ]
                return list(one.words), frames
            case "answer":
                answers = [(answer.text, answer.start) for answer in one.answers]
                return one.question, one.context, answers
            case "choose":
                return one.choices[0][0], [second for _, second in one.choices], one.label
            case "pairs":
                return one.texts, one.labels[0]
            case "several":
                return one.texts[0], list(one.labels)
        return one.texts[0], one.labels[0]

    return {name: [value(one) for one in of_name] for name, of_name in found.items()}


@pytest.mark.thinned
@pytest.mark.parametrize(
    "kind", ["one", "pairs", "several", "number", "tags", "roles", "answer", "choose"]
)
def test_examples_in_memory_are_like_those_in_files(kind, tmp_path):
    recipe = write_tuning(tmp_path, kind, 24, 8)
    settings = {"train.steps": 4, "train.evaluate_every": 4}
    run(recipe, tmp_path, tmp_path / "files", settings=settings)
    data = examples(kind, recipe, tmp_path)
    run(recipe, data, tmp_path / "memory", settings=settings)
    assert weights(tmp_path / "files") == weights(tmp_path / "memory")


@pytest.mark.slow
def test_texts_and_labels_of_a_pooled_classifier(tmp_path):
    recipe = write_owls(tmp_path, 40, 8)
    lines = {
        name: (tmp_path / f"{name}.tsv").read_text().splitlines()[1:] for name in ("train", "dev")
    }
    data = {name: [(one.split("\t")[0], int(one[-1])) for one in of] for name, of in lines.items()}
    run(recipe, tmp_path, tmp_path / "files")
    run(recipe, data, tmp_path / "memory")
    assert weights(tmp_path / "files") == weights(tmp_path / "memory")


@pytest.mark.slow
def test_documents_in_memory_are_like_those_in_files(tmp_path):
    write_animals(tmp_path, 12, 10)
    documents = [one.splitlines() for one in (tmp_path / "animals.txt").read_text().split("\n\n")]
    run(tmp_path / "animals.toml", tmp_path, tmp_path / "files")
    run(tmp_path / "animals.toml", {"train": documents}, tmp_path / "memory")  # dev is held out
    run(tmp_path / "animals.toml", {"train": documents, "dev": 4}, tmp_path / "number")
    run(
        tmp_path / "animals.toml",
        {"train": ["\n".join(one) for one in documents], "dev": 4},
        tmp_path / "texts",
    )
    expected = weights(tmp_path / "files")
    assert all(weights(tmp_path / name) == expected for name in ("memory", "number", "texts"))


@pytest.mark.slow
def test_so_are_documents_that_a_language_model_reads_whole(tmp_path):
    write_streams(tmp_path)
    documents = [one.splitlines() for one in (tmp_path / "animals.txt").read_text().split("\n\n")]
    recipe, settings = tmp_path / "lstm.toml", {"train.steps": 4}
    run(recipe, tmp_path, tmp_path / "files", settings=settings)
    run(recipe, {"train": documents}, tmp_path / "lists", settings=settings)
    texts = {"train": ["\n".join(one).strip() for one in documents]}
    run(recipe, texts, tmp_path / "texts", settings=settings)
    expected = weights(tmp_path / "files")
    assert all(weights(tmp_path / name) == expected for name in ("lists", "texts"))


def test_a_run_goes_on_where_it_was_left(pairs, tmp_path):
    whole = run(tables(), pairs, tmp_path / "whole")
    for event in regard.train_events(tables(), pairs, tmp_path / "parts", device="cpu"):
        if event.progress.step == 5:
            break
    with pytest.raises(BadInput, match="already has a run; resume it, overwrite it, or"):
        run(tables(), pairs, tmp_path / "parts")
    others = {**pairs, "train": [*pairs["train"][:-1], ("dog", "cow")]}
    with pytest.raises(BadInput, match=r"another recipe \(differs in: data\.train\)"):
        run(tables(), others, tmp_path / "parts", resume=True)
    parts = run(tables(), pairs, tmp_path / "parts", resume=True)
    assert parts[0].progress.step == 3 and parts[-1].reason == whole[-1].reason == "steps"
    assert tensors_of(tmp_path / "whole", 12) == tensors_of(tmp_path / "parts", 12)


def test_recipes_of_every_form(corpus, pairs, tmp_path):
    settings = {"train.steps": 2, "text.vocab": 300, "model.change.dropout": 0.0}
    without_data = RECIPE.split("[data]")[0] + "[text]" + RECIPE.split("[text]")[1]
    forms = {
        "path": corpus / "small.toml",
        "name": str(corpus / "small.toml"),
        "text": without_data,
        "table": tables(),
        "recipe": read(corpus / "small.toml"),
        "like": {"like": str(corpus / "small.toml")},
    }
    for name, recipe in forms.items():
        run(recipe, pairs, tmp_path / name, settings=settings)
    assert len({weights(tmp_path / name) for name in forms}) == 1


@pytest.mark.slow
def test_out_is_named_after_the_recipe(corpus, pairs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for recipe, name in ((corpus / "small.toml", "small"), (tables(), "words-in-reverse-order")):
        run(recipe, pairs, settings={"train.steps": 1})
        assert (tmp_path / "runs" / name / "model" / "config.json").is_file()


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("train", ("dog", ""), r"data\['train'\]\[3\]: empty text"),
        ("train", ("dog",), r"data\['train'\]\[3\]: \('dog',\) is not a pair of texts"),
        ("train", None, r"data\['train'\]\[3\]: None is not a pair of texts"),
        ("dev", ("dog", None), r"data\['dev'\]\[3\]: None is not text"),
        ("test", ("dog", "\ud800"), r"data\['test'\]\[3\]: .* a surrogate without its pair"),
        ("test", ("dog", "a" * 6_000), r"data\['test'\]\[3\]: 6,000 characters, more than"),
    ],
)
def test_a_bad_example_is_named(pairs, tmp_path, name, value, message):
    data = {**pairs, name: [*pairs[name][:3], value, *pairs[name][3:]]}
    with pytest.raises(BadInput, match=f"^{message}"):
        run(tables(), data, tmp_path / "run")
    run(tables(), data, tmp_path / "left out", skip_bad=True, settings={"train.steps": 1})


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("tags", (["owl"], []), "1 words and 0 tags"),
        ("tags", ("owl", "O"), "'owl' is not a list"),
        ("answer", ("Who?", "an owl", ["cow"]), "'cow' is not in the context"),
        ("answer", ("Who?", "an owl", [("owl", 0)]), "'owl' is not in the context"),
        ("answer", ("Who?", "an owl"), r"is not \(question, context, answers\)"),
        ("choose", ("an", ["owl", "cow"], 2), "the right choice is 2, but the choices are 0 to 1"),
        ("one", ("owl", {}), "{} is not text"),
        ("one", (("owl", "cow", "dog"), "no"), "is not a pair of texts"),
    ],
)
def test_bad_examples_of_other_tasks_are_named(kind, value, message, tmp_path):
    recipe = write_tuning(tmp_path, kind, 8, 4)
    data = examples(kind, recipe, tmp_path)
    data["train"].insert(2, value)
    with pytest.raises(BadInput, match=rf"^data\['train'\]\[2\]: .*{message}"):
        run(recipe, data, tmp_path / "run")


def test_what_cannot_be_trained_is_reported_at_once(corpus, pairs, tmp_path):
    for data, message in [
        ({"dev": pairs["dev"]}, "data: give examples under 'train'"),
        ({"train": pairs["train"]}, "data: give examples under 'dev'"),
        ({**pairs, "dev": 0}, r"data\['dev'\]"),
        ({**pairs, "train": "dog cow"}, "give a list of texts, not one text"),
        ({**pairs, "train": 3}, "give a list of examples, not 3"),
        (3, "data must be a folder, or examples by name, not 3"),
    ]:
        with pytest.raises(BadInput, match=message):
            regard.train(tables(), data, tmp_path / "run")
    for recipe, message in [
        (3, "recipe must be a name"),
        ("no-such-recipe", "no recipe is called 'no-such-recipe'"),
        ("[train\n", "recipe: not TOML"),
        ({**tables(), "wrong": {}}, "unknown key 'wrong'"),
    ]:
        with pytest.raises(BadInput, match=message):
            regard.train(recipe, pairs, tmp_path / "run")
    for settings, message in [
        ({"train.steps": 0}, "^setting train.steps=0: train.steps: "),
        ({"steps": 3}, "^setting steps=3: write it as table.key=value"),
    ]:
        with pytest.raises(BadInput, match=message):
            regard.train(tables(), pairs, tmp_path / "run", settings=settings)
    assert not (tmp_path / "run").exists()


def test_a_statement_trains(pairs, tmp_path, capsys):
    """A call is enough: nobody has to read its events."""
    regard.train(tables(), pairs, tmp_path / "run", device="cpu")
    assert (tmp_path / "run" / "model" / "config.json").is_file()
    said = capsys.readouterr()
    assert "dev loss" in said.err and "all steps done" in said.err and not said.out


def test_a_result_has_the_events_of_the_run(pairs, tmp_path, capsys):
    heard = []
    result = regard.train(tables(), pairs, tmp_path / "run", device="cpu", on_event=heard.append)
    assert [*result] == heard and len(result) == len(heard) and not capsys.readouterr().err
    assert isinstance(result, regard.TrainingResult)
    assert result.model_folder == tmp_path / "run" / "model"
    assert str(result).endswith("model: ended after step 12: all steps done")
    live = []
    for event in regard.train_events(tables(), pairs, tmp_path / "live", device="cpu"):
        if type(event) is SaveEvent:
            live.append((tmp_path / "live" / "model").exists())
    assert live and not any(live)  # events come while the run is at work
    assert weights(tmp_path / "live") == weights(tmp_path / "run")


def test_nothing_runs_before_the_first_event_is_requested(pairs, tmp_path):
    events = regard.train_events(tables(), pairs, tmp_path / "run", device="cpu")
    assert not (tmp_path / "run").exists()
    assert len(list(islice(events, 2))) == 2 and (tmp_path / "run").is_dir()
    events.close()


def test_a_cell_that_is_run_again_overwrites_its_run_and_nothing_else(pairs, tmp_path):
    out, more = tmp_path / "run", {"settings": {"train.steps": 3}}
    run(tables(), pairs, out)
    (out / "notes.txt").write_text("mine")
    with pytest.raises(BadInput, match="already has a run; resume it, overwrite it, or"):
        run(tables(), pairs, out)
    run(tables(), pairs, out, overwrite=True, **more)
    run(tables(), pairs, tmp_path / "new", overwrite=True, **more)
    assert weights(out) == weights(tmp_path / "new")
    names = {path.name for path in (tmp_path / "new").iterdir()}
    assert {path.name for path in out.iterdir()} == {*names, "notes.txt"}
    lines = (out / "metrics.jsonl").read_text().splitlines()
    assert max(json.loads(line)["step"] for line in lines) == 3
    with pytest.raises(BadInput, match="resume and overwrite exclude each other"):
        run(tables(), pairs, out, overwrite=True, resume=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("mine")
    with pytest.raises(BadInput, match="has files that are not of a run"):
        run(tables(), pairs, tmp_path / "other", overwrite=True)
    with pytest.raises(BadInput, match="longest"):  # refused before anything is removed
        run(tables(), pairs, out, overwrite=True, settings={"batches.longest": 5_000})
    assert weights(out) == weights(tmp_path / "new")


def test_facts_replace_those_of_the_recipe(pairs, tmp_path):
    content, more = tables(), {"settings": {"train.steps": 1}}
    changed = {**content, "model": {**content["model"]}}
    changed["model"]["change"] = {**content["model"]["change"], "inner": 24, "norm": "pre"}
    run(changed, pairs, tmp_path / "change", **more)
    facts = regard.load(tmp_path / "change" / "model", "cpu").facts
    run(content, pairs, tmp_path / "facts", facts=facts, **more)
    assert weights(tmp_path / "facts") == weights(tmp_path / "change")
    for wrong, message in [
        (3, "facts: give the EncoderDecoder of model.paper, .*, not 3"),
        (regard.LINEAGE, "facts: give the EncoderDecoder"),
    ]:
        with pytest.raises(BadInput, match=message):
            run(content, pairs, tmp_path / "wrong", facts=wrong)
    assert not (tmp_path / "wrong").exists()


@pytest.mark.slow
def test_the_trained_model_is_scored_on_every_test_set(corpus, pairs, tmp_path):
    data = {**pairs, "more_tests": {"dev again": pairs["dev"]}}
    events = run(tables(), data, tmp_path / "run", settings={"train.steps": 1})
    found = {event.test_set: event.scores for event in events if isinstance(event, ScoreEvent)}
    assert [*found] == ["test", "dev again"]
    recipe = read(corpus / "small.toml")
    model = regard.load(tmp_path / "run" / "model", "cpu", precision="auto")
    assert [*found["test"]] == score_tests(model, recipe, corpus)["test"].scores
    assert [score.name for score in found["dev again"]] == ["BLEU", "chrF2", "TER"]
    stored = json.loads((tmp_path / "run" / "recipe.json").read_text())
    assert stored["data"]["more_tests"]["dev again"]["fingerprint"].startswith("12 examples, ")
    assert stored["data"]["train"]["fingerprint"].startswith("120 examples, ")


def test_a_classifier_is_scored_on_its_test_set(tmp_path):
    recipe = write_tuning(tmp_path, "one", 24, 8)
    for data, out in ((tmp_path, "files"), (examples("one", recipe, tmp_path), "memory")):
        *_, scored, _ = run(recipe, data, tmp_path / out, settings={"train.steps": 1})
        assert scored.test_set == "test"
        assert [score.name for score in scored.scores] == ["accuracy", "macro-F1", "Matthews"]
        assert scored.lines(1)[0].startswith("test  accuracy ")


def test_sets_of_unknown_names_are_refused(pairs, tmp_path):
    for data, message in [
        ({**pairs, "tset": pairs["test"]}, "no set is called 'tset'; did you mean 'test'?"),
        ({**pairs, 3: pairs["test"]}, "no set is called 3; known: dev, more_tests, test, train"),
        ({**pairs, "more_tests": pairs["test"]}, "['more_tests']: give a dictionary of test sets"),
        ({**pairs, "more_tests": {"a": "dog"}}, "give a list of texts, not one text"),
    ]:
        with pytest.raises(BadInput, match=re.escape(message)):
            regard.train(tables(), data, tmp_path / "run")


def test_a_run_that_never_began_leaves_nothing(corpus, pairs, tmp_path):
    out = tmp_path / "runs" / "one"
    for data, settings in [
        ({**pairs, "train": [*pairs["train"], ("dog", "")]}, {}),
        ({**pairs, "train": []}, {}),
        (pairs, {"batches.longest": 1, "model.change.dropout": 0.0}),
        (pairs, {"text.vocab": 4}),
    ]:
        with pytest.raises(BadInput):
            run(tables(), data, out, settings=settings)
        assert not out.parent.exists(), settings
    events = regard.train_events(tables(), pairs, out, device="cpu")
    next(events)
    events.close()  # before its first step
    assert not out.parent.exists()
    out.mkdir(parents=True)
    (out / "recipe.json").write_text(json.dumps({"task": "translate"}))  # a run that was killed
    with pytest.raises(BadInput):
        run(tables(), {**pairs, "train": []}, out)
    assert [*tmp_path.iterdir()] == [out.parent] and not [*out.iterdir()]
    run(tables(), pairs, out, settings={"train.steps": 1})


def test_ctrl_c_in_a_notebook_leaves_the_best_model_so_far(corpus, tmp_path, monkeypatch):
    step = Trainer.step

    def interrupted(trainer):
        if trainer.progress.step == 8:
            raise KeyboardInterrupt
        step(trainer)

    monkeypatch.setattr(Trainer, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        regard.train(corpus / "small.toml", corpus, tmp_path / "run", device="cpu")
    assert regard.load(tmp_path / "run" / "model", "cpu").notes["weights"] == "step 6"


def test_so_does_ctrl_c_while_an_event_is_printed(corpus, tmp_path):
    def interrupted(event):
        if event.progress.step == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        regard.train(corpus / "small.toml", corpus, tmp_path / "run", on_event=interrupted)
    assert regard.load(tmp_path / "run" / "model", "cpu").notes["weights"] == "step 6"
