"""Recipes are typed and closed: a slip is answered, not ignored."""

import re
from operator import attrgetter

import pytest

from regard.core.errors import BadInput
from regard.core.other_names import OTHER_NAMES
from regard.data.data_tables import FilesConfig
from regard.data.readers.sources import Lines
from regard.data.readers.table_files import Csv, JsonLines, Table
from regard.models.facts import change, paths
from regard.models.papers import bert
from regard.models.papers.llama import PAPER as LLAMA_PAPER
from regard.training.recipe import make_recipe, read
from regard.training.recipe_files import AboutConfig, built_in_recipes, find, is_example
from small import RECIPE

LLAMA = next(iter(LLAMA_PAPER.sizes.values()))


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(RECIPE)
    return path


def test_every_recipe_that_comes_with_regard_is_valid_and_named_by_its_command():
    paths = built_in_recipes()
    names = [path.stem for path in paths]
    assert "tour" in names and len({*names}) == len(names)
    for path in paths:
        about = read(path).about
        assert path.stem in about.command and about.hardware and about.minutes


def test_recipes_have_an_expected_score_or_say_why_not_and_examples_have_none():
    for path in built_in_recipes():
        recipe, written = read(path), path.read_text(encoding="utf-8")
        expected = recipe.expect or any(rung.expect for rung in recipe.rung)
        if is_example(path):
            assert not expected, path.stem
            assert "not been run to its end" in written.replace("\n# ", " "), path.stem
        else:
            assert bool(expected) != ("# No expected score: " in written), path.stem


@pytest.mark.parametrize("ours", OTHER_NAMES)
def test_names_of_other_libraries_lead_to_ours(recipe, ours):
    facts = {path.rpartition(".")[2] for size in (bert.BASE, LLAMA) for path, _ in paths(size)}
    for theirs in OTHER_NAMES[ours].split():
        if ours in facts and theirs not in facts:
            with pytest.raises(BadInput, match=f"did you mean '{ours}'"):
                change(LLAMA, **{theirs: 1})
        with pytest.raises(BadInput) as caught:
            read(recipe, [f"train.{theirs}=1"])
        full = re.search(r"did you mean '([\w.]+)'", str(caught.value))[1]
        name = full if "." in full else f"train.{full}"
        assert name.endswith(f".{ours}")
        if name.startswith("model.change."):
            assert ours in facts
        else:
            table, key = name.split(".")
            assert hasattr(getattr(read(recipe), table), key)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("train.stepz=3", "unknown key 'train.stepz'; did you mean 'steps'?"),
        ("trane.steps=3", "unknown key 'trane'; did you mean 'train'?"),
        ("train.lr=1e-3", "unknown key 'train.lr'; did you mean 'optimiser.rate'?"),
        ("optimiser.lr=1e-3", "unknown key 'optimiser.lr'; did you mean 'rate'?"),
        ("model.n_layers=2", "unknown key 'model.n_layers'; did you mean 'model.change.depth'?"),
        ("train.steps=many", "train.steps: Input should be a valid integer (given 'many')"),
        ("optimiser.unfreeze_every=never", "be a valid integer, or 'epoch' (given 'never')"),
        ("train.steps=0", "train.steps: Input should be greater than or equal to 1 (given 0)"),
        ("text.kind=bqe", "no kind 'bqe'; did you mean 'bpe'?"),
        ("optimiser.schedule=cosinus", "optimiser.schedule: Input should be"),
        ("decode.beam=1000000", "decode: the size of a beam"),
        ("optimiser.rate=inf", "optimiser.rate: Input should be a finite number (given inf)"),
        ("optimiser.rate=nan", "optimiser.rate: Input should be a finite number (given nan)"),
        ("optimiser.eps=inf", "optimiser.eps: Input should be a finite number"),
        ("optimiser.decay=inf", "optimiser.decay: Input should be a finite number"),
        ("optimiser.clip=inf", "optimiser.clip: Input should be a finite number"),
        ("optimiser.betas=[0.9, nan]", "optimiser.betas.1: Input should be a finite number"),
        ("decode.alpha=-inf", "decode.alpha: Input should be a finite number"),
        ("batches.rung=256", "batches: the key rung was renamed to pad_to_multiple"),
        ("train.ema=0.9", None),
    ],
)
def test_settings(recipe, setting, said):
    if said is None:
        assert read(recipe, [setting]).train.ema == 0.9
        return
    with pytest.raises(BadInput) as caught:
        read(recipe, [setting])
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("setting", ["steps=3", "train.steps"])
def test_a_setting_has_a_table_a_key_and_a_value(recipe, setting):
    with pytest.raises(BadInput, match=r"write it as table\.key=value"):
        read(recipe, [setting])


def test_facts_of_one_side_can_be_set(recipe):
    assert read(recipe, ["model.change.source.depth=5"]).model.change["source.depth"] == 5
    assert read(recipe, ["model.change.depth=5"]).model.change["depth"] == 5


def test_averages_exclude_each_other(recipe):
    with pytest.raises(BadInput, match="choose one"):
        read(recipe, ["train.ema=0.9", "train.average=3"])


def test_broken_files(tmp_path):
    path = tmp_path / "x.toml"
    with pytest.raises(BadInput, match=r"x\.toml: no such recipe file"):
        find(str(path))
    for content in (b"a = " + b"[" * 100_000, b"a = " + b"9" * 10_000, b"a = 1979-99-99", b"\xff"):
        path.write_bytes(content)
        with pytest.raises(BadInput, match=r"x\.toml: not TOML"):
            read(path)
    path.write_text("[about\n")
    with pytest.raises(BadInput, match=r"x\.toml: not TOML"):
        read(path)
    path.write_text("[about]\ntitle = 'x'\n")
    with pytest.raises(BadInput, match=r"x\.toml: .*data is missing"):
        read(path)


def test_a_bare_name_is_looked_up_among_those_that_come_with_regard(tmp_path, monkeypatch):
    assert find("tour").name == "tour.toml"
    (tmp_path / "tour").mkdir()
    monkeypatch.chdir(tmp_path)
    assert find("tour").name == "tour.toml"  # a folder of that name is no recipe
    with pytest.raises(BadInput, match="did you mean 'tour'"):
        find("toor")


def test_where_pairs_come_from(tmp_path):
    two = FilesConfig(source="a.en", target="a.de")
    assert two.under(tmp_path) == Lines((str(tmp_path / "a.en"), str(tmp_path / "a.de")))
    table = FilesConfig(table="a.tsv", columns=(0, 2))
    assert table.under(tmp_path) == Table(str(tmp_path / "a.tsv"), (0, 2))
    records = FilesConfig(jsonl="-", columns=("en", "de"))
    assert records.under(tmp_path) == JsonLines("-", ("en", "de"))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "give source and target"),
        ({"source": "a"}, "a: give source and target"),
        ({"source": "a", "target": "b", "columns": (0, 1)}, "a and b: give source and target"),
        ({"table": "a"}, "a: name the two columns"),
    ],
)
def test_half_a_description_is_refused(fields, said):
    with pytest.raises(ValueError, match=said):
        FilesConfig(**fields)


def test_words_can_be_set_apart_by_languages_that_are_known(recipe, tmp_path):
    files = FilesConfig(table="a.tsv", columns=(2, 3), spaced=("english", "french"))
    assert files.under(tmp_path).spaced == ("english", "french")
    assert FilesConfig(table="a.tsv", columns=(2, 3)).under(tmp_path).spaced == ()
    with pytest.raises(BadInput, match=r"words of 'frensh'.* did you mean 'french'"):
        read(recipe, ['data.train.spaced=["english", "frensh"]'])


@pytest.mark.parametrize("optimiser", ["adafactor", "relative-adamw"])
@pytest.mark.parametrize("kind", ["fsdp", "hsdp"])
def test_steps_relative_to_weights_cannot_be_divided_among_processes(recipe, kind, optimiser):
    divided = [f"distributed.kind={kind}"] + ["distributed.replicas=2"] * (kind == "hsdp")
    fault = (
        rf"optimiser\.kind: {optimiser} reads whole matrices, which distributed\.kind = '{kind}'"
    )
    with pytest.raises(BadInput, match=fault):
        read(recipe, [*divided, f"optimiser.kind={optimiser}"])
    assert read(recipe, [*divided, "optimiser.kind=adamw"]).distributed.kind == kind


def test_examples_may_be_held_out_of_training(recipe, tmp_path):
    assert read(recipe, ["data.dev={held_out = 5}"]).data.dev.held_out == 5
    for setting, said in [
        ('data.dev={held_out = 5, table = "a"}', "name no file beside it"),
        ("data.test={held_out = 5}", "held_out can only be used in data.dev"),
        ("data.dev={held_out = 0}", "greater than or equal to 1"),
    ]:
        with pytest.raises(BadInput, match=said):
            read(recipe, [setting])
    with pytest.raises(BadInput, match="no file of their own"):
        FilesConfig(held_out=5).under(tmp_path)
    csv = FilesConfig(csv="a.csv", columns=(0, 1)).under(tmp_path)
    assert csv == Csv(str(tmp_path / "a.csv"), (0, 1))


TUNING = """
task = "tag"
data = { train = { reader = "CoNLL", file = "a" }, dev = { reader = "CoNLL", file = "b" } }
model = { paper = "bert" }
optimiser = { rate = 1e-3 }
train = { steps = 1, smoothing = 0.0 }
"""


def test_what_belongs_to_another_task_is_refused(recipe):
    classify = 'task = "classify"\n' + RECIPE.split("[decode]")[0]
    promise = ["expect.score=1", "expect.tolerance=1", "expect.source=x"]
    for text, settings, said in [
        (RECIPE, ["labels.weights=balanced"], "labels cannot be used with task"),
        (RECIPE, ["train.judge=bleu"], "train.judge is called train.metric now"),
        (RECIPE, ["train.metric=accuracy"], r"train.metric: '\w+' is no measure"),
        (RECIPE, [*promise, "expect.metric=accuracy"], "expect.metric: 'accuracy' is no measure"),
        (classify, ["decode.beam=3"], "decode cannot be used with task"),
        (classify, ["train.metric=bleu"], r"train.metric: '\w+' is no measure"),
        (classify, ["text.joint=false"], "text.joint cannot be used with task"),
        (classify, promise, "expect.metric: 'BLEU' is no measure"),
        (classify, ["labels.weights={a=0}"], "labels.weights"),
        (
            classify,
            ["model.size=", "text=false", "model.target=a", "model.start=folder"],
            "target cannot be used with start",
        ),
        (
            TUNING,
            ["text.kind=bpe"],
            "text.kind cannot be used as 'bpe' with model.paper = 'bert', whose tok",
        ),
        (
            TUNING,
            ["text.normalise=nfkc"],
            "text.normalise cannot be used as 'nfkc' with model.paper",
        ),
        (TUNING, ["text.dropout=0.1"], "text.dropout cannot be used as 0.1 with model.paper"),
        (classify, ["labels.wheights={a=2}"], "unknown key 'labels.wheights'; did you mean"),
    ]:
        recipe.write_text(text)
        with pytest.raises(BadInput, match=said):
            read(recipe, settings)
    recipe.write_text(classify)
    assert read(recipe, ["labels.weights=balanced"]).task == "classify"


def test_where_examples_come_from_is_not_merged(tmp_path):
    under = RECIPE.replace("[text]", "[text]", 1)
    (tmp_path / "under.toml").write_text(under)
    over = 'like = "under"\n[data]\ndev = { held_out = 3 }\n[model]\nstart = ""\n'
    (tmp_path / "over.toml").write_text(over)
    recipe = read(tmp_path / "over.toml")
    assert recipe.data.dev.held_out == 3 and recipe.data.dev.source is None
    assert recipe.data.train == read(tmp_path / "under.toml").data.train
    assert recipe.model.start is None


def test_who_names_other_examples_inherits_none(tmp_path):
    (tmp_path / "under.toml").write_text(RECIPE)
    assert read(tmp_path / "under.toml").data.test is not None
    over = (
        'like = "under"\n[data]\ntrain = { source = "a", target = "b" }\ndev = { held_out = 3 }\n'
    )
    (tmp_path / "over.toml").write_text(over)
    assert read(tmp_path / "over.toml").data.test is None


def test_who_names_other_examples_or_another_model_inherits_no_expected_score(tmp_path):
    path, data = tmp_path / "over.toml", '[data]\ntrain = { source = "a", target = "b" }\n'
    like = 'like = "multi30k-en-de"\n'
    path.write_text(like)
    assert read(path).expect == read(find("multi30k-en-de")).expect is not None
    path.write_text(f"{like}{data}dev = {{ held_out = 3 }}\n")
    assert read(path).expect is None
    expect = '[expect]\nscore = 9.5\ntolerance = 1\nsource = "a run"\n'
    path.write_text(f"{like}{data}dev = {{ held_out = 3 }}\n{expect}")
    assert read(path).expect.score == 9.5
    path.write_text(f"expect = false\n{like}{data}dev = {{ held_out = 3 }}\n")
    assert read(path).expect is None
    path.write_text(f"{like}[model]\nchange = {{ depth = 2 }}\n")
    assert read(path).expect is None
    ladder = like.replace("multi30k-en-de", "ladder-multi30k")
    path.write_text(f"{ladder}{data}dev = {{ held_out = 3 }}\n")
    assert len(read(path).rung) == len(read(find("ladder-multi30k")).rung)
    assert all(rung.expect is None for rung in read(path).rung)


def test_no_further_test_sets_are_an_empty_table(tmp_path):
    path = tmp_path / "over.toml"
    (tmp_path / "under.toml").write_text(RECIPE)
    further = 'like = "under"\n[data.more_tests]\nweb = { source = "a", target = "b" }\n'
    (tmp_path / "further.toml").write_text(further)
    path.write_text('like = "further"\n')
    assert [*read(path).data.more_tests] == ["web"]
    path.write_text('like = "further"\n[data]\nmore_tests = {}\n')
    assert not read(path).data.more_tests
    path.write_text('like = "further"\n[data]\nmore_tests = false\n')
    with pytest.raises(BadInput, match=r"write a table of test sets.*\{\} drops .*given False"):
        read(path)


@pytest.mark.parametrize(
    ("setting", "key", "value"),
    [
        ("model.paper=", "model.paper", "transformer"),
        ("model.change=", "model.change", {}),
        ("model.change=false", "model.change", {}),
        ("model.size=", "model.size", None),
        ("data.test=false", "data.test", None),
        ("data.test=", "data.test", None),
        ("expect=", "expect", None),
        ("train.seed=", "train.seed", 1),
    ],
)
def test_a_setting_without_a_value_removes_a_key(setting, key, value):
    path = find("multi30k-en-de")
    assert attrgetter(key)(read(path)) != value or key in ("model.paper", "train.seed")
    assert attrgetter(key)(read(path, [setting])) == value
    name, _, given = setting.partition("=")
    settings = {name: False if given else None}
    assert attrgetter(key)(read(path, settings)) == value


def test_a_setting_removes_no_key_that_is_needed():
    with pytest.raises(BadInput, match=r"^setting data.dev=false: data.dev is missing$"):
        read(find("multi30k-en-de"), ["data.dev=false"])
    missing = r"^setting train.steps=: train.steps is missing: give train.steps or train.epochs$"
    with pytest.raises(BadInput, match=missing):
        read(find("multi30k-en-de"), ["train.steps="])


def test_a_recipe_has_steps_or_epochs(recipe, tmp_path):
    in_epochs = re.sub(r"(?m)^steps = .*", "epochs = 2.5", RECIPE)
    recipe.write_text(in_epochs)
    assert (read(recipe).train.steps, read(recipe).train.epochs) == (0, 2.5)
    assert read(recipe, ["train.steps=7"]).train.epochs == 0  # a setting replaces the other
    recipe.write_text(RECIPE.replace("steps = 12", "steps = 12\nepochs = 2.0"))
    with pytest.raises(BadInput, match=r"small\.toml: train\.steps and train\.epochs exclude each"):
        read(recipe)
    recipe.write_text(RECIPE.replace("steps = 12", ""))
    with pytest.raises(BadInput, match=r"small\.toml: train\.steps is missing: give .*epochs$"):
        read(recipe)
    with pytest.raises(BadInput, match=r"^settings train\.steps=2 and train\.epochs=1 excl"):
        read(recipe, ["train.epochs=1", "train.steps=2"])
    for wrong in ("0", "-1", "nan", "inf"):
        with pytest.raises(BadInput, match=f"^setting train.epochs={wrong}: train.epochs: "):
            read(recipe, [f"train.epochs={wrong}"])


@pytest.mark.parametrize(
    ("name", "smoothing"), [("multi30k-en-de", 0.1), ("glue-sst2", 0.0), ("gpt-tour", 0.0)]
)
def test_labels_are_smoothed_by_default_for_translation_only(name, smoothing):
    recipe = read(find(name))
    assert "smoothing" not in recipe.train.model_fields_set
    assert recipe.train.smoothing == recipe.tables.smoothing == smoothing


def test_a_rung_of_translators_has_the_smoothing_of_its_task():
    ladder = read(find("ladder-tour"), ["train.smoothing="])
    assert {ladder.at(rung).train.smoothing for rung in ladder.rung} == {0.1}


def test_the_length_of_an_inherited_recipe_and_of_a_rung_is_replaced(recipe, tmp_path):
    recipe.write_text(RECIPE)
    mine = tmp_path / "mine.toml"
    mine.write_text('like = "small"\n[train]\nepochs = 3\n')
    assert (read(mine).train.steps, read(mine).train.epochs) == (0, 3)
    rung = '[[rung]]\nname = "one"\nmodel = { size = "laptop" }\ntrain = { epochs = 0.5 }\n'
    recipe.write_text(RECIPE + rung)
    ladder = read(recipe)
    assert ladder.at(ladder.rung[0]).train.epochs == 0.5
    assert ladder.at(ladder.rung[0]).train.steps == 0


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("model.sise=", "setting model.sise=: unknown key 'model.sise'; did you mean 'size'?"),
        ("tekst=false", "setting tekst=: unknown key 'tekst'; did you mean 'text'?"),
        ("=", "setting =: unknown key ''; known: .*train"),
        ("model.change.widht=", "setting model.change.widht=: unknown key .*mean 'width'?"),
        ("train.steps.foo=", "setting train.steps.foo=: unknown key .*known: none"),
    ],
)
def test_a_setting_removes_no_key_that_is_unknown(setting, message):
    with pytest.raises(BadInput, match=f"^{message}"):
        read(find("multi30k-en-de"), [setting])


def test_an_objective_that_is_removed_must_be_known():
    path = find("pretrain-tour")
    assert read(path, ["objective.next-sentence=false"]).objective
    with pytest.raises(BadInput, match=r"unknown key 'objective.next-sentense'; did you mean"):
        read(path, ["objective.next-sentense=false"])


def test_who_names_a_paper_inherits_no_facts_of_another(tmp_path):
    path = tmp_path / "over.toml"
    path.write_text('like = "objectives-masked-lm"\n[model]\nchange = { depth = 2 }\n')
    assert read(path).model.change["longest"] == 128
    path.write_text('like = "objectives-masked-lm"\n[model]\npaper = "albert"\n')
    model = read(path).model
    assert model.name == "albert" and model.change == {}


def test_what_another_recipe_is_about_is_not_inherited(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('like = "tour"\n')
    assert read(path).about == AboutConfig(title="mine")
    path.write_text('like = "tour"\n[about]\nhardware = "a watch"\n')
    assert read(path).about == AboutConfig(title="mine", hardware="a watch")


def test_a_setting_that_is_wrong_is_named_and_not_the_file(recipe):
    with pytest.raises(BadInput, match=r"^setting train.steps=0: train.steps: .*greater than"):
        read(recipe, ["train.seed=3", "train.steps=0"])
    recipe.write_text(re.sub(r"(?m)^steps = .*", "steps = 0", RECIPE))
    with pytest.raises(BadInput, match=r"\.toml: train.steps"):
        read(recipe, ["train.seed=3"])


def test_a_recipe_need_not_say_what_it_is_about(recipe):
    recipe.write_text(RECIPE[RECIPE.index("[data]") :])
    about = read(recipe).about
    assert about.title == "small" and about.minutes is None
    recipe.write_text(RECIPE.replace('command = "regard train small.toml"\n', ""))
    assert read(recipe).about.title == "words in reverse order"


@pytest.mark.parametrize("task", ['["classify"]', "{ classify = 1 }", "3", '"clasify"'])
def test_a_task_that_does_not_exist_is_named(recipe, task):
    recipe.write_text(f"task = {task}\n{RECIPE}")
    with pytest.raises(BadInput, match=r"small\.toml: no task is called .*classify"):
        read(recipe)


def test_a_number_where_a_table_belongs_is_refused():
    with pytest.raises(BadInput, match=r"batches: write a table of keys and values \(given 3\)"):
        make_recipe({"batches": 3}, "small.toml")


def test_all_errors_of_a_recipe_are_reported_together(recipe):
    recipe.write_text(RECIPE.replace("vocab = 320", 'vocab = 0\nkynd = "bpe"'))
    with pytest.raises(BadInput) as caught:
        read(recipe, ["train.steps=0", "batches.rows=none"])
    said = str(caught.value)
    assert said.startswith(f"{recipe}: 4 faults: 1. ")
    for fault in (
        "text.vocab: Input should be greater than or equal to 1 (given 0)",
        "unknown key 'text.kynd'; did you mean 'kind'?",
        "setting batches.rows=none: batches.rows: ",
        "setting train.steps=0: train.steps: ",
    ):
        assert fault in said
    assert said.count("batches.rows:") == 1


def test_all_keys_that_a_task_does_not_use_are_reported_together(recipe):
    wrong = ["labels.weights=balanced", "train.metric=accuracy", "answers.stride=3"]
    with pytest.raises(BadInput, match="3 faults") as caught:
        read(recipe, wrong)
    for fault in (
        "labels cannot",
        "answers cannot",
        "setting train.metric=accuracy: train.metric: ",
    ):
        assert fault in str(caught.value)


def test_a_value_that_could_be_of_two_kinds_is_one_fault(recipe):
    with pytest.raises(BadInput) as caught:
        read(recipe, ["data.train={table = 'a', columns = [1.5, 2]}"])
    assert "faults" not in str(caught.value)
    with pytest.raises(BadInput) as caught:
        read(recipe, ["labels.weights=3"])
    assert "faults" not in str(caught.value)


def test_errors_of_every_rung_are_reported(tmp_path):
    rung = '[[rung]]\nname = "{}"\nmodel = {{ size = "laptop" }}\ntrain = {{ steps = 0 }}\n'
    path = tmp_path / "ladder.toml"
    path.write_text(RECIPE + rung.format("one") + rung.format("two"))
    with pytest.raises(BadInput, match=r"2 faults: 1\. rung 'one': .*2\. rung 'two': train.steps"):
        read(path)


def test_training_from_scratch_has_a_word(tmp_path):
    assert read(find("glue-sst2")).model.start.folder == "minilm"
    path = tmp_path / "mine.toml"
    path.write_text('like = "glue-sst2"\n[model]\nstart = "scratch"\n')
    assert read(path).model.start is None
    assert read(find("glue-sst2"), ["model.start=scratch"]).model.start is None


def test_no_recipe_chooses_by_the_set_that_it_is_scored_on():
    for path in built_in_recipes():
        data = read(path).data
        tests = [data.test, *data.more_tests.values()]
        assert data.dev not in tests and data.train not in tests, path.stem


def test_articles_of_squad_are_in_one_set_only():
    data = read(find("squad")).data
    ranges = [range(*files.options["articles"]) for files in (data.train, data.dev, data.test)]
    numbers = [number for one in ranges for number in one]
    assert sorted(numbers) == list(range(48))
