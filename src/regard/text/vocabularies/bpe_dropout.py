"""BPE-dropout (Provilkov et al., 2020, arXiv:1910.13267, algorithm 1): merges skipped at random."""

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Any

from regard.ground.errors import BadInput


@dataclass(frozen=True)
class Merges:
    """The merge table of a BPE model in ids."""

    letters: dict[str, list[int]]  # the id of a character, as a list of one
    ranks: dict[tuple[int, int], tuple[int, int]]  # pair -> (rank, merged id); lowest rank first
    byte_ids: list[int]  # id of each byte, empty without byte fallback
    unk: list[int]  # replaces an unknown character, as a list of one

    def segment(self, word: str, rate: float, draw: Callable[[], float]) -> list[int]:
        """Ids of one pre-token. At each step every possible merge is dropped with probability
        ``rate`` and the best remaining one is applied, until all are dropped.

        Trying merges from the best down until one is not dropped gives the distribution of the
        paper's loop, which draws for every pair, but takes O(n log n) for a word of n letters.
        """
        letters, ranks = self.letters, self.ranks
        ids = [i for letter in word for i in letters.get(letter) or self._spelled(letter)]
        queue = [(*ranks[pair], i) for i, pair in enumerate(pairwise(ids)) if pair in ranks]
        if not queue:
            return ids
        heapify(queue)
        size = len(ids)
        before, after = list(range(-1, size - 1)), list(range(1, size + 1))
        dropped = []
        while queue:
            best = rank, merged, left = heappop(queue)
            right = after[left]
            if right == size or ranks.get((ids[left], ids[right])) != (rank, merged):
                continue  # one of the pair is part of another merge by now
            if draw() < rate:
                dropped.append(best)
                continue
            ids[left], ids[right] = merged, -1
            after[left] = follower = after[right]
            if follower < size:
                before[follower] = left
                if merge := ranks.get((merged, ids[follower])):
                    heappush(queue, (*merge, left))
            if (leader := before[left]) >= 0 and (merge := ranks.get((ids[leader], merged))):
                heappush(queue, (*merge, leader))
            while dropped:
                heappush(queue, dropped.pop())
        return [i for i in ids if i >= 0]

    def _spelled(self, letter: str) -> list[int]:
        return [self.byte_ids[byte] for byte in letter.encode()] if self.byte_ids else self.unk


def read_merges(model: dict[str, Any]) -> Merges:
    """The merge table from the ``model`` part of a tokenizer.json."""
    unread = ["continuing_subword_prefix", "end_of_word_suffix", "ignore_merges"]
    unread += [] if model["byte_fallback"] else ["fuse_unk"]
    if any(model.get(name) for name in unread):
        raise BadInput(f"BPE-dropout cannot read a vocabulary with any of {', '.join(unread)}")
    ids: dict[str, int] = model["vocab"]
    ranks = {
        (ids[left], ids[right]): (rank, ids[left + right])
        for rank, (left, right) in enumerate(model["merges"])
    }
    letters = {token: [i] for token, i in ids.items() if len(token) == 1}
    byte_ids = [ids[f"<0x{byte:02X}>"] for byte in range(256)] if model["byte_fallback"] else []
    unk = [ids[model["unk_token"]]] if model["unk_token"] else []
    return Merges(letters, ranks, byte_ids, unk)
