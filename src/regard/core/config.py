"""Base class of the tables of a recipe; each is defined beside the code that reads it."""

from collections.abc import Collection, Mapping
from typing import ClassVar, NamedTuple, Self

from pydantic import AfterValidator, BaseModel, ConfigDict

EMPTY_IS_NONE = AfterValidator(lambda name: name or None)  # TOML has no word for nothing


class UnusableKey(NamedTuple):
    """A key that the other keys of its recipe leave unread, and why; default: its task does."""

    key: str
    why: str = ""


class Config(BaseModel):
    """Table of a recipe: immutable; unknown keys and infinite numbers are errors.

    A run that is resumed may change ``free_keys``: they do not decide its weights.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    free_keys: ClassVar[Collection[str]] = ()

    @classmethod
    def default_keys(cls, model: Mapping[str, object]) -> Mapping[str, object]:
        """Default keys of this table, from the recipe's table ``model``."""
        return {}

    @classmethod
    def default(cls) -> Self:
        """The table with its default keys."""
        return cls.model_validate(cls.default_keys({}))
