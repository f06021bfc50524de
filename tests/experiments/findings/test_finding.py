"""Findings and verdicts: inputs, outcomes by intervals, the page and the record."""

import json
from pathlib import Path

import pytest

from regard.core.errors import BadInput
from regard.core.files import digest_folder
from regard.experiments.findings import FINDINGS, finding
from regard.experiments.findings.finding import (
    CannotShow,
    CheckInputs,
    DataUsed,
    Evidence,
    Finding,
    Judgement,
    judge_interval,
    require_examples,
)
from regard.metrics.intervals import Interval
from small_bert import model as small_bert


def evidence(inputs: CheckInputs) -> Evidence:
    return Evidence(
        "12 & more",
        Judgement("reproduced", "12 is at least 10"),
        DataUsed.of_files(inputs.data),
        ["head", "score"],
        [["0", "<12>"]],
        ["<svg/>"],
        ["a note"],
    )


def refuse(inputs: CheckInputs) -> Evidence:
    raise CannotShow("it has no wings")


def made(measure=evidence, options=()) -> Finding:
    return Finding(
        name="flying",
        paper="Bird et al., 2020",
        year=2020,
        claim="it flies",
        published="10",
        rule="at least 10",
        model="an owl",
        data=("file of owls",),
        measure=measure,
        options=options,
    )


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> CheckInputs:
    folder = tmp_path_factory.mktemp("findings")
    small_bert("states").save(folder / "model")
    (folder / "owls.txt").write_text("an owl\n")
    return CheckInputs(str(folder / "model"), (folder / "owls.txt",), device="cpu")


@pytest.mark.parametrize(
    ("bounds", "outcome"),
    [
        ((1.1, 2.0), "reproduced"),
        ((1.5, 2.0), "reproduced"),
        ((0.2, 1.0), "not reproduced"),
        ((1.0, 1.5), "cannot be shown"),
        ((2.0, 2.0), "cannot be shown"),  # examples that are all alike
        ((-2.0, -2.0), "cannot be shown"),
        ((-9e-7, 9e-7), "cannot be shown"),
        ((float("nan"), float("nan")), "cannot be shown"),
    ],
)
def test_an_interval_decides(bounds, outcome):
    judgement = judge_interval("gain", Interval(*bounds), 1.0)
    assert judgement.outcome == outcome
    assert f"gain ({bounds[0]:+.1f} to {bounds[1]:+.1f})" in judgement.reason


def test_the_page_has_command_hashes_and_both_values(inputs):
    verdict = made().check(inputs)
    page = verdict.html()
    folder, (owls,) = inputs.model, inputs.data
    assert verdict.outcome == "reproduced"
    assert verdict.model_hash == digest_folder(Path(folder))[:12]
    for text in (
        verdict.model_hash,
        verdict.evidence.data.hash,
        f"regard check flying --model {folder} --data {owls}",
        "<dt>published</dt><dd>10</dd>",
        "<dt>ours</dt><dd>12 &amp; more</dd>",
        "<dt>rule</dt><dd>at least 10</dd>",
        "reproduced: 12 is at least 10",
        "&lt;12&gt;",
        "<svg/>",
        "a note",
    ):
        assert text in page
    assert "//" not in page  # no external resource


def test_the_hash_of_data_follows_names_and_contents(tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_text("owl")
    second.write_text("owl")
    hashes = {DataUsed.of_files(files).hash for files in ([first], [second], [first, second])}
    assert len(hashes) == 3
    before = DataUsed.of_files([first])
    first.write_text("dog")
    assert DataUsed.of_files([first]).hash != before.hash and before.name == "a"
    assert DataUsed.of_texts("owls", ["a", "b"]) != DataUsed.of_texts("owls", ["a", "c"])


def test_files_of_one_name_are_told_apart(tmp_path):
    paths = [tmp_path / folder / "watch" / "heads.jsonl" for folder in ("deep", "shallow")]
    for path in paths:
        path.parent.mkdir(parents=True)
        path.write_text("owl")
    before = DataUsed.of_files([*paths, *paths])
    assert before.name == "deep/watch/heads.jsonl, shallow/watch/heads.jsonl"
    run = DataUsed.of_run(tmp_path / "deep", paths[:1])
    assert run.name == "deep/watch/heads.jsonl"
    both = DataUsed.of_all(run, DataUsed.of_texts("a text", ["owl"]))
    assert both.name == "deep/watch/heads.jsonl, a text"
    paths[0].write_text("dog")
    assert DataUsed.of_files(paths).hash != before.hash
    changed = DataUsed.of_run(tmp_path / "deep", paths[:1])
    assert DataUsed.of_all(changed, DataUsed.of_texts("a text", ["owl"])).hash != both.hash


def test_few_examples_show_nothing():
    require_examples(10, "owls")
    with pytest.raises(CannotShow, match="9 owls are too few: 10 or more are needed"):
        require_examples(9, "owls")


def test_the_command_repeats_the_options(inputs):
    own = CheckInputs("a model", (Path("x"), Path("y")), "tour", 5, 2)
    assert own.command("f") == (
        "regard check f --model 'a model' --data x --data y --recipe tour --limit 5 --seed 2"
    )


def test_a_model_that_cannot_show_a_finding_gets_a_verdict_with_the_reason(inputs):
    verdict = made(refuse).check(inputs)
    assert verdict.outcome == "cannot be shown"
    assert dict(verdict.facts())["verdict"] == "cannot be shown with this model: it has no wings"
    record = verdict.to_json()
    assert record["verdict"] == "cannot be shown" and record["reason"] == "it has no wings"
    assert json.dumps(record) and "it has no wings" in verdict.html()


def test_missing_data_and_unused_options_are_refused(inputs):
    for changes, message in (
        ({"data": ()}, "flying: needs data file of owls"),
        ({"data": (Path("missing"),)}, "missing: cannot be read"),
        ({"limit": 3}, "flying: limit cannot be used with this finding"),
        ({"seed": 3, "recipe": "tour"}, "flying: recipe, seed cannot be used"),
    ):
        own = CheckInputs(**{"model": inputs.model, "data": inputs.data, **changes})
        with pytest.raises(BadInput, match=message):
            made().check(own)
    with pytest.raises(BadInput, match="flying: needs recipe"):
        made(options=("recipe",)).check(inputs)


def test_findings_have_names_rules_and_needs():
    assert len({each.name for each in FINDINGS}) == len(FINDINGS)
    assert [each.year for each in FINDINGS] == sorted(each.year for each in FINDINGS)
    for each in FINDINGS:
        assert finding(each.name) is each and str(each.year) in each.paper
        assert all((each.claim, each.published, each.rule, each.needs))
    with pytest.raises(BadInput, match="no finding is called 'owl'; known: "):
        finding("owl")
