"""Budgets of what requests hold at a time: bytes of bodies, pixels, characters, recorded values."""

from collections.abc import Iterator
from contextlib import contextmanager

from regard.serving.request_errors import Overloaded, TooLarge

LARGEST = 4  # requests that hold as much as one may, at a time


class Budget:
    """The most that requests may hold: ``each`` of one, ``most`` of all together.

    By default, ``most`` is enough for ``LARGEST`` requests. ``small`` of each request is not
    counted, so that large requests do not refuse small ones.
    """

    def __init__(self, unit: str, each: int, most: int | None = None, small: int = 0):
        self.unit, self.each, self.small = unit, each, small
        self.most = LARGEST * each if most is None else most
        self.used = 0

    def reservation(self) -> "Reservation":
        """What a request holds: nothing yet."""
        return Reservation(self)

    @contextmanager
    def reserved(self, amount: int) -> Iterator[None]:
        """Hold an amount during the block; a request for which too little is left is refused."""
        reservation = self.reservation()
        try:
            reservation.grow(amount)
            yield
        finally:
            reservation.release()


class Reservation:
    """What one request holds of a budget."""

    def __init__(self, budget: Budget):
        self.budget, self.amount = budget, 0

    def grow(self, amount: int) -> None:
        """Hold more, or refuse the request: before the amount is read, decoded or computed."""
        budget, after = self.budget, self.amount + amount
        if after > budget.each:
            raise TooLarge(f"{after} {budget.unit} are more than the {budget.each} of a request")
        counted = max(0, after - budget.small) - self._counted
        if counted and budget.used + counted > budget.most:
            raise Overloaded(f"other requests hold too many {budget.unit}; try again later", 1)
        budget.used += counted
        self.amount = after

    @property
    def _counted(self) -> int:
        return max(0, self.amount - self.budget.small)

    def release(self) -> None:
        """Hold nothing any more."""
        self.budget.used -= self._counted
        self.amount = 0
