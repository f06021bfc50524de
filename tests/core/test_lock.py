"""One process at a time writes into a folder."""

import errno
import gc
import os
import signal
import subprocess
import sys

import pytest

from regard.core import lock as locks
from regard.core.errors import BadInput
from regard.core.files import temporary_name
from regard.core.lock import LOCK, is_vacant, lock_folder, lock_vacant

HOLD = (
    "import sys, time; from pathlib import Path; from regard.core.lock import lock_folder; "
    "kept = lock_folder(Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"
)


def holder_of(folder):
    """A second process that holds the lock by the time this returns."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, folder], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    process.stdout.close()
    return process


def test_a_second_process_is_refused_until_the_first_is_killed(tmp_path):
    folder = tmp_path / "run"
    first = holder_of(folder)
    try:
        said = rf"run: in use by another run \(process {first.pid} on .+\); wait"
        with pytest.raises(BadInput, match=said):
            lock_folder(folder)
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
    assert lock_folder(folder).held


def test_one_process_may_ask_again_and_releases_it_after_the_last_block(tmp_path):
    first, again = lock_folder(tmp_path), lock_folder(tmp_path)
    assert first is again
    with first, again:
        pass
    holder = holder_of(tmp_path)
    holder.kill()
    holder.wait()
    third = lock_folder(tmp_path)
    assert third is not first and third.in_place
    del third
    gc.collect()
    assert lock_folder(tmp_path).held


def test_a_file_system_without_locks_is_remembered(tmp_path, monkeypatch):
    def unsupported(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(locks.fcntl, "flock", unsupported)
    assert not lock_folder(tmp_path / "a").held


def test_a_folder_with_nothing_but_a_lock_is_vacant(tmp_path):
    assert is_vacant(tmp_path / "nowhere")
    (tmp_path / LOCK).touch()
    temporary_name(tmp_path / "recipe.json").touch()  # of a process that was killed
    assert is_vacant(tmp_path)
    (tmp_path / "file").touch()
    assert not is_vacant(tmp_path)
    assert not is_vacant(tmp_path / "file")


def test_a_vacant_folder_is_swept_when_it_is_locked(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("socket.gethostname", lambda: "elsewhere")
        temporary_name(tmp_path / "recipe.json").touch()
    with lock_vacant(tmp_path):
        assert [path.name for path in tmp_path.iterdir()] == [LOCK]


def test_a_lock_knows_whether_its_folder_was_replaced(tmp_path):
    folder = tmp_path / "run"
    lock = lock_folder(folder)
    assert lock.in_place
    (folder / LOCK).rename(tmp_path / "elsewhere")
    assert not lock.in_place
    (folder / LOCK).touch()
    assert not lock.in_place
    (tmp_path / "elsewhere").replace(folder / LOCK)
    assert lock.in_place
    lock.release()
    assert not lock.in_place


def test_what_is_no_file_is_no_lock(tmp_path):
    (tmp_path / "mine").write_text("precious")
    makes = [
        os.mkfifo,
        lambda path: path.symlink_to("/dev/null"),
        lambda path: path.symlink_to(tmp_path / "mine"),
        lambda path: path.mkdir(),
    ]
    for number, make in enumerate(makes):
        folder = tmp_path / str(number)
        folder.mkdir()
        make(folder / LOCK)
        with pytest.raises(BadInput, match="cannot be written"):
            lock_folder(folder)
    assert (tmp_path / "mine").read_text() == "precious"


def test_a_discarded_lock_leaves_neither_file_nor_folder(tmp_path):
    lock_folder(tmp_path / "runs" / "one").discard()
    assert not [*tmp_path.iterdir()]
    kept = lock_folder(tmp_path / "runs" / "one")
    (tmp_path / "runs" / "other").touch()
    kept.discard()
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["other"]
    lock_folder(tmp_path).discard()  # was there before
    assert tmp_path.is_dir() and not (tmp_path / LOCK).exists()


def test_a_lock_on_a_file_that_was_removed_meanwhile_is_refused(tmp_path, monkeypatch):
    def removed(*_):
        (tmp_path / LOCK).unlink()

    monkeypatch.setattr(locks.fcntl, "flock", removed)
    with pytest.raises(BadInput, match="was in use until now; try again"):
        lock_folder(tmp_path)
