"""Tables of recipes: each is defined beside the code that reads it."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Self

from pydantic import AfterValidator, BaseModel, ConfigDict

EMPTY_IS_NONE = AfterValidator(lambda name: name or None)  # TOML has no word for nothing


class Config(BaseModel):
    """A table of a recipe: unknown keys are errors, and values do not change.

    A run that is resumed may change ``free_keys``: they do not decide its weights. A recipe without
    the table has its ``default_keys``; all other keys have a default each.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    free_keys: ClassVar[Collection[str]] = ()
    default_keys: ClassVar[Mapping[str, Any]] = MappingProxyType({})

    @classmethod
    def default(cls) -> Self:
        """The table of a recipe that does not have it."""
        return cls.model_validate(dict(cls.default_keys))
