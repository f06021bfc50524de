"""Replaced-token detection: draws, labels, gradients, shared embeddings, and two saved models."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import regard
from regard.core.batch import IGNORED, BatchLimits
from regard.core.errors import BadInput
from regard.models.facts import change
from regard.models.papers import bert, electra, lin
from regard.models.papers.electra import sample
from regard.objectives.masked_lm import MaskedLM
from regard.objectives.next_sentence import NextSentence
from regard.objectives.replaced_tokens import ReplacedTokens
from regard.objectives.rows import AnnotatedRow
from regard.objectives.sum import Sum
from regard.text.tokenizers.encoder_tokenizer import train_encoder_tokenizer
from regard.training.loop import train
from regard.training.loop.events import DevEvent, ReportEvent
from regard.training.recipe import read
from regard.training.run import prepare
from regard.weights.files import read_folder, weights_of
from small_documents import KINDS, write_animals
from small_runs import ALONE

SUM = Sum(ReplacedTokens())
FACTS = SUM.extend(
    SUM.fit(change(electra.BASE, vocab=60, width=16, heads=4, inner=32, depth=2, longest=20)),
    electra.PAPER.fit_heads,
)


@pytest.fixture(scope="module")
def tokenizer():
    return train_encoder_tokenizer([" ".join(words) for words in KINDS.values()], "wordpiece", 60)


def examples(tokenizer, count=5, epoch=0):
    draw = np.random.default_rng(0)
    lengths = draw.integers(8, 19, count)
    rows = [
        (tokenizer.row(draw.integers(5, len(tokenizer.words), n)), None) for n in lengths.tolist()
    ]
    return SUM.annotator(tokenizer)(rows, np.arange(count), (0, epoch))


@pytest.fixture
def model():
    torch.manual_seed(0)
    return FACTS.build()


def originals(example):
    tokens = np.array(example.row.tokens)
    tokens[example.positions["mlm"]] = example.targets["mlm"]
    return tokens


def test_chosen_tokens_are_masked_or_stay_and_are_never_random(tokenizer):
    masked = chosen = tokens = 0
    for example in examples(tokenizer, 4_000):
        now = np.array(example.row.tokens)[example.positions["mlm"]]
        stays = now == example.targets["mlm"]
        assert np.all(stays | (now == tokenizer.mask))
        masked, chosen = masked + np.sum(~stays), chosen + len(now)
        tokens += len(example.row.tokens)
    assert chosen / tokens == pytest.approx(0.15, abs=0.01)
    assert masked / chosen == pytest.approx(0.85, abs=0.015)


def test_samples_follow_the_softmax_and_have_no_gradient():
    torch.manual_seed(0)
    logits_V = torch.tensor([0.0, 1.0, 2.0, -1.0], requires_grad=True)
    for temperature in (1.0, 2.0):
        drawn_N = sample(logits_V.expand(40_000, 4), temperature)
        assert not drawn_N.requires_grad
        shares_V = torch.bincount(drawn_N, minlength=4) / len(drawn_N)
        expected_V = (logits_V / temperature).softmax(-1)
        torch.testing.assert_close(shares_V, expected_V.detach(), atol=0.01, rtol=0)


def test_the_discriminator_reads_samples_at_chosen_positions_only(tokenizer, model):
    chosen = examples(tokenizer)
    batch = SUM.collate(chosen)
    outputs = model.eval()(batch.inputs, positions=batch.positions)
    torch.manual_seed(1)
    again = model(batch.inputs, positions=batch.positions)
    assert not torch.equal(outputs.tokens_T, again.tokens_T)
    before_T = torch.cat([torch.tensor(originals(one)) for one in chosen])
    assert torch.equal(batch.targets["replaced_token"], before_T)
    at = torch.zeros(len(before_T), dtype=torch.bool)
    at[batch.positions["mlm"]] = True
    assert torch.equal(outputs.tokens_T[~at], before_T[~at])
    expected = model.discriminator(replace(batch.inputs, tokens_T=outputs.tokens_T))
    both = (one.by_head["replaced_token"] for one in (outputs, expected))
    torch.testing.assert_close(*both)


def test_the_loss_is_binary_cross_entropy_over_all_tokens_times_fifty(tokenizer, model):
    batch = SUM.collate(examples(tokenizer))
    outputs = model.eval()(batch.inputs, positions=batch.positions)
    loss, nll = ReplacedTokens().loss(outputs, batch)
    replaced_T = outputs.tokens_T != batch.targets["replaced_token"]
    assert replaced_T.any() and not replaced_T.all()
    logits_T = outputs.by_head["replaced_token"][:, 0]
    expected = F.binary_cross_entropy_with_logits(logits_T, replaced_T.float(), reduction="sum")
    torch.testing.assert_close(nll, expected.detach())
    torch.testing.assert_close(loss, 50 * expected)
    assert SUM.weight(examples(tokenizer)[0]).tolist() == [
        len(examples(tokenizer)[0].positions["mlm"]),
        len(examples(tokenizer)[0].row.tokens),
    ]


def test_a_sample_that_equals_the_original_token_counts_as_original(tokenizer, model):
    batch = SUM.collate(examples(tokenizer))
    outputs = model.eval()(batch.inputs, positions=batch.positions)
    same = outputs._replace(tokens_T=batch.targets["replaced_token"])
    _, nll = ReplacedTokens().loss(same, batch)
    torch.testing.assert_close(nll, F.softplus(same.by_head["replaced_token"]).sum().detach())


def test_the_generator_learns_from_its_own_loss_alone(tokenizer, model):
    batch = SUM.collate(examples(tokenizer))
    gradients = []
    for parts in ((0,), (0, 1), (1,)):
        torch.manual_seed(3)
        loss, _ = SUM(model.eval(), batch)
        model.zero_grad()
        loss[list(parts)].sum().backward()
        gradients.append(
            {
                name: one.grad.clone()
                for name, one in model.named_parameters()
                if one.grad is not None
            }
        )
    alone, both, detection = gradients
    shared = "discriminator.trunk.embed.token.weight"
    own = [name for name in alone if name.startswith("generator.")]
    assert own and all(torch.equal(alone[name], both[name]) for name in own)
    assert all(not detection[name].any() for name in own if name in detection)
    torch.testing.assert_close(alone[shared] + detection[shared], both[shared])
    assert alone[shared].any() and detection[shared].any()


def test_embeddings_are_shared(model):
    ours, theirs = model.generator.trunk.embed, model.discriminator.trunk.embed
    for name in ("token", "position", "segment", "norm"):
        assert getattr(ours, name) is getattr(theirs, name)
    assert ours.projection is not None and theirs.projection is None
    assert model.generator.heads["mlm"].out.weight is theirs.token.weight
    names = [name for name in weights_of(model) if ".embed." in name]
    assert {name for name in names if name.startswith("generator.")} == {
        "generator.trunk.embed.projection.weight",
        "generator.trunk.embed.projection.bias",
    }


def test_a_fixed_shape_gives_the_same_loss_and_needs_no_value_on_the_host(tokenizer, model):
    chosen, limits = examples(tokenizer), BatchLimits(128, 8, 20)
    free, fixed = SUM.collate(chosen), SUM.collate(chosen, limits)
    assert fixed.inputs.tokens_T.shape == (128,)
    assert (fixed.targets["replaced_token"] == IGNORED).sum() == 128 - free.inputs.real
    model.eval()
    model.temperature = 1e-6  # the likeliest token: fill draws random numbers, too
    for one, other in zip(SUM(model, free), SUM(model, fixed), strict=True):
        torch.testing.assert_close(one, other)
    loss, _ = SUM(model.to("meta"), fixed.to("meta"))  # raises if a value is needed on the host
    assert loss.shape == (2,)


@pytest.mark.parametrize("size", ["small", "base", "large"])
def test_generators_are_those_of_the_paper(size):
    keys = electra.PAPER.pretraining_of(size)["replaced-tokens"]
    objectives = Sum(ReplacedTokens.from_config(ReplacedTokens.config(**keys), 0.0))
    facts = objectives.fit(electra.PAPER.sizes[size])
    joint = objectives.extend(facts, electra.PAPER.fit_heads)
    expected = electra.PAPER.sizes[f"{size}-generator"]
    assert joint.generator.trunk == expected.trunk
    assert joint.discriminator == facts
    assert [head.name for head in joint.generator.output_heads] == ["mlm"]


def test_what_does_not_fit_is_refused():
    with pytest.raises(BadInput, match="masked-lm and replaced-tokens train the same head"):
        Sum(MaskedLM(), ReplacedTokens())
    with pytest.raises(BadInput, match="needs a Transformer, as its generator is one"):
        SUM.check(lin.BASE)
    facts = SUM.fit(change(electra.BASE, width=36, heads=6))
    sizes = "0.25 of a width of 36 and 6 heads is 9 and 2; heads must divide the width"
    said = f"objective.replaced-tokens.generator: {sizes}"
    with pytest.raises(BadInput, match=said):
        SUM.extend(facts, electra.PAPER.fit_heads)


def test_other_objectives_are_taught_to_the_discriminator(tokenizer):
    objectives = Sum(NextSentence(), ReplacedTokens())
    facts = objectives.fit(change(bert.TINY, vocab=60, width=16, inner=32))
    joint = objectives.extend(facts, bert.PAPER.fit_heads)
    assert joint.discriminator.head_names == ("sentence_pair", "replaced_token")
    chosen = [
        AnnotatedRow(one.row, one.positions, {**one.targets, "sentence_pair": 1})
        for one in examples(tokenizer)
    ]
    loss, _ = objectives(joint.build(), objectives.collate(chosen))
    assert loss.shape == (3,) and torch.isfinite(loss).all()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_animals(tmp_path_factory.mktemp("animals"))


SETTINGS = (
    *("objective.masked-lm=false", "objective.next-sentence=false", "objective.replaced-tokens={}"),
    *("model.paper=electra", "model.size=base"),
)


def prepared(corpus, out, *settings, resume=False):
    recipe = read(corpus / "animals.toml", (*SETTINGS, *settings))
    return prepare(recipe, out, ALONE, data=corpus, resume=resume)


@pytest.mark.slow
def test_a_resumed_run_is_exact_and_two_models_are_saved(corpus, tmp_path):
    transformers = pytest.importorskip("transformers")
    whole = prepared(corpus, tmp_path / "a")
    events = list(train(whole.job))
    first = prepared(corpus, tmp_path / "b")
    for event in train(first.job):
        if isinstance(event, ReportEvent) and event.progress.step == 7:
            break
    first.lock.release()
    second = prepared(corpus, tmp_path / "b", resume=True)
    again = list(train(second.job, resume=True))
    for kind in (ReportEvent, DevEvent):
        tail, resumed = ([one for one in some if isinstance(one, kind)] for some in (events, again))
        tail = tail[-len(resumed) :]
        assert [_content(one) for one in tail] == [_content(one) for one in resumed]
    before, after = weights_of(whole.job.model), weights_of(second.job.model)
    assert all(torch.equal(before[name], after[name]) for name in before)

    (dev,) = [one for one in events if isinstance(one, DevEvent)][-1:]
    figures = dev.verdict.figures
    assert {*figures} == {
        *("loss", "perplexity", "accuracy"),
        *("detection_accuracy", "detection_precision", "detection_recall"),
    }
    whole.finish(events[-1].progress)
    for name, kind in {"model": "ForPreTraining", "generator": "ForMaskedLM"}.items():
        regard.load(tmp_path / "a" / name, "cpu").save(tmp_path / f"hf-{name}", "hf")
        _, info = getattr(transformers, f"Electra{kind}").from_pretrained(
            tmp_path / f"hf-{name}", output_loading_info=True, local_files_only=True
        )
        assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    ours, theirs = (read_folder(tmp_path / f"hf-{name}") for name in ("model", "generator"))
    for name in ("word_embeddings", "position_embeddings", "token_type_embeddings", "LayerNorm"):
        key = f"electra.embeddings.{name}.weight"
        assert torch.equal(ours[key], theirs[key])


def _content(event):
    return event.loss if isinstance(event, ReportEvent) else event.verdict


def test_a_model_is_started_from_a_folder(corpus, tmp_path):
    run = prepared(corpus, tmp_path / "a", "train.steps=2")
    run.finish(list(train(run.job))[-1].progress)
    start = f"model.start={tmp_path / 'a' / 'model'}"
    other = (start, "model.size=", "model.change={}", "text=false", "train.steps=2")
    again = prepared(corpus, tmp_path / "b", *other)
    before, after = run.job.model.discriminator, again.job.model.discriminator
    assert all(map(torch.equal, weights_of(before).values(), weights_of(after).values()))
