"""The tables of recipes that the training loop reads, and the models of a ladder."""

from collections.abc import Iterable
from math import ceil
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, model_validator

from regard.core.config import Config
from regard.models.model_tables import ModelConfig
from regard.training.recipe_files import ExpectConfig

WARMUP_SHARE, LONGEST_WARMUP = 0.1, 4_000  # of all steps, and in steps, by default
Share = Annotated[float, Field(ge=0, lt=1)]


class OptimiserConfig(Config):
    """Optimiser, learning-rate schedule, freezing.

    A model has levels: embeddings, blocks, heads (``regard.training.optimiser``). Each is trained
    at ``layer_decay`` times the rate of the level above it. With ``unfreeze_every``, only the
    highest level is trained at first, and one more after each interval. Parts named in ``freeze``,
    such as "embed", "blocks.0" or "trunk", are not trained.
    """

    kind: Literal["adam", "adamw", "relative-adamw", "adafactor", "sgd", "nt-asgd"] = "adam"
    """Adam, Adam with decoupled weight decay (arXiv:1711.05101), the same at a rate relative to the
    size of each weight (nanoT5: arXiv:2309.02373), Adafactor, whose rate is relative, too
    (arXiv:1804.04235), SGD, or SGD whose weights are averaged once the development set stops
    improving (arXiv:1708.02182)."""
    rate: float = Field(gt=0)
    """The peak learning rate."""
    schedule: Literal["inverse-sqrt", "linear", "cosine", "slanted", "constant"] = "inverse-sqrt"
    """The learning rate after the warmup; "linear" and "cosine" reach 0 after the last step."""
    warmup: Literal["auto"] | Annotated[int, Field(ge=0)] | Annotated[float, Field(gt=0, lt=1)] = (
        "auto"
    )
    """Steps over which the learning rate grows linearly to its peak; below 1, a share of all.
    "auto" is a tenth of the steps, at most 4,000. A run that is resumed with other steps keeps the
    warm-up that it began with."""
    betas: tuple[Share, Share] = (0.9, 0.98)
    """Decay rates of Adam's two moments."""
    eps: float = Field(1e-9, gt=0)
    """Adam's epsilon."""
    decay: float = Field(0.0, ge=0)
    """Weight decay."""
    mix_penalty: float = Field(0.0, ge=0)
    """λ of λ‖w‖², which is added to the loss: w are the weights, before the softmax, of each
    mixture of layers (ELMo: arXiv:1802.05365, section 3.3). 1 keeps it close to the mean of all
    layers, 0.001 lets it vary."""
    clip: float = Field(0.0, ge=0)
    """The largest norm of the gradient; 0: it is not clipped."""
    layer_decay: float = Field(1.0, gt=0, le=1)
    """The learning rate of a level, relative to the level above it."""
    freeze: tuple[str, ...] = ()
    """Names of parts that are not trained: "embed", "blocks.0", "trunk"."""
    unfreeze_every: Annotated[int, Field(ge=0)] | Literal["epoch"] = 0
    """Steps (or "epoch") after which one more level is unfrozen, from the highest down."""
    nonmonotone: int = Field(5, ge=1)
    """Of "nt-asgd": averaging begins when an evaluation is worse than the best of those more than
    so many before it."""

    def warmup_steps(self, steps: int) -> int:
        """The steps of the warm-up in a run of ``steps``."""
        if isinstance(self.warmup, str):
            return min(LONGEST_WARMUP, int(WARMUP_SHARE * steps))
        return self.warmup if isinstance(self.warmup, int) else int(self.warmup * steps)

    def remark(self, steps: int) -> str:
        """A remark on a run of ``steps`` that ends before its warm-up; empty: it does not."""
        warmup = self.warmup_steps(steps)
        if warmup <= steps:
            return ""
        end = f"{100 * steps / warmup:.2g}% of optimiser.rate"
        return f"optimiser.warmup: {warmup:,} steps of {steps:,}: the learning rate ends at {end}"

    def levels_learning(self, step: int, epoch: int) -> int | None:
        """Number of the highest levels that are trained at a step, counted from 1; None: all."""
        every = self.unfreeze_every
        if isinstance(every, str):
            return 1 + epoch
        return 1 + (step - 1) // every if every else None

    @property
    def trigger(self) -> int:
        """Number of evaluations that averaging waits for; 0: the optimiser does not average."""
        return self.nonmonotone if OPTIMISERS[self.kind].averages else 0

    @property
    def has_moments(self) -> bool:
        """Whether it has Adam's moments."""
        return OPTIMISERS[self.kind].moments > 0

    @property
    def needs_whole_weights(self) -> bool:
        """Whether it reads whole matrices, which cannot be divided among processes."""
        return OPTIMISERS[self.kind].whole_weights

    @model_validator(mode="after")
    def _reads_all(self) -> "OptimiserConfig":
        unread = () if self.has_moments else ("betas", "eps")
        unread = unread if self.trigger else (*unread, "nonmonotone")
        if wrong := [key for key in unread if key in self.model_fields_set]:
            raise ValueError(f"{wrong[0]} cannot be used with kind {self.kind!r}")
        return self


class KindOfOptimiser(NamedTuple):
    """What a kind of ``OptimiserConfig`` does.

    A kind has as many ``moments`` of the size of each weight, ``averages`` weights once the
    development set stops improving, or reads ``whole_weights``.
    """

    moments: int = 0
    averages: bool = False
    whole_weights: bool = False


OPTIMISERS = {
    "adam": KindOfOptimiser(moments=2),
    "adamw": KindOfOptimiser(moments=2),
    "relative-adamw": KindOfOptimiser(moments=2, whole_weights=True),
    "adafactor": KindOfOptimiser(whole_weights=True),
    "sgd": KindOfOptimiser(),
    "nt-asgd": KindOfOptimiser(averages=True),
}


class TrainConfig(Config):
    """Length of training, precision, evaluation and checkpoints."""

    free_keys = ("steps", "epochs", "report_every", "patience", "keep_every")
    steps: int = Field(0, ge=1)
    """Updates of the weights, unless `epochs` is given."""
    epochs: float = Field(0.0, gt=0)
    """Passes over the training data, instead of `steps`; fractions are allowed. For pre-training a
    pass over all rows of the text, over streams one pass over every stream."""
    seed: int = 1
    """Decides initial weights, dropout, and the order of examples."""
    smoothing: Share = 0.0
    """Label smoothing; translation has 0.1 by default."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """ "auto" is bf16 where the device has units for its products (a GPU, AMX, BFMMLA on ARM), else
    fp32; a run that is resumed keeps its precision."""
    report_every: int = Field(50, ge=1)
    """Steps between two reports of the loss."""
    evaluate_every: int = Field(1_000, ge=1)
    """Steps between two evaluations on the development set; default with `epochs`: an epoch, or an
    equal part of it of at most 1,000 steps."""
    checkpoint_every: int = Field(1_000, ge=1)
    """Steps between two checkpoints."""
    keep_every: int = Field(0, ge=0)
    """Steps between two checkpoints that are kept to the end, for branches of the run; 0: only
    those are kept that the run needs."""
    metric: str = "loss"
    """The metric that selects the best checkpoint: "loss", or a metric of the task.
    Of equal values, the one with the lower dev loss is best."""
    patience: int = Field(0, ge=0)
    """Early stopping after this number of evaluations without a new best; 0: none."""
    ema: float = Field(0.0, ge=0, lt=1)
    """Keep an exponential moving average of the weights, with this decay; 0: none."""
    average: int = Field(1, ge=1)
    """Number of last checkpoints whose weights are averaged."""
    deterministic: bool = False
    """Only deterministic kernels, so that resuming is bit-exact on CUDA as well."""
    compile: bool = True
    """Compile the forward pass where shapes are fixed (CUDA)."""

    def over(self, batches: float) -> "TrainConfig":
        """The table with its numbers of steps, if an epoch has this number of steps' batches."""
        if not self.epochs:
            return self
        steps = {"steps": max(1, ceil(self.epochs * batches - 1e-9))}
        if "evaluate_every" not in self.model_fields_set:
            parts = max(1, ceil(batches / self.evaluate_every))
            steps["evaluate_every"] = max(1, ceil(batches / parts - 1e-9))
        return self.model_copy(update=steps)

    @property
    def length_fault(self) -> str:
        """Fault of a table that has not exactly one of steps and epochs; empty: none."""
        if self.steps and self.epochs:
            return "train.steps and train.epochs exclude each other: give one of them"
        missing = not self.steps and not self.epochs
        return "train.steps is missing: give train.steps or train.epochs" if missing else ""

    def regular(self, steps: Iterable[int]) -> list[int]:
        """Regular checkpoints among these steps, without checkpoints of a stop or of a new best."""
        return [step for step in steps if step and step % self.checkpoint_every == 0]

    def kept(self, steps: Iterable[int]) -> list[int]:
        """Checkpoints among these steps that are kept for branches."""
        return [step for step in steps if self.keep_every and step % self.keep_every == 0]

    @model_validator(mode="after")
    def _agrees(self) -> "TrainConfig":
        if self.ema and self.average > 1:
            raise ValueError("ema and average cannot be combined: choose one")
        return self


class DistributedConfig(Config):
    """How several processes share the model and each step.

    ``kind``: "ddp" has the whole model in every process, "fsdp" divides weights, gradients and
    moments among all of them, "hsdp" among the processes of each of ``replicas`` copies.
    """

    free_keys = ("kind", "reshard", "replicas", "checkpoint_blocks", "timeout")
    kind: Literal["auto", "ddp", "fsdp", "hsdp"] = "auto"
    """ "auto" is "ddp" if weights, gradients and moments take less than half of a GPU's memory,
    else "fsdp"; on a CPU "ddp"."""
    reshard: bool = True
    """Of "fsdp" and "hsdp": free the gathered weights of a block after its forward pass, and gather
    them again for its backward pass. False is faster and needs memory for all weights."""
    replicas: int = Field(0, ge=2)
    """Of "hsdp": number of copies of the model."""
    checkpoint_blocks: bool = False
    """Keep only the input of each block of attention and compute the block again in the backward
    pass (activation checkpointing): less memory, and a third more time."""

    timeout: int = Field(600, ge=10)
    """Seconds that a process may be behind the others before it is named and the run ends."""
    exact: bool = False
    """The same bits for any number of processes: each step is cut into `shards` slices, each has a
    backward pass of its own, and gradients are summed in the order of slices. Slower: whole
    gradients of every slice are sent to all processes."""
    shards: int = Field(4, ge=1)
    """Of `exact`: number of slices of a step, a multiple of the number of processes."""

    @property
    def sharded(self) -> bool:
        """Whether weights are divided, unless "auto" decides that."""
        return OF_KIND[self.kind].divides

    @property
    def decides(self) -> bool:
        """Whether the size of the model decides if weights are divided."""
        return OF_KIND[self.kind].decides

    @model_validator(mode="after")
    def _reads_all(self) -> "DistributedConfig":
        reads = {*OF_KIND[self.kind].reads, *(("shards",) if self.exact else ())}
        for key in ("reshard", "replicas", "shards"):
            if key in self.model_fields_set and key not in reads:
                use = "without exact = true" if key == "shards" else f"with kind {self.kind!r}"
                raise ValueError(f"{key} cannot be used {use}")
        if "replicas" in reads and not self.replicas:
            raise ValueError("replicas is missing: give the number of copies, 2 or more")
        if self.exact and self.sharded:
            raise ValueError(
                f"exact sums whole gradients; kind {self.kind!r} divides them: use 'ddp'"
            )
        return self


class KindOfSharing(NamedTuple):
    """What a kind of ``DistributedConfig`` does, and the keys that it reads."""

    divides: bool = False
    decides: bool = False
    reads: tuple[str, ...] = ()


OF_KIND = {
    "auto": KindOfSharing(decides=True, reads=("reshard",)),
    "ddp": KindOfSharing(),
    "fsdp": KindOfSharing(divides=True, reads=("reshard",)),
    "hsdp": KindOfSharing(divides=True, reads=("reshard", "replicas")),
}


class RungConfig(Config):
    """One model of a ladder: its differences from the recipe."""

    name: str = Field(min_length=1)
    """The name of the model in the table."""
    model: ModelConfig
    """Its architecture."""
    batches: dict[str, object] = Field(default_factory=dict)
    """Keys that differ from the recipe's `[batches]`."""
    optimiser: dict[str, object] = Field(default_factory=dict)
    """Keys that differ from the recipe's `[optimiser]`."""
    train: dict[str, object] = Field(default_factory=dict)
    """Keys that differ from the recipe's `[train]`."""
    expect: ExpectConfig | None = None
    """The score to expect of it."""
