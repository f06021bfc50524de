"""Tables of recipes: each is defined beside the code that reads it."""

from pydantic import BaseModel, ConfigDict


class Config(BaseModel):
    """A table of a recipe: unknown keys are errors, and values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)
