"""Files appear whole or not at all, and links and devices stay what they are."""

import os

import pytest

from regard.ground.errors import BadInput
from regard.ground.files import read_json, replacing, write_text


def test_a_block_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "a"
    write_text(path, "old")
    with pytest.raises(RuntimeError), replacing(path) as temporary:
        temporary.write_text("new")
        raise RuntimeError
    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


def test_a_link_keeps_pointing_where_it_points(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_pipe_is_written_and_stays_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_text(tmp_path / "pipe", "through")
    assert os.read(reader, 100) == b"through"
    assert (tmp_path / "pipe").is_fifo()


def test_a_folder_is_not_a_file(tmp_path):
    with pytest.raises(BadInput, match="is a folder"):
        write_text(tmp_path, "x")


@pytest.mark.parametrize(("content", "said"), [("{", "not JSON"), ("[]", "not a JSON object")])
def test_json_that_is_none(tmp_path, content, said):
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(BadInput, match=said):
        read_json(tmp_path / "a.json")
    with pytest.raises(BadInput, match="cannot be read"):
        read_json(tmp_path / "b.json")
