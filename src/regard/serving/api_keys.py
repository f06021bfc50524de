"""API keys: a file with one key per line; keys after "admin " may also load models."""

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from regard.ground.errors import BadInput
from regard.ground.files import read_bytes

SHORTEST = 16  # characters


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
