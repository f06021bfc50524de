"""Settings of the server: limits of a request, keys, origins, and what requests may do."""

from dataclasses import dataclass, field
from pathlib import Path

from regard.serving.api_keys import APIKeys


@dataclass(frozen=True)
class RequestLimits:
    """Limits of a request before it is read: bytes, nested brackets, seconds to send it, pixels."""

    body_bytes: int = 8 << 20
    depth: int = 32
    body_seconds: float = 20.0
    pixels: int = 40_000_000


@dataclass(frozen=True)
class ServerSettings:
    """Settings of the application.

    ``model_roots`` are the folders below which an administrator may load models. With
    ``allow_edits``, requests may carry edits. The log has texts only with ``log_texts``.
    """

    keys: APIKeys | None = None
    cors: tuple[str, ...] = ()
    limits: RequestLimits = field(default_factory=RequestLimits)
    allow_edits: bool = False
    log_texts: bool = False
    model_roots: tuple[Path, ...] = ()
    replay_bytes: int = 64 << 20
    replay_seconds: float = 600.0
    device: str | None = None
    precision: str | None = None
