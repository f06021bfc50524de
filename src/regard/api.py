"""Public interface: ``load`` a model from a folder, run it, inspect it, save it."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

from regard.core.checks import check_whole, listed
from regard.core.device import device_named
from regard.core.errors import BadInput, shown
from regard.core.files import resolved
from regard.core.keywords import check_keywords, check_method_keywords
from regard.generation.beam import check_beam
from regard.generation.greedy import Greedy
from regard.generation.step import Search
from regard.inference.generator import Ending
from regard.inference.inputs import check_pairs, title_of
from regard.inference.model_runner import ModelRunner
from regard.inference.resolver import Resolver
from regard.inside.align import AlignmentMethod, align
from regard.inside.attention.attention_view import View
from regard.inside.attention.induction import InductionScores
from regard.inside.attention.look import look, look_at_mentions, score_induction
from regard.inside.attribution.attributions import Attributions, attribute
from regard.inside.attribution.what_if import Head, Layer, WhatIf, what_if
from regard.inside.follow.computation import Computation
from regard.inside.follow.follow import follow
from regard.inside.heads.head_report import HeadReport
from regard.inside.heads.report_heads import Treebank, report_heads
from regard.inside.masked_text import read_with_masks
from regard.inside.record import Record, record
from regard.inside.stream.contributions import Contributions, contributions
from regard.inside.trees.beam_tree import SearchTree
from regard.inside.trees.recording_beam import record_tree
from regard.inside.trees.token_tree import record_tokens
from regard.metrics.links import Links
from regard.models.coreference_head import CoreferenceHead
from regard.models.edits import EditList
from regard.models.folders import folder as folders
from regard.models.folders.hub import local_folder
from regard.tasks.components import Runner
from regard.text.segmentation import LabelledRows
from regard.text.words import check_text, word_spans


@check_keywords
def load(
    folder: str | Path,
    device: str | None = None,
    *,
    precision: str | None = None,
    batch_size: int | None = None,
    keep_unknown: bool = False,
) -> "Model":
    """Load a model from a folder, or by its id from the Hugging Face hub.

    A path that exists, or whose first folder exists, is a folder; "org/name" or "name" is an id.
    The default device is the GPU if there is one. With a ``precision`` ("fp32", "bf16", "int8" or
    "auto"), inference uses a copy of the weights; later changes of the weights do not affect it.
    ``batch_size`` is the maximum number of inputs per batch (default: 64 for translation, else
    256). With ``keep_unknown``, tensors of unknown layers are kept for ``save``; otherwise they are
    an error.
    """
    path, place = _path(folder), local_folder(folder)
    loaded = folders.read(place, device_named(device), keep_unknown=keep_unknown)
    return Model(loaded, precision, path if place == path else None, batch_size)


def _path(folder: str | Path) -> Path:
    if not isinstance(folder, str | Path):
        raise BadInput(f"folder: give a str or a Path, not {shown(folder)}")
    return Path(folder)


@check_method_keywords
class Model(Runner):
    """A model with its paper, facts and vocabularies.

    Methods that read many inputs take any iterable, and run batches of at most ``batch_size`` (by
    default the value given to ``load``). A text of more than ``max_length`` tokens, special ones
    counted, or of more tokens than the model has positions is an error for ``generate``, ``look``
    and all methods of a translator; other methods truncate it. With ``as_numpy``, tensors are
    returned as float32 arrays. A ``tape`` records or edits the values that a method computes; with
    it, inputs run in the order given, and recorded values are in this order.
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
        """Names of all values that a ``Tape`` can record or edit in ``logits``.

        Other methods compute some of them: ``encode`` the encoder's values, ``fill`` the logits at
        masks, ``score`` the logits of the tokens that are scored.
        """
        return self.runner.tape_names()

    @property
    def inspected(self) -> ModelRunner:
        """The model as views, reports and studies of its inside see it: ``runner``."""
        return self.runner

    def _for_gradients(self, what: str) -> ModelRunner:
        """The inspected model; one without gradients, or in half precision, is refused."""
        if self.precision is not None:
            raise BadInput(f"{what} need gradients: load without precision={self.precision}")
        dtype = next(self.module.parameters()).dtype
        if dtype.itemsize < 4:
            raise BadInput(f"{what} need weights in float32, not {dtype}: use model.module.float()")
        return self.runner

    def record(
        self,
        inputs: Iterable[Any],
        *,
        layers: Iterable[int] | None = None,
        values: Iterable[str] = ("weights",),
    ) -> list[Record]:
        """Values that the model computes on each text, pair of texts or image, with labels.

        Token ids are read as they are: a list for each input, or a pair of lists of a source and a
        target without special tokens.

        ``values`` are kinds of values ("weights", "scores", "queries", "keys", "values",
        "head_outputs", "states", ...), ``layers`` numbers of layers, by default all. Only recorded
        layers leave the fast kernels; ``difference`` of a record is the largest difference of its
        outputs to a run that records nothing.
        """
        chosen = None if layers is None else [*layers]
        rows = self._labelled(inputs)
        kinds = [values] if isinstance(values, str) else [*values]
        model = self.runner
        return [record(model, one, layers=chosen, values=kinds, compare=True)[0] for one in rows]

    def follow(
        self,
        given: object,
        *,
        layer: int | None = None,
        head: int | None = None,
        position: int | None = None,
        upto: str | None = None,
        target: str | None = None,
    ) -> Computation:
        """Every step of the computation on a text, a pair of texts, an image or token ids.

        The result has the values of all steps by name, and ``check`` recomputes each from its
        inputs and the weights, by rules that share no code with the model. ``layer``, ``head``,
        ``position`` and ``upto``, the name of a step, choose what it shows. ``target`` is the
        second text, or the translation to follow instead of the translator's own.
        """
        if self.precision is not None:
            raise BadInput(f"follow needs float32: load without precision={self.precision}")
        rows = self.runner.label(given if target is None else (given, target))
        return follow(self.runner, rows).show(layer, head, position, upto)

    def edited(self, edits: EditList) -> "Model":
        """Copy of the model whose runs are edited, in every method (see ``regard.read_edits``).

        Weights are shared, and ``save`` writes them without edits.
        """
        if not isinstance(edits, EditList):
            raise BadInput(f"edits: give the result of read_edits, not {shown(edits)}")
        edits.check(self.runner)
        return self._with_edits(edits.edits)

    def look(
        self,
        text: object,
        target: str | None = None,
        *,
        subwords: bool = False,
        repeat: bool = False,
        rollout: bool = False,
        patch: tuple[int, int] | None = None,
    ) -> View:
        """Attention weights on a text or an image, by layer and head, or of a pooling layer.

        ``target`` is the second text of an encoder, or the translation to show instead of the
        translator's own. With ``repeat``, a causal model reads all tokens twice. ``rollout``
        multiplies attention over layers; ``patch`` is the (row, column) of a patch of an image. The
        result has ``.save(path)``.
        """
        options: dict[str, Any] = {"subwords": subwords, "repeat": repeat, "rollout": rollout}
        options["patch"] = patch
        facts = self.facts
        if not facts.attention_sites and CoreferenceHead.name in facts.head_names:
            resolver = cast(Resolver, self.predictor)
            return look_at_mentions(resolver, text, target=target, **options)
        return look(self.runner, self.predict, text, target, **options)

    def tree(
        self,
        text: str,
        search: Search | None = None,
        *,
        max_new_tokens: int | None = None,
        alternatives: int = 5,
    ) -> SearchTree:
        """Candidates of a search, step by step: of a translation, or of the continuation of a text.

        A translator searches by ``Beam`` (default: the folder's), and the tree says why candidates
        were pruned. A generator searches by ``Greedy`` or by one ``Sample``; each token has its
        most probable ``alternatives``. The result has ``.save(path)``.
        """
        check_text(text, 1)
        if "translate" not in self.components:
            ending = Ending.of(max_new_tokens, 0, ())
            generator = replace(self.generator, ending=ending)
            return record_tokens(generator, text, search or Greedy(), alternatives)
        if max_new_tokens is not None:
            raise BadInput("max_new_tokens cannot be used with a translator")
        beam = self.translator.base_beam if search is None else search
        return record_tree(self.translator, text, check_beam(beam, "the tree of a translation"))

    def induction(self, text: str, *, repeat: bool = False) -> InductionScores:
        """Induction scores of the heads of a causal model, on a text with repetitions.

        The score of a head is its attention from a token to the tokens that followed its earlier
        occurrences (Olsson et al., 2022). With ``repeat``, the model reads all tokens twice.
        """
        return score_induction(self.runner, text, repeat=repeat)

    def attribute(
        self,
        text: object,
        target: str | None = None,
        *,
        token: int | None = None,
        method: str = "all",
        steps: int = 16,
        most_steps: int = 512,
        subwords: bool = False,
        deletion: bool = True,
    ) -> Attributions:
        """Attribution of a prediction to the words of a text, or the patches of an image.

        ``target`` is a label, a token, or the translation to explain; default: what the model
        predicts. ``token`` is the position that predicts it, as in ``contributions``; a tagger
        needs it. ``method`` is "gradient" (× input), "integrated" (gradients), "rollout",
        "attention-gradient", "leave-one-out" or "all" of them. Integrated gradients begin with
        ``steps`` steps, doubled until they are complete to 1%, or up to ``most_steps``. Without
        ``deletion`` there are no deletion curves, which take most of the time.
        """
        return attribute(
            *(self._for_gradients("attributions"), text, target, method),
            token=token,
            steps=steps,
            most_steps=most_steps,
            subwords=subwords,
            deletion=deletion,
        )

    def what_if(
        self,
        text: object,
        *,
        heads: Iterable[Head] = (),
        layers: Iterable[Layer] = (),
        words: Iterable[int | str] = (),
        target: str | None = None,
        token: int | None = None,
    ) -> WhatIf:
        """The prediction for a text or image without some heads, layers or words.

        A head is (layer, head), or (attention, layer, head) with "encoder", "decoder" or "cross"; a
        layer a number, or (side, number); a word its number, from 0, or the word itself.
        ``target`` and ``token`` choose the output, as in ``attribute``.
        """
        model, chosen = self.runner, (target, token)
        return what_if(model, text, *chosen, heads=heads, layers=layers, words=words)

    def contributions(
        self,
        text: object,
        second: str | None = None,
        *,
        target: str | int | None = None,
        against: str | int | None = None,
        token: int | None = None,
    ) -> Contributions:
        """Direct contributions of embedding, heads and feed-forward layers to a logit.

        They sum to the logit of ``target``: a token or a label, by default the most probable one;
        ``against`` subtracts the logit of another. ``token`` is the position that predicts it, by
        default the first mask, the last token of a causal model, or the first of a translation.
        ``second`` is the second text of an encoder, or the translation to explain.
        """
        model = self._for_gradients("contributions")
        rows = read_with_masks(model, text, second)
        return contributions(model, title_of(text), rows, target, against, token)

    def heads(
        self,
        inputs: Iterable[Any] = (),
        *,
        treebank: str | Path | None = None,
        test: str | Path | None = None,
        labels: Iterable[str] | None = None,
        least: int = 100,
    ) -> HeadReport:
        """Report on what each attention head does, on texts, pairs of texts or images.

        ``treebank`` is a CoNLL-U file or a folder with files for dev and ``test``: for each
        relation of at least ``least`` words it has the best head, chosen on dev and scored on test;
        without inputs, all figures are of its sentences. ``labels`` are gold labels of the inputs,
        for the importance of heads; by default it is that for the language-model loss.
        """
        bank = None
        if treebank is not None:
            bank = Treebank.read(_path(treebank), None if test is None else _path(test))
        elif test is not None:
            raise BadInput("test: this is the second file of a treebank: name the first, too")
        names = self.labels.names if self.labels is not None else ()
        gold = None if labels is None else listed(labels, "labels")
        return report_heads(
            self._for_gradients("figures of importance"),
            f"Heads of {self.paper.name}",
            self._labelled(inputs),
            treebank=bank,
            labels=gold,
            label_names=names,
            least=check_whole("least", least, 1),
        )

    def _labelled(self, inputs: Iterable[Any]) -> list[LabelledRows]:
        """Rows with labels of texts, pairs of texts, token ids or images."""
        return [*map(self.runner.label, self.runner.listed(inputs))]

    @property
    def alignment_method(self) -> AlignmentMethod:
        """Method of extracting links from attention: as stored, else from the last layer."""
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
            raise BadInput(f"method: give an AlignmentMethod, not {shown(method)}")
        spans = None if subwords else word_spans
        return align(self.translator, pairs, method or self.alignment_method, spans)

    @property
    def formats(self) -> dict[str, str | None]:
        """The formats of ``save``: None, or why a format cannot express this model."""
        return folders.refusals(self._loaded)

    def save(
        self,
        folder: str | Path,
        format: str = "regard",
        *,
        overwrite: bool = False,
        int8: bool = False,
        attention: Iterable[int] | None = (),
    ) -> None:
        """Write the model to a folder that ``load`` reads, except for "onnx".

        ``format`` is "regard", "hf" (Hugging Face transformers), "elmo" (options.json and HDF5, as
        published), "timm" (ViT) or "onnx" (graphs for ONNX Runtime and transformers.js). Graphs are
        also written with weights in ``int8``, and have the attention weights of the layers
        ``attention``, or of all (None), as outputs. The folder must be empty or not exist, or be
        the folder that this model was loaded from or saved to; with ``overwrite``, a model of the
        same format in the folder is replaced.
        """
        path = _path(folder)
        is_own = resolved(path) == self._folder
        layers = attention if attention is None else tuple(attention)
        given = {"int8": int8} if int8 else {}
        settings = given | ({"attention": layers} if layers != () else {})
        folders.save(path, self._loaded, format, overwrite=overwrite or is_own, **settings)
        if format != "onnx":
            self._folder = resolved(path)
