"""A cache of values that depend on shapes, bounded by their size.

Every batch of texts has shapes of its own: a cache that only counts its entries would grow with
every line that is read.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Value = TypeVar("Value")

ENTRY = 64  # an entry counts for this much at least


class SizedCache(Generic[Value]):
    """Cache of ``compute``: the values for the arguments used last, of at most ``most`` in size.

    ``size`` gives the size of a value from its arguments. The newest value stays, whatever its
    size.
    """

    def __init__(self, compute: Callable[..., Value], size: Callable[..., int], most: int):
        self.compute, self.size, self.most = compute, size, most
        self.values: OrderedDict[Hashable, tuple[Value, int]] = OrderedDict()
        self.total = 0
        self._lock = Lock()

    def __call__(self, *key: Hashable) -> Value:
        """The value for these arguments."""
        with self._lock:
            if key in self.values:
                self.values.move_to_end(key)
                return self.values[key][0]
        value, size = self.compute(*key), max(self.size(*key), ENTRY)
        with self._lock:
            if key not in self.values:  # another thread may have been faster
                self.values[key], self.total = (value, size), self.total + size
            while self.total > self.most and len(self.values) > 1:
                _, (_, size) = self.values.popitem(last=False)
                self.total -= size
        return value
