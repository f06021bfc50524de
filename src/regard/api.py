"""The public face: a model from a folder, and what people do with it."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from regard.ground.batch import Ids
from regard.ground.checks import check_whole, listed
from regard.ground.device import device_named
from regard.ground.errors import BadInput, shown
from regard.ground.files import resolved
from regard.ground.tape import NULL_TAPE, NullTape
from regard.inference.batch_runner import Predictor
from regard.inference.encoder_model import EncoderInput, EncoderModel
from regard.inference.fill_mask import FilledText
from regard.inference.generator import Ending, Generation, Generator
from regard.inference.inputs import check_pairs
from regard.inference.model_runner import ModelRunner
from regard.inference.translator import Translation, Translator
from regard.inside.align import AlignmentMethod, align
from regard.inside.attention.attention_view import View
from regard.inside.attention.induction import InductionScores
from regard.inside.attention.look import look, score_induction
from regard.inside.attention.record import tape_names
from regard.metrics.alignment import Links
from regard.models.encoder_decoder import ModelFacts
from regard.models.formats import folder as folders
from regard.models.hub import local_folder
from regard.models.paper import Paper
from regard.parts.linear.convert import chosen_precision
from regard.search.step import Search
from regard.tasks.components import runner_of
from regard.text.labels import LabelSet
from regard.text.tokenizers.list import Tokenizer
from regard.text.words import word_spans

Texts = Iterable[EncoderInput]


def load(
    folder: str | Path,
    device: str | None = None,
    *,
    precision: str | None = None,
    batch_size: int | None = None,
    keep_unknown: bool = False,
) -> "Model":
    """The model in a folder, or of the Hugging Face hub by its id; on the GPU if there is one.

    A path that exists, or whose first folder exists, is a folder; "org/name" or "name" is an id.
    With a ``precision`` ("fp32", "bf16", "int8" or "auto") everything runs on a copy made for
    speed; weights changed afterwards do not reach it. At most ``batch_size`` inputs run at once (by
    default 64 for translation, else 256). With ``keep_unknown``, tensors of layers that are not
    known here are kept beside the weights for ``save``; otherwise they are an error.
    """
    path, place = _path(folder), local_folder(folder)
    loaded = folders.read(place, device_named(device), keep_unknown=keep_unknown)
    return Model(loaded, precision, path if place == path else None, batch_size)


def _path(folder: str | Path) -> Path:
    if not isinstance(folder, str | Path):
        raise BadInput(f"a folder is named by a text or a Path, not {shown(folder)}")
    return Path(folder)


class Model:
    """A model with its paper, its facts and its vocabularies.

    Methods that read many inputs take any iterable of them, at most ``batch_size`` at once (that of
    ``load``). A text of more tokens than ``max_length``, special ones counted, or than there are
    positions is an error for ``generate``, ``look`` and all methods of a translator; of others, of
    ``logits`` of a GPT too, the beginning is read. With ``as_numpy`` tensors are float32 arrays.
    """

    def __init__(
        self,
        loaded: folders.LoadedModel,
        precision: str | None = None,
        folder: Path | None = None,
        batch_size: int | None = None,
    ):
        self._loaded, self.precision, self._batch_size = loaded, precision, batch_size
        if batch_size is not None:
            check_whole("batch_size", batch_size, 1)
        if precision is not None:
            chosen_precision(precision, next(loaded.module.parameters()).device)
        self._folder = None if folder is None else folder.resolve()
        self.paper: Paper = loaded.paper
        self.facts: ModelFacts = loaded.facts
        self.module: nn.Module = loaded.module
        self.tokenizer: Tokenizer | None = loaded.tokenizer
        self.labels: LabelSet | None = loaded.labels
        self.notes: dict[str, Any] = loaded.notes

    def __repr__(self) -> str:
        return f"Model({self.paper.name}, {sum(p.numel() for p in self.module.parameters()):,})"

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.module.parameters()).device

    def to(self, device: str | torch.device) -> Self:
        """Move the model to a device; what was prepared for the device before is dropped."""
        place = device_named(str(device))
        if self.precision is not None:
            chosen_precision(self.precision, place)
        self.module.to(place)
        self.__dict__.pop("runner", None)
        return self

    @cached_property
    def runner(self) -> ModelRunner:
        """The model on its device, in its precision: what all methods call."""
        runner = runner_of(self._loaded).with_limits(self._batch_size)
        return runner if self.precision is None else runner.with_precision(self.precision)

    @property
    def encoder(self) -> EncoderModel:
        """The model as a trunk with heads."""
        return self.runner.encoder

    @property
    def translator(self) -> Translator:
        """The model as a translator."""
        return self.runner.translator

    @property
    def generator(self) -> Generator:
        """The model as a generator."""
        return self.runner.generator

    @property
    def predictor(self) -> Predictor:
        """The predictor of the task that the model was trained for."""
        return self.encoder.predictor

    def predict(
        self,
        inputs: Iterable[Any],
        *,
        batch_size: int | None = None,
        max_length: int | None = None,
    ) -> list[Any]:
        """Labels with probabilities, tags, answers or choices, by what the model was tuned for.

        Inputs are texts, or pairs of texts; texts, or lists of words, to be tagged; (question,
        context) to be answered; (text, choices) to be chosen from.
        """
        listed = self.runner.listed(inputs, "inputs")
        return self.runner.with_limits(batch_size, max_length).encoder.predictor.predict(listed)

    def fill(
        self,
        texts: Iterable[str],
        top: int = 5,
        *,
        batch_size: int | None = None,
        max_length: int | None = None,
    ) -> list[FilledText]:
        """The most probable words for each mask token of each text ([MASK], RoBERTa's <mask>)."""
        given, runner = listed(texts), self.runner.with_limits(batch_size, max_length)
        return runner.encoder.filler(top).predict(given)

    def encode(
        self,
        texts: Texts,
        layer: int = -1,
        batch_size: int | None = None,
        *,
        carry: bool = False,
        max_length: int | None = None,
        as_numpy: bool = False,
    ) -> list[Any]:
        """States of the text that is read, (tokens, width) each.

        Layer 0 is the embedding, n the state after block n, -1 what the decoder (or the pooling)
        sees. Ids are used as given; texts get the marks they had in training, if any. Encoders read
        pairs of texts too, and lists of words; ELMo gives one state a word. With ``carry``, a
        recurrent model begins each text with the state in which it left the one before it.
        """
        name = self.facts.encoder.state_path(self.facts.encoder_path, layer)
        runner = self.runner.with_limits(batch_size, max_length)
        if carry and not self.facts.encoder.stack.carries_state:
            raise BadInput(f"carry: {self.paper.name} carries no state from text to text")
        read = runner.carried_states if carry else runner.states
        states = read(runner.read(runner.listed(texts)), name)
        return [_array(one) for one in states] if as_numpy else states

    def embed(
        self,
        texts: Texts,
        pool: str | None = None,
        normalise: bool | None = None,
        *,
        batch_size: int | None = None,
        max_length: int | None = None,
        as_numpy: bool = False,
    ) -> Any:
        """One vector per text, (n, width): the mean of its states, or their maximum ("max").

        Of an encoder also the "first" state, that of its summary token even where it stands last,
        or what its pool makes of the states ("pooled"). Unless told otherwise, what its folder says
        of sentence vectors, and else the mean (of images the class token); float32, on its device.
        """
        runner = self.runner.with_limits(batch_size, max_length)
        vectors_ND = runner.vectors(runner.listed(texts), pool, normalise)
        return _array(vectors_ND) if as_numpy else vectors_ND

    def logits(
        self,
        inputs: Iterable[Any],
        *,
        head: str | None = None,
        tape: NullTape = NULL_TAPE,
        batch_size: int | None = None,
        max_length: int | None = None,
        as_numpy: bool = False,
    ) -> list[Any]:
        """(tokens, vocabulary) for each pair (source, target), of texts or of ids.

        Row t is the prediction of target token t; the last row predicts the end. An encoder is
        given texts, with masks perhaps, pairs or ids; one that was tuned says (tokens, labels), or
        (labels,) of each text as a whole. Of several heads, ``head`` names one ("choice", ...); by
        default it is that of the task, of a GPT with two heads the one that predicts tokens.

        A ``tape`` records or edits what happens inside; ``tape_names`` are the names it can ask
        for. Values of all inputs stand in it, in the order of the inputs.
        """
        if not isinstance(tape, NullTape):
            raise BadInput(f"tape is a Tape, not {shown(tape)}")
        runner = self.runner.with_limits(batch_size, max_length)
        logits = runner.logits(runner.listed(inputs, "inputs"), tape, head)
        return [_array(one) for one in logits] if as_numpy else logits

    def tape_names(self) -> list[str]:
        """The names of all values that a ``Tape`` given to ``logits`` can record or edit."""
        return tape_names(self.module, self.facts)

    def translate(
        self,
        texts: Iterable[str | Ids],
        search: Search | None = None,
        prefixes: Iterable[str] | None = None,
        *,
        batch_size: int | None = None,
        max_length: int | None = None,
    ) -> list[list[Translation]]:
        """Hypotheses with scores for each text, best first; ids are used as given.

        Unless told otherwise: as the recipe says that trained the model; for a published folder,
        as it was published; else a beam of 5. ``prefixes`` are how translations must begin.
        """
        given, runner = listed(texts), self.runner.with_limits(batch_size, max_length)
        return runner.translator.translate(given, search, prefixes)

    def generate(
        self,
        prompts: Iterable[str | Ids],
        search: Search | None = None,
        *,
        max_new_tokens: int | None = None,
        min_new_tokens: int = 0,
        stop_strings: Iterable[str] = (),
        batch_size: int | None = None,
        max_length: int | None = None,
    ) -> list[list[Generation]]:
        """Continuations of each prompt with scores, best first; ids are used as given.

        Unless told otherwise: by greedy search, at most 128 tokens, or as the folder was published.
        A text ends before the first of the ``stop_strings``, and where positions end. A batch gives
        what its prompts give alone, and a sample depends on the seed, the number of its prompt and
        its own.
        """
        given, runner = listed(prompts, "prompts"), self.runner.with_limits(batch_size, max_length)
        ending = Ending.of(max_new_tokens, min_new_tokens, stop_strings)
        return runner.generator.generate(given, search, ending)

    def stream(
        self,
        prompt: str | Ids,
        search: Search | None = None,
        *,
        max_new_tokens: int | None = None,
        min_new_tokens: int = 0,
        stop_strings: Iterable[str] = (),
        number: int = 0,
    ) -> Iterator[str]:
        """The continuation of one prompt as pieces of text, as they come.

        Together they are the text that ``generate`` gives for the prompt with this ``number``,
        counted from 0. Only greedy search and sampling can stream.
        """
        ending = Ending.of(max_new_tokens, min_new_tokens, stop_strings)
        return self.runner.generator.stream(prompt, search, ending, number=number)

    def score(
        self,
        inputs: Iterable[Any],
        *,
        window: int | None = None,
        stride: int | None = None,
        batch_size: int | None = None,
    ) -> list[list[float]]:
        """Log-probabilities of texts, or of given translations, token by token.

        A causal model predicts each token of a text from those before it, a masked LM from all
        others. Longer texts than a ``window`` (by default as many tokens as it can read) are read
        in windows that overlap, ``stride`` tokens further each. Ids are used as given. A translator
        scores pairs (source, target): the tokens of the target, and its end. The first token has
        no score where nothing stands before it: of ids, and of GPT, whose texts have no separator.
        """
        given, runner = listed(inputs, "inputs"), self.runner.with_limits(batch_size)
        return [list(one.logprobs) for one in runner.scorer(window, stride).score(given)]

    def look(
        self,
        text: Any,
        target: str | None = None,
        *,
        subwords: bool = False,
        repeat: bool = False,
        rollout: bool = False,
        patch: tuple[int, int] | None = None,
    ) -> View:
        """The attention of the model on a text or an image: maps by layer and head, or of a pool.

        An encoder reads ``target`` as its second text; a translator without one is shown its own
        translation. With ``repeat``, a causal model reads all tokens twice; ``rollout`` follows
        attention through layers; ``patch`` is (row, column) of an image. It has ``.save(path)``.
        """
        given = (self.runner, self.facts, self.tokenizer, self.predict, text, target)
        return look(*given, subwords=subwords, repeat=repeat, rollout=rollout, patch=patch)

    def induction(self, text: str, *, repeat: bool = False) -> InductionScores:
        """How much each head of a causal model is an induction head, on a text with repetitions.

        The score of a head is its attention from a token to the tokens that followed its earlier
        occurrences (Olsson et al., 2022). With ``repeat``, the model reads all tokens twice.
        """
        return score_induction(self.runner, self.facts, self.tokenizer, text, repeat=repeat)

    @property
    def alignment_method(self) -> AlignmentMethod:
        """How links are extracted from attention: as chosen at training, else the last layer."""
        return AlignmentMethod.noted(self.notes, self.facts.cross_attention)

    @alignment_method.setter
    def alignment_method(self, method: AlignmentMethod) -> None:
        self.notes["alignment"] = asdict(method)

    def align(
        self,
        pairs: Iterable[tuple[str, str]],
        method: AlignmentMethod | None = None,
        *,
        subwords: bool = False,
    ) -> Iterator[Links]:
        """Links (source word, target word) for each pair, or links between subwords."""
        pairs = check_pairs(pairs, "of texts (source, target)", texts=True)
        if not isinstance(method, AlignmentMethod | None):
            raise BadInput(f"method is an AlignmentMethod, not {shown(method)}")
        spans = None if subwords else word_spans
        return align(self.translator, pairs, method or self.alignment_method, spans)

    def save(self, folder: str | Path, format: str = "regard", *, overwrite: bool = False) -> None:
        """Write the model to a folder that ``load`` reads; "hf" is also for ``transformers``.

        "elmo" is ELMo as published (options.json, HDF5), "timm" a ViT under the names of ``timm``.
        The folder must be empty or not there, or be the one this model was loaded from or saved
        to; with ``overwrite``, a model of the same format in it is replaced.
        """
        path = _path(folder)
        is_own = resolved(path) == self._folder
        folders.save(path, self._loaded, format, overwrite=overwrite or is_own)
        self._folder = resolved(path)


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.float().cpu().numpy()
