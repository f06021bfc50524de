"""Settings of the server: limits of the engine and of a request, keys, origins, permissions."""

from dataclasses import dataclass, field
from pathlib import Path

from regard.serving.api_keys import APIKeys


@dataclass(frozen=True)
class EngineLimits:
    """Limits of the engine.

    ``max_queued_tokens`` of accepted requests wait or run for a model, and ``max_queued_requests``
    of all models; a request has at most ``max_inputs`` inputs and ``max_request_tokens`` tokens,
    its answer at most ``max_candidates`` tokens with probabilities, or vectors of ``max_numbers``
    in all. A batch has at most ``max_batch_tokens`` tokens, a running generation ``slots`` rows. If
    ``isolate``, rows of two requests never share a batch, and every number of an answer equals that
    of a direct call with the inputs of the request. If ``exact``, inputs share batches only where
    on a CPU every number equals that of a direct call with this input alone.
    """

    max_queued_tokens: int = 1_000_000
    max_queued_requests: int = 4_096
    max_request_tokens: int = 262_144
    max_inputs: int = 1_024
    max_candidates: int = 131_072
    max_numbers: int = 8_388_608
    max_batch_tokens: int = 16_384
    slots: int = 64
    deadline: float = 60.0
    isolate: bool = False
    exact: bool = False


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

    An administrator may load models from folders below ``model_roots``, unless the server has
    several processes (``workers``). With ``allow_edits``, requests may carry edits; with
    ``log_texts``, the log has texts. Answered requests are kept for ``replay_seconds``, as long as
    they have at most ``replay_bytes``. Models are loaded on ``device`` in ``precision``.
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
    workers: int = 1
