"""Counter-based random numbers: each is a function of a key, a stream number and a counter.

There is no state. The generator is SplitMix64 (Steele et al., 2014) with random access.
"""

import hashlib

import numpy as np

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
ONES = np.uint64(2**64 - 1)
ONES_IN_BYTE = np.array([value.bit_count() for value in range(256)], np.uint8)


def streams(key: tuple[int, ...], numbers: np.ndarray) -> np.ndarray:
    """One stream of random numbers for each of `numbers`; another `key` gives other streams."""
    digest = hashlib.blake2b(repr([*map(int, key)]).encode(), digest_size=8).digest()
    base = np.frombuffer(digest, "<u8")
    return mixed(base ^ mixed(np.asarray(numbers).astype(np.uint64) * GOLDEN))


def bits(stream: np.ndarray, counter: np.ndarray | int) -> np.ndarray:
    """64 random bits of each stream at position `counter`."""
    return mixed(stream + (np.atleast_1d(counter).astype(np.uint64) + np.uint64(1)) * GOLDEN)


def uniform(stream: np.ndarray, counter: np.ndarray | int) -> np.ndarray:
    """Uniform numbers in [0, 1)."""
    return (bits(stream, counter) >> np.uint64(11)) * 2.0**-53


def below(limit: np.ndarray | int, stream: np.ndarray, counter: np.ndarray | int) -> np.ndarray:
    """Uniform integers in [0, `limit`); 0 where the limit is 0."""
    return (uniform(stream, counter) * limit).astype(np.int64)


def binomial(tosses: np.ndarray, stream: np.ndarray) -> np.ndarray:
    """Number of heads in `tosses` fair coin tosses; draws from the whole stream."""
    count = np.zeros(len(tosses), np.int64)
    for done in range(0, int(tosses.max(initial=0)), 64):
        left = np.flatnonzero(tosses > done)
        unused = 64 - np.minimum(tosses[left] - done, 64)
        words = bits(stream[left], done) & (ONES >> unused.astype(np.uint64))
        count[left] += ONES_IN_BYTE[words.view(np.uint8)].reshape(-1, 8).sum(axis=1, dtype=np.int64)
    return count


def mixed(values: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64: every input bit affects every output bit."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
