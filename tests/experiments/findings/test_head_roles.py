"""Head roles (Clark et al., 2019): the rule on made-up scores, and the verb on a small encoder."""

import json

import pytest

from regard.experiments.findings.head_roles import judge
from regard.inside.heads.relations import RelationScore
from regard.metrics.intervals import Interval
from small_bert import model as small_bert
from small_images import small_vit
from small_probes import write_treebank
from verb import run


def score(relation: str, low: float, high: float) -> RelationScore:
    middle = (low + high) / 2
    shown = Interval(low, high)
    return RelationScore(relation, 200, 0, 0, "from head", 0.8, shown, 1, 0.5, middle, shown)


SURE, OPEN, BELOW = (0.1, 0.3), (0.05, 0.2), (0.0, 0.09)


@pytest.mark.parametrize(
    ("bounds", "outcome"),
    [
        ([SURE, SURE, SURE, BELOW], "reproduced"),
        ([SURE, SURE, OPEN, BELOW], "cannot be shown"),
        ([SURE, SURE, BELOW, BELOW], "not reproduced"),
        ([SURE, SURE], "cannot be shown"),
    ],
)
def test_three_relations_beat_the_offset(bounds, outcome):
    scores = [score(f"r{number}", *each) for number, each in enumerate(bounds)]
    assert judge(scores).outcome == outcome
    assert judge([score("all", *SURE), *scores]).outcome == outcome  # "all" is no relation


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("roles")
    small_bert("states").save(folder / "model")
    (folder / "bank").mkdir()
    for name in ("dev", "test"):
        write_treebank(folder / "bank" / f"{name}.conllu", 40)
    return folder


@pytest.mark.slow
def test_the_verb_prints_the_verdict_and_writes_the_page(folder, tmp_path):
    page = tmp_path / "roles.html"
    call = ("check", "head-roles", "--model", folder / "model", "--data", folder / "bank")
    done = run(*call, "--out", page, code=None)
    assert done.exit_code == (0 if "verdict:   reproduced" in done.stdout else 1)
    for part in ("published:", "ours:", "rule:", "verdict:", "nsubj", "command:   regard check"):
        assert part in done.stdout
    content = page.read_text()
    assert "SHA-256" in content and "<svg" in content and "regard check head-roles" in content
    record = json.loads(run(*call, "--json", code=None).stdout)
    assert record["verdict"] in ("reproduced", "not reproduced", "cannot be shown")
    assert len(record["model"]["sha256"]) == len(record["data"]["sha256"]) == 12
    assert "| verdict |" in run(*call, "--format", "markdown", code=None).stdout


def test_the_list_says_what_each_finding_needs():
    printed = run("check").stdout
    assert "head-roles" in printed.splitlines() and "    needs: an encoder" in printed
    records = [*map(json.loads, run("check", "--json").stdout.splitlines())]
    assert "head-roles" in [record["finding"] for record in records] and records[0]["needs"]


def test_a_model_of_images_cannot_show_it(folder, tmp_path):
    small_vit(depth=2).save(tmp_path / "vit")
    done = run(
        "check", "head-roles", "--model", tmp_path / "vit", "--data", folder / "bank", code=1
    )
    reason = "verdict:   cannot be shown with this model: it has no self-attention over the words"
    assert reason in done.stdout
