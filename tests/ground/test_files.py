"""Files appear whole or not at all, and links and devices stay what they are."""

import os

import pytest

from regard.ground.errors import BadInput
from regard.ground.files import read_bytes, read_json, replacing, write_text


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


def test_a_pipe_or_a_device_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zeros").symlink_to("/dev/zero")
    for name in ("pipe", "zeros", "."):
        for read in (read_bytes, read_json):
            with pytest.raises(BadInput, match=r"cannot be read \(not a regular file"):
                read(tmp_path / name)


def test_a_link_to_a_file_is_read(tmp_path):
    (tmp_path / "real").write_text('{"a": 1}')
    (tmp_path / "link").symlink_to("real")
    assert read_json(tmp_path / "link") == {"a": 1}
    assert read_bytes(tmp_path / "link") == b'{"a": 1}'


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    with (tmp_path / "a.json").open("wb") as file:
        file.truncate(1 << 40)  # a hole: it takes no room on the disk
    for read in (read_bytes, read_json):
        with pytest.raises(BadInput, match=r"a\.json: cannot be read \(1,099,511,627,776"):
            read(tmp_path / "a.json")
