"""Tape of a loop over time: records and edits see the values of all steps at once."""

from torch import Tensor

from regard.core.layout import Layout
from regard.core.tape import NullTape

Number = Tensor | int
BY_INPUT = ("scores", "mask", "weights")  # of attention: (R, H, 1, S) in a step


class UnrolledTape:
    """Tape of a loop over time, whose edits and records see the values of all steps.

    Values of a step are (R, …), and become values of packed tokens (T, …), with ``ways`` as second
    axis if a layer has two directions; scores, masks and weights become (B, H, L, S). An edit gets
    all steps so far, with zeros for later steps; only its result for this step is used. So the same
    edit also works if all steps are computed at once.
    """

    def __init__(self, tape: NullTape, layout: Layout, ways: int | None = None):
        self.tape, self.layout = tape, layout
        self.ways = () if ways is None else (ways,)
        self.whole: dict[str, Tensor] = {}
        self.parts: dict[str | int, UnrolledTape] = {}

    def at(self, rows_R: Tensor, *place: Number) -> NullTape:
        """The tape of one step of these rows: the place of its tokens in the rows, and the way."""
        return _StepTape(self, rows_R, *place) if self.tape.live else self.tape

    def under(self, place: str | int) -> "UnrolledTape":
        """The tape of a part of the loop."""
        if place not in self.parts:
            self.parts[place] = UnrolledTape(self.tape.under(place), self.layout, *self.ways)
        return self.parts[place]


class _StepTape(NullTape):
    live = True

    def __init__(self, unrolled: UnrolledTape, rows_R: Tensor, *place: Number):
        self.unrolled, self.rows_R, self.place = unrolled, rows_R, place

    def __call__(self, name: str, value: Tensor) -> Tensor:
        if not self.wants(name):
            return value
        if name in BY_INPUT:
            return self._by_input(name, value)
        steps, layout = self.unrolled, self.unrolled.layout
        sizes, index = (layout.rows, layout.longest, *steps.ways), (self.rows_R, *self.place)
        whole = self._whole(name, value, (*sizes, *value.shape[self.rows_R.ndim :]))
        whole[index] = value
        return layout.pad(steps.tape(name, layout.pack(whole)))[index]

    def _by_input(self, name: str, value: Tensor) -> Tensor:
        rows_R, (time,) = self.rows_R, self.place
        layout, (_, heads, _, keys) = self.unrolled.layout, value.shape
        whole = self._whole(name, value, (layout.rows, heads, layout.longest, keys))
        whole[rows_R, :, time] = value[:, :, 0]
        return self.unrolled.tape(name, whole)[rows_R, :, time][:, :, None]

    def _whole(self, name: str, value: Tensor, sizes: tuple[int, ...]) -> Tensor:
        """Copy of the values of all steps so far; gradients need those of each step."""
        before = self.unrolled.whole.get(name)
        whole = value.new_zeros(sizes) if before is None else before.clone()
        self.unrolled.whole[name] = whole
        return whole

    def under(self, place: str | int) -> NullTape:
        return _StepTape(self.unrolled.under(place), self.rows_R, *self.place)

    def wants(self, *names: str) -> bool:
        return self.unrolled.tape.wants(*names)
