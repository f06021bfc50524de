"""Errors that end a request, with their HTTP status."""

import re
from collections.abc import Collection, Iterable
from typing import ClassVar, Self

from regard.core.errors import BadInput

FAILED = "the request failed; the log of the server has the reason"
PATH = re.compile(
    r"""(?<![\w.])                      # a/b and 3/4 are no paths
    (?: [A-Za-z]:[/\\]+ [^\s:;,'"/\\]+ (?: [/\\]+ [^\s:;,'"/\\]+ )*
      | (?: ~ | \.\.? )? (?: [/\\]+ [^\s:;,'"/\\]+ ){2,} )""",
    re.VERBOSE,
)


def hide_paths(message: str, keep: Collection[str] = ()) -> str:
    """A message without paths of this machine; ``keep`` has addresses, which are no such paths."""
    return PATH.sub(lambda path: path[0] if path[0].rstrip(".)") in keep else "…", message)


def forget_frames(error: BaseException) -> None:
    """Let go of the frames in which an error was raised, and of all values in them.

    They are in a circle with its future, and would be kept until Python looks for circles.
    """
    for each in (error, error.__cause__, error.__context__):
        if each is not None:
            each.__traceback__ = each.__cause__ = each.__context__ = None


class RequestError(Exception):
    """Base class; the message is one line for the client, without paths."""

    status: ClassVar[int] = 500
    kind: ClassVar[str] = "internal"

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the response."""
        return {}


class BadRequest(RequestError):
    """The input is wrong."""

    status, kind = 400, "bad_input"

    @classmethod
    def of(cls, error: BadInput, addresses: Collection[str] = ()) -> Self:
        """The error of a request, without paths of this machine, which ``addresses`` are not."""
        return cls(hide_paths(str(error), addresses))


class TwoLengths(BadRequest):
    """A proxy may end the request elsewhere, and take what follows for another client's."""

    @property
    def headers(self) -> dict[str, str]:
        return {"connection": "close"}


class NotAllowed(RequestError):
    """The request has no key, or a wrong one."""

    status, kind = 401, "unauthorized"

    @property
    def headers(self) -> dict[str, str]:
        return {"www-authenticate": "Bearer"}


class Forbidden(RequestError):
    """The request needs another key than its own, which is known."""

    status, kind = 403, "forbidden"


class UnknownHost(RequestError):
    """The request is for another host: a page may have given its own name to this machine."""

    status, kind = 403, "unknown_host"


class NotFound(RequestError):
    status, kind = 404, "not_found"


class UnknownModel(RequestError):
    status, kind = 404, "unknown_model"


class MethodNotAllowed(RequestError):
    """The path has other methods."""

    status, kind = 405, "method_not_allowed"

    def __init__(self, methods: Iterable[str]):
        known = {*methods}
        self.methods = ", ".join(sorted(known | {"HEAD"} if "GET" in known else known))
        super().__init__(f"this path has only {self.methods}")

    @property
    def headers(self) -> dict[str, str]:
        return {"allow": self.methods}


class TooSlow(RequestError):
    """The body did not arrive in time."""

    status, kind = 408, "timeout"


class Replaced(RequestError):
    """Another request has changed the model meanwhile."""

    status, kind = 409, "replaced"


class TooLarge(RequestError):
    status, kind = 413, "too_large"


class Overloaded(RequestError):
    """The queue is full; it is likely to have room after ``retry_after`` seconds."""

    status, kind = 429, "overloaded"

    def __init__(self, message: str, retry_after: int):
        super().__init__(message)
        self.retry_after = retry_after

    @property
    def headers(self) -> dict[str, str]:
        return {"retry-after": str(self.retry_after)}


class Gone(RequestError):
    """Nobody waits for the answer."""

    status, kind = 499, "client_gone"


class NotOffered(RequestError):
    """The server was started in a way in which it cannot do this."""

    status, kind = 501, "not_offered"


class DeadlineExceeded(RequestError):
    status, kind = 504, "deadline_exceeded"


class Unavailable(RequestError):
    """The server is stopping, or the model is being unloaded."""

    status, kind = 503, "unavailable"


class Failure(RequestError):
    """The model failed in a way that no input should cause; the log has the reason."""
