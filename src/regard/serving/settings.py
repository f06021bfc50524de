"""Settings of the server: limits of the engine and of a request, API keys, hosts, permissions.

A file of keys has one on each line; keys after "admin " may also load models.

A page of another site can give the name of that site the address of this machine after it was
loaded (DNS rebinding). Its browser then takes the server for the site, but still sends the name in
the header ``Host``.
"""

import hashlib
import hmac
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from regard.core.errors import BadInput
from regard.core.files import read_bytes
from regard.serving.rates import RateLimits, parse_address

SHORTEST = 16  # characters
HOST = re.compile(r"(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::[0-9]*)?")


@dataclass(frozen=True)
class EngineLimits:
    """Limits of the engine.

    ``max_queued_tokens`` of accepted requests wait or run for a model, and ``max_queued_requests``
    of all models. A request has at most ``max_inputs`` inputs of ``max_bytes`` bytes in UTF-8, or
    ids, which are counted before they are read (a character of four bytes may be four tokens), and
    ``max_request_tokens`` tokens, its answer at most ``max_candidates`` tokens with probabilities,
    or vectors of ``max_numbers`` in all. A batch has at most ``max_batch_tokens`` tokens, a running
    generation ``slots`` rows. If ``isolate``, rows of two requests never share a batch, and every
    number of an answer equals that of a direct call with the inputs of the request. If ``exact``,
    inputs share batches only where on a CPU every number equals that of a direct call with this
    input alone.
    """

    max_queued_tokens: int = 1_000_000
    max_queued_requests: int = 4_096
    max_request_tokens: int = 262_144
    max_inputs: int = 1_024
    max_bytes: int = 1_048_576
    max_candidates: int = 131_072
    max_numbers: int = 8_388_608
    max_batch_tokens: int = 16_384
    slots: int = 64
    deadline: float = 60.0
    isolate: bool = False
    exact: bool = False


@dataclass(frozen=True)
class RequestLimits:
    """Limits of a request before it is read: bytes, nested brackets, seconds to send it, pixels.

    Bodies have at most ``all_bytes`` together, unfinished ones included; a body that may have the
    key of its request has ``unknown_bytes``, and all of them ``all_unknown_bytes``.
    """

    body_bytes: int = 8 << 20
    all_bytes: int = 64 << 20
    unknown_bytes: int = 1 << 20
    all_unknown_bytes: int = 8 << 20
    depth: int = 32
    body_seconds: float = 20.0
    pixels: int = 40_000_000


@dataclass(frozen=True)
class APIKeys:
    """Digests of the keys, so that comparing takes the same time for every wrong key."""

    users: tuple[bytes, ...]
    admins: tuple[bytes, ...]

    @classmethod
    def read(cls, path: Path) -> "APIKeys":
        """Read a file of keys; empty lines and lines that begin with # are left out."""
        try:
            lines = read_bytes(path).decode().splitlines()
        except UnicodeDecodeError:
            raise BadInput(f"{path}: not UTF-8") from None
        users, admins = list[bytes](), list[bytes]()
        for number, line in enumerate(lines, 1):
            key = line.strip()
            if not key or key.startswith("#"):
                continue
            keys = admins if key.startswith("admin ") else users
            key = key.removeprefix("admin ").strip()
            if len(key) < SHORTEST or not key.isascii() or " " in key:
                rule = f"a key has at least {SHORTEST} characters, ASCII without spaces"
                raise BadInput(f"{path}:{number}: {rule}")
            keys.append(digest_key(key))
        if not users and not admins:
            raise BadInput(f"{path}: no keys; write one on each line")
        return cls(tuple(users), tuple(admins))

    def admit(self, key: str | None, *, admin: bool = False) -> bool:
        """Whether a key is in the file; ``admin``: among the keys of administrators."""
        digest = digest_key(key)
        known: Iterable[bytes] = self.admins if admin else (*self.users, *self.admins)
        matches = [hmac.compare_digest(digest, each) for each in known]
        return any(matches)


def digest_key(key: str | None) -> bytes:
    """Digest of a key, or of none."""
    return hashlib.sha256((key or "").encode(errors="replace")).digest()


@dataclass(frozen=True)
class ServerSettings:
    """Settings of the application.

    An administrator may load models from folders below ``model_roots``, unless the server has
    several processes (``workers``). If ``hosts`` are given, the header ``Host`` of a request must
    name one of them, or this machine. With ``allow_edits``, requests may carry edits; with
    ``log_texts``, the log has texts. Answered requests are kept for ``replay_seconds``, as long as
    they have at most ``replay_bytes``. Models are loaded on ``device`` in ``precision``. A key, or
    an address without one, has ``rates`` in each process.
    """

    keys: APIKeys | None = None
    cors: tuple[str, ...] = ()
    hosts: tuple[str, ...] | None = None
    limits: RequestLimits = field(default_factory=RequestLimits)
    rates: RateLimits = field(default_factory=RateLimits)
    allow_edits: bool = False
    log_texts: bool = False
    model_roots: tuple[Path, ...] = ()
    replay_bytes: int = 64 << 20
    replay_seconds: float = 600.0
    device: str | None = None
    precision: str | None = None
    workers: int = 1


def host_name(host: str) -> str:
    """The name in a header ``Host``, in lower case and without the port; empty if it has none."""
    match = HOST.fullmatch(host)
    return "" if match is None else (match["address"] or match["name"]).lower().rstrip(".")


def is_this_machine(host: str) -> bool:
    """Whether a header ``Host`` is localhost or an address of this machine to itself."""
    name = host_name(host) or host
    try:
        return name == "localhost" or name.endswith(".localhost") or parse_address(name).is_loopback
    except ValueError:
        return False


def is_allowed(host: str, names: Collection[str]) -> bool:
    """Whether a server that is known by these names may answer to a header ``Host``."""
    return is_this_machine(host) or host_name(host) in names
