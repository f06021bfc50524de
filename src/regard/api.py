"""The public face: a model from a folder, and what people do with it."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.decoding import default_engine
from regard.ground.batch import Ids, TokenRow, pack_rows
from regard.ground.checks import check_whole
from regard.ground.device import device_named
from regard.ground.errors import BadInput, shown
from regard.ground.files import writing
from regard.ground.lock import is_vacant
from regard.ground.tape import NULL_TAPE, NullTape, Tape
from regard.inside.align import AlignmentMethod
from regard.inside.look import look
from regard.inside.record_translator import align
from regard.inside.view import View
from regard.metrics.alignment import Links
from regard.models.facts import EncoderDecoder, ModelFacts, TrunkWithHeads
from regard.models.formats import folder as folders
from regard.models.hub import local_folder
from regard.models.paper import Paper
from regard.models.sites import require_cross_attention
from regard.search.step import Search
from regard.tasks.batch_runner import Predictor, RowRunner
from regard.tasks.embed import Embedder
from regard.tasks.encoder_model import EncoderInput, EncoderModel
from regard.tasks.fill_mask import FilledText
from regard.tasks.inputs import check_pairs, check_text, listed
from regard.tasks.translator import Translation, Translator
from regard.text.ids_only import MISSING
from regard.text.labels import LabelSet
from regard.text.tokenizers import Tokenizer
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
    stored = folders.read(place, device_named(device), keep_unknown=keep_unknown)
    return Model(stored, precision, path if place == path else None, batch_size)


def _path(folder: str | Path) -> Path:
    if not isinstance(folder, str | Path):
        raise BadInput(f"a folder is named by a text or a Path, not {shown(folder)}")
    return Path(folder)


class Model:
    """A model with its paper, its facts and its vocabularies."""

    def __init__(
        self,
        stored: folders.LoadedModel,
        precision: str | None = None,
        folder: Path | None = None,
        batch_size: int | None = None,
    ):
        self._stored, self._precision = stored, precision
        self._batch: dict[str, Any] = {}
        if batch_size is not None:
            self._batch["batch_size"] = check_whole("batch_size", batch_size, 1)
        self._folder = None if folder is None else folder.resolve()
        self.paper: Paper = stored.paper
        self.facts: ModelFacts = stored.facts
        self.module: nn.Module = stored.module
        self.tokenizer: Tokenizer | None = stored.tokenizer
        self.labels: LabelSet | None = stored.labels
        self.notes: dict[str, Any] = stored.notes
        self._engine = default_engine(stored.module)

    def __repr__(self) -> str:
        return f"Model({self.paper.name}, {sum(p.numel() for p in self.module.parameters()):,})"

    @cached_property
    def translator(self) -> Translator:
        """The model as a translator, in the precision asked for."""
        if not isinstance(self.facts, EncoderDecoder):
            raise BadInput(f"{self.paper.name} has no decoder: it does not translate")
        text = folders.vocabularies(self._stored)
        settings: dict[str, Any] = {n: self.notes.get(n) for n in ("generation", "decode")}
        settings |= self._batch
        plain = Translator(self.module, text, engine=self._engine, **settings)
        return plain if self._precision is None else plain.with_precision(self._precision)

    @cached_property
    def encoder(self) -> EncoderModel:
        """The model as a trunk with heads."""
        if not isinstance(self.facts, TrunkWithHeads):
            raise BadInput(f"{self.paper.name} translates: it is no encoder with heads")
        module, tokenizer = cast(Any, self.module), cast(Any, self.tokenizer)
        plain = EncoderModel(module, self.facts, tokenizer, self.labels, self.notes, **self._batch)
        return plain if self._precision is None else plain.with_precision(self._precision)

    @property
    def predictor(self) -> Predictor:
        """The predictor of the task that the model was trained for."""
        return self.encoder.predictor

    def predict(self, inputs: Iterable[Any]) -> list[Any]:
        """Labels with probabilities, tags, answers or choices, by what the model was tuned for.

        Inputs are texts, or pairs of texts; texts, or lists of words, to be tagged; (question,
        context) to be answered; (text, choices) to be chosen from.
        """
        given = listed(inputs)
        return self.predictor.predict(given)

    def fill(self, texts: Iterable[str], top: int = 5) -> list[FilledText]:
        """The most probable words for each [MASK] of each text."""
        given = listed(texts)
        return self.encoder.filler(top).predict(given)

    def encode(self, texts: Texts, layer: int = -1, batch_size: int | None = None) -> list[Tensor]:
        """States of the text that is read, (tokens, width) each.

        Layer 0 is the embedding, n the state after block n, -1 what the decoder (or the pooling)
        sees. Ids are used as given; texts get the marks they had in training, if any. Encoders read
        pairs of texts too. At most ``batch_size`` inputs are read at once (by default that of
        ``load``).
        """
        side, depth = self.facts.encoder_path, self.facts.encoder.stack.depth
        batch = self._batch
        if batch_size is not None:
            batch = {"batch_size": check_whole("batch_size", batch_size, 1)}
        if not -1 <= check_whole("layer", layer, -sys.maxsize) <= depth:
            raise BadInput(f"layer {layer} asked for; there are 0 (embedding) to {depth}, and -1")
        name = {-1: f"{side}.output", 0: f"{side}.embed.output"}.get(
            int(layer), f"{side}.blocks.{layer - 1}.output"
        )
        return RowRunner(self._running, **batch).states(self._rows(texts), name)

    def embed(self, texts: Texts, pool: str | None = None, normalise: bool | None = None) -> Tensor:
        """One vector per text, (n, width): the mean of its states, or their maximum ("max").

        Of an encoder also the "first" state, or that taken through its layer ("pooled"). Unless
        told otherwise, what its folder says of sentence vectors, and else the mean as it is.
        Vectors are float32 in any precision, on the device of the model.
        """
        if self._is_encoder:
            return self.encoder.vectors(texts, pool, normalise)
        width, pool = self.facts.encoder.width, pool or "mean"
        embedder = Embedder(self._running, None, width, pool=pool, normalise=bool(normalise))
        return replace(embedder, **self._batch).vectors(self._rows(texts))

    def logits(self, inputs: Iterable[Any], *, tape: NullTape = NULL_TAPE) -> list[Tensor]:
        """(tokens, vocabulary) for each pair (source, target), of texts or of ids.

        Row t is the prediction of target token t; the last row predicts the end. An encoder is
        given texts, with masks perhaps, pairs or ids; one that was tuned says (tokens, labels), or
        (labels,) of each text as a whole, as classifiers do.

        A ``tape`` records or edits what happens inside; ``tape_names`` are the names it can ask
        for. Values of all inputs stand in it, in the order of the inputs.
        """
        if not isinstance(tape, NullTape):
            raise BadInput(f"tape is a Tape, not {shown(tape)}")
        if self._is_encoder:
            rows = self.encoder.read(inputs, masks=self.encoder.facts.head("mlm") is not None)
            return self.encoder.logits(rows, tape)
        return self.translator.logits(inputs, tape)

    def tape_names(self) -> list[str]:
        """The names of all values that a ``Tape`` given to ``logits`` can record or edit."""
        tape, one = Tape(), pack_rows([TokenRow([0], [0])])
        inputs: Any = self.facts.inputs(*(one for _ in self.facts.sides))
        with torch.no_grad():
            self.module(inputs.to(next(self.module.parameters()).device), tape=tape)
        return list(tape.names)

    def translate(
        self,
        texts: Iterable[str | Ids],
        search: Search | None = None,
        prefixes: Iterable[str] | None = None,
    ) -> list[list[Translation]]:
        """Hypotheses with scores for each text, best first; ids are used as given.

        Unless told otherwise: as the recipe says that trained the model; for a published folder,
        as it was published; else a beam of 5.
        """
        return self.translator.translate(texts, search, prefixes)

    @cached_property
    def _running(self) -> nn.Module:
        """The module in the precision asked for."""
        if self._is_encoder:
            return self.encoder.model
        return self.translator.model

    def score(self, pairs: Iterable[tuple[Any, Any]]) -> list[list[float]]:
        """Log-probabilities of given translations, per target token and for the end."""
        return self.translator.score(pairs)

    def look(self, text: str, target: str | None = None, *, subwords: bool = False) -> View:
        """The attention of the model on a text: maps by layer and head, or pooling weights.

        An encoder reads ``target`` as its second text. The result prints itself, and has ``.svg()``
        and ``.html()``.
        """
        for one in (text,) if target is None else (text, target):
            check_text(one, 1)
        if self.tokenizer is None:
            raise BadInput(MISSING)
        if target is None and "target" in self.facts.sides:
            target = self.translate([text])[0][0].text
        given = (self._running, self.facts, self.tokenizer, self.predict)
        return look(*given, text, target, subwords=subwords)

    @property
    def alignment_method(self) -> AlignmentMethod:
        """How links are extracted from attention: as chosen at training, else the last layer."""
        cross = require_cross_attention(self.facts.cross_attention)
        known = self.notes.get("alignment") or {"layer": cross.layers - 1}
        try:
            return AlignmentMethod(**known)
        except TypeError:
            raise BadInput(
                f"config.json: notes.alignment is no alignment method ({known})"
            ) from None

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

        The folder must be empty or not there, or be the one this model was loaded from or saved
        to; with ``overwrite``, a model of the same format in it is replaced.
        """
        path = _path(folder)
        if path.is_file():
            raise BadInput(f"{folder}: is a file, not a folder")
        with writing(path):
            if not (overwrite or path.resolve() == self._folder or is_vacant(path)):
                raise BadInput(f"{folder}: is there already; save(..., overwrite=True) replaces it")
            folders.write(path, self._stored, format)
        self._folder = path.resolve()

    @property
    def _is_encoder(self) -> bool:
        return isinstance(self.facts, TrunkWithHeads)

    def _rows(self, texts: Texts) -> list[Any]:
        """What the side that reads is given: texts in ids, with their marks, and ids as given."""
        if self._is_encoder:
            return self.encoder.read(texts)
        return self.translator.read_sources(listed(texts))
