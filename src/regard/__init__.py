"""regard: train, run, measure and inspect attention models.

Exported names and packages are imported when they are first used, so ``import regard`` is fast.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import regard.ground.forks
import regard.ground.machine  # noqa: F401 first: it sets variables that torch reads

if TYPE_CHECKING:
    from regard.api import Model, load
    from regard.cli.io.bulk import BulkReport, bulk
    from regard.ground.batch import TokenRow, pack
    from regard.ground.edits import forced_row, without_head
    from regard.ground.errors import BadInput
    from regard.ground.layout import Layout
    from regard.ground.tape import Tape
    from regard.inference.classifier import LabelPrediction, MultiLabelPrediction, NumberPrediction
    from regard.inference.fill_mask import FilledText, TokenFill
    from regard.inference.generator import Generation
    from regard.inference.resolver import ResolvedMention, ResolvedText
    from regard.inference.role_labeller import PredictedFrame, RoleArgument, SentenceFrames
    from regard.inference.tagger import Entity, TaggedText, TaggedWord
    from regard.inference.text_tokens import TextTokens
    from regard.inference.translator import Translation
    from regard.inside.align import AlignmentMethod
    from regard.inside.attention.attention_map import AttentionMap, RolloutMap
    from regard.inside.attention.attention_view import AttentionView
    from regard.inside.attention.image_attention import ImageAttention
    from regard.inside.attention.induction import InductionScores
    from regard.inside.attention.word_weights import WordWeights
    from regard.inside.attribution.attributions import Attributions
    from regard.inside.attribution.what_if import WhatIf
    from regard.inside.edits import EditList, read_edits
    from regard.inside.heads.head_report import HeadFigures, HeadReport
    from regard.inside.heads.relations import RelationScore
    from regard.inside.heads.watch_heads import watch_heads
    from regard.inside.neighbours import Neighbour, neighbours
    from regard.inside.record import Record
    from regard.inside.stream.contributions import Contributions
    from regard.inside.trees.beam_tree import BeamTree
    from regard.inside.trees.token_tree import TokenTree
    from regard.inside.views.line_chart import Chart, ChartLine, Report
    from regard.inside.views.role_arcs import draw_frames
    from regard.metrics.bleu import bleu
    from regard.metrics.intervals import mean_interval, spread
    from regard.metrics.translation import MetricScore
    from regard.models.encoder_decoder import EncoderDecoder
    from regard.models.facts import change, difference
    from regard.models.paper import Paper
    from regard.models.papers import LINEAGE
    from regard.models.trunk_with_heads import TrunkWithHeads
    from regard.parts.attend import attend
    from regard.search.beam import Beam
    from regard.search.diverse import Diverse
    from regard.search.exact import Exact
    from regard.search.greedy import Greedy
    from regard.search.hypothesis import Hypothesis
    from regard.search.mbr import MinimumRisk
    from regard.search.sample import Sample
    from regard.studies.agreement import (
        AgreementScores,
        AgreementTable,
        VerbChoice,
        score_agreement,
    )
    from regard.studies.agreement_data import (
        AgreementPrefix,
        AgreementSentence,
        AgreementText,
        agreement_sentences,
        make_agreement_text,
    )
    from regard.tasks.multiple_choice import ChoicePrediction
    from regard.tasks.question_answering import AnswerPrediction, AnswerSpan
    from regard.training.loop import seed_everything
    from regard.training.loop.events import (
        DevEvent,
        EndEvent,
        ReportEvent,
        SaveEvent,
        ScoreEvent,
        StartEvent,
        WatchEvent,
    )
    from regard.training.recipe import Recipe
    from regard.training.train import train

__version__ = "0.1.0"

# fmt: off
__all__ = [
    "LINEAGE", "AgreementPrefix", "AgreementScores", "AgreementSentence", "AgreementTable",
    "AgreementText", "AlignmentMethod", "AnswerPrediction", "AnswerSpan", "AttentionMap",
    "AttentionView", "Attributions", "BadInput", "Beam", "BeamTree", "BulkReport", "Chart",
    "ChartLine", "ChoicePrediction", "Contributions", "DevEvent", "Diverse", "EditList",
    "EncoderDecoder", "EndEvent", "Entity", "Exact", "FilledText", "Generation", "Greedy",
    "HeadFigures", "HeadReport", "Hypothesis", "ImageAttention", "InductionScores",
    "LabelPrediction", "Layout", "MetricScore", "MinimumRisk", "Model", "MultiLabelPrediction",
    "Neighbour", "NumberPrediction", "Paper", "PredictedFrame", "Recipe", "Record", "RelationScore",
    "Report", "ReportEvent", "ResolvedMention", "ResolvedText", "RoleArgument", "RolloutMap",
    "Sample", "SaveEvent", "ScoreEvent", "SentenceFrames", "StartEvent", "TaggedText", "TaggedWord",
    "Tape", "TextTokens", "TokenFill", "TokenRow", "TokenTree", "Translation", "TrunkWithHeads",
    "VerbChoice", "WatchEvent", "WhatIf", "WordWeights", "agreement_sentences", "attend", "bleu",
    "bulk", "change", "difference", "draw_frames", "forced_row", "load", "make_agreement_text",
    "mean_interval", "neighbours", "pack", "read_edits", "score_agreement", "seed_everything",
    "spread", "train", "watch_heads", "without_head",
]

_NAMES = {
    "regard.api": ("Model", "load"),
    "regard.cli.io.bulk": ("BulkReport", "bulk"),
    "regard.ground.batch": ("TokenRow", "pack"),
    "regard.ground.errors": ("BadInput",),
    "regard.ground.layout": ("Layout",),
    "regard.ground.edits": ("forced_row", "without_head"),
    "regard.ground.tape": ("Tape",),
    "regard.inside.align": ("AlignmentMethod",),
    "regard.inside.attention.attention_map": ("AttentionMap", "RolloutMap"),
    "regard.inside.attention.attention_view": ("AttentionView",),
    "regard.inside.attention.image_attention": ("ImageAttention",),
    "regard.inside.attention.induction": ("InductionScores",),
    "regard.inside.attention.word_weights": ("WordWeights",),
    "regard.inside.attribution.attributions": ("Attributions",),
    "regard.inside.attribution.what_if": ("WhatIf",),
    "regard.inside.heads.head_report": ("HeadFigures", "HeadReport"),
    "regard.inside.heads.relations": ("RelationScore",),
    "regard.inside.heads.watch_heads": ("watch_heads",),
    "regard.inside.edits": ("EditList", "read_edits"),
    "regard.inside.neighbours": ("Neighbour", "neighbours"),
    "regard.inside.record": ("Record",),
    "regard.inside.stream.contributions": ("Contributions",),
    "regard.inside.trees.beam_tree": ("BeamTree",),
    "regard.inside.trees.token_tree": ("TokenTree",),
    "regard.inside.views.line_chart": ("Chart", "ChartLine", "Report"),
    "regard.metrics.intervals": ("mean_interval", "spread"),
    "regard.inside.views.role_arcs": ("draw_frames",),
    "regard.metrics.bleu": ("bleu",),
    "regard.metrics.translation": ("MetricScore",),
    "regard.models.encoder_decoder": ("EncoderDecoder",),
    "regard.models.facts": ("change", "difference"),
    "regard.models.trunk_with_heads": ("TrunkWithHeads",),
    "regard.models.paper": ("Paper",),
    "regard.models.papers": ("LINEAGE",),
    "regard.parts.attend": ("attend",),
    "regard.search.beam": ("Beam",),
    "regard.search.diverse": ("Diverse",),
    "regard.search.exact": ("Exact",),
    "regard.search.greedy": ("Greedy",),
    "regard.search.hypothesis": ("Hypothesis",),
    "regard.search.mbr": ("MinimumRisk",),
    "regard.search.sample": ("Sample",),
    "regard.studies.agreement": (
        "AgreementScores", "AgreementTable", "VerbChoice", "score_agreement",
    ),
    "regard.studies.agreement_data": (
        "AgreementPrefix", "AgreementSentence", "AgreementText", "agreement_sentences",
        "make_agreement_text",
    ),
    "regard.inference.classifier": ("LabelPrediction", "MultiLabelPrediction", "NumberPrediction"),
    "regard.inference.fill_mask": ("FilledText", "TokenFill"),
    "regard.inference.role_labeller": ("PredictedFrame", "RoleArgument", "SentenceFrames"),
    "regard.inference.resolver": ("ResolvedMention", "ResolvedText"),
    "regard.inference.tagger": ("Entity", "TaggedText", "TaggedWord"),
    "regard.inference.text_tokens": ("TextTokens",),
    "regard.tasks.multiple_choice": ("ChoicePrediction",),
    "regard.tasks.question_answering": ("AnswerPrediction", "AnswerSpan"),
    "regard.inference.generator": ("Generation",),
    "regard.inference.translator": ("Translation",),
    "regard.training.loop": ("seed_everything",),
    "regard.training.loop.events": (
        "DevEvent", "EndEvent", "ReportEvent", "SaveEvent", "ScoreEvent", "StartEvent",
        "WatchEvent",
    ),
    "regard.training.recipe": ("Recipe",),
    "regard.training.train": ("train",),
}
"""The exported names of each module."""
# fmt: on

_MODULES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        globals()[name] = value = getattr(import_module(_MODULES[name]), name)
        return value
    if find_spec(f"{__name__}.{name}") is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
