"""Files appear whole or not at all, and links and devices stay what they are."""

import os
import re
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch

from regard.core.errors import BadInput
from regard.core.files import (
    read_bytes,
    read_json,
    replacing,
    replacing_folder,
    sweep_folder,
    temporary_name,
    write_text,
)
from regard.weights.files import read_pickled, read_tensors, write_tensors
from small_shards import write_rows


def test_a_block_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "a"
    write_text(path, "old")
    with pytest.raises(RuntimeError), replacing(path) as temporary:
        temporary.write_text("new")
        raise RuntimeError
    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("replace", [replacing, replacing_folder])
def test_folders_on_the_way_are_made_and_go_again_if_the_block_fails(replace, tmp_path):
    path = tmp_path / "new" / "deep" / "a"
    with pytest.raises(RuntimeError), replace(path):
        assert path.parent.is_dir()
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(RuntimeError), replace(path):
        (tmp_path / "new" / "other").write_text("of somebody else")
        raise RuntimeError
    assert [one.name for one in (tmp_path / "new").iterdir()] == ["other"]
    with replace(path):
        pass
    assert path.exists()


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


def test_files_get_the_mode_of_the_umask(tmp_path):
    before = os.umask(0o022)
    try:
        write_text(tmp_path / "a.txt", "x")
        write_tensors(tmp_path / "a.safetensors", {"w": torch.ones(2)})
        os.umask(0o077)
        write_tensors(tmp_path / "b.safetensors", {"w": torch.ones(2)})
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"a.txt": 0o644, "a.safetensors": 0o644, "b.safetensors": 0o600}


@pytest.mark.parametrize("read", [read_tensors, read_pickled, read_json])
def test_an_unreadable_file_is_not_reported_as_missing(read):
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        path = Path(name) / "file"
        path.write_bytes(b"{}")
        path.chmod(0)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65_534)  # nobody: root may read everything
        try:
            with pytest.raises(BadInput, match=r"file: cannot be read \(Permission denied\)"):
                read(path)
        finally:
            os.seteuid(user)


def killed_process() -> int:
    """The number of a process that is no more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def left_by(process, path, monkeypatch, host=None, numbers=None):
    """What a process was writing, here or on another host or in another container."""
    with monkeypatch.context() as patched:
        patched.setattr(os, "getpid", lambda: process)
        if host:
            patched.setattr(socket, "gethostname", lambda: host)
        if numbers:
            patched.setattr(os, "readlink", lambda path: numbers)
        return temporary_name(path)


def test_what_a_kill_left_is_swept_by_the_next_write(tmp_path, monkeypatch):
    dead, parent = killed_process(), os.getppid()
    names = [(dead, "a"), (os.getpid(), "a"), (dead, "rows.bin"), (dead, ".text")]
    left = [left_by(process, tmp_path / name, monkeypatch) for process, name in names]
    others = [
        left_by(*one, monkeypatch) for one in ((dead, tmp_path / "b"), (parent, tmp_path / "a"))
    ]
    others.append(tmp_path / "a.x.tmp")
    for path in (*left[:-1], *others):
        path.touch()
    left[-1].mkdir()
    (left[-1] / "file").touch()
    write_text(tmp_path / "a", "x")
    write_rows(tmp_path / "rows", [[1, 2]], 3)
    with replacing_folder(tmp_path / "text") as folder:
        (folder / "file").touch()
    assert not any(path.exists() for path in left)
    assert all(path.exists() for path in others)
    assert (tmp_path / "text" / "file").exists()


def test_what_another_host_or_container_writes_is_left_alone(tmp_path, monkeypatch):
    """Its processes look dead from here, or have this one's number."""
    path = tmp_path / "a"
    elsewhere = [
        left_by(process, path, monkeypatch, **where)
        for process in (killed_process(), os.getpid())
        for where in ({"host": "elsewhere"}, {"numbers": "pid:[1]"})
    ]
    for one in elsewhere:
        one.touch()
    write_text(path, "x")
    assert all(one.exists() for one in elsewhere)
    assert temporary_name(path) not in elsewhere and len(set(elsewhere)) == 4


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    with pytest.raises(RuntimeError), replacing_folder(tmp_path / "a") as folder:
        (folder / "one").touch()
        raise RuntimeError
    assert not list(tmp_path.iterdir())
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "old").touch()
    said = "a: cannot be written (Directory not empty)"
    with pytest.raises(BadInput, match=re.escape(said)), replacing_folder(tmp_path / "a") as folder:
        (folder / "new").touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "old"]


def test_one_who_holds_the_lock_on_a_folder_sweeps_it_of_all_hosts(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    for path in (tmp_path / ".text", tmp_path / "data" / "train.bin"):
        left_by(7, path, monkeypatch, host="elsewhere").touch()
    kept = [tmp_path / "data" / "mine.tmp", left_by(os.getppid(), tmp_path / "a", monkeypatch)]
    for path in kept:
        path.touch()
    sweep_folder(tmp_path)
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == set(kept)
