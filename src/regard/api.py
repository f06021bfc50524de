"""The public face: a model from a folder, and what people do with it."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from regard.ground.device import device_named
from regard.ground.errors import BadInput, shown
from regard.ground.files import resolved
from regard.inference.inputs import check_pairs
from regard.inside.align import AlignmentMethod, align
from regard.inside.attention.attention_view import View
from regard.inside.attention.induction import InductionScores
from regard.inside.attention.look import look, score_induction
from regard.inside.attention.record import tape_names
from regard.metrics.alignment import Links
from regard.models.folders import folder as folders
from regard.models.folders.hub import local_folder
from regard.tasks.components import Runner
from regard.text.words import word_spans


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


class Model(Runner):
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
        super().__init__(loaded, precision, batch_size)
        self._folder = None if folder is None else folder.resolve()

    def __repr__(self) -> str:
        return f"Model({self.paper.name}, {sum(p.numel() for p in self.module.parameters()):,})"

    def tape_names(self) -> list[str]:
        """The names of all values that a ``Tape`` given to ``logits`` can record or edit."""
        return tape_names(self.module, self.facts)

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
