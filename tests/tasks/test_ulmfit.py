"""From a language model to one of other texts to a classifier of these: weights are carried on."""

import pytest
import torch

import regard
from regard.core.errors import BadInput
from regard.models.folders import folder as folders
from regard.models.start import select_tokens
from regard.training.distributed import World
from regard.training.loop import train
from regard.training.loop.events import DevEvent
from regard.training.recipe import read
from regard.training.run import prepare
from regard.weights.files import weights_of
from small_runs import check_resume, losses
from small_tuning import write_start, write_tuning
from small_ulmfit import ALONE, prepared, write_stages
from verb import run

EPOCHS = ("optimiser.unfreeze_every=epoch", "optimiser.layer_decay=0.8")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """The data, with the models of the first two stages."""
    folder = write_stages(tmp_path_factory.mktemp("stages"))
    for stage in ("general", "reviews"):
        run("train", folder / f"{stage}.toml", "--data", folder, "--out", folder / stage)
    return folder


def test_tokens_of_another_vocabulary():
    vectors_VD = torch.tensor([[0.0, 3.0], [1.0, 2.0], [5.0, 4.0]])
    found = select_tokens(vectors_VD, [2, None, 0, None])
    assert found.tolist() == [[5, 4], [2, 3], [0, 3], [2, 3]]
    assert select_tokens(vectors_VD[:, 0], [None, 1]).tolist() == [2, 1]


def test_known_words_keep_their_vectors_and_others_begin_with_the_mean(corpus, tmp_path):
    stage = prepared(corpus, "reviews", tmp_path / "run")
    general = folders.read(corpus / "general" / "model")
    theirs, ours = weights_of(general.module), weights_of(stage.job.model)
    assert theirs.keys() == ours.keys()
    for name in ("trunk.embed.token.weight", "heads.next_token.bias"):
        for word in ("the", "sees", ".", "<eos>", "<unk>"):
            number = stage.tokenizer.words.number(word)
            before = general.tokenizer.words.number(word)
            assert torch.equal(ours[name][number], theirs[name][before])
        for word in ("film", "good"):
            assert not general.tokenizer.words.has(word)
            new = ours[name][stage.tokenizer.words.number(word)]
            torch.testing.assert_close(new, theirs[name].mean(0))
        assert len(ours[name]) == len(stage.tokenizer.words)
    for name in theirs.keys() - {"trunk.embed.token.weight", "heads.next_token.bias"}:
        assert torch.equal(ours[name], theirs[name]), name
    (said,) = stage.job.remarks
    assert said == "5 words begin with vectors of general/model, 4 with the mean of all"
    assert losses(stage)


def test_a_transformer_may_have_another_vocabulary_too(tmp_path):
    recipe, start = write_tuning(tmp_path, "one"), write_start(tmp_path / "start")
    changed = ("model.size=", "model.change={dropout=0.0}", "model.vocabulary=text")
    settings = (f"model.start={start}", *changed, "text.vocab=60")
    tuned = prepare(read(recipe, settings), tmp_path / "run", ALONE, data=tmp_path)
    words, before = tuned.tokenizer.words, folders.read(start).tokenizer.words
    theirs, ours = weights_of(folders.read(start).module), weights_of(tuned.job.model)
    name = "trunk.embed.token.weight"
    for piece in ("[CLS]", "[SEP]", "o"):
        assert torch.equal(ours[name][words.number(piece)], theirs[name][before.number(piece)])
    new = words.number("owl")
    assert not before.has("owl")
    torch.testing.assert_close(ours[name][new], theirs[name].mean(0))
    assert len(ours[name]) == len(words) != len(before) and losses(tuned)


@pytest.mark.slow
def test_the_classifier_begins_with_the_language_model_and_learns(corpus, tmp_path):
    once = [f"train.{what}=90" for what in ("steps", "evaluate_every", "checkpoint_every")]
    settings = (*once, "optimiser.rate=0.05")
    run_ = prepared(corpus, "labels", tmp_path / "run", *settings, *EPOCHS)
    start = folders.read(corpus / "reviews" / "model")
    given, own = weights_of(start.module), weights_of(run_.job.model)
    assert all(torch.equal(own[name], given[name]) for name in own if name.startswith("trunk."))
    assert run_.paper.name == "ULMFiT" and own["heads.label.norms.0.weight"].shape == (24,)
    *_, last = [event for event in train(run_.job) if isinstance(event, DevEvent)]
    assert last.verdict.figures["accuracy"] > 90
    run_.finish(last.progress)
    model = regard.load(run_.model_folder)
    assert weights_of(model.module)["heads.label.norms.0.running_mean"].any()
    good, bad = model.predict(["the plot . good .", "the plot . bad ."])
    assert (good.label, bad.label) == ("pos", "neg")
    assert model.embed(["the film"]).shape == (1, 8)
    assert model.embed(["the film"], pool="pooled").shape == (1, 24)
    recipe = corpus / "labels.toml"
    said = run("evaluate", run_.model_folder, recipe, "--data", corpus, "--json").stdout
    assert '"accuracy"' in said
    said = run("predict", run_.model_folder, stdin="the film the film . good\n").stdout
    assert said.startswith("pos")


def test_resume_across_unfreezing_is_exact(corpus, tmp_path):
    """It dies in the third epoch, after a checkpoint in the second."""

    def begin(out, resume):
        return prepared(corpus, "labels", out, *EPOCHS, resume=resume)

    straight = check_resume(begin, tmp_path, 8, 6)
    assert any("running_var" in name for name in weights_of(straight.job.model))


@pytest.mark.gpu
def test_a_gpu_gives_the_same_losses(corpus, tmp_path, monkeypatch):
    """Without TF32, whose errors grow from step to step at the rate of this recipe."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    rates = ("hidden_dropout=0.0", "weight_drop=0.0", "rates=[0.0, 0.0]")
    settings = [*EPOCHS, *(f"model.change.{rate}" for rate in rates)]
    cpu = losses(prepared(corpus, "labels", tmp_path / "cpu", *settings))
    recipe, cuda = read(corpus / "labels.toml", settings), World(0, 1, torch.device("cuda"))
    found = losses(prepare(recipe, tmp_path / "cuda", cuda, data=corpus))
    assert found == pytest.approx(cpu, abs=0.02)


def test_a_recurrent_language_model_tags_too(corpus, tmp_path):
    (tmp_path / "train.conll").write_text("the O\nfilm THING\n\ngood O\nplot THING\n\n" * 8)
    files = '{ reader = "CoNLL", file = "train.conll" }'
    recipe = (corpus / "labels.toml").read_text().replace('"classify"', '"tag"')
    for name in ("train", "dev", "test"):
        recipe = recipe.replace(
            f'{name} = {{ table = "train.tsv", columns = ["text", "label"] }}', f"{name} = {files}"
        )
    recipe = recipe.replace("rates = [0.1, 0.0]", "")
    (tmp_path / "tags.toml").write_text(f'{recipe}\n[labels]\nscheme = ""\n')
    (tmp_path / "reviews").symlink_to(corpus / "reviews")
    done = run("train", tmp_path / "tags.toml", "--data", tmp_path, "--out", tmp_path / "run")
    assert done.exit_code == 0, done.output
    assert run("predict", tmp_path / "run" / "model", stdin="the plot\n").stdout


@pytest.mark.parametrize(
    ("stage", "settings", "said"),
    [
        (
            "labels",
            ["model.vocabulary=text", "model.start="],
            "needs model.start, a folder without parts",
        ),
        ("reviews", ["model.vocabulary=start"], "beside model.start, which has a tokenizer"),
        ("reviews", ["text.kind=wordpice"], "no kind 'wordpice'"),
    ],
)
def test_settings_that_do_not_fit(corpus, stage, settings, said):
    with pytest.raises(BadInput, match=said):
        read(corpus / f"{stage}.toml", settings)


def test_words_and_marks_are_for_models_of_words(corpus):
    with pytest.raises(BadInput, match=r"text\.kind cannot be used"):
        read(corpus / "general.toml", ["model.paper=bert", "model.change={}", "objective=false"])
