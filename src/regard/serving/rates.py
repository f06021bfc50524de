"""Requests and tokens a minute of each client: of a key, or of an address without one.

What a client may ask for fills up by the second, to what it has for a minute. Tokens are counted
before a model runs; further runs of the same request are counted, too, but not refused.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextvars import ContextVar
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

from regard.serving.request_errors import Overloaded, TooLarge

MINUTE = 60.0
MOST_CLIENTS = 65_536  # that are known at a time; the one that was silent for longest is forgotten
NETWORK = 64  # bits of an IPv6 address: the others are the client's own choice


@dataclass(frozen=True)
class RateLimits:
    """The most requests and tokens of a client in a minute; None: no limit."""

    requests: int | None = None
    tokens: int | None = None

    def __bool__(self) -> bool:
        return self.requests is not None or self.tokens is not None


class RateLimited(Overloaded):
    """The client has asked for as much as it may have in a minute."""

    kind = "rate_limit_exceeded"


class Allowance:
    """What is left to a client of one unit, of ``most`` a minute."""

    def __init__(self, unit: str, most: int, now: float):
        self.unit, self.most, self.time = unit, most, now
        self.left = float(most)

    def fill(self, now: float) -> None:
        """Add what the time since the last call brings."""
        self.left = min(self.most, self.left + (now - self.time) * self.most / MINUTE)
        self.time = now

    def seconds_until(self, amount: float) -> float:
        """Seconds until as much is left."""
        return max(0.0, (amount - self.left) * MINUTE / self.most)

    def check(self, amount: int) -> None:
        """Refuse a request for more than is left."""
        if amount > self.most:
            raise TooLarge(f"{amount} {self.unit} are more than the {self.most} of a minute")
        if amount > self.left:
            raise RateLimited(
                f"more than {self.most} {self.unit} in a minute; try again later",
                max(1, math.ceil(self.seconds_until(amount))),
            )

    @property
    def headers(self) -> dict[str, str]:
        """Headers as OpenAI's server has them."""
        values = {
            "limit": str(self.most),
            "remaining": str(max(0, math.floor(self.left))),
            "reset": f"{self.seconds_until(self.most):.3f}s",
        }
        return {f"x-ratelimit-{name}-{self.unit}": value for name, value in values.items()}


class ClientRates:
    """What is left to a client."""

    def __init__(self, limits: RateLimits, clock: Callable[[], float]):
        self.clock = clock
        most = {"requests": limits.requests, "tokens": limits.tokens}
        now = clock()
        self.allowances = {
            unit: Allowance(unit, count, now) for unit, count in most.items() if count is not None
        }

    def take(self, unit: str, amount: int, *, checked: bool = True) -> None:
        """Count requests or tokens; if ``checked``, refuse them if less is left."""
        if (allowance := self.allowances.get(unit)) is not None:
            allowance.fill(self.clock())
            if checked:
                allowance.check(amount)
            allowance.left -= amount

    def begin(self) -> "RequestRates":
        """Count a request, or refuse it."""
        if (tokens := self.allowances.get("tokens")) is not None:
            tokens.fill(self.clock())
            tokens.check(1)
        self.take("requests", 1)
        return RequestRates(self)

    @property
    def headers(self) -> dict[str, str]:
        """Headers that tell the client what is left."""
        now, headers = self.clock(), dict[str, str]()
        for allowance in self.allowances.values():
            allowance.fill(now)
            headers |= allowance.headers
        return headers


class RequestRates:
    """The tokens that a request takes from its client; only its first run may be refused."""

    def __init__(self, client: ClientRates):
        self.client, self.has_run = client, False

    def take_tokens(self, tokens: int) -> None:
        """Count the tokens of a run, or refuse it."""
        self.client.take("tokens", tokens, checked=not self.has_run)
        self.has_run = True


class RateLimiter:
    """Clients by their key or address, as many as are kept."""

    def __init__(self, limits: RateLimits, clock: Callable[[], float] = time.monotonic):
        self.limits, self.clock = limits, clock
        self.clients: OrderedDict[Hashable, ClientRates] = OrderedDict()

    def client(self, name: Hashable) -> ClientRates:
        """The client of a name; a new one has asked for nothing."""
        if name not in self.clients:
            self.clients[name] = ClientRates(self.limits, self.clock)
            if len(self.clients) > MOST_CLIENTS:
                self.clients.popitem(last=False)
        self.clients.move_to_end(name)
        return self.clients[name]


_OF_REQUEST: ContextVar[RequestRates | None] = ContextVar("rates of the request", default=None)


def count_tokens_of(rates: RequestRates) -> None:
    """Let the runs of the current task take their tokens from a client."""
    _OF_REQUEST.set(rates)


def take_tokens(tokens: int) -> None:
    """Take tokens from the client of the current request, if it has limits, or refuse the run."""
    if (rates := _OF_REQUEST.get()) is not None:
        rates.take_tokens(tokens)


def parse_address(text: str) -> IPv4Address | IPv6Address:
    """An IP address; one of IPv4 that is mapped to IPv6 (::ffff:a.b.c.d) is one of IPv4."""
    address = ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


def client_address(host: str | None) -> str:
    """An address by which a client is known: of IPv6, its network."""
    try:
        address = parse_address(host or "")
    except ValueError:
        return host or ""
    if address.version == 6:
        return str(IPv6Network((int(address), NETWORK), strict=False))
    return str(address)
