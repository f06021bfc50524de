"""Rows come back as they went in, are built once, and damage to their files is found."""

import io
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import BadInput
from regard.core.workers import Workers
from regard.data.batches import shards
from regard.data.batches.pair_dataset import PairStore, texts_of
from regard.data.batches.shards import PackedRows, TokenShard, TokenShardPair
from regard.data.readers.fields import DropCounts
from regard.data.readers.sources import Lines
from small_shards import write_rows

ROWS = [[1, 2, 3], [], [65_535], [0, 9]]


@given(st.lists(st.lists(st.integers(0, 299))))
def test_rows_come_back(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("rows") / "a.b"
    stored = write_rows(path, iter(rows), vocab=300)
    assert [row.tolist() for row in stored] == rows
    assert len(stored) == len(rows) and stored.lengths.tolist() == [*map(len, rows)]


def test_rows_longer_than_a_chunk_come_back(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "CHUNK", 3)
    monkeypatch.setattr(shards, "BLOCK", 4)
    rows = [[i] * (i % 4) for i in range(20)]
    stored = write_rows(tmp_path / "a", rows, vocab=20)
    stored.verify()
    assert [row.tolist() for row in stored] == rows


@pytest.mark.parametrize(
    ("vocab", "size"), [(256, 1), (257, 2), (65_536, 2), (65_537, 4), (1 << 32, 4)]
)
def test_ids_are_as_narrow_as_the_vocabulary_allows(tmp_path, vocab, size):
    stored = write_rows(tmp_path / "a", [[vocab - 1, 0]], vocab)
    assert stored[0].tolist() == [vocab - 1, 0] and stored.vocab == vocab
    assert (tmp_path / "a.bin").stat().st_size == 2 * size


@pytest.mark.parametrize("row", [[5], [-1]])
def test_ids_outside_of_the_vocabulary_are_refused_and_leave_nothing(tmp_path, row):
    with pytest.raises(ValueError, match="vocabulary"):
        write_rows(tmp_path / "a", [[0], row], vocab=5)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_rewrite_leaves_the_old_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "CHUNK", 1)
    write_rows(tmp_path / "a", [[1], [2]], vocab=5)
    with pytest.raises(ValueError):
        write_rows(tmp_path / "a", [[3], [9]], vocab=5)
    assert [row.tolist() for row in TokenShard(tmp_path / "a")] == [[1], [2]]
    assert len(list(tmp_path.iterdir())) == 3


def test_a_crash_between_two_names_leaves_nothing_that_looks_whole(tmp_path, monkeypatch):
    write_rows(tmp_path / "a", [[1], [2]], vocab=5)

    def crash(path, content):
        raise KeyboardInterrupt

    monkeypatch.setattr(shards, "write_json", crash)
    with pytest.raises(KeyboardInterrupt):
        write_rows(tmp_path / "a", [[3], [4]], vocab=5)
    with pytest.raises(BadInput, match=r"a\.json: cannot be read"):
        TokenShard(tmp_path / "a")


def test_rows_are_on_the_disk_before_they_get_their_names(tmp_path, monkeypatch):
    """What the system still holds in memory would be lost with the power."""
    synced, unsynced, replace = set(), [], Path.replace

    def note_fsync(handle):
        synced.add(Path(f"/proc/self/fd/{handle}").readlink().name)

    def note_replace(path, target):
        unsynced.extend({path.name} - synced)
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(Path, "replace", note_replace)
    write_rows(tmp_path / "a", ROWS, vocab=70_000)
    assert unsynced == [] and len(synced) >= 3  # rows, their places and their description


def test_rows_are_read_only_and_have_ends(tmp_path):
    stored = write_rows(tmp_path / "a", ROWS, vocab=70_000)
    with pytest.raises(ValueError):
        stored[0][0] = 1
    for i in (-1, 4):
        with pytest.raises(IndexError):
            stored[i]


def rewrite(path: Path, change) -> None:
    path.write_bytes(change(bytearray(path.read_bytes())))


def flip(content: bytearray) -> bytearray:
    content[-1] ^= 1
    return content


@pytest.mark.parametrize("change", [lambda content: content[:-1], lambda content: content + b"x"])
@pytest.mark.parametrize("part", [".bin", ".idx"])
def test_truncated_files_are_named(tmp_path, part, change):
    write_rows(tmp_path / "a", ROWS, vocab=70_000)
    rewrite(tmp_path / f"a{part}", change)
    with pytest.raises(BadInput, match=rf"a\{part}: damaged"):
        TokenShard(tmp_path / "a")


@pytest.mark.parametrize("at", [0, -1])
def test_changed_bits_are_found_in_every_block(tmp_path, monkeypatch, at):
    monkeypatch.setattr("regard.data.batches.shards.BLOCK", 2)
    stored = write_rows(tmp_path / "a", ROWS, vocab=70_000)
    content = bytearray((tmp_path / "a.bin").read_bytes())
    content[at] ^= 1
    (tmp_path / "a.bin").write_bytes(content)
    with pytest.raises(BadInput, match=r"a\.bin: damaged"):
        stored.verify()


def test_changed_bits_are_found(tmp_path):
    stored = write_rows(tmp_path / "a", ROWS, vocab=70_000)
    rewrite(tmp_path / "a.bin", flip)
    with pytest.raises(BadInput, match=r"a\.bin: damaged"):
        stored.verify()
    rewrite(tmp_path / "a.idx", flip)
    with pytest.raises(BadInput, match=r"a\.idx: damaged"):
        TokenShard(tmp_path / "a")


@pytest.mark.parametrize("part", [".bin", ".idx", ".json"])
def test_missing_files_are_named(tmp_path, part):
    write_rows(tmp_path / "a", ROWS, vocab=70_000)
    (tmp_path / f"a{part}").unlink()
    with pytest.raises(BadInput, match=rf"a\{part}: cannot be read"):
        TokenShard(tmp_path / "a")


@pytest.mark.parametrize(
    "change",
    [
        lambda meta: "[]",
        lambda meta: "{",
        lambda meta: "{}",
        lambda meta: json.dumps({**meta, "format": "rows 0"}),
        lambda meta: json.dumps({**meta, "dtype": "O"}),
        lambda meta: json.dumps({**meta, "rows": "four"}),
        lambda meta: json.dumps({**meta, "checksums": {}}),
    ],
)
def test_a_description_that_is_not_ours_is_named(tmp_path, change):
    write_rows(tmp_path / "a", ROWS, vocab=70_000)
    path = tmp_path / "a.json"
    path.write_text(change(json.loads(path.read_text())))
    with pytest.raises(BadInput, match=r"a\.json: (damaged|not (a )?JSON)"):
        TokenShard(tmp_path / "a")


def test_pairs_have_equally_many_rows(tmp_path):
    two, three = (write_rows(tmp_path / str(n), [[1]] * n, vocab=5) for n in (2, 3))
    pairs = TokenShardPair(two, two)
    assert len(pairs) == 2 and [side.tolist() for side in pairs[1]] == [[1], [1]]
    with pytest.raises(BadInput, match=r"has 2, .* has 3"):
        TokenShardPair(two, three)


class Letters:
    """Each letter is an id; counts how often it is asked."""

    def __init__(self, vocab: int = 1_000, fingerprint: str = "letters"):
        self.calls, self.vocab, self.fingerprint = 0, vocab, fingerprint

    def __len__(self) -> int:
        return self.vocab

    def encode_all(self, texts: list[str]) -> list[list[int]]:
        self.calls += 1
        return [[ord(letter) for letter in text] for text in texts]


class Forgetful(Letters):
    """Gives one row, whatever it is asked."""

    def encode_all(self, texts: list[str]) -> list[list[int]]:
        return [[66]]


@pytest.fixture
def files(tmp_path) -> Lines:
    (tmp_path / "a.en").write_text("ab\n\nc\n")
    (tmp_path / "a.de").write_text("AB\nX\nCD\n")
    return Lines((str(tmp_path / "a.en"), str(tmp_path / "a.de")))


def prepare(files: Lines, letters: Any, dropped: DropCounts | None = None, **change: Any) -> list:
    folder = Path(files.paths[0]).parent / "cache" / "of ids"
    options: dict[str, Any] = {"longest_characters": 5_000, "skip_bad": True} | change
    counts = DropCounts() if dropped is None else dropped
    pairs = PairStore((letters, letters), folder, dropped=counts, **options)
    return [
        tuple("".join(map(chr, side)) for side in pair) for pair in pairs.tokenize("train", files)
    ]


def test_pairs_are_tokenised_once(files):
    encode, first, second = Letters(), DropCounts(), DropCounts()
    assert prepare(files, encode, first) == [("ab", "AB"), ("c", "CD")]
    assert encode.calls == 2
    assert prepare(files, encode, second) == [("ab", "AB"), ("c", "CD")]
    assert encode.calls == 2
    assert first == second == {"empty": 1}


def test_pairs_are_tokenised_again_when_anything_differs(files):
    encode = Letters()
    prepare(files, encode)
    others = Letters(fingerprint="others"), Letters(vocab=999)
    for letters in others:
        prepare(files, letters)
        assert letters.calls == 2
    prepare(files, others[1], longest_characters=9)
    assert others[1].calls == 4
    prepare(files, encode)
    assert encode.calls == 4
    Path(files.paths[0]).write_text("ab\n\nd\n")
    assert prepare(files, encode) == [("ab", "AB"), ("d", "CD")]
    calls = encode.calls
    os.utime(files.paths[1], ns=(1, 1))
    prepare(files, encode)
    assert encode.calls == calls + 2
    Path(files.paths[0]).write_text("ab\nz\nc\n")
    assert prepare(files, encode) == [("ab", "AB"), ("z", "X"), ("c", "CD")]


def test_a_counter_that_is_no_longer_given_is_a_difference(files):
    prepare(files, Letters())
    with pytest.raises(BadInput, match="empty"):
        prepare(files, Letters(), skip_bad=False)


def test_a_bad_pair_in_the_middle_leaves_nothing(files, tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "CHUNK", 1)
    with pytest.raises(BadInput, match=r"a\.en:2: empty text"):
        prepare(files, Letters(), skip_bad=False)
    assert list((tmp_path / "cache" / "of ids").iterdir()) == []


def test_damage_is_reported_and_deleting_mends_it(files, tmp_path):
    encode = Letters()
    pairs = prepare(files, encode)
    damaged = tmp_path / "cache" / "of ids" / "train.target.bin"
    rewrite(damaged, flip)
    with pytest.raises(BadInput, match=r"train\.target\.bin: damaged.*delete"):
        prepare(files, encode)
    damaged.unlink()
    assert prepare(files, encode) == pairs


def test_a_crash_between_both_sides_is_mended(files, monkeypatch):
    prepare(files, Letters())
    publish = shards._Staged.publish

    def crash(self):
        if self.path.name.endswith("target"):
            raise KeyboardInterrupt
        publish(self)

    monkeypatch.setattr(shards._Staged, "publish", crash)
    with pytest.raises(KeyboardInterrupt):
        prepare(Lines(files.paths[::-1]), Letters(fingerprint="others"))
    monkeypatch.undo()
    assert prepare(files, Letters()) == [("ab", "AB"), ("c", "CD")]


def test_standard_input_is_read_every_time(tmp_path, monkeypatch):
    store = PairStore((Letters(), Letters()), tmp_path, None)
    for text in ("one\n", "two\n"):
        (tmp_path / "a").write_text("x\n")
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        ((first, _),) = store.tokenize("x", Lines(("-", str(tmp_path / "a"))))
        assert "".join(map(chr, first)) == text.strip()


def test_texts_are_stored_too(tmp_path):
    (tmp_path / "a").write_text("ab\nc\n")
    (tmp_path / "b").write_text("häuser\n𝄞\n")
    store = PairStore((Letters(), Letters()), tmp_path, None)
    stored = store.store_texts("one", Lines((str(tmp_path / "a"), str(tmp_path / "b"))))
    assert [*map(texts_of, stored)] == [("ab", "häuser"), ("c", "𝄞")]


def test_nothing_usable_is_an_error_and_leaves_nothing(tmp_path):
    (tmp_path / "a").write_text("\n\n")
    blank = Lines((str(tmp_path / "a"),) * 2)
    with pytest.raises(BadInput, match=r"a: no usable text \(left out: 2 empty\)"):
        prepare(blank, Letters())
    assert not (tmp_path / "cache").exists()


def test_missing_files_and_folders_that_cannot_be_written_are_named(files, tmp_path):
    with pytest.raises(BadInput, match=r"none: cannot be read"):
        prepare(Lines((str(tmp_path / "none"),) * 2), Letters())
    with pytest.raises(BadInput, match="cannot be written"):
        write_rows(Path(files.paths[0]) / "x", ROWS, vocab=70_000)


def test_an_encoder_that_loses_a_text_is_noticed(files, tmp_path):
    with pytest.raises(ValueError, match="fewer or more rows"):
        prepare(files, Forgetful())
    assert not (tmp_path / "cache").exists()


def test_arrays_are_rows_too(tmp_path):
    stored = write_rows(tmp_path / "a", [np.array([1, 2]), np.array([3])], vocab=5)
    assert [row.tolist() for row in stored] == [[1, 2], [3]]


@given(st.lists(st.lists(st.integers(0, 2**40), max_size=5), max_size=8), st.booleans())
def test_packed_rows_come_back_from_one_array(rows, as_arrays):
    packed = PackedRows.of([np.array(row, np.int64) for row in rows] if as_arrays else rows)
    assert [row.tolist() for row in packed.rows] == rows
    assert all(np.shares_memory(row, packed.ids) for row in packed.rows if len(row))


def test_workers_send_rows_as_arrays():
    """Lists of numbers would be most of the memory of the process that writes them."""
    sent = []

    class Watched(Workers):
        def __init__(self, begin):
            super().__init__(1)
            self.work = begin()

        def close(self):
            self.work = None

        def submit(self, job):
            packed = self.work(*job)
            sent.extend(packed)
            return lambda: packed

    texts = [[["a", "bc"], ["", "def"]], [["g"], ["hi"]]]
    encoders = [lambda texts: [[*text.encode()] for text in texts]] * 2
    alone = [*shards.encode_chunks(encoders, texts, None)]
    together = [
        [[row.tolist() for row in side] for side in sides]
        for sides in shards.encode_chunks(encoders, texts, Watched)
    ]
    assert together == alone and len(sent) == 4
    assert all(type(part) is np.ndarray for packed in sent for part in packed)


def test_a_full_disk_is_reported_with_the_name(tmp_path):
    """Closing a file that cannot be written fails once more, and that says no name."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard))
    try:
        with pytest.raises(BadInput, match=r"rows: cannot be written \(File too large\)"):
            write_rows(tmp_path / "rows", [[1] * 5_000], 9)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(tmp_path.iterdir())
