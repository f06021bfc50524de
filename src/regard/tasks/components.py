"""What runs a model: an encoder with heads, of texts or of images, or a translator."""

from regard.inference.encoder_model import EncoderModel
from regard.inference.generator import Generator
from regard.inference.image_model import ImageModel
from regard.inference.model_runner import ModelRunner
from regard.inference.translator import Translator
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.formats.loaded_model import LoadedModel
from regard.models.trunk_with_heads import TrunkWithHeads

RUNNERS: dict[tuple[tuple[str, ...], bool, bool], type[ModelRunner]] = {
    (TrunkWithHeads.sides, False, False): EncoderModel,
    (TrunkWithHeads.sides, False, True): ImageModel,
    (TrunkWithHeads.sides, True, False): Generator,
    (EncoderDecoder.sides, True, False): Translator,
}
"""By the sides of the model, whether it writes, and whether it reads images."""


def runner_of(loaded: LoadedModel) -> ModelRunner:
    """The runner of the model of a folder."""
    facts = loaded.facts
    return RUNNERS[facts.sides, facts.writes, facts.encoder.embed.reads_images].of(loaded)
