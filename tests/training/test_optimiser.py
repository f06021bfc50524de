"""Levels of a model: they learn at unlike rates, one after another, or not at all."""

import json
import math
from contextlib import nullcontext
from functools import partial

import pytest
import torch

from regard.core.batch import pack
from regard.core.errors import BadInput
from regard.models.facts import change
from regard.models.features import Features
from regard.models.label_heads import LabelHead, MLMHead, SentencePairHead
from regard.models.papers import bert, elmo, lin, sized
from regard.training import optimiser
from regard.training.checkpoint import optimiser_tensors
from regard.training.distributed import World
from regard.training.loop import train, trainable
from regard.training.loop.events import ReportEvent
from regard.training.optimiser import (
    SCHEDULES,
    GraphedOptimiser,
    ModelOptimiser,
    constant,
    cosine,
    freeze,
    inverse_sqrt,
    layer_groups,
    linear,
    slanted,
)
from regard.training.recipe import read
from regard.training.recipe.tables import OptimiserConfig
from regard.training.run import prepare
from regard.weights.files import weights_of
from small_tuning import write_tuning

ALONE = World(0, 1, torch.device("cpu"))
FACTS = change(bert.TINY, vocab=11, width=8, inner=12, heads=2, longest=8, depth=3)
CLASSIFIER = FACTS.with_heads(LabelHead(2, dropout=0.1))


def small(name):
    with torch.device("meta"):
        return sized(name).build()


def named(model):
    """The names of the parameters of each level."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    return [[names[parameter] for parameter in level] for level in layer_groups(model)]


def moved(model, updates, steps=1):
    """What changes in so many steps of which every gradient is the same."""
    before = {name: one.detach().clone() for name, one in model.named_parameters()}
    for number in range(1, steps + 1):
        updates.unfreeze(number)
        for one in model.parameters():
            one.grad = torch.ones_like(one) if one.requires_grad else None
        updates.step(1.0)
    return {name: (one.detach() - before[name]) for name, one in model.named_parameters()}


def test_an_encoder_from_the_bottom_up():
    found = named(CLASSIFIER.build())
    assert len(found) == 1 + 3 + 1
    assert all(name.startswith("trunk.embed.") for name in found[0])
    for number in range(3):
        assert {name[:14] for name in found[1 + number]} == {f"trunk.blocks.{number}"}
    assert found[4] == [
        "pool.dense.weight",
        "pool.dense.bias",
        "heads.label.out.weight",
        "heads.label.out.bias",
    ]


def test_words_that_are_tied_lie_with_the_embeddings():
    found = named(FACTS.with_heads(MLMHead(), SentencePairHead()).build())
    assert "trunk.embed.token.weight" in found[0]
    assert {name.rsplit(".", 2)[0] for name in found[-1]} == {
        *("pool", "heads.mlm", "heads.sentence_pair")
    }


def test_a_frozen_model_that_gives_features_is_no_level():
    words = change(lin.LAPTOP, vocab=20, width=8, embedding=16).with_heads(LabelHead(2))
    given = change(elmo.SMALL, width=4, cells=6, filters=((1, 4),), longest=8).trunk
    model = change(words, features=Features(given)).build()
    levels, without = named(model), named(words.build())
    assert len(levels) == len(without) == 1 + 1 + 1
    assert levels[0] == ["trunk.inner.embed.words.token.weight"]
    assert not any("frozen" in name for level in levels for name in level)
    updates = ModelOptimiser(model, OptimiserConfig(rate=0.01, layer_decay=0.5))
    shares = {
        id(p): group["share"] for group in updates.optimiser.param_groups for p in group["params"]
    }
    assert shares[id(model.trunk.embed.token.weight)] == 0.25
    assert {shares[id(one)] for one in model.trunk.inner.layers.parameters()} == {0.5}
    assert shares[id(model.heads.label.out.weight)] == 1


@pytest.mark.parametrize(
    ("name", "count", "lowest", "highest"),
    [
        ("transformer:laptop", 1 + 3 + 3, "source.embed.token.weight", "target.norm.bias"),
        ("bahdanau:laptop", 1 + 1 + 1 + 1, "target.embed.token.weight", "head.weight"),
        ("luong:laptop", 1 + 2 + 2 + 1, "source.embed.token.weight", "head.weight"),
        ("lin:laptop", 1 + 1 + 1, "trunk.embed.token.weight", "pool.learned"),
    ],
)
def test_every_model_has_levels(name, count, lowest, highest):
    model = small(name)
    found = named(model)
    assert len(found) == count
    assert lowest in found[0] and highest in found[-1]
    every = [one for level in found for one in level]
    assert sorted(every) == sorted(name for name, _ in model.named_parameters())


def test_a_target_stands_on_its_source_and_the_rest_of_a_side_on_its_blocks():
    found = named(small("transformer:laptop"))
    assert "source.norm.weight" in found[3] and "target.blocks.0.cross.q.weight" in found[4]


def test_rates_fall_by_level():
    model = CLASSIFIER.build()
    changes = moved(model, ModelOptimiser(model, OptimiserConfig(rate=0.01, layer_decay=0.5)))
    for name, share in {
        "heads.label.out.bias": 1,
        "pool.dense.bias": 1,
        "trunk.blocks.2.mlp.up.bias": 0.5,
        "trunk.blocks.0.mlp.up.bias": 0.125,
        "trunk.embed.norm.bias": 0.0625,
    }.items():
        torch.testing.assert_close(
            changes[name], torch.full_like(changes[name], -0.01 * share), rtol=1e-3, atol=1e-7
        )


def test_groups_are_few_and_vectors_do_not_decay():
    model = CLASSIFIER.build()
    plain = ModelOptimiser(model, OptimiserConfig(rate=0.01, decay=0.1)).optimiser
    assert [group["weight_decay"] for group in plain.param_groups] == [0.1, 0.0]
    graded = ModelOptimiser(model, OptimiserConfig(rate=0.01, decay=0.1, layer_decay=0.9)).optimiser
    assert len(graded.param_groups) == 2 * 5
    for group in (*plain.param_groups, *graded.param_groups):
        assert all((one.ndim < 2) == (group["weight_decay"] == 0) for one in group["params"])


@pytest.mark.parametrize(
    ("names", "still"),
    [
        (("embed",), ["trunk.embed"]),
        (("trunk",), ["trunk"]),
        (("blocks.1", "pool"), ["trunk.blocks.1.", "pool"]),
        (("trunk.blocks.0.mlp", "bias"), ["trunk.blocks.0.mlp.", "bias"]),
    ],
)
def test_what_is_frozen_stays_bit_for_bit(names, still):
    model = CLASSIFIER.build()
    updates = ModelOptimiser(
        model, OptimiserConfig(kind="adamw", rate=0.1, decay=0.1, freeze=names)
    )
    changes = moved(model, updates, steps=2)
    moments = optimiser_tensors(model, updates.optimiser)
    for name, change_of in changes.items():
        frozen = any(name.startswith(one) or name.endswith(one) for one in still)
        assert bool(change_of.any()) != frozen, name
        assert (f"{name}/exp_avg" in moments) != frozen


def test_freezing_words_freezes_what_they_share():
    model = FACTS.with_heads(MLMHead()).build()
    freeze(model, ["mlm.out"])
    assert not model.trunk.embed.token.weight.requires_grad


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["embd"], "no weights are called 'embd'; did you mean 'embed'"),
        (["blocks.7"], "no weights are called 'blocks.7'; did you mean 'blocks"),
        (["bed"], "no weights are called 'bed'"),
        (["trunk", "pool", "heads"], "all weights are frozen"),
    ],
)
def test_names_that_mean_nothing_are_refused(names, said):
    with pytest.raises(BadInput, match=said):
        freeze(CLASSIFIER.build(), names)


@pytest.mark.parametrize("lazy", [True, False])
def test_levels_wake_from_the_top(lazy):
    model = CLASSIFIER.build()
    facts = OptimiserConfig(
        kind="adamw", rate=0.1, decay=0.1, unfreeze_every=2, freeze=("blocks.1",)
    )
    updates = ModelOptimiser(model, facts, lazy=lazy)
    first = moved(model, updates, steps=2)
    assert {name.split(".")[0] for name, one in first.items() if one.any()} == {"pool", "heads"}
    assert model.trunk.embed.token.weight.requires_grad != lazy
    assert not any("trunk" in name for name in optimiser_tensors(model, updates.optimiser))
    more = moved(model, updates, steps=3)
    assert {name[:14] for name, one in more.items() if one.any() and "trunk" in name} == {
        "trunk.blocks.2"
    }
    last = moved(model, updates, steps=20)  # a level that never learns is not waited for
    assert {name for name, one in last.items() if not one.any()} == {
        name for name in last if "blocks.1" in name
    }


def test_only_gradients_of_what_learns_are_measured():
    model = CLASSIFIER.build()
    updates = ModelOptimiser(
        model, OptimiserConfig(rate=0.1, clip=1.0, unfreeze_every=5), lazy=False
    )
    for one in model.parameters():
        one.grad = torch.ones_like(one)
    top = sum(one.numel() for one in layer_groups(model)[-1])
    assert float(updates.step(1.0)) == pytest.approx(top**0.5)
    assert model.heads.label.out.bias.grad.norm() < 1
    assert (model.trunk.embed.norm.bias.grad == 1).all()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("owls")
    write_tuning(folder, "one")
    return folder


def prepared(corpus, out, *settings, resume=False, world=ALONE):
    recipe = read(corpus / "owls.toml", settings)
    return prepare(recipe, out, world, data=corpus, resume=resume)


def losses(run, resume=False):
    return [event.loss for event in train(run.job, resume=resume) if isinstance(event, ReportEvent)]


def broken_off(corpus, out, *settings, **named):
    """The losses of a run that dies after eight steps, its last checkpoint after six; and it."""
    run, seen = prepared(corpus, out, *settings, **named), []
    for event in train(run.job):
        seen += [event.loss] if isinstance(event, ReportEvent) else []
        if len(seen) == 8:
            break
    return seen[:6], prepared(corpus, out, *settings, resume=True, **named)


@pytest.mark.thinned
@pytest.mark.parametrize(
    "settings",
    [
        ("optimiser.layer_decay=0.7", "optimiser.schedule=slanted"),
        ('optimiser.freeze=["embed", "blocks.0"]', "train.ema=0.9"),
        ("optimiser.unfreeze_every=4",),
        ("optimiser.unfreeze_every=epoch",),
        ("optimiser.unfreeze_every=2", "optimiser.layer_decay=0.7", 'optimiser.freeze=["embed"]'),
    ],
)
def test_resume_is_exact(corpus, tmp_path, settings):
    straight = prepared(corpus, tmp_path / "a", *settings)
    all_losses = losses(straight)
    seen, second = broken_off(corpus, tmp_path / "b", *settings)
    assert seen + losses(second, resume=True) == all_losses
    one, other = weights_of(straight.job.model), weights_of(second.job.model)
    assert all(torch.equal(one[name], other[name]) for name in one)
    last, again = (run.job.checkpoints.load(12)[1] for run in (straight, second))
    assert last["optimiser"].keys() == again["optimiser"].keys()
    for name, tensor in last["optimiser"].items():
        assert torch.equal(tensor, again["optimiser"][name]), name


def test_a_level_wakes_in_each_epoch(corpus, tmp_path):
    settings = ("optimiser.unfreeze_every=epoch", "train.checkpoint_every=1", "train.average=12")
    run = prepared(corpus, tmp_path / "run", *settings, "batches.rows=32")
    before = {name: one.clone() for name, one in weights_of(run.job.model).items()}
    assert losses(run)
    steps, rows = 12, 96
    an_epoch = -(-rows // 32)
    for step in range(1, steps + 1):
        awake = ["pool", "heads", "trunk.blocks.1", "trunk.blocks.0", "trunk.embed"]
        awake = awake[: 2 + (step - 1) // an_epoch]
        stored = run.job.checkpoints.load(step)[1]["model"]
        moved = {name for name, one in stored.items() if not torch.equal(one, before[name])}
        assert moved == {name for name in stored if name.startswith(tuple(awake))}, step


def test_sleeping_levels_may_have_gradients_or_not(corpus, tmp_path, monkeypatch):
    """Where every step must be the same graph, all gradients are computed: nothing else differs."""
    settings = ("optimiser.unfreeze_every=3", "optimiser.layer_decay=0.7")
    lazy = prepared(corpus, tmp_path / "a", *settings)
    wanted = losses(lazy)
    busy = partial(ModelOptimiser, lazy=False)
    monkeypatch.setattr(trainable, "ModelOptimiser", lambda model, facts, lazy: busy(model, facts))
    other = prepared(corpus, tmp_path / "b", *settings)
    assert losses(other) == wanted
    one, two = weights_of(lazy.job.model), weights_of(other.job.model)
    assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own, as is:
@pytest.mark.filterwarnings("ignore::UserWarning:torch._inductor")
@pytest.mark.parametrize("unfreeze_every", [0, 4])
def test_captured_runs_resume_too(corpus, tmp_path, unfreeze_every):
    """But for the order in which a GPU adds."""
    settings = (f"optimiser.unfreeze_every={unfreeze_every}", "train.precision=fp32")
    named = {"world": World(0, 1, torch.device("cuda"))}
    wanted = losses(prepared(corpus, tmp_path / "a", *settings, **named))
    seen, second = broken_off(corpus, tmp_path / "b", *settings, **named)
    assert seen + losses(second, resume=True) == pytest.approx(wanted, rel=1e-4)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["adamw", "relative-adamw", "adafactor"])
@pytest.mark.parametrize("clip", [0.0, 0.3])
@pytest.mark.parametrize("unfreeze_every", [0, 3])
def test_a_captured_update_is_the_update(clip, unfreeze_every, kind):
    """Whichever of its steps were replayed; and no gradient is left."""
    facts = OptimiserConfig(
        kind=kind, rate=0.01, decay=0.1, clip=clip, layer_decay=0.9, unfreeze_every=unfreeze_every
    )
    models = [CLASSIFIER.build().cuda() for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    systems = [ModelOptimiser(models[0], facts, lazy=False), GraphedOptimiser(models[1], facts)]
    for step in range(1, 15):
        norms = []
        for model, updates in zip(models, systems, strict=True):
            draws = torch.Generator("cuda").manual_seed(step)
            for one in model.parameters():
                drawn = torch.randn(one.shape, generator=draws, device="cuda")
                one.grad = drawn if one.grad is None else one.grad.copy_(drawn)
            updates.unfreeze(step)
            norms.append(updates.step(1 / step).clone())
            updates.zero_grad()
        assert torch.equal(*norms)
        for one, other in zip(*(model.parameters() for model in models), strict=True):
            torch.testing.assert_close(other, one, rtol=1e-6, atol=1e-8)  # rates in fp32
            assert not other.grad.any()
    assert systems[1].graph is not None


def updated_alike(plain, graphed, device, steps=6):
    """Both optimisers change their models alike."""
    for step in range(1, steps):
        for (model, updates), kind in zip((plain, graphed), ("plain", "graphed"), strict=True):
            draws = torch.Generator(device).manual_seed(step)
            for one in model.parameters():
                drawn = torch.randn(one.shape, generator=draws, device=device)
                one.grad = drawn if one.grad is None else one.grad.copy_(drawn)
            updates.unfreeze(step)
            updates.step(1 / step)
            updates.zero_grad()
            assert kind == "plain" or not any(one.grad.any() for one in model.parameters())
        for one, other in zip(plain[0].parameters(), graphed[0].parameters(), strict=True):
            torch.testing.assert_close(other, one, rtol=1e-6, atol=1e-8)  # rates in fp32


def test_an_update_whose_capture_failed_is_eager(monkeypatch):
    """It is tried again when more levels learn."""
    tried = []
    monkeypatch.setattr(optimiser, "capture", lambda *given: tried.append(given))
    facts = OptimiserConfig(kind="adamw", rate=0.01, clip=0.3, unfreeze_every=3)
    models = [CLASSIFIER.build() for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    graphed = GraphedOptimiser(models[1], facts)
    plain = models[0], ModelOptimiser(models[0], facts, lazy=False)
    updated_alike(plain, (models[1], graphed), "cpu")
    assert len(tried) == 2 and graphed.graph is None
    assert not any(group["capturable"] for group in graphed.optimiser.param_groups)


@pytest.mark.gpu
@pytest.mark.parametrize("failures", [1, 2])
def test_an_update_whose_capture_fails_is_the_update(failures, monkeypatch):
    facts, left = OptimiserConfig(kind="adamw", rate=0.01, clip=0.3), [failures]
    models = [CLASSIFIER.build().cuda() for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    graphed, eager = GraphedOptimiser(models[1], facts), GraphedOptimiser._step

    def step(updates):
        norm = eager(updates)
        if torch.cuda.is_current_stream_capturing() and left[0]:
            left[0] -= 1
            torch.cuda.synchronize()
        return norm

    monkeypatch.setattr(GraphedOptimiser, "_step", step)
    expected = pytest.warns(RuntimeWarning, match="of the optimiser could not be captured")
    with expected if failures == 2 else nullcontext():
        plain = models[0], ModelOptimiser(models[0], facts, lazy=False)
        updated_alike(plain, (models[1], graphed), "cuda")
    assert (graphed.graph is None) == (failures == 2) and not left[0]


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own, as is:
@pytest.mark.filterwarnings("ignore::UserWarning:torch._inductor")
@pytest.mark.parametrize("compiled", ["true", "false"])
def test_captured_steps_leave_alone_what_does_not_learn(corpus, tmp_path, compiled):
    settings = (
        'optimiser.freeze=["embed"]',
        "optimiser.unfreeze_every=4",
        "optimiser.decay=0.5",
        "train.checkpoint_every=1",
        "train.average=12",
        f"train.compile={compiled}",
    )
    cuda = World(0, 1, torch.device("cuda"))
    run = prepared(corpus, tmp_path / "run", *settings, world=cuda)
    before = {name: one.cpu().clone() for name, one in weights_of(run.job.model).items()}
    assert losses(run)
    for step in (4, 8, 12):
        kept = run.job.checkpoints.load(step)[1]
        for name, tensor in kept["model"].items():
            awake = name.startswith(("pool.", "heads.", "trunk.blocks.1.")[: 2 + (step > 4)])
            awake |= step > 8 and name.startswith("trunk.blocks.0.")
            assert torch.equal(tensor, before[name]) != awake, (step, name)
            assert (f"{name}/exp_avg" in kept["optimiser"]) == awake


def test_a_run_leaves_frozen_weights_as_they_were(corpus, tmp_path):
    run = prepared(
        corpus, tmp_path / "a", 'optimiser.freeze=["embed"]', "train.ema=0.9", "optimiser.decay=0.5"
    )
    before = {name: one.clone() for name, one in weights_of(run.job.model).items()}
    *_, ended = train(run.job)
    run.finish(ended.progress)
    for name, one in weights_of(run.job.model).items():
        assert torch.equal(one, before[name]) == ("embed" in name), name


def test_names_are_looked_at_before_anything_is_written(corpus, tmp_path):
    with pytest.raises(BadInput, match=r"optimiser\.freeze: no weights are called 'bloks\.1'"):
        prepared(corpus, tmp_path / "run", 'optimiser.freeze=["bloks.1"]')
    assert not (tmp_path / "run").exists()


def test_a_run_begun_before_there_were_such_settings_goes_on(corpus, tmp_path):
    list(train(prepared(corpus, tmp_path / "run").job))
    path = tmp_path / "run" / "recipe.json"
    kept = json.loads(path.read_text())
    for name in ("layer_decay", "freeze", "unfreeze_every"):
        del kept["optimiser"][name]
    path.write_text(json.dumps(kept))
    prepared(corpus, tmp_path / "run", resume=True)
    path.write_text(json.dumps(kept))
    with pytest.raises(BadInput, match=r"differs in: optimiser\.layer_decay"):
        prepared(corpus, tmp_path / "run", "optimiser.layer_decay=0.5", resume=True)


@pytest.mark.parametrize("clip", [0.0, 0.01])
def test_the_penalty_of_mixtures_is_a_part_of_the_loss(clip):
    """A step is that of the loss + λ‖w‖², for w of every mixture, and for these alone."""
    words = change(lin.LAPTOP, vocab=20, width=8, embedding=16).with_heads(LabelHead(2))
    given = change(elmo.SMALL, width=4, cells=6, filters=((1, 4),), longest=8).trunk
    facts = change(words, features=Features(given, at="both"))
    inputs, after = torch.randint(1, 20, (5, 9)), []
    for penalty in (0.0, 0.3):
        torch.manual_seed(0)
        model = facts.build()
        mixtures = [mix.logits for mix in model.trunk.mixes.values()]
        assert len(mixtures) == 2
        with torch.no_grad():
            for number, weights in enumerate(mixtures):
                weights.copy_(torch.tensor([0.5, -1.0, 2.0]) + number)
        config = OptimiserConfig(kind="sgd", rate=0.1, mix_penalty=penalty, clip=clip)
        updates = ModelOptimiser(model.eval(), config)
        loss = model(pack([inputs.numpy()])).by_head["label"].square().sum()
        if not penalty:
            loss = loss + 0.3 * sum(weights.square().sum() for weights in mixtures)
        loss.backward()
        norm = updates.step(1.0)
        after.append((norm, weights_of(model)))
    torch.testing.assert_close(after[0][0], after[1][0])
    for name, expected in after[0][1].items():
        torch.testing.assert_close(after[1][1][name], expected)


def test_a_penalty_of_mixtures_needs_a_mixture():
    with pytest.raises(BadInput, match=r"optimiser\.mix_penalty: the model mixes no layers"):
        ModelOptimiser(CLASSIFIER.build(), OptimiserConfig(rate=0.1, mix_penalty=0.1))
    mixed = change(CLASSIFIER, mix=True).build()
    model_updates = ModelOptimiser(mixed, OptimiserConfig(rate=0.1, mix_penalty=0.1))
    assert [*map(id, model_updates.mixtures)] == [id(mixed.mix.logits)]


@pytest.mark.parametrize("build", SCHEDULES.values())
def test_warm_up_is_linear_and_ends_at_the_peak(build):
    factor = build(warmup=10, steps=100)
    lowest = {slanted: 1 / 32}.get(build, 0.0)
    line = [lowest + share * (1 - lowest) for share in (0.1, 0.5)]
    assert [factor(step) for step in (1, 5)] == pytest.approx(line)
    assert factor(10) == 1.0


@pytest.mark.parametrize("build", SCHEDULES.values())
def test_without_warm_up_it_starts_at_the_peak(build):
    assert build(warmup=0, steps=100)(1) == pytest.approx(1.0, abs=0.02)


def test_inverse_square_root():
    assert inverse_sqrt(100, 1000)(400) == pytest.approx(math.sqrt(100 / 400))


@pytest.mark.parametrize("build", SCHEDULES.values())
@pytest.mark.parametrize(("warmup", "steps"), [(0, 1), (1, 1), (0, 7), (3, 7), (7, 7), (9, 7)])
def test_every_step_changes_the_weights(build, warmup, steps):
    factor = build(warmup, steps)
    assert all(0 < factor(step) <= 1 for step in range(1, steps + 1))


@pytest.mark.parametrize("build", [linear, cosine])
@pytest.mark.parametrize(("warmup", "steps"), [(0, 1), (0, 10), (3, 10), (10, 110)])
def test_decays_are_those_of_transformers(build, warmup, steps):
    """Only its warm-up begins at rate 0, with a step that changes nothing; ours at the next."""
    import transformers

    theirs_by_name = f"get_{build.__name__}_schedule_with_warmup"
    sgd = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedule, theirs = getattr(transformers, theirs_by_name)(sgd, warmup, steps), []
    for _ in range(steps):
        theirs += schedule.get_last_lr()
        sgd.step()
        schedule.step()
    ours = [build(warmup, steps)(step) for step in range(1, steps + 1)]
    assert ours[warmup:] == pytest.approx(theirs[warmup:])
    assert ours[:warmup] == pytest.approx([*theirs[1:], 1.0][:warmup])
    assert schedule.get_last_lr() == pytest.approx([0.0])  # after the last step
    assert build(warmup, steps)(steps + 1) == pytest.approx(0.0)


def test_cosine_is_that_of_torch():
    sgd = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(sgd, T_max=8)
    for step in range(1, 9):
        assert cosine(0, 8)(step) == pytest.approx(schedule.get_last_lr()[0])
        sgd.step()
        schedule.step()


def test_constant():
    assert constant(3, 100)(99) == 1.0


def test_slanted_triangles():
    """Howard & Ruder's equation 3 with its symbols: T, cut_frac, ratio."""
    steps, cut_frac, ratio = 200, 0.1, 32
    cut = int(steps * cut_frac)
    factor = slanted(cut, steps)
    for step in range(1, steps + 1):
        share = step / cut if step < cut else 1 - (step - cut) / (cut * (1 / cut_frac - 1))
        assert factor(step) == pytest.approx((1 + share * (ratio - 1)) / ratio)
    assert factor(cut) == 1 and factor(steps) == pytest.approx(1 / 32)
    assert OptimiserConfig(rate=0.1, warmup=cut_frac).warmup_steps(steps) == cut
    assert OptimiserConfig(rate=0.1, warmup=30).warmup_steps(steps) == 30
    assert slanted(0, 10)(1) <= 1 and slanted(5, 10)(99) == 1 / 32
