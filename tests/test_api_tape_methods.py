"""A tape in every method that runs a model: the outputs, their order, and edits in a search."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import regard
from closeness import LARGE
from regard import BadInput, Beam, Greedy, Model, Tape, without_head
from regard.core.batch import BatchLimits
from regard.inference import component, model_runner, row_batches, translator
from regard.models.facts import change
from regard.models.folders.loaded_model import LoadedModel
from regard.models.heads import NextTokenHead
from regard.models.papers import awd_lstm, gpt2
from regard.text.tokenizers.encoder_tokenizer import train_encoder_tokenizer
from small import WORDS
from small_bert import model as small_encoder

TEXTS = [" ".join(WORDS[i % 5 : i % 5 + 1 + 7 * i % 11]) for i in range(9)]
EMBED, BLOCK, WEIGHTS = (
    "trunk.embed.output",
    "trunk.blocks.1.output",
    "trunk.blocks.0.attention.weights",
)


@dataclass(frozen=True)
class Case:
    """A method of a model, its inputs, and patterns of one value of each kind that it computes."""

    model: str
    method: str
    inputs: list
    names: tuple[str, ...]
    options: dict

    def __str__(self) -> str:
        return f"{self.model}-{self.method}"


def case(model: str, method: str, inputs: list, *names: str, **options) -> Case:
    return Case(model, method, inputs, names, options)


MASKED = ["the [MASK] came", "[MASK] [MASK] sing", "a cat had [MASK] boats", "old [MASK]"] * 2
TWO_SIDES = ("source.blocks.1.output", "logits", "target.blocks.0.cross.weights")
CASES = [
    case("translator", "translate", TEXTS, *TWO_SIDES),
    case("translator", "score", [(text, text) for text in TEXTS], *TWO_SIDES),
    case("translator", "encode", TEXTS, "source.blocks.0.attention.weights", TWO_SIDES[0]),
    case("translator", "embed", TEXTS, "source.embed.output"),
    case("writer", "predict", TEXTS, *TWO_SIDES),
    case("pooled", "predict", TEXTS, "trunk.output", "heads.label.logits", "pool.weights"),
    case("one", "predict", TEXTS, BLOCK, "heads.label.logits", WEIGHTS),
    case("one", "embed", TEXTS, "pool.output", WEIGHTS, pool="pooled"),
    case("tags", "predict", TEXTS, BLOCK, "heads.token_label.logits"),
    case("answer", "predict", [(text, " ".join([text] * 9)) for text in TEXTS], BLOCK),
    case("choose", "predict", [(text, ["cow", "owl pig"]) for text in TEXTS], "pool.output"),
    case("words", "fill", MASKED, EMBED, "heads.mlm.logits", WEIGHTS),
    case("words", "score", TEXTS[:4], BLOCK, "heads.mlm.logits"),
    case("states", "encode", TEXTS, EMBED, BLOCK, WEIGHTS),
    case("states", "encode", TEXTS, EMBED, layer=1),
    case("states", "embed", TEXTS, EMBED, BLOCK, WEIGHTS),
    case("gpt", "generate", TEXTS, BLOCK, WEIGHTS, "heads.next_token.logits", max_new_tokens=6),
    case("gpt", "score", TEXTS, BLOCK, "heads.next_token.logits", window=8, stride=3),
    case("lstm", "generate", TEXTS, "trunk.output", max_new_tokens=6),
    case("lstm", "score", TEXTS, "trunk.output", "heads.next_token.logits", window=5),
    case("lstm", "encode", TEXTS, "trunk.embed.output"),
]


def causal_model(paper, **sizes) -> Model:
    """A small random causal model; its context does not fill up with the texts of the tests."""
    torch.manual_seed(3)
    tokenizer = train_encoder_tokenizer(TEXTS, "gpt2-bpe", 270, lower=False, longest=None)
    facts = change(paper.sizes[paper.default_size], vocab=len(tokenizer.words), **sizes)
    facts = paper.fit_heads(facts.with_heads(NextTokenHead()))
    module = facts.build().eval()
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return Model(LoadedModel(paper, facts, module, tokenizer))


@pytest.fixture(scope="module")
def models(small_run, owl_run):
    folders = {"translator": small_run, "pooled": owl_run}
    trained = {name: regard.load(run / "run" / "model", "cpu") for name, run in folders.items()}
    written, prompt = trained["translator"]._loaded, {"prefix": "owl ", "labels": {"0": "cow"}}
    return {
        **trained,
        "writer": Model(replace(written, notes={**written.notes, "prompt": prompt})),
        **{kind: small_encoder(kind) for kind in ("one", "tags", "answer", "choose", "words")},
        "states": small_encoder("states"),
        "gpt": causal_model(gpt2.PAPER, width=16, inner=32, heads=2, depth=2),
        "lstm": causal_model(awd_lstm.PAPER, width=8, embedding=6, last_width=6),
    }


@pytest.fixture
def few_at_once(monkeypatch):
    for module in (component, model_runner):
        monkeypatch.setattr(module, "TOKENS", 40)
    monkeypatch.setattr(translator.Translator, "batch_tokens", 40)
    for module in (row_batches, translator, component):
        monkeypatch.setattr(module, "RECORDED", BatchLimits(40, 3, 40))


def leaves(result: object) -> Iterator[object]:
    """All texts and numbers of a result."""
    if is_dataclass(result):
        result = [getattr(result, each.name) for each in fields(result)]
    if isinstance(result, dict):
        result = [*result, *result.values()]
    if isinstance(result, Tensor | np.ndarray):
        result = result.tolist()
    if isinstance(result, list | tuple):
        for part in result:
            yield from leaves(part)
    else:
        yield result


def assert_same(result: object, expected: object) -> None:
    for value, other in zip(leaves(result), leaves(expected), strict=True):
        assert value == (pytest.approx(other, 1e-4, 1e-4) if isinstance(other, float) else other)


@pytest.mark.thinned
@pytest.mark.parametrize("case", CASES, ids=str)
def test_outputs_are_the_same_and_records_are_in_order(models, case, few_at_once):
    method = getattr(models[case.model], case.method)
    tape, single = Tape(*case.names), [Tape(*case.names) for _ in case.inputs]
    assert_same(method(case.inputs, **case.options, tape=tape), method(case.inputs, **case.options))
    for given, record in zip(case.inputs, single, strict=True):
        method([given], **case.options, tape=record)
    assert set(tape.records) == set(case.names)
    for name, values in tape.records.items():
        parts = [record.records[name] for record in single]
        assert len(values) == sum(map(len, parts))
        for part, value in zip(parts, values.split([*map(len, parts)]), strict=True):
            assert_close(value[:, *(slice(size) for size in part.shape[1:])], part, **LARGE)


@pytest.mark.thinned
@pytest.mark.parametrize("case", CASES, ids=str)
def test_edits_change_the_outputs(models, case, few_at_once):
    method, name = getattr(models[case.model], case.method), case.names[0]
    tape = Tape(edits={name: lambda _, value: value.flip(-1)})
    edited = [*leaves(method(case.inputs, **case.options, tape=tape))]
    plain = [*leaves(method(case.inputs, **case.options))]
    moved = (
        abs(a - b) > 1e-3 if isinstance(a, float) and isinstance(b, float) else a != b
        for a, b in zip(edited, plain, strict=False)
    )
    assert len(edited) != len(plain) or any(moved)


@pytest.mark.parametrize("search", [Beam(3), Greedy(), replace(Beam(2), coverage=0.2)], ids=str)
def test_edits_reach_every_step_of_a_search(models, search):
    """A head that is removed by an edit is a head whose output weights are zero."""
    site, head = "target.blocks.0.cross.weights", 0
    edit = Tape(edits={site: without_head(head)})
    model = models["translator"]
    edited = model.translate(TEXTS, search, tape=edit)
    attention = model.module.target.blocks[0].cross
    width = attention.heads.value
    before = attention.o.weight.detach().clone()
    try:
        with torch.no_grad():
            attention.o.weight[:, head * width : (head + 1) * width] = 0
        assert_same(edited, model.translate(TEXTS, search))
    finally:
        with torch.no_grad():
            attention.o.weight.copy_(before)
    assert [*leaves(edited)] != [*leaves(model.translate(TEXTS, search))]


def test_a_translation_is_recorded_as_the_pair_is(models):
    model, names = models["translator"], TWO_SIDES[:2]
    tape, pairs = Tape(*names), Tape(*names)
    texts = [*TEXTS[:4], " ", *TEXTS[4:]]  # the model does not translate an empty text
    best = [nbest[0].text for nbest in model.translate(texts, Beam(2), tape=tape)]
    assert any(best) and not best[4]
    model.logits([*zip(texts, best, strict=True)], tape=pairs)
    for name in names:
        assert_close(tape.records[name], pairs.records[name], **LARGE)


def test_a_continuation_is_recorded_with_its_prompt(models):
    model, tape, whole = models["gpt"], Tape(BLOCK), Tape(BLOCK)
    prompts = [model.tokenizer.words.encode(text) for text in TEXTS]
    best = model.generate(prompts, Beam(2), max_new_tokens=5, tape=tape)
    rows = zip(prompts, best, strict=True)
    model.logits([[*ids, *nbest[0].hypothesis.tokens] for ids, nbest in rows], tape=whole)
    assert_close(tape.records[BLOCK], whole.records[BLOCK], **LARGE)


def test_prompts_are_edited_too(models):
    """All but the last token of a prompt are read before the first step."""
    model, prompts = models["gpt"], [[5, 6, 7, 8, 9], [8, 5, 5]]

    def shifted() -> Tape:
        return Tape(edits={EMBED: lambda _, value: value + 1})

    edited = model.generate(prompts, max_new_tokens=1, tape=shifted())
    for ids, (best,), logits in zip(
        prompts, edited, model.logits(prompts, tape=shifted()), strict=True
    ):
        assert best.hypothesis.tokens[:1] in ((int(logits[-1].argmax()),), ())
        expected = float(torch.log_softmax(logits[-1].double(), -1).max())
        assert best.hypothesis.logprob == pytest.approx(expected, 1e-4, 1e-4), ids


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_value_that_the_method_does_not_compute_is_refused(models, case):
    method = getattr(models[case.model], case.method)
    with pytest.raises(BadInput, match=r"no value of this run matches 'no\.such\.value'"):
        method(case.inputs[:2], **case.options, tape=Tape("no.such.value"))
    with pytest.raises(BadInput, match="tape must be a Tape, not 'weights'"):
        method(case.inputs[:2], **case.options, tape="weights")


def test_recorded_values_may_need_gradients(models):
    tape = Tape("heads.mlm.logits")
    models["words"].fill(MASKED[:1], tape=tape)
    weight = torch.ones(1, requires_grad=True)
    (tape.records["heads.mlm.logits"] * weight).sum().backward()
    assert weight.grad is not None
