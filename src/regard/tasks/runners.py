"""What runs a model: an encoder with heads, or a translator."""

from regard.models.facts import EncoderDecoder, TrunkWithHeads
from regard.models.formats.loaded_model import LoadedModel
from regard.tasks.encoder_model import EncoderModel
from regard.tasks.model_runner import ModelRunner
from regard.tasks.translator import Translator

RUNNERS: dict[tuple[str, ...], type[ModelRunner]] = {
    TrunkWithHeads.sides: EncoderModel,
    EncoderDecoder.sides: Translator,
}
"""By the sides that the model reads."""


def runner_of(loaded: LoadedModel) -> ModelRunner:
    """The runner of the model of a folder."""
    return RUNNERS[loaded.facts.sides].of(loaded)
