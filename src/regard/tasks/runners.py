"""What runs a model: an encoder with heads, or a translator."""

from regard.models.facts import EncoderDecoder, TrunkWithHeads
from regard.models.formats.loaded_model import LoadedModel
from regard.tasks.encoder_model import EncoderModel
from regard.tasks.generator import Generator
from regard.tasks.model_runner import ModelRunner
from regard.tasks.translator import Translator

RUNNERS: dict[tuple[tuple[str, ...], bool], type[ModelRunner]] = {
    (TrunkWithHeads.sides, False): EncoderModel,
    (TrunkWithHeads.sides, True): Generator,
    (EncoderDecoder.sides, True): Translator,
}
"""By the sides of the model, and whether it writes."""


def runner_of(loaded: LoadedModel) -> ModelRunner:
    """The runner of the model of a folder."""
    return RUNNERS[loaded.facts.sides, loaded.facts.writes].of(loaded)
