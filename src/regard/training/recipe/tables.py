"""The tables of recipes that the training loop reads, and the models of a ladder."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from regard.ground.config import Config
from regard.models.config import ModelConfig
from regard.training.recipe_files import ExpectConfig

Share = Annotated[float, Field(ge=0, lt=1)]


class OptimiserConfig(Config):
    """How weights follow gradients.

    A model has levels: embeddings, blocks, heads (``regard.training.optim.layer_groups``).
    Each learns at ``layer_decay`` times the rate of the one above it. With ``unfreeze_every``, the
    highest learns first, and one more after every so many steps. What is called by a name in
    ``freeze``, such as "embed", "blocks.0" or "trunk", does not learn at all.
    """

    kind: Literal["adam", "adamw"] = "adam"
    rate: float = Field(gt=0)
    schedule: Literal["inverse-sqrt", "linear", "cosine", "slanted", "constant"] = "inverse-sqrt"
    warmup: int = Field(4_000, ge=0)
    betas: tuple[Share, Share] = (0.9, 0.98)
    eps: float = Field(1e-9, gt=0)
    decay: float = Field(0.0, ge=0)
    clip: float = Field(0.0, ge=0)
    layer_decay: float = Field(1.0, gt=0, le=1)
    freeze: tuple[str, ...] = ()
    unfreeze_every: int = Field(0, ge=0)


class TrainConfig(Config):
    """How long, how exact, how often to look, what to keep."""

    free_keys = ("steps", "report_every", "patience")
    steps: int = Field(ge=1)
    seed: int = 1
    smoothing: float = Field(0.1, ge=0, lt=1)
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    report_every: int = Field(50, ge=1)
    evaluate_every: int = Field(1_000, ge=1)
    checkpoint_every: int = Field(1_000, ge=1)
    judge: str = "loss"
    patience: int = Field(0, ge=0)
    ema: float = Field(0.0, ge=0, lt=1)
    average: int = Field(1, ge=1)
    deterministic: bool = False
    compile: bool = True

    def regular(self, steps: Iterable[int]) -> list[int]:
        """Of these checkpoints those due by the clock: not of a stop, nor of a new best."""
        return [step for step in steps if step and step % self.checkpoint_every == 0]

    @model_validator(mode="after")
    def _agrees(self) -> "TrainConfig":
        if self.ema and self.average > 1:
            raise ValueError("ema and average both say which weights to keep: choose one")
        return self


class RungConfig(Config):
    """One model of a ladder: what differs from the recipe it stands in."""

    name: str = Field(min_length=1)
    model: ModelConfig
    batches: dict[str, Any] = Field(default_factory=dict)
    optimiser: dict[str, Any] = Field(default_factory=dict)
    train: dict[str, Any] = Field(default_factory=dict)
    expect: ExpectConfig | None = None
