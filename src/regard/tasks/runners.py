"""Which runner a model has, by the shape of its facts."""

from regard.models.facts import EncoderDecoder, TrunkWithHeads
from regard.models.formats.loaded_model import LoadedModel
from regard.tasks.encoder_model import EncoderModel
from regard.tasks.model_runner import ModelRunner
from regard.tasks.translator import Translator

RUNNERS: dict[tuple[str, ...], type[EncoderModel | Translator]] = {
    TrunkWithHeads.sides: EncoderModel,
    EncoderDecoder.sides: Translator,
}


def runner_of(loaded: LoadedModel, batch_size: int | None, precision: str | None) -> ModelRunner:
    """The model of a folder, ready to run; without a ``precision`` in that of its weights."""
    runner: ModelRunner = RUNNERS[loaded.facts.sides].of(loaded)
    runner = runner.with_limits(batch_size)
    return runner if precision is None else runner.with_precision(precision)
