"""What long work reports while it runs, and how it is asked to stop."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from regard.core.progress import Progress, progress_to

if TYPE_CHECKING:
    from regard.training.loop.events import Event

LINE_EVERY = 30  # seconds between lines about work without steps


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

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class ProgressNote(Note):
    """Progress of work without steps: a live line in a terminal; elsewhere a line if it ``is_due``.

    Its figures have the event "progress", the work, the number of its inputs and the seconds.
    """

    is_due: bool = True

    def lines(self, steps: int = 0) -> list[str]:
        return super().lines(steps) if self.is_due else []


Listener = Callable[["Note | Event"], object]
"""Function that is called with each remark, and each event of a training run."""


def ignore(event: "Note | Event") -> None:
    """Show no events."""


def noting(on_event: Listener) -> Callable[[str], None]:
    """Function that passes a line on as a remark."""

    def note(line: str) -> None:
        on_event(Note(line))

    return note


@contextmanager
def progress_notes(on_event: Listener) -> Iterator[None]:
    """Block in which the progress of long work without steps is passed on as remarks."""

    def tell(progress: Progress) -> None:
        figures = {"event": "progress", **vars(progress)}
        is_due = not round(progress.seconds) % LINE_EVERY
        on_event(ProgressNote(str(progress), figures=figures, is_due=is_due))

    with progress_to(tell):
        yield


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
