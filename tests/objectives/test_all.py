"""What the training loop asks of every objective: no examples, fixed shapes, tensors in place."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pkgutil import iter_modules
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from in_place import InPlace
from regard.core.batch import IGNORED, BatchLimits, RectangleLimits, TokenRow
from regard.core.pytree import tensors_in
from regard.data.counter_rng import streams
from regard.models.coreference_head import CoreferenceHead
from regard.models.encoder_decoder import ModelFacts
from regard.models.facts import change
from regard.models.folders.loaded_model import LoadedModel
from regard.models.heads import AnyHead
from regard.models.label_heads import (
    ChoiceHead,
    LabelHead,
    SpanHead,
    TokenLabelHead,
    TransitionHead,
)
from regard.models.papers import awd_lstm, bahdanau, bert, elmo, gehring, gpt2, xlnet
from regard.models.papers.electra import Joint
from regard.models.papers.lin import LAPTOP as LIN
from regard.models.papers.transformer import LAPTOP
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.objectives import __path__ as PATH
from regard.objectives.antecedent_ranking import AntecedentRanking
from regard.objectives.article_fields import FieldsLM
from regard.objectives.bilm import BiLM
from regard.objectives.causal_lm import CausalLM
from regard.objectives.distillation import Distillation, Teacher, TeacherLoss
from regard.objectives.images import ImageLabels
from regard.objectives.label_distillation import LabelDistillation, with_teacher
from regard.objectives.label_losses import (
    Classification,
    GroupObjective,
    LabelSequences,
    MultiLabel,
    MultipleChoice,
    NumberObjective,
    Regression,
    SpanExtraction,
    TokenClassification,
    TokenRegression,
)
from regard.objectives.masked_lm import MaskedLM
from regard.objectives.negative_sampling import NegativeSampling
from regard.objectives.next_sentence import NextSentence, SentenceOrder, SentencePairObjective
from regard.objectives.objective import Objective, PairObjective
from regard.objectives.permutation_lm import PermutationLM
from regard.objectives.replaced_tokens import ReplacedTokens
from regard.objectives.rows import AnnotatedRow, RowObjective
from regard.objectives.sentence_vectors import (
    CosineRegression,
    InBatchNegatives,
    SentenceObjective,
    Triplets,
)
from regard.objectives.seq2seq import AnswerLM, Seq2Seq
from regard.objectives.span_boundary import SpanBoundary
from regard.objectives.span_corruption import SpanCorruption
from regard.objectives.sum import Sum
from regard.text.task_prompt import TaskPrompt
from regard.text.tokenizers.word_level import CharacterTokenizer, CharacterVocabulary
from regard.text.vocabulary import Lexicon

BUDGET = BatchLimits(64, 6, 20)
WORDS, LABELS, CHOICES = 50, 3, 4
TINY = change(bert.TINY, vocab=WORDS, depth=1, width=8, heads=2, inner=12, longest=20, dropout=0.0)
XLNET = change(xlnet.BASE, vocab=WORDS, depth=1, width=8, heads=2, inner=12, dropout=0.0)
ELMO = change(elmo.SMALL, width=4, cells=6, filters=((1, 4), (2, 8)), longest=8, dropout=0.0)
AWD_LSTM = change(awd_lstm.WIKITEXT_2, vocab=WORDS, width=6, embedding=4, last_width=4)
SENTENCES = change(TINY, attention_dropout=0.0, pool=None).with_heads()
WEIGHTS = (0.5, 2.0, 1.0)


@dataclass(frozen=True)
class Case:
    """An objective, a model that it fits, and how an example is drawn."""

    objective: Any
    facts: ModelFacts | Joint
    example: Callable[[np.random.Generator], Any]


def encoder(head: AnyHead) -> TrunkWithHeads:
    facts = change(TINY, attention_dropout=0.0, pool=TINY.pool if head.per_row else None)
    return facts.with_heads(head)


def joint(objectives: Sum) -> Joint:
    return objectives.extend(objectives.fit(TINY), bert.PAPER.fit_heads)


def teacher() -> Teacher:
    made, facts = Teacher("teacher"), Sum(MaskedLM()).fit(change(TINY, depth=2))
    made.use(LoadedModel(bert.PAPER, facts, facts.build()))
    return made


def row(draw: np.random.Generator) -> TokenRow:
    size = draw.integers(2, 9)
    return TokenRow(draw.integers(0, WORDS, size), (np.arange(size) > size // 2).astype(int))


def spans(draw: np.random.Generator) -> tuple[list[TokenRow], np.ndarray]:
    """Two rows, and each of their tokens as a span, with the number of its cluster."""
    rows = [row(draw), row(draw)]
    table = [
        [number, at, at, 0, 0, 0, 0, draw.integers(-1, 2)]
        for number, one in enumerate(rows)
        for at in range(len(one.tokens))
    ]
    return rows, np.array(table)


def text_group(texts: int, draw: np.random.Generator) -> tuple[list[TokenRow], float]:
    return [row(draw) for _ in range(texts)], float(draw.random())


def annotated(draw: np.random.Generator) -> AnnotatedRow:
    targets = {"mlm": draw.integers(0, WORDS, 1), "sentence_pair": int(draw.integers(2))}
    return AnnotatedRow(row(draw), {"mlm": [1]}, targets)


def with_next_tokens(draw: np.random.Generator) -> AnnotatedRow:
    example = AnnotatedRow(row(draw), {}, {"next_token": int(draw.integers(WORDS))})
    return CausalLM().annotator(None)([example], np.arange(1), (1, 0))[0]


def with_next_words(draw: np.random.Generator) -> AnnotatedRow:
    lexicon = Lexicon(("<UNK>", "<S>", "</S>", *map(str, range(WORDS))))
    tokenizer = CharacterTokenizer(CharacterVocabulary(8), lexicon)
    one = row(draw)
    words = draw.integers(0, WORDS, (len(one.tokens), 2))
    next_words = draw.integers(0, WORDS, 2).tolist()
    example = AnnotatedRow(one._replace(tokens=words), {}, {BiLM.head: next_words})
    return BiLM(words=WORDS).annotator(tokenizer)([example], np.arange(1), (1, 0))[0]


def with_samples(draw: np.random.Generator) -> AnnotatedRow:
    taught = replace(SAMPLED, counts_V=np.ones(WORDS))
    given = [AnnotatedRow(row(draw), {}, {})]
    return taught.annotator(SimpleNamespace(unk=0))(given, np.arange(1), (1, 0))[0]


def with_boundaries(draw: np.random.Generator) -> AnnotatedRow:
    tokenizer = SimpleNamespace(special=frozenset())
    return SpanBoundary().annotator(tokenizer)([annotated(draw)], np.arange(1), (1, 0))[0]


def corrupted(draw: np.random.Generator) -> AnnotatedRow:
    one, draws = row(draw), SpanCorruption().draw
    stream = streams((1,), draw.integers(0, 99, 1))[0]
    source, target = draws.corrupt(np.asarray(one.tokens), np.arange(WORDS), stream)
    return AnnotatedRow(TokenRow.of(source), {}, {SpanCorruption.head: [0, *target, 1]})


def ordered(draw: np.random.Generator) -> AnnotatedRow:
    one = row(draw)
    orders = draw.permutation(len(one.tokens))
    at = np.flatnonzero(orders == len(orders) - 1)
    head = PermutationLM.head
    return AnnotatedRow(one._replace(orders=orders), {head: at}, {head: one.tokens[at]})


def token_labels(draw: np.random.Generator) -> tuple[TokenRow, np.ndarray]:
    one = row(draw)
    targets = draw.integers(0, LABELS, len(one.tokens))
    return one, np.where(np.arange(len(targets)) % 2, targets, IGNORED)


def token_numbers(draw: np.random.Generator) -> tuple[TokenRow, np.ndarray]:
    one = row(draw)
    return one, np.where(np.arange(len(one.tokens)) % 2, draw.normal(size=len(one.tokens)), np.nan)


def taught(example: Any, draw: np.random.Generator) -> tuple[TokenRow, np.ndarray]:
    return with_teacher(example, draw.normal(size=(len(example[1]), LABELS)))


def ids(draw: np.random.Generator) -> list[int]:
    return draw.integers(3, WORDS, draw.integers(1, 6)).tolist()


def pair(draw: np.random.Generator) -> tuple[list[int], list[int]]:
    return ids(draw), ids(draw)


TRANSLATOR = change(LAPTOP, vocab=WORDS, width=8, inner=12, heads=2, depth=1, dropout=0.0)
RECURRENT = change(bahdanau.LAPTOP, vocab=WORDS, width=8, embedding=8, maxout=8, dropout=0.0)
CONVOLUTIONAL = change(gehring.LAPTOP, vocab=WORDS, width=6, embedding=6, dropout=0.0).source
CLASSIFIER = change(LIN, vocab=WORDS, width=6, embedding=6, dropout=0.0).with_heads(
    LabelHead(LABELS)
)
SAMPLED = NegativeSampling(negatives=3)
MASKED, FOLLOWS = MaskedLM(rate=0.5, smoothing=0.1), NextSentence()
CAUSAL = change(gpt2.SMALL, vocab=WORDS, depth=1, width=8, heads=2, inner=12, longest=20)
SPANS = Sum(SpanBoundary(MaskedLM(rate=0.5)))
PERMUTED = Sum(PermutationLM())
REPLACED = Sum(ReplacedTokens(MaskedLM(rate=0.5)))
REPLACED_PAIRS = Sum(NextSentence(), ReplacedTokens(MaskedLM(rate=0.5)))
TAUGHT = Sum(MASKED, Distillation(teacher()))
TAUGHT_ALL = Sum(MASKED, Distillation(teacher(), all_tokens=True))
CASES = {
    "Seq2Seq": Case(Seq2Seq(1, 2), TRANSLATOR, pair),
    "Seq2Seq, recurrent": Case(Seq2Seq(1, 2), RECURRENT, pair),
    "Seq2Seq, prefix": Case(Seq2Seq(1, 2, prompt=TaskPrompt(None, 4, (7, 8))), TRANSLATOR, pair),
    "SpanCorruption": Case(SpanCorruption(), TRANSLATOR, corrupted),
    "Sum of SpanCorruption": Case(Sum(SpanCorruption()), TRANSLATOR, corrupted),
    "Classification": Case(
        Classification(0.1, WEIGHTS),
        encoder(LabelHead(LABELS)),
        lambda d: (row(d), [d.integers(LABELS)]),
    ),
    "Classification, recurrent": Case(
        Classification(0.1, WEIGHTS), CLASSIFIER, lambda d: (ids(d), [d.integers(LABELS)])
    ),
    "Classification, convolutional": Case(
        Classification(0.1, WEIGHTS),
        replace(CLASSIFIER, trunk=CONVOLUTIONAL),
        lambda d: (ids(d), [d.integers(LABELS)]),
    ),
    "MultiLabel": Case(
        MultiLabel(LABELS), encoder(LabelHead(LABELS)), lambda d: (row(d), d.integers(0, 2, LABELS))
    ),
    "Regression": Case(Regression(), encoder(LabelHead(1)), lambda d: (row(d), [d.normal()])),
    "TokenClassification": Case(
        TokenClassification(0.1, WEIGHTS), encoder(TokenLabelHead(LABELS)), token_labels
    ),
    "LabelSequences": Case(
        LabelSequences(),
        encoder(TokenLabelHead(LABELS)).with_heads(TokenLabelHead(LABELS), TransitionHead(LABELS)),
        token_labels,
    ),
    "LabelDistillation": Case(
        LabelDistillation(Classification(0.1, WEIGHTS), LABELS),
        encoder(LabelHead(LABELS)),
        lambda d: taught((row(d), [d.integers(LABELS)]), d),
    ),
    "LabelDistillation, tokens": Case(
        LabelDistillation(TokenClassification(), LABELS),
        encoder(TokenLabelHead(LABELS)),
        lambda d: taught(token_labels(d), d),
    ),
    "TokenRegression": Case(TokenRegression(), encoder(TokenLabelHead(1)), token_numbers),
    "SpanExtraction": Case(SpanExtraction(), encoder(SpanHead()), lambda d: (row(d), (0, 1))),
    "MultipleChoice": Case(
        MultipleChoice(CHOICES),
        encoder(ChoiceHead()),
        lambda d: ([row(d) for _ in range(CHOICES)], int(d.integers(CHOICES))),
    ),
    "AntecedentRanking": Case(
        AntecedentRanking(singletons=True),
        encoder(CoreferenceHead(widest=1, hidden=4, dropout=0.0)),
        spans,
    ),
    **{
        type(one).__name__: Case(one, SENTENCES, partial(text_group, one.texts))
        for one in (InBatchNegatives(3, symmetric=True), Triplets(3), CosineRegression())
    },
    "MaskedLM": Case(MASKED, Sum(MASKED).fit(TINY), annotated),
    "CausalLM": Case(CausalLM(), Sum(CausalLM()).fit(CAUSAL), with_next_tokens),
    "FieldsLM": Case(FieldsLM(), Sum(FieldsLM()).fit(CAUSAL), with_next_tokens),
    "BiLM": Case(BiLM(words=WORDS), Sum(BiLM(words=WORDS)).fit(ELMO), with_next_words),
    "NegativeSampling": Case(SAMPLED, Sum(SAMPLED).fit(CLASSIFIER), with_samples),
    "AnswerLM": Case(AnswerLM(TaskPrompt(1), eos=2), Sum(CausalLM()).fit(CAUSAL), pair),
    "NextSentence": Case(FOLLOWS, Sum(FOLLOWS).fit(TINY), annotated),
    "SentenceOrder": Case(SentenceOrder(), Sum(SentenceOrder()).fit(TINY), annotated),
    "Sum of one": Case(Sum(MASKED), Sum(MASKED).fit(TINY), annotated),
    "Sum of two": Case(Sum(MASKED, FOLLOWS), Sum(MASKED, FOLLOWS).fit(TINY), annotated),
    "Distillation": Case(TAUGHT, TAUGHT.fit(TINY), annotated),
    "Distillation, all tokens": Case(TAUGHT_ALL, TAUGHT_ALL.fit(TINY), annotated),
    "SpanBoundary": Case(SPANS, SPANS.fit(TINY), with_boundaries),
    "PermutationLM": Case(PERMUTED, PERMUTED.fit(XLNET), ordered),
    "ReplacedTokens": Case(REPLACED, joint(REPLACED), annotated),
    "ReplacedTokens, pairs": Case(REPLACED_PAIRS, joint(REPLACED_PAIRS), annotated),
}
EVERY = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def test_no_objective_is_left_out():
    modules = [import_module(f"regard.objectives.{one.name}") for one in iter_modules(PATH)]
    own = [(thing, module) for module in modules for thing in vars(module).values()]
    found = {
        thing
        for thing, module in own
        if isinstance(thing, type) and thing.__module__ == module.__name__
        if hasattr(thing, "collate") and "__call__" in dir(thing)
    }
    shared = {
        Objective,
        PairObjective,
        GroupObjective,
        RowObjective,
        NumberObjective,
        SentencePairObjective,
        SentenceObjective,
        TeacherLoss,
        ImageLabels,  # reads no tokens: see test_images.py
    }
    assert found - shared == {
        type(one)
        for case in CASES.values()
        for name in ("objectives", "members")
        for one in (case.objective, *getattr(case.objective, name, ()))
    }


@pytest.mark.thinned
@EVERY
@pytest.mark.parametrize("limits", [None, BUDGET], ids=["free", "fixed"])
def test_no_examples_cost_nothing_and_reach_every_parameter(case, limits):
    """What a rank computes that has no rows of a step: gradients must meet all the same."""
    model = case.facts.build()
    batch = case.objective.collate([], limits)
    loss, likelihood = case.objective(model, batch)
    loss.sum().backward()
    assert batch.weight == 0 and not loss.any() and not likelihood.any()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and not parameter.grad.any(), name


@pytest.mark.thinned
@EVERY
@given(st.integers(0, 5), st.integers(0, 9))
def test_fixed_shapes_are_those_of_no_examples(case, count, seed):
    if case.facts is CASES["BiLM"].facts:
        pytest.skip("streams of text are never filled up")
    if case.facts is CASES["AntecedentRanking"].facts:
        pytest.skip("batches of documents are never filled up: the head is eager")
    draw = np.random.default_rng(seed)
    some = [case.example(draw) for _ in range(count)]
    shapes = [
        [(one.shape, one.dtype) for one in tensors_in(case.objective.collate(examples, BUDGET))]
        for examples in (some, [])
    ]
    assert shapes[0] == shapes[1]


@pytest.mark.thinned
@EVERY
def test_everything_a_step_reads_is_in_the_batch_or_the_model(case):
    """On a device without numbers: what came from elsewhere would not be there."""
    model, draw = case.facts.build().to("meta"), np.random.default_rng(1)
    if getattr(case.facts, "eager", False):
        pytest.skip("is not captured")
    limits = RectangleLimits(24, 4, 12) if case.facts.in_rectangles else BUDGET
    batch = case.objective.collate([case.example(draw) for _ in range(4)], limits).to("meta")
    objective = deepcopy(case.objective)
    objective.to("meta")
    with InPlace():
        loss, _ = objective(model, batch)
        loss.sum().backward()
    assert loss.is_meta


STREAMS = {
    "AWD-LSTM": (CausalLM("streams", ar=2.0, tar=1.0), AWD_LSTM, with_next_tokens),
    "learned state": (CausalLM("streams"), change(AWD_LSTM, initial="learned"), with_next_tokens),
    "ELMo": (BiLM(words=WORDS), ELMO, with_next_words),
}


@pytest.mark.parametrize("name", STREAMS)
def test_so_it_is_with_steps_over_streams(name):
    one, facts, draw_one = STREAMS[name]
    objective, draw = Sum(one), np.random.default_rng(1)
    model = objective.fit(facts).build().to("meta")
    examples = [draw_one(draw) for _ in range(40)]
    length = len(examples[0].row.tokens)
    examples = [example for example in examples if len(example.row.tokens) == length]
    batch = objective.collate(examples, BUDGET).to("meta")
    state = objective.initial_state(model, len(examples))
    with InPlace():
        loss, _, carried = objective(model, replace(batch, state=state))
        loss.sum().backward()
    assert loss.is_meta and carried is not None
