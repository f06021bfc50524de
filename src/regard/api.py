"""The public face: a model from a folder, and what people do with it."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.ground.batch import pack
from regard.ground.device import device_named
from regard.ground.errors import BadInput
from regard.ground.lock import is_vacant
from regard.ground.tape import SILENT, Silent, Tape
from regard.inside.align import Reading
from regard.inside.encoded import look_within
from regard.inside.look import Look
from regard.inside.record import align, look
from regard.inside.worded import Worded, worded
from regard.metrics.alignment import Links
from regard.models import folder as folders
from regard.models.facts import AnyFacts, ClassifierFacts, EncoderFacts, Facts, PairFacts
from regard.models.paper import Paper
from regard.models.room import House
from regard.models.stored import Text
from regard.parts.linear.engine import in_precision
from regard.search.step import Search
from regard.tasks.classify import Classifier
from regard.tasks.fill import Filled
from regard.tasks.rows import Runner
from regard.tasks.translate import Translation, Translator
from regard.tasks.understand import Read, Understanding
from regard.text.bilingual import Bilingual
from regard.text.encoder import EncoderText
from regard.text.labelled import LabelledText
from regard.text.tuned import TunedText
from regard.text.words import word_spans

Texts = Sequence[Read]


def load(
    folder: str | Path,
    device: str | None = None,
    *,
    precision: str | None = None,
    keep_unknown: bool = False,
) -> "Model":
    """The model in a folder; on the GPU if there is one, unless told otherwise.

    With a ``precision`` ("fp32", "bf16", "int8" or "auto") everything runs on a copy made for
    speed; weights changed afterwards do not reach it. With ``keep_unknown``, tensors of layers that
    are not known here are kept beside the weights for ``save``; otherwise they are an error.
    """
    stored = folders.read(Path(folder), device_named(device), keep_unknown=keep_unknown)
    return Model(stored, precision, Path(folder))


class Model:
    """A model with its paper, its facts and its vocabularies."""

    def __init__(
        self, stored: folders.Stored, precision: str | None = None, folder: Path | None = None
    ):
        self._stored, self._precision = stored, precision
        self._folder = None if folder is None else folder.resolve()
        self.paper: Paper = stored.paper
        self.facts: AnyFacts = stored.facts
        self.module: nn.Module = stored.module
        self.tokenizer: Text | None = stored.text
        self.notes: dict[str, Any] = stored.notes
        on_cuda = next(stored.module.parameters()).is_cuda
        self._house = House() if on_cuda else None

    def __repr__(self) -> str:
        return f"Model({self.paper.name}, {sum(p.numel() for p in self.module.parameters()):,})"

    @property
    def translator(self) -> Translator:
        """The model as a translator."""
        settings, text = self.notes.get("generation"), self._text
        if not isinstance(text, Bilingual):
            does = "labels" if isinstance(text, LabelledText) else "reads"
            raise BadInput(f"{self.paper.name} {does} texts: it does not translate")
        return Translator(self.module, text, generation=settings, house=self._house)

    @cached_property
    def classifier(self) -> Classifier:
        """The model as a classifier."""
        text = self._text
        if not isinstance(text, LabelledText):
            does = "translates" if isinstance(text, Bilingual) else "is an encoder"
            raise BadInput(f"{self.paper.name} {does}: it has no labels")
        given = self._precision
        return Classifier(self.module if given is None else in_precision(self.module, given), text)

    @cached_property
    def encoder(self) -> Understanding:
        """The model as an encoder that sees both ways."""
        text = self.tokenizer
        if not isinstance(self.facts, EncoderFacts):
            raise BadInput(f"{self.paper.name} is no encoder that sees both ways")
        assert isinstance(text, EncoderText | TunedText | None)
        plain = Understanding(self.module, self.facts, text, self.notes)  # type: ignore[arg-type]
        return plain if self._precision is None else plain.with_precision(self._precision)

    @property
    def predictor(self) -> Runner:
        """What gives the predictions: a classifier, or whatever an encoder was tuned for."""
        return self.encoder.predictor if isinstance(self.facts, EncoderFacts) else self.classifier

    def predict(self, inputs: Sequence[Any]) -> list[Any]:
        """Labels with probabilities, tags, answers or choices, by what the model was tuned for.

        Inputs are texts, or pairs of texts; texts, or lists of words, to be tagged; (question,
        context) to be answered; (text, choices) to be chosen from.
        """
        if isinstance(inputs, str):
            raise TypeError("give a list of texts, not one text")
        return self.predictor.predict(inputs)

    def fill(self, texts: Sequence[str], top: int = 5) -> list[Filled]:
        """The most probable words for each [MASK] of each text."""
        if isinstance(texts, str):
            raise TypeError("give a list of texts, not one text")
        return self.encoder.filler(top).predict(texts)

    @torch.no_grad()
    def encode(self, texts: Texts, layer: int = -1) -> list[Tensor]:
        """States of the text that is read, (tokens, width) each.

        Layer 0 is the embedding, n the state after block n, -1 what the decoder (or the pooling)
        sees. Ids are used as given; texts get the marks they had in training, if any. Encoders read
        pairs of texts too.
        """
        side, facts = self._reading
        depth = facts.stack.depth
        if not -1 <= layer <= depth:
            raise BadInput(f"layer {layer} asked for; there are 0 (embedding) to {depth}, and -1")
        if isinstance(self.facts, EncoderFacts):
            return self.encoder.states(self.encoder.read(texts), layer)
        name = {-1: f"{side}.output", 0: f"{side}.embed.output"}.get(
            layer, f"{side}.blocks.{layer - 1}.output"
        )
        packed = pack(self._ids(texts))
        packed = packed.to(next(self.module.parameters()).device)
        tape = Tape(name)
        module: Any = self.module
        module.encode(packed.tokens_T, packed.layout, tape=tape)
        return packed.layout.split(tape.kept[name])

    def embed(self, texts: Texts, pool: str | None = None, normalise: bool | None = None) -> Tensor:
        """One vector per text, (n, width): the mean of its states, or their maximum ("max").

        Of an encoder also the "first" state, or that taken through its layer ("pooled"). Unless
        told otherwise, what its folder says of sentence vectors, and else the mean as it is.
        """
        if isinstance(self.facts, EncoderFacts):
            return self.encoder.vectors(texts, pool, normalise)
        pool = pool or "mean"
        if pool not in ("mean", "max"):
            raise BadInput(f"pool is 'mean' or 'max', not {pool!r}")
        states = self.encode(texts)
        pooled = [one.mean(0) if pool == "mean" else one.amax(0) for one in states]
        width = self._reading[1].stack.states
        vectors_ND = torch.stack(pooled) if pooled else torch.zeros(0, width)
        return nn.functional.normalize(vectors_ND, dim=-1) if normalise else vectors_ND

    @torch.no_grad()
    def logits(self, pairs: Sequence[Any], *, tape: Silent = SILENT) -> list[Tensor]:
        """(tokens, vocabulary) for each pair (source, target), of texts or of ids.

        Row t is the prediction of target token t; the last row predicts the end. A ``tape`` records
        or edits what happens inside. An encoder is given texts, with masks perhaps, pairs or ids;
        one that was tuned says (tokens, labels), or (labels,) of each text as a whole.
        """
        if isinstance(self.facts, EncoderFacts):
            rows = self.encoder.read(pairs, masks=self.facts.fills)
            return self.encoder.logits(rows, tape)
        text = self.translator.text
        sources = self._ids([source for source, _ in pairs])
        targets = [text.target.encode(t) if isinstance(t, str) else list(t) for _, t in pairs]
        source = pack(sources).to(self.translator.device)
        target = pack([[text.target.bos, *one] for one in targets]).to(self.translator.device)
        logits_TV = self.module(
            source.tokens_T, source.layout, target.tokens_T, target.layout, tape=tape
        )
        return target.layout.split(logits_TV)

    def translate(
        self,
        texts: Sequence[str],
        search: Search | None = None,
        prefixes: Sequence[str] | None = None,
    ) -> list[list[Translation]]:
        """Hypotheses with scores for each text, best first.

        Unless told otherwise: a beam of 5, or for a published folder what it was published with.
        """
        if isinstance(texts, str):
            raise TypeError("give a list of texts, not one text")
        return self._swift.translate(texts, search, prefixes)

    @cached_property
    def _swift(self) -> Translator:
        """The translator in the precision asked for."""
        plain = self.translator
        return plain if self._precision is None else plain.with_precision(self._precision)

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[list[float]]:
        """Log-probabilities of given translations, per target token and for the end."""
        return self.translator.score(pairs)

    def look(
        self, text: str, target: str | None = None, *, subwords: bool = False
    ) -> Look | Worded:
        """What the model looks at while it translates or reads, or what a label rests on.

        An encoder reads ``target`` as its second text. Prints itself; ``.html()`` is a page of it.
        """
        if isinstance(self.facts, ClassifierFacts):
            if target is not None:
                raise BadInput("a classifier writes nothing: there is no target to look at")
            return worded(self.classifier, text, subwords=subwords)
        if isinstance(self.facts, EncoderFacts):
            return look_within(self.encoder, text, target, subwords=subwords)
        if target is None:
            target = self.translate([text])[0][0].text
        return look(self.translator, text, target, subwords=subwords)

    @property
    def reading(self) -> Reading:
        """How its attention is read as alignment: as chosen at training, else the last layer."""
        last = max(0, self._pair_facts.target.stack.looks[0] - 1)
        known = self.notes.get("alignment") or {"layer": last}
        try:
            return Reading(**known)
        except TypeError:
            raise BadInput(f"config.json: notes.alignment is no reading ({known})") from None

    @reading.setter
    def reading(self, reading: Reading) -> None:
        self.notes["alignment"] = asdict(reading)

    def align(
        self,
        pairs: Sequence[tuple[str, str]],
        reading: Reading | None = None,
        *,
        subwords: bool = False,
    ) -> Iterator[Links]:
        """Links (source word, target word) for each pair, or links between subwords."""
        spans = None if subwords else word_spans
        return align(self.translator, pairs, reading or self.reading, spans)

    def save(self, folder: str | Path, format: str = "regard", *, overwrite: bool = False) -> None:
        """Write the model to a folder that ``load`` reads; "hf" is also for ``transformers``.

        The folder must be empty or not there, or be the one this model was loaded from or saved
        to; with ``overwrite``, the model in it is replaced.
        """
        path = Path(folder)
        if not (overwrite or path.resolve() == self._folder or is_vacant(path)):
            raise BadInput(f"{folder}: is there already; save(..., overwrite=True) replaces it")
        folders.write(path, self._stored, format)
        self._folder = path.resolve()

    @property
    def _pair_facts(self) -> PairFacts:
        if not isinstance(self.facts, PairFacts):
            raise BadInput(f"{self.paper.name} reads no source and writes no target")
        return self.facts

    @property
    def _reading(self) -> tuple[str, Facts]:
        """The side that reads, as the tape calls it, and its facts."""
        if isinstance(self.facts, ClassifierFacts):
            return "reader", self.facts.reader
        if isinstance(self.facts, EncoderFacts):
            return "trunk", Facts(self.facts.embed, self.facts.stack)
        return "source", self._pair_facts.source

    @property
    def _text(self) -> Text:
        if self.tokenizer is None:
            raise BadInput("this folder has no tokenizer files: only token ids can be used")
        return self.tokenizer

    def _ids(self, texts: Texts) -> list[list[int]]:
        return [self._ids_of(one) if isinstance(one, str) else [*one] for one in texts]

    def _ids_of(self, text: str) -> list[int]:
        if isinstance(known := self._text, LabelledText):
            return known.words.encode(text)
        pair = self.translator.text
        return [*pair.source.encode(text), pair.target.eos]
