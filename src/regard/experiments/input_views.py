"""Views of what a model computes for one input: attention, contributions, patches, frames, trees.

Each function takes a folder or a loaded model, and returns the view with its figures.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.text import Text

from regard.api import Model
from regard.core.errors import BadInput
from regard.data.readers.image_files import image_files
from regard.data.readers.text_files import read_lines
from regard.experiments.notes import Listener, ignore
from regard.experiments.options import LoadOptions
from regard.experiments.options.inspecting import (
    AttributionOptions,
    ContributionOptions,
    HeadOptions,
    LookOptions,
    PatchOptions,
)
from regard.experiments.options.writing import CoveredBeam
from regard.experiments.result import ExperimentResult, OutputTable, text_column
from regard.experiments.search_methods import base_beam
from regard.experiments.view_results import (
    Inspection,
    show_attributions,
    show_contributions,
    show_effects,
    show_lens,
    show_what_if,
)
from regard.images.decode import SUFFIXES
from regard.inference.inputs import title_of
from regard.inference.role_labeller import SentenceFrames
from regard.inside.attention.attention_view import View
from regard.inside.attribution.attributions import Attributions
from regard.inside.attribution.what_if import WhatIf, parse_parts
from regard.inside.heads.head_report import HeadReport
from regard.inside.masked_text import read_with_masks
from regard.inside.stream.contributions import Contributions
from regard.inside.stream.lens import LogitLens, logit_lens
from regard.inside.stream.patching import PatchEffects, TwoRuns, patch
from regard.inside.stream.paths import patch_paths
from regard.inside.trees.beam_tree import BeamTree
from regard.inside.trees.recording_beam import record_tree
from regard.inside.trees.tree_text import tree_lines

STORED = LoadOptions()  # precision and device of the folder
FIGURES_OF_HYPOTHESIS = ("score", "logprob", "finished")


def look_at(
    model: str | Path | Model,
    text: str,
    options: LookOptions,
    runs: LoadOptions = STORED,
    *,
    on_event: Listener = ignore,
) -> Inspection[View]:
    """Attention weights on a text or an image file, or scores of induction heads."""
    options.check()
    place = options.place
    loaded, envelope = runs.load_edited(model, options.edits, on_event)
    if not loaded.runner.reads_images and _is_image(text):
        raise BadInput(f"{text}: an image, but this model reads texts; give the text itself")
    if options.induction:
        view: View = loaded.induction(text, repeat=options.repeat)
    else:
        extra = {name: getattr(options, name) for name in ("subwords", "repeat", "rollout")}
        view = loaded.look(text, options.target, **extra, patch=place)
    return Inspection(view.choose(options.kind, options.layer, options.head), more=envelope)


def _is_image(text: str) -> bool:
    """Whether a text is the name of an image file."""
    with suppress(OSError, ValueError):  # of a text that is no file name
        return text.lower().endswith(SUFFIXES) and Path(text).is_file()
    return False


def explain_logit(
    model: str | Path | Model, text: str, options: ContributionOptions, runs: LoadOptions = STORED
) -> Inspection[Contributions] | Inspection[LogitLens]:
    """Contributions of heads and layers to a logit, or what each layer would predict."""
    options.check()
    loaded, second = runs.load(model), options.second
    if options.lens:
        rows = read_with_masks(loaded.runner, text, second)
        return show_lens(logit_lens(loaded.runner, title_of(text), rows))
    target, against = options.target, options.against
    return show_contributions(
        loaded.contributions(text, second, target=target, against=against, token=options.token)
    )


def patch_runs(
    model: str | Path | Model,
    clean: str,
    corrupted: str,
    options: PatchOptions,
    runs: LoadOptions = STORED,
) -> Inspection[PatchEffects]:
    """Effects of values of a clean input that are patched into the run of a corrupted one."""
    receiver, inside = options.receiver, runs.load(model).runner
    second = inside.default_target(clean) if options.second is None else options.second
    first, other = (read_with_masks(inside, text, second) for text in (clean, corrupted))
    title = f"{title_of(clean)} → {title_of(corrupted)}"
    both = TwoRuns.of(inside, title, first, other, options.target, options.against, options.token)
    if receiver is None:
        return show_effects(patch(both, options.at, layer=options.layer))
    return show_effects(patch_paths(both, receiver))


def attribute(
    model: str | Path | Model, text: str, options: AttributionOptions, runs: LoadOptions = STORED
) -> Inspection[Attributions]:
    """Contributions of words, or patches, to a prediction."""
    loaded = runs.load(model)
    view = loaded.attribute(
        loaded.runner.parse(text, "TEXT"),
        options.target,
        token=options.token,
        method=options.method,
        steps=options.steps,
        subwords=options.subwords,
    )
    return show_attributions(view)


def predict_without(
    model: str | Path | Model, text: str, options: AttributionOptions, runs: LoadOptions = STORED
) -> Inspection[WhatIf]:
    """The prediction before and after the parts ``without`` are switched off."""
    loaded, parts = runs.load(model), parse_parts(options.without or ())._asdict()
    parsed, target = loaded.runner.parse(text, "TEXT"), options.target
    return show_what_if(loaded.what_if(parsed, target=target, token=options.token, **parts))


def show_frames(
    model: str | Path | Model,
    text: str,
    predicates: Sequence[int] | None = None,
    runs: LoadOptions = STORED,
    *,
    pretokenised: bool = False,
    on_event: Listener = ignore,
) -> "FramesResult":
    """The predicates of a sentence, or those of these indices, with their arguments."""
    loaded, envelope = runs.load_edited(model, on_event=on_event)
    predictor = loaded.predictor
    if predictor.name != "roles":
        raise BadInput(f"{model}: was not trained for task 'roles'; `regard recipes` lists recipes")
    labeller = predictor.with_options(pretokenised=pretokenised)
    (frames,) = labeller.predict([text if predicates is None else (text, predicates)])
    return FramesResult(frames, envelope)


@dataclass(frozen=True)
class FramesResult(ExperimentResult):
    """The predicates of a sentence with their arguments, in brackets."""

    frames: SentenceFrames
    more: Mapping[str, object]

    def tables(self) -> list[OutputTable]:
        brackets = [[self.frames.brackets(frame)] for frame in self.frames.frames]
        return [OutputTable([text_column("frame")], brackets)]

    def records(self) -> list[Mapping[str, object]]:
        return [{**self.frames.record, **self.more}]

    def text(self, width: int | None = None) -> Iterator[str]:
        yield from map(self.frames.brackets, self.frames.frames)
        if not self.frames.frames:
            yield "no predicate"


@dataclass(frozen=True)
class SearchedTree(ExperimentResult):
    """A beam search, with ``pruned`` candidates of each step in its drawing."""

    tree: BeamTree
    pruned: int

    def tables(self) -> list[OutputTable]:
        return []

    def drawing(self, width: int) -> Iterator[Text]:
        return tree_lines(self.tree, width, self.pruned)

    def records(self) -> Iterator[dict[str, object]]:
        """A record; parents and hypotheses name nodes by index."""
        tree = self.tree
        yield {
            "title": tree.title,
            "formula": tree.beam.formula,
            "winner": tree.winner,
            "nodes": [
                {**asdict(node), "why": tree.why(number)} for number, node in enumerate(tree.nodes)
            ],
            "found": [
                {
                    "text": end.text,
                    "node": end.node,
                    **{key: getattr(end.hypothesis, key) for key in FIGURES_OF_HYPOTHESIS},
                }
                for end in tree.hypotheses
            ],
            "choices": [
                {"formula": choice.formula, "found": choice.hypothesis, "score": choice.score}
                for choice in tree.choices
            ],
        }


def search_tree(
    model: str | Path | Model,
    text: str,
    options: CoveredBeam,
    pruned: int,
    runs: LoadOptions = STORED,
    *,
    on_event: Listener = ignore,
) -> SearchedTree:
    """The candidates of a beam search by the model's settings, with ``options`` over them."""
    translator = replace(runs, precision=None).load(model).translator
    if runs.precision is not None:
        translator = translator.with_precision(runs.precision, "torch")  # recorded step by step
    overrides = {name: getattr(options, name) for name in options.used}
    own = base_beam(translator, overridden=bool(overrides), on_event=on_event)
    return SearchedTree(record_tree(translator, text, replace(own, **overrides)), pruned)


def report_on_heads(
    model: str | Path | Model, options: HeadOptions, runs: LoadOptions = STORED
) -> HeadReport:
    """What heads do on the lines of a file, on images or on a treebank."""
    options.check()
    loaded = runs.load(model)
    inputs = [] if options.text is None else _inputs(loaded, options.text)
    gold = None if options.labels is None else [*read_lines(options.labels)]
    bank, test = options.treebank, options.test
    return loaded.heads(inputs, treebank=bank, test=test, labels=gold, least=options.least)


def _inputs(model: Model, file: str) -> list[object]:
    """Texts or pairs in the lines of a file; or the images of a file or a folder."""
    path = Path(file)
    if model.runner.reads_images:
        if path.suffix.lower() in SUFFIXES:
            return [file]
        return [*map(str, image_files(path) if path.is_dir() else read_lines(file))]
    lines = [line for line in read_lines(file) if line and not line.isspace()]
    return [tuple(line.split("\t")) if line.count("\t") == 1 else line for line in lines]
