"""Caches of layouts are bounded by tokens, however many batches there are."""

import gc
import random
from threading import Thread

import pytest
import torch

import regard
from regard.core.sized_cache import ENTRY, SizedCache
from regard.generation import Beam
from regard.layers import kv_cache
from regard.layers.kernels import bucketed


def test_the_least_recently_used_go():
    computed = []

    def compute(size):
        computed.append(size)
        return [size]

    cache = SizedCache(compute, lambda size: size, most=1_000)
    for size in (300, 400, 300, 500):
        assert cache(size) == [size]
    assert computed == [300, 400, 500] and [*cache.values] == [(300,), (500,)]
    assert cache(400) is cache(400) and computed[3:] == [400]
    assert cache.total == 900


def test_the_newest_stays_whatever_its_size():
    cache = SizedCache(list, lambda name: len(name), most=100)
    assert cache("a" * 5_000) is cache("a" * 5_000)
    cache("b")
    assert [*cache.values] == [("b",)] and cache.total == ENTRY


def test_small_values_count_as_well():
    cache = SizedCache(str, lambda number: 0, most=10 * ENTRY)
    for number in range(100):
        cache(number)
    assert len(cache.values) == 10


def test_threads_share_a_cache():
    cache = SizedCache(lambda number: [number], lambda number: 1, most=4 * ENTRY)
    wrong = []

    def work(seed):
        draws = random.Random(seed)
        for _ in range(500):
            number = draws.randrange(12)
            if cache(number) != [number]:
                wrong.append(number)

    threads = [Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and len(cache.values) == 4 and cache.total == 4 * ENTRY


def test_layouts_of_batches_are_bounded():
    draws = random.Random(0)
    for _ in range(300):
        lengths = tuple(draws.randrange(1, 60) for _ in range(20))
        bucketed.cut_into_buckets(lengths, lengths, "cpu")
        kv_cache.shared_rectangle(draws.randrange(1, 300), draws.randrange(1, 100), "cpu")
    assert bucketed.cut_into_buckets.total <= bucketed.MOST_TOKENS
    assert kv_cache._rectangles.total <= kv_cache.MOST_TOKENS


def live_bytes() -> int:
    gc.collect()
    tensors = (one for one in gc.get_objects() if type(one) is torch.Tensor)
    return sum(one.numel() * one.element_size() for one in tensors)


@pytest.mark.slow
@pytest.mark.parametrize(("verb", "window"), [("embed", 500), ("translate", 60)])
def test_lines_leave_nothing_behind(verb, window, small_run, monkeypatch):
    """Lines of all lengths, in windows as the verbs read them."""
    monkeypatch.setattr(bucketed.cut_into_buckets, "most", 5_000)
    monkeypatch.setattr(kv_cache._rectangles, "most", 5_000)
    model = regard.load(small_run / "run" / "model", device="cpu", batch_size=8)
    words = "".join((small_run / "train.src").read_text()).split()
    draws, held = random.Random(0), []
    for _ in range(6):
        lines = [" ".join(draws.choices(words, k=draws.randrange(1, 30))) for _ in range(window)]
        if verb == "embed":
            model.embed(lines)
        else:
            model.translate(lines, search=Beam(2))
        held.append(live_bytes())
    assert max(held[2:]) - min(held[2:]) < 400_000, held
