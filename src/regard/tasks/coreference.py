"""Coreference: a document in, clusters of the mentions that refer to the same out."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import ClassVar, Literal, cast

import numpy as np
from pydantic import Field

from regard.core.config import Config, UnusableKey
from regard.core.errors import BadInput
from regard.core.reading import RowReading
from regard.data.readers.examples import CoreferenceExample, Mention, PronounQuestion
from regard.data.rows.coreference_rows import DocumentRows, document_rows
from regard.inference.encoder_model import smallest
from regard.inference.resolver import Resolver, candidate_spans
from regard.metrics.coreference_scores import (
    COREFERENCE_METRICS,
    PronounDecision,
    coreference_scores,
    pronoun_scores,
    without_singletons,
)
from regard.models.coreference_head import CoreferenceHead
from regard.models.heads import AnyHead
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.objectives.antecedent_ranking import NO_CLUSTER, UNKNOWN, AntecedentRanking, span_table
from regard.tasks.encoder_task import Encoded, EncoderTask
from regard.tasks.task import TaskScores
from regard.text.text_tables import EncoderTextConfig
from regard.text.tokenizers.row_tokenizer import RowTokenizer

SINGLETONS = " (singletons)"  # after the names of scores in which they count
HEAD_KEYS = (
    *("widest", "ratio", "antecedents", "coarse", "order"),
    *("hidden", "dropout", "metadata"),
)
"""Keys of [coreference] that are facts of the head."""
PRONOUN_METRICS = ("F1", "precision", "recall", "masculine F1", "feminine F1", "bias")


class CoreferenceConfig(Config):
    """Rows of a document, its candidate mentions, and how antecedents are ranked."""

    mentions: Literal["found", "gold"] = "found"
    """Mentions are found among all spans, or given ("gold"): those of the clusters in the files."""
    segment: int = Field(0, ge=0)
    """The most tokens of a row, which whole sentences fill (Joshi et al., 2019); 0: each sentence
    is a row (Lee et al., 2017)."""
    widest: int = Field(10, ge=1)
    """The most words of a mention."""
    ratio: float = Field(0.4, gt=0)
    """The number of mentions that are kept, per word."""
    antecedents: int = Field(50, ge=1)
    """The number of antecedents that each mention is compared with."""
    coarse: bool = True
    """The antecedents are the best by a bilinear score (Lee et al., 2018), not the nearest."""
    order: int = Field(1, ge=1, le=4)
    """How often pairs are scored; from 2 on, spans know their expected antecedents (Lee et al.,
    2018)."""
    hidden: int = Field(150, ge=1)
    """The size of the two hidden layers of a score."""
    dropout: float = Field(0.2, ge=0, lt=1)
    """The dropout of scores and features."""
    metadata: bool = False
    """Speakers and genres are features of pairs."""
    singletons: bool = False
    """Mentions are also learned by themselves, and one in no cluster is a cluster of its own if its
    mention score is above 0."""


class Coreference(EncoderTask[CoreferenceExample, RowTokenizer, Resolver, None]):
    """The task "coreference".

    In training, a document of more than ``batches.longest`` tokens is divided between rows into
    several; it is resolved as a whole.
    """

    name = "coreference"
    unit = "documents"
    head, predictor_class, drawn = CoreferenceHead, Resolver, ("unknown",)
    saved_settings = ("segment", "single_above")
    own_tables: ClassVar = {"text": EncoderTextConfig, "coreference": CoreferenceConfig}
    dev_metrics = test_metrics = (
        *(*COREFERENCE_METRICS, *PRONOUN_METRICS),
        *(name + SINGLETONS for name in COREFERENCE_METRICS),
    )

    @property
    def config(self) -> CoreferenceConfig:
        """The table ``coreference``."""
        return self.tables[CoreferenceConfig]

    def unread_keys(self) -> Iterator[UnusableKey]:
        yield from super().unread_keys()
        config = self.config
        for key in ("widest", "ratio", "singletons") if config.mentions == "gold" else ():
            if getattr(config, key) != CoreferenceConfig.model_fields[key].default:
                yield UnusableKey(f"coreference.{key}", 'with coreference.mentions = "gold"')

    @property
    def head_facts(self) -> CoreferenceHead:
        """The head that the table ``coreference`` describes."""
        values = {key: getattr(self.config, key) for key in HEAD_KEYS}
        longest = self.tables.batches.longest  # a span is within a row
        values["widest"] = min(values["widest"], self.config.segment or longest, longest)
        return CoreferenceHead(**values, gold=self.config.mentions == "gold")

    def heads(self, facts: TrunkWithHeads) -> tuple[AnyHead, ...]:
        if facts.trunk.embed.reads_images:
            raise BadInput('model: reads images; task "coreference" needs an encoder of texts')
        return (self.head_facts,)

    def texts(self, example: CoreferenceExample) -> Sequence[Sequence[str]]:
        return example.sentences

    def encode(
        self, reading: RowTokenizer, labels: None, examples: Sequence[CoreferenceExample]
    ) -> list[Encoded]:
        segment, longest = self.config.segment, self.row_length(reading)
        sentences = [example.sentences for example in examples]
        documents = document_rows(reading, sentences, segment, longest)
        encoded = []
        for example, document in zip(examples, documents, strict=True):
            for part in document.divided(self.tables.batches.longest):
                table_NC = self._spans(part, example)
                if len(table_NC):
                    encoded.append((part.rows, table_NC))
        return encoded

    def encode_training(
        self, reading: RowTokenizer, labels: None, examples: Sequence[CoreferenceExample]
    ) -> tuple[list[Encoded], str]:
        sentences = [example.sentences for example in examples]
        longest = self.row_length(reading)
        documents = document_rows(reading, sentences, self.config.segment, longest)
        divided = sum(
            int(document.parts[-1]) + 1 - len(example.sentences)
            for example, document in zip(examples, documents, strict=True)
        )
        held = [
            document.holds(mention)
            for example, document in zip(examples, documents, strict=True)
            for mention in chain(*example.clusters)
        ]
        remarks = []
        if divided:
            key = "coreference.segment" if longest == self.config.segment else "batches.longest"
            places = f"sentences in {divided:,} places"
            remarks.append(f"{key}: rows of {longest} tokens divide {places}")
        if lost := held.count(False):
            share = f"{lost:,} of {len(held):,} mentions"
            remarks.append(f"{share} reach across sentences or rows: they are not learned")
        return self.encode(reading, labels, examples), "; ".join(remarks)

    def _spans(self, document: DocumentRows, example: CoreferenceExample) -> np.ndarray:
        """Candidate spans of a document, the last column of which is the number of the cluster."""
        spans_N2 = candidate_spans(self.head_facts, document, example)
        other = NO_CLUSTER if example.pronoun is None else UNKNOWN
        cluster_of = {
            mention: number
            for number, cluster in enumerate(example.clusters)
            for mention in cluster
        }
        numbers = [cluster_of.get((start, end), other) for start, end in spans_N2.tolist()]
        table_NC = span_table(document, spans_N2, example.speakers, example.genre)
        return np.column_stack([table_NC, np.array(numbers, np.int64)])

    def make_objective(self, labels: None, encoded: Sequence[Encoded]) -> AntecedentRanking:
        return AntecedentRanking(self.config.singletons)

    def score(
        self,
        predictor: Resolver,
        examples: Sequence[CoreferenceExample],
        with_interval: bool = False,
    ) -> TaskScores:
        """Scores of clusters without singletons, and with them if files annotate any.

        Questions about pronouns have scores of their own, first.
        """
        results = [result.word_clusters for result in predictor.predict(examples)]
        questions = [
            (example.pronoun, clusters)
            for example, clusters in zip(examples, results, strict=True)
            if example.pronoun is not None
        ]
        scores = []
        if questions:
            decisions = [decision(question, clusters) for question, clusters in questions]
            scores += pronoun_scores(decisions, with_interval)
        if len(questions) == len(examples):
            return TaskScores(scores)
        golds = [example.clusters for example in examples]
        pairs = [[*map(without_singletons, side)] for side in (golds, results)]
        scores += coreference_scores(pairs[0], pairs[1], with_interval)
        if any(len(cluster) == 1 for cluster in chain(*golds)):
            scores += coreference_scores(golds, results, with_interval, SINGLETONS)
        return TaskScores(scores)

    @property
    def longest_row(self) -> int:
        return min(super().longest_row, self.config.segment or super().longest_row)

    def row_length(self, reading: RowReading) -> int:
        longest = super().row_length(reading)
        return min(longest, self.config.segment or longest)

    @classmethod
    def row_limit(
        cls, reading: RowReading, max_length: int | None, notes: Mapping[str, object]
    ) -> int | None:
        return smallest(max_length, cast(int, notes.get("segment", 0)) or None)

    def notes(self) -> dict[str, object]:
        config = self.config
        above = 0.0 if config.singletons else None
        return {"segment": config.segment, "single_above": above}


def decision(question: PronounQuestion, clusters: Sequence[Sequence[Mention]]) -> PronounDecision:
    """Whether the cluster of a pronoun has each of its names.

    A mention stands for a name if one contains the other; a mention that contains several names
    stands for the one that it begins with.
    """
    cluster = next((cluster for cluster in clusters if question.pronoun in cluster), ())
    predicted = [
        any(_stands_for(mention, name, question.names) for mention in cluster)
        for name in question.names
    ]
    return PronounDecision(question.answers, tuple(predicted), question.gender)


def _stands_for(mention: Mention, name: Mention, names: Sequence[Mention]) -> bool:
    if _contains(name, mention):
        return True
    several = sum(_contains(mention, other) for other in names) > 1
    return _contains(mention, name) and (not several or mention[0] == name[0])


def _contains(outer: Mention, inner: Mention) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]
