"""Reasons for which the engine refuses a request or gives it up, with their HTTP status."""

import re
from collections.abc import Collection
from typing import ClassVar

PATH = re.compile(
    r"""(?<![\w.])                      # a/b and 3/4 are no paths
    (?: [A-Za-z]:[/\\]+ [^\s:;,'"/\\]+ (?: [/\\]+ [^\s:;,'"/\\]+ )*
      | (?: ~ | \.\.? )? (?: [/\\]+ [^\s:;,'"/\\]+ ){2,} )""",
    re.VERBOSE,
)


def hide_paths(message: str, keep: Collection[str] = ()) -> str:
    """A message without paths of this machine; ``keep`` has addresses, which are no such paths."""
    return PATH.sub(lambda path: path[0] if path[0].rstrip(".)") in keep else "…", message)


class Refusal(Exception):
    """Base class; the message is one line for the client, without paths."""

    status: ClassVar[int] = 500
    kind: ClassVar[str] = "internal"

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the response."""
        return {}


class UnknownModel(Refusal):
    status, kind = 404, "unknown_model"


class Replaced(Refusal):
    """Another request has changed the model meanwhile."""

    status, kind = 409, "replaced"


class NotOffered(Refusal):
    """The server was started in a way in which it cannot do this."""

    status, kind = 501, "not_offered"


class TooLarge(Refusal):
    status, kind = 413, "too_large"


class Overloaded(Refusal):
    """The queue is full; it is likely to have room after ``retry_after`` seconds."""

    status, kind = 429, "overloaded"

    def __init__(self, message: str, retry_after: int):
        super().__init__(message)
        self.retry_after = retry_after

    @property
    def headers(self) -> dict[str, str]:
        return {"retry-after": str(self.retry_after)}


class DeadlineExceeded(Refusal):
    status, kind = 504, "deadline_exceeded"


class Unavailable(Refusal):
    """The server is stopping, or the model is being unloaded."""

    status, kind = 503, "unavailable"


class Failure(Refusal):
    """The model failed in a way that no input should cause; the log has the reason."""
