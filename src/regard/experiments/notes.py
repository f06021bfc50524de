"""What long work reports while it runs, and how it is asked to stop."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from regard.training.loop.events import Event


@dataclass(frozen=True)
class Note:
    """A remark: what is chosen, continued or left out, or, as an ``error``, what failed.

    ``figures`` are numbers and names that it is about.
    """

    is_last: ClassVar[bool] = False
    text: str = ""
    error: bool = False
    figures: Mapping[str, str | float] = field(default_factory=dict)

    def lines(self, steps: int = 0) -> list[str]:
        """Printed lines; none of an empty text."""
        return [self.text] * bool(self.text)


Listener = Callable[["Note | Event"], object]
"""Function that is called with each remark, and each event of a training run."""


def ignore(event: "Note | Event") -> None:
    """Show no events."""


def noting(on_event: Listener) -> Callable[[str], None]:
    """Function that passes a line on as a remark."""

    def note(line: str) -> None:
        on_event(Note(line))

    return note


class Stop:
    """Request to end training after its current step; ``number`` is the signal that asked for it.

    Long work enters ``noticed`` while it looks at the request.
    """

    def __init__(self) -> None:
        self.number: int | None = None

    def __call__(self) -> bool:
        return self.number is not None

    def noticed(self) -> AbstractContextManager[object]:
        """Context in which the request is looked at between two steps."""
        return nullcontext()


class Stopped(Exception):
    """A run was asked to stop; it has saved a checkpoint and its best model so far."""
