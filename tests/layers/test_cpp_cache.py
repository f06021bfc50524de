"""The cache is in a folder of this user's own; a folder others may write to is not trusted."""

import os
import tempfile
from pathlib import Path

import pytest

from regard.layers.cpp import build
from regard.layers.cpp.build import cache_folder, is_private


@pytest.fixture(autouse=True)
def places(monkeypatch, tmp_path):
    """All usual places, in one folder: ``cache``, ``home`` and ``temporary``."""
    build._temporary.cache_clear()
    for name in ("cache", "home", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    yield tmp_path
    build._temporary.cache_clear()


def homeless():
    raise RuntimeError("Could not determine home directory.")


def test_it_is_where_the_standard_says(places, monkeypatch):
    assert cache_folder() == places / "cache" / "regard"
    assert (places / "cache" / "regard").stat().st_mode & 0o777 == 0o700
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert cache_folder() == places / "home" / ".cache" / "regard"


def test_a_user_without_a_home_has_one_too(places, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", homeless)
    assert cache_folder() == places / "temporary" / f"regard-{os.getuid()}"
    assert cache_folder() == cache_folder()


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_may_write_to_is_not_used(places, mode):
    (places / "cache" / "regard").mkdir()
    (places / "cache" / "regard").chmod(mode)
    assert cache_folder() == places / "home" / ".cache" / "regard"


def test_a_folder_of_somebody_else_is_not_used(places, monkeypatch):
    ours = os.getuid()
    (places / "temporary" / f"regard-{ours + 1}").mkdir()
    monkeypatch.setattr(os, "getuid", lambda: ours + 1)
    found = cache_folder()
    assert found.parent == places / "temporary" and found.name != f"regard-{ours + 1}"
    assert cache_folder() == found  # the same for the whole process
    assert not any(found.iterdir())


def test_a_place_that_is_a_file_is_passed_over(places):
    (places / "cache" / "regard").write_text("")
    assert cache_folder() == places / "home" / ".cache" / "regard"


def test_a_link_is_not_used_wherever_it_leads(places):
    """In a folder that all may write to, another user may have made it, and may change it."""
    (places / "mine").mkdir(mode=0o700)
    (places / "mine" / "one.so").touch(mode=0o700)
    (places / "cache" / "regard").symlink_to(places / "mine")
    (places / "one.so").symlink_to(places / "mine" / "one.so")
    assert cache_folder() == places / "home" / ".cache" / "regard"
    assert is_private(places / "mine" / "one.so") and not is_private(places / "one.so")


def test_a_file_is_private_if_only_its_owner_can_change_it(tmp_path):
    one = tmp_path / "one.so"
    assert not is_private(one)
    one.write_bytes(b"")
    one.chmod(0o755)
    assert is_private(one)
    one.chmod(0o775)
    assert not is_private(one)
