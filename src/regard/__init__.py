"""regard: train, run, measure and inspect attention models.

Exported names and packages are imported when they are first used, so ``import regard`` is fast.
"""

from typing import TYPE_CHECKING, Any

import regard.core.forks
import regard.core.machine  # noqa: F401 first: it sets variables that torch reads
from regard.core.catalogue import Catalogue, entries, submodule

if TYPE_CHECKING:
    from regard.api import Model, load
    from regard.core.batch import TokenRow, pack
    from regard.core.errors import BadInput
    from regard.core.layout import Layout
    from regard.core.tape import Tape
    from regard.experiments.bulk.bulk_run import BulkReport, bulk
    from regard.experiments.comparison import ModelComparison, compare
    from regard.experiments.ladder import Ladder, ladder
    from regard.experiments.scores import Evaluation, evaluate
    from regard.experiments.studies.agreement import (
        AgreementScores,
        AgreementTable,
        VerbChoice,
        score_agreement,
    )
    from regard.experiments.studies.agreement_data import (
        AgreementPrefix,
        AgreementSentence,
        AgreementText,
        agreement_sentences,
        make_agreement_text,
    )
    from regard.experiments.training import SeedScores, TrainingResult, train
    from regard.experiments.tuning import Tuning, tune
    from regard.generation.beam import Beam
    from regard.generation.diverse import Diverse
    from regard.generation.exact import Exact
    from regard.generation.greedy import Greedy
    from regard.generation.hypothesis import Hypothesis
    from regard.generation.mbr import MinimumRisk
    from regard.generation.sample import Sample
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
    from regard.inside.follow.check import CheckReport, CheckRow
    from regard.inside.follow.computation import Computation
    from regard.inside.heads.head_report import HeadFigures, HeadReport
    from regard.inside.heads.relations import RelationScore
    from regard.inside.heads.watch_heads import watch_heads
    from regard.inside.neighbours import Neighbour, neighbours
    from regard.inside.record import Record
    from regard.inside.stream.contributions import Contributions
    from regard.inside.trees.beam_tree import BeamTree
    from regard.inside.trees.token_tree import TokenTree
    from regard.layers.attend import attend
    from regard.metrics.intervals import mean_interval, spread
    from regard.metrics.translation import MetricScore, bleu
    from regard.models.edits import EditList, forced_row, read_edits, without_head
    from regard.models.encoder_decoder import EncoderDecoder
    from regard.models.facts import change, difference
    from regard.models.paper import Paper
    from regard.models.papers import LINEAGE
    from regard.models.trunk_with_heads import TrunkWithHeads
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
    from regard.training.run_events import train_events
    from regard.views.line_chart import Chart, ChartLine, Report
    from regard.views.role_arcs import draw_frames

__version__ = "0.1.0"

# fmt: off
__all__ = [
    "LINEAGE", "AgreementPrefix", "AgreementScores", "AgreementSentence", "AgreementTable",
    "AgreementText", "AlignmentMethod", "AnswerPrediction", "AnswerSpan", "AttentionMap",
    "AttentionView", "Attributions", "BadInput", "Beam", "BeamTree", "BulkReport", "Chart",
    "ChartLine", "CheckReport", "CheckRow", "ChoicePrediction", "Computation", "Contributions",
    "DevEvent", "Diverse", "EditList", "EncoderDecoder", "EndEvent", "Entity", "Evaluation",
    "Exact", "FilledText", "Generation", "Greedy", "HeadFigures", "HeadReport", "Hypothesis",
    "ImageAttention", "InductionScores", "LabelPrediction", "Ladder", "Layout", "MetricScore",
    "MinimumRisk", "Model", "ModelComparison", "MultiLabelPrediction", "Neighbour",
    "NumberPrediction", "Paper", "PredictedFrame", "Recipe", "Record", "RelationScore", "Report",
    "ReportEvent", "ResolvedMention", "ResolvedText", "RoleArgument", "RolloutMap", "Sample",
    "SaveEvent", "ScoreEvent", "SeedScores", "SentenceFrames", "StartEvent", "TaggedText",
    "TaggedWord", "Tape", "TextTokens", "TokenFill", "TokenRow", "TokenTree", "TrainingResult",
    "Translation", "TrunkWithHeads", "Tuning", "VerbChoice", "WatchEvent", "WhatIf", "WordWeights",
    "agreement_sentences", "attend", "bleu", "bulk", "change", "compare", "difference",
    "draw_frames", "evaluate", "forced_row", "ladder", "load", "make_agreement_text",
    "mean_interval", "neighbours", "pack", "read_edits", "score_agreement", "seed_everything",
    "spread", "train", "train_events", "tune", "watch_heads", "without_head",
]

_NAMES = Catalogue[Any](entries({
    "regard.api": ("Model", "load"),
    "regard.experiments.bulk.bulk_run": ("BulkReport", "bulk"),
    "regard.experiments.comparison": ("ModelComparison", "compare"),
    "regard.experiments.ladder": ("Ladder", "ladder"),
    "regard.experiments.scores": ("Evaluation", "evaluate"),
    "regard.experiments.tuning": ("Tuning", "tune"),
    "regard.core.batch": ("TokenRow", "pack"),
    "regard.core.errors": ("BadInput",),
    "regard.core.layout": ("Layout",),
    "regard.core.tape": ("Tape",),
    "regard.inside.align": ("AlignmentMethod",),
    "regard.inside.attention.attention_map": ("AttentionMap", "RolloutMap"),
    "regard.inside.attention.attention_view": ("AttentionView",),
    "regard.inside.attention.image_attention": ("ImageAttention",),
    "regard.inside.attention.induction": ("InductionScores",),
    "regard.inside.attention.word_weights": ("WordWeights",),
    "regard.inside.attribution.attributions": ("Attributions",),
    "regard.inside.attribution.what_if": ("WhatIf",),
    "regard.inside.follow.check": ("CheckReport", "CheckRow"),
    "regard.inside.follow.computation": ("Computation",),
    "regard.inside.heads.head_report": ("HeadFigures", "HeadReport"),
    "regard.inside.heads.relations": ("RelationScore",),
    "regard.inside.heads.watch_heads": ("watch_heads",),
    "regard.inside.neighbours": ("Neighbour", "neighbours"),
    "regard.inside.record": ("Record",),
    "regard.inside.stream.contributions": ("Contributions",),
    "regard.inside.trees.beam_tree": ("BeamTree",),
    "regard.inside.trees.token_tree": ("TokenTree",),
    "regard.views.line_chart": ("Chart", "ChartLine", "Report"),
    "regard.metrics.intervals": ("mean_interval", "spread"),
    "regard.views.role_arcs": ("draw_frames",),
    "regard.metrics.translation": ("bleu", "MetricScore"),
    "regard.models.edits": ("EditList", "forced_row", "read_edits", "without_head"),
    "regard.models.encoder_decoder": ("EncoderDecoder",),
    "regard.models.facts": ("change", "difference"),
    "regard.models.trunk_with_heads": ("TrunkWithHeads",),
    "regard.models.paper": ("Paper",),
    "regard.models.papers": ("LINEAGE",),
    "regard.layers.attend": ("attend",),
    "regard.generation.beam": ("Beam",),
    "regard.generation.diverse": ("Diverse",),
    "regard.generation.exact": ("Exact",),
    "regard.generation.greedy": ("Greedy",),
    "regard.generation.hypothesis": ("Hypothesis",),
    "regard.generation.mbr": ("MinimumRisk",),
    "regard.generation.sample": ("Sample",),
    "regard.experiments.studies.agreement": (
        "AgreementScores", "AgreementTable", "VerbChoice", "score_agreement",
    ),
    "regard.experiments.studies.agreement_data": (
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
    "regard.experiments.training": ("SeedScores", "TrainingResult", "train"),
    "regard.training.run_events": ("train_events",),
}))
"""The exported names, under their modules."""
# fmt: on


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        globals()[name] = value = _NAMES[name]
        return value
    return submodule(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
