"""Damaged folders are used or refused in one line; see ``mutated_folders`` for many of them."""

import json

import pytest

from faults.mutated_folders import USES, build, campaign, copied


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("folders")
    build(folder)
    return folder


def check(folders, count: int, seed: int) -> None:
    records = list(campaign(folders, count, seed))
    assert len(records) == count
    wrong = [record for record in records if record["outcome"] == "WRONG"]
    assert not wrong, json.dumps(wrong, indent=1)
    assert {record["outcome"] for record in records} == {"used", "refused"}


@pytest.mark.thinned
@pytest.mark.parametrize("kind", USES)
def test_whole_folders_are_used(folders, tmp_path, kind):
    if not (folders / kind).is_dir():
        pytest.skip("needs SentencePiece")
    USES[kind](copied(folders, kind, tmp_path))


@pytest.mark.slow
def test_a_few_damaged_folders(folders, seed):
    check(folders, 30, seed)


@pytest.mark.slow
def test_many_damaged_folders(folders, seed):
    check(folders, 1000, seed)
