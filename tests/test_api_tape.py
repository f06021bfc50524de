"""Tapes, batches and precisions: every method, every family, however many inputs there are."""

import pytest
import torch
from torch.testing import assert_close

import regard
from closeness import LARGE
from regard import BadInput, Tape, without_head
from regard.core.batch import BatchLimits
from regard.inference import component, model_runner, row_batches, translator
from regard.models.facts import change, paths
from regard.models.folders.loaded_model import LoadedModel
from regard.models.label_heads import LabelHead, MLMHead, SentencePairHead
from regard.models.papers import LINEAGE, bert, context2vec
from regard.text.tokenizers.list import PLAIN
from regard.text.tokenizers.word_level import WordTokenizer
from small import WORDS
from small_bert import model as small_encoder

FAMILIES = ("translator", "pooled", "tuned", "words")
# A value of each kind: for each token, for each text, for each pair of tokens.
KEPT = {
    "translator": ("source.blocks.1.output", "logits", "target.blocks.0.cross.weights"),
    "pooled": ("trunk.output", "heads.label.logits", "pool.weights"),
    "tuned": ("trunk.output", "heads.label.logits", "trunk.blocks.0.attention.weights"),
    "words": ("heads.mlm.logits", "trunk.embed.output", "trunk.blocks.1.attention.scores"),
}


@pytest.fixture(scope="module")
def folders(small_run, owl_run):
    return {"translator": small_run / "run" / "model", "pooled": owl_run / "run" / "model"}


@pytest.fixture(scope="module")
def models(folders):
    loaded = {name: regard.load(folder, "cpu") for name, folder in folders.items()}
    return loaded | {"tuned": small_encoder("one"), "words": small_encoder("words")}


def inputs(family: str, count: int) -> list:
    texts = [" ".join(WORDS[i % 5 : i % 5 + 1 + 7 * i % 11]) for i in range(count)]
    return [(one, one) for one in texts] if family == "translator" else texts


def few_at_once(monkeypatch) -> None:
    for module in (component, model_runner):
        monkeypatch.setattr(module, "TOKENS", 40)
    monkeypatch.setattr(translator.Translator, "batch_tokens", 40)
    for module in (row_batches, translator):
        monkeypatch.setattr(module, "RECORDED", BatchLimits(40, 3, 40))


@pytest.mark.thinned
@pytest.mark.parametrize("family", FAMILIES)
def test_a_tape_sees_all_inputs_in_their_order(models, family, monkeypatch):
    model, given = models[family], inputs(family, 23)
    single = []
    for one in given:
        single.append(Tape(*KEPT[family]))
        model.logits([one], tape=single[-1])
    few_at_once(monkeypatch)
    tape = Tape(*KEPT[family])
    model.logits(given, tape=tape)
    assert list(tape.records) == list(single[0].records) and set(tape.records) == set(KEPT[family])
    for name, found in tape.records.items():
        parts = [one.records[name] for one in single]
        assert len(found) == sum(map(len, parts))
        start = 0
        for part in parts:
            inside = tuple(slice(size) for size in part.shape[1:])
            assert_close(found[start : start + len(part)][:, *inside], part, **LARGE)
            start += len(part)


def test_300_inputs_have_300_rows(models):
    tape = Tape("pool.output", "heads.label.logits")
    said = models["tuned"].logits(inputs("tuned", 300), tape=tape)
    assert len(tape.records["pool.output"]) == 300
    assert torch.equal(torch.stack(said), tape.records["heads.label.logits"])


@pytest.mark.parametrize("family", FAMILIES)
def test_an_edit_reaches_every_batch(models, family, monkeypatch):
    few_at_once(monkeypatch)
    name = KEPT[family][0]
    model, given = models[family], inputs(family, 12)

    def turned() -> Tape:
        return Tape(edits={name: lambda _, value: value.roll(1, -1)})

    edited = model.logits(given, tape=turned())
    alone = [model.logits([one], tape=turned())[0] for one in given]
    for found, expected, before in zip(edited, alone, model.logits(given), strict=True):
        assert_close(found, expected, atol=1e-4, rtol=1e-4)
        assert not torch.allclose(found, before)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("known", [True, False])
def test_a_name_that_does_not_exist_is_refused(models, family, known):
    wrong = KEPT[family][0].replace("output", "outptu").replace("mlm", "mml")
    good = (KEPT[family][1],) if known else ()
    for tape in (Tape(*good, wrong), Tape(*good, edits={wrong: without_head(0)})):
        with pytest.raises(BadInput, match=r"model\.tape_names\(\) lists all") as error:
            models[family].logits(inputs(family, 3), tape=tape)
        assert repr(wrong) in str(error.value)
        assert KEPT[family][0] in str(error.value)


def test_a_tape_can_be_used_again(models):
    tape = Tape("heads.label.logits")
    models["tuned"].logits(["dog", "cow owl"], tape=tape)
    (said,) = models["tuned"].logits(["pig"], tape=tape)
    assert torch.equal(tape.records["heads.label.logits"], said[None])


def test_no_inputs_run_no_model(models):
    assert models["tuned"].logits([], tape=Tape("no such name")) == []


OWN_SIZES = {
    "cove:mt-lstm": {"target.width": 16},  # that of its source, which reads both ways
    **{f"he:{size}": {"indicator": 4} for size in ("base", "laptop")},
}


def small_of_every_paper() -> list[LoadedModel]:
    small = {"width": 8, "heads": 2, "inner": 8, "depth": 2, "vocab": 20}
    small |= {"embedding": 8, "last_width": 8, "kv_heads": None}
    found = []
    for paper in LINEAGE:
        for size, facts in paper.sizes.items():
            if paper is bert.PAPER or facts.encoder.ids_per_token:  # reads no ids of tokens
                continue
            if paper is context2vec.PAPER:  # fills gaps, and has no logits
                continue
            known = {path.split(".")[-1] for path, _ in paths(facts)}
            sizes = {key: small[key] for key in small.keys() & known}
            facts = change(facts, **{**sizes, **OWN_SIZES.get(f"{paper.key}:{size}", {})})
            if paper.tokenizer == PLAIN and getattr(facts, "pool", None) is not None:
                facts = facts.with_heads(LabelHead(2))
            if paper.tokenizer != PLAIN and facts.sides == ("trunk",):
                facts = facts.with_heads(MLMHead(tied=paper.tokenizer != WordTokenizer.name))
            found.append(LoadedModel(paper, facts, facts.build().eval()))
    facts = change(bert.TINY, width=8, inner=8, vocab=20).with_heads(MLMHead(), SentencePairHead())
    return [*found, LoadedModel(bert.PAPER, facts, facts.build().eval())]


@pytest.mark.thinned
@pytest.mark.parametrize("stored", small_of_every_paper(), ids=lambda one: one.paper.key)
def test_every_name_that_is_listed_can_be_recorded(stored):
    model = regard.Model(stored)
    names = model.tape_names()
    pair = ([5, 6, 7], [5, 6])
    given = [pair, pair] if hasattr(model.module, "target") else [pair[0], pair[1]]
    for one in names:
        tape = Tape(one)
        model.logits(given, tape=tape)
        assert list(tape.records) == [one]
    everything = Tape("*")
    model.logits(given, tape=everything)
    assert set(everything.records) == set(names)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_number_of_inputs_at_once_changes_nothing(models, family, monkeypatch):
    model, given = models[family], inputs(family, 40)
    texts = [one[0] if isinstance(one, tuple) else one for one in given]
    whole = [model.encode(texts), model.logits(given), list(model.embed(texts))]
    few_at_once(monkeypatch)
    small = [model.encode(texts, batch_size=3), model.logits(given), list(model.embed(texts))]
    for before, after in zip(whole, small, strict=True):
        for one, other in zip(before, after, strict=True):
            assert_close(one, other, **LARGE)


@pytest.mark.parametrize("family", ["translator", "pooled"])
def test_memory_is_bounded(models, family, monkeypatch):
    """No batch is larger than the budget, whatever is asked for."""
    sizes = []
    monkeypatch.setattr(model_runner, "TOKENS", 64)
    monkeypatch.setattr(translator.Translator, "batch_tokens", 64)
    side = models[family].module.encoder
    hook = side.register_forward_pre_hook(lambda _, given: sizes.append(len(given[0])))
    texts = [one[0] if isinstance(one, tuple) else one for one in inputs(family, 60)]
    models[family].encode(texts)
    models[family].logits(inputs(family, 60))
    hook.remove()
    assert len(sizes) > 2 and max(sizes) <= 64


@pytest.mark.parametrize("family", ["translator", "pooled", "tuned", "words"])
def test_every_method_honours_the_precision(models, folders, family):
    """int8 is what is furthest from fp32 on every CPU; each method must say what int8 says."""
    plain = models[family]
    if family in folders:
        fast = regard.load(folders[family], "cpu", precision="int8")
    else:
        fast = regard.Model(plain._loaded, "int8")
    given = inputs(family, 4)
    texts = [one[0] if isinstance(one, tuple) else one for one in given]
    does = {
        "encode": (texts,),
        "embed": (texts,),
        "logits": (given,),
        **({"score": (given,), "translate": (texts,)} if family == "translator" else {}),
        **({"predict": (texts,)} if family in ("pooled", "tuned") else {}),
        **({"fill": (["the [MASK] came"],)} if family == "words" else {}),
    }
    if family == "pooled":  # its reader is recurrent: only the class is read by a linear layer
        del does["encode"], does["embed"]
    for name, arguments in does.items():
        assert str(getattr(fast, name)(*arguments)) != str(getattr(plain, name)(*arguments)), name
    if family == "translator":
        wanted = plain.translator.with_precision("int8")
        scores = wanted.scorer().predict(given)
        assert fast.score(given) == [[*score.logprobs] for score in scores]
        shown, expected = (one.look("dog cow", "cow dog").map() for one in (fast, plain))
        assert (shown.select() != expected.select()).any()
