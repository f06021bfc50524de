"""Base class of runners: the methods that encoders and encoder-decoders share."""

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Self, cast

from torch import Tensor, nn

from regard.ground.checks import check_whole, listed
from regard.ground.errors import BadInput
from regard.ground.tape import NULL_TAPE, NullTape
from regard.inference.batch_runner import BatchRunner, Rows
from regard.inference.embed import Embedder
from regard.inference.score_text import Scorer
from regard.inference.text_tokens import TextTokens
from regard.models.folders.loaded_model import LoadedModel
from regard.text.labels import LabelSet
from regard.text.segmentation import LabelledImage


class ModelRunner(BatchRunner):
    """Runner: a model with its tokenizer and its limits.

    ``name`` is the name of the paper, for messages. Texts of more than ``max_length`` tokens are
    truncated by encoders and refused by translators. ``labels`` are those that a model predicts.
    """

    name: str
    max_length: int | None
    labels: LabelSet | None = None

    @classmethod
    @abstractmethod
    def of(cls, loaded: LoadedModel) -> Self:
        """Runner of the model of a folder, in the precision of its weights."""

    @property
    @abstractmethod
    def position_limit(self) -> int | None:
        """The maximum number of tokens that positions allow; None: no limit."""

    @property
    def truncation(self) -> int | None:
        """The number of tokens to which texts are truncated; None: texts are read whole."""
        return None

    @abstractmethod
    def with_precision(self, kind: str, engine: str = "auto") -> Self:
        """A copy for inference in "fp32", "bf16", "int8" (on a CPU) or "auto".

        ``engine`` runs the decoding steps of a model that generates text.
        """

    def with_limits(self, batch_size: int | None, max_length: int | None = None) -> Self:
        """A copy with other limits; None keeps a limit."""
        changes = {"batch_size": batch_size, "max_length": max_length}
        limits = {name: check_whole(name, n, 1) for name, n in changes.items() if n is not None}
        return self._replaced(**limits) if limits else self

    def with_module(self, module: nn.Module) -> Self:
        """A copy that runs another module of the same facts."""
        return self._replaced(model=module)

    def _replaced(self, **changes: object) -> Self:
        return replace(cast(Any, self), **changes)  # all models are dataclasses

    def parse(self, line: str, where: str) -> object:
        """The text, or the pair of texts, in a line of a file."""
        return line

    @abstractmethod
    def token_count(self, given: Any, most: int) -> int:
        """The number of tokens of an input, with special tokens; exact only above ``most``."""

    @abstractmethod
    def read(self, inputs: Iterable[Any]) -> Rows:
        """Rows of inputs: texts as ids with their special tokens, ids unchanged."""

    @abstractmethod
    def tokens(self, inputs: Iterable[Any]) -> list[TextTokens]:
        """The tokens of each input, with the characters and words that they stand for."""

    @abstractmethod
    def embedder(self, pool: str | None = None, normalise: bool | None = None) -> Embedder:
        """The component "embed": one vector for each input."""

    @abstractmethod
    def logits(
        self, inputs: Iterable[Any], tape: NullTape = NULL_TAPE, head: str | None = None
    ) -> list[Tensor]:
        """The logits of each input by a head, recorded on a tape; default: the first head."""

    @abstractmethod
    def scorer(
        self, window: int | None = None, stride: int | None = None, top: int = 0
    ) -> Scorer[Any]:
        """The component "score": log-probabilities of texts, or of given translations.

        ``window`` and ``stride`` are for texts that are read in several windows. With ``top``,
        scores have that many of the most probable tokens in place of each token.
        """

    def listed(self, inputs: Iterable[object], of: str = "texts") -> list[Any]:
        """Inputs as a list; a single string is refused."""
        return listed(inputs, of)

    def label(self, image: object) -> LabelledImage:
        """An image with the names of its tokens; models of text refuse it."""
        raise BadInput(f"{self.name} reads texts, not images")

    def default_target(self, text: str) -> str | None:
        """Default second text of ``look``; for translators, the translation."""
        return None
