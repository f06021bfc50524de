"""Data that needs no file."""

from pathlib import Path

import pytest

from regard.core.errors import BadInput
from regard.data.readers.by_task import read
from regard.data.readers.generated import COUNTS, LENGTH, LONGEST, SHORTEST, WORDS


def test_texts_repeat_their_first_words():
    texts = [each.texts[0].split() for each in read("pretrain", "repeats", Path(), part="dev")]
    assert len(texts) == COUNTS["dev"] and {len(words) for words in texts} == {LENGTH}
    periods = []
    for words in texts:
        periods.append(next(n for n in range(1, LENGTH) if words[n:] == words[:-n]))
    assert min(periods) >= SHORTEST and max(periods) == LONGEST
    assert {word for words in texts for word in words} == {*WORDS}


def test_parts_and_seeds_differ_and_stay():
    def texts(**options):
        return [each.texts for each in read("pretrain", "repeats", Path(), **options)]

    dev = texts(part="dev")
    assert dev == texts(part="dev") != texts(part="test")
    assert dev != texts(part="dev", seed=2)
    assert not {*dev} & {*texts()}


def test_sums_divide_all_pairs():
    def pairs(part):
        return {
            each.texts[0]: each.labels
            for each in read("classify", "modular-sums", Path(), part=part, modulus=7, share=0.4)
        }

    train, dev = pairs("train"), pairs("dev")
    assert len(train) == 20 and len(dev) == 29 and not train.keys() & dev.keys()
    for text, (label,) in {**train, **dev}.items():
        assert sum(map(int, text.split())) % 7 == int(label)
    assert pairs("test") == dev


@pytest.mark.parametrize(
    ("task", "reader", "options"),
    [
        ("pretrain", "repeats", {"part": "all"}),
        ("classify", "modular-sums", {"part": "all"}),
        ("classify", "modular-sums", {"modulus": 1}),
        ("classify", "modular-sums", {"share": 1.0}),
    ],
)
def test_wrong_options(task, reader, options):
    with pytest.raises(BadInput, match="options"):
        [*read(task, reader, Path(), **options)]
