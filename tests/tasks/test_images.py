"""Images through the task "classify": trained, resumed, predicted, tuned at another resolution."""

import json
import re

import numpy as np
import pytest
import torch

import regard
from regard.core.batch import pack_images
from regard.core.errors import BadInput
from regard.data.readers.memory import MemoryExamples
from regard.images import processor
from regard.images.processor import ImageProcessor
from regard.models.label_heads import LabelHead
from regard.models.papers.deit import DistilledLabelHead
from regard.models.pools import MeanPool
from regard.training.loop import train
from regard.training.recipe import read
from regard.training.run import prepare
from regard.weights.files import read_folder
from small_bert import model as small_bert
from small_images import corners, small_vit, write_corners, write_images
from small_runs import ALONE
from verb import run as verb

IMAGES, NUMBERS = corners(12, 2)
NAMES = ["left", "right"]


def prepared(folder, out, *settings, **options):
    return prepare(read(folder / "corners.toml", settings), out, ALONE, data=folder, **options)


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """A folder of images with a recipe, and a model trained on them: ``run / "model"``."""
    folder = tmp_path_factory.mktemp("corners")
    write_corners(folder)
    run = prepared(folder, folder / "run")
    *_, ended = train(run.job)
    run.finish(ended.progress)
    return folder


@pytest.fixture(scope="module")
def model(job):
    return regard.load(job / "run" / "model", "cpu")


def test_it_has_learned(model):
    labels = [one.label for one in model.predict(IMAGES)]
    assert labels == [NAMES[number] for number in NUMBERS]
    assert isinstance(model.tokenizer, ImageProcessor) and model.tokenizer.size == (8, 8)


def test_one_image_is_no_list_of_images(model):
    for call in (model.predict, model.embed, model.logits):
        with pytest.raises(BadInput, match="give a list of images, not one image"):
            call("x.png")


def test_an_image_does_not_depend_on_the_others(model):
    together = model.logits(IMAGES)
    alone = [model.logits([image], batch_size=1)[0] for image in IMAGES]
    torch.testing.assert_close(torch.stack(together), torch.stack(alone))
    assert model.embed(IMAGES).shape == (12, 16)
    assert [states.shape for states in model.encode(IMAGES[:2])] == [(5, 16)] * 2
    first = torch.stack([states[0] for states in model.encode(IMAGES)])
    torch.testing.assert_close(model.embed(IMAGES, pool="first"), first)
    torch.testing.assert_close(model.embed(IMAGES), first)
    averaged = small_vit(prefix_tokens=0, pool="mean")
    torch.testing.assert_close(averaged.embed(IMAGES), averaged.embed(IMAGES, pool="mean"))
    with pytest.raises(BadInput, match="pool 'first': this model has no class token"):
        averaged.embed(IMAGES, pool="first")
    concat = small_vit(pool="concat")
    first = torch.stack([states[0] for states in concat.encode(IMAGES)])
    torch.testing.assert_close(concat.embed(IMAGES, pool="first"), first)


def test_what_reads_texts_is_refused(model):
    for call in (lambda: model.fill(["left"]), lambda: model.score(["left"])):
        with pytest.raises(BadInput, match="reads images, not texts"):
            call()
    with pytest.raises(BadInput, match="cannot be read"):
        model.predict(["no such file.png"])
    with pytest.raises(BadInput, match="is not an image"):
        model.predict([np.zeros((8, 8))])


def test_evaluation_scores_the_test_set(job):
    found = verb("evaluate", job / "run" / "model", job / "corners.toml", "--data", job, "--json")
    assert json.loads(found.stdout)["accuracy"] > 90


def test_files_are_predicted_one_by_one_or_by_folders(job, tmp_path):
    image = pytest.importorskip("PIL.Image")
    for number, pixels in enumerate(IMAGES[:3]):
        image.fromarray(pixels).save(tmp_path / f"{number}.png")
    (tmp_path / "list.txt").write_text(f"{tmp_path / '2.png'}\n\n{tmp_path / '0.png'}\n")
    expected = [NAMES[number] for number in NUMBERS[:3]]

    def labels(given):
        lines = verb("predict", job / "run" / "model", given).stdout.split("\n")[:-1]
        return [line.split("\t")[0] for line in lines]

    lines = verb("predict", job / "run" / "model", tmp_path).stdout.splitlines()
    paths = [str(tmp_path / f"{number}.png") for number in range(3)]
    assert [line.split("\t")[0] for line in lines] == paths
    assert [line.split("\t")[1] for line in lines] == expected
    found = verb("predict", job / "run" / "model", tmp_path / "list.txt", "--json").stdout
    images = [json.loads(line).get("image") for line in found.splitlines()]
    assert images == [paths[2], None, paths[0]]
    assert labels(tmp_path / "1.png") == expected[1:2]
    assert labels(tmp_path / "list.txt") == [expected[2], "", expected[0]]
    (tmp_path / "1.png").write_bytes(b"no image")
    failed = verb("predict", job / "run" / "model", tmp_path, code=2)
    assert "1.png: cannot be read as an image" in failed.stderr


def test_images_in_memory_are_trained_on(job, tmp_path):
    """The same events as from the file, and another fingerprint for other pixels."""
    given = [(image, NAMES[number]) for image, number in zip(*corners(64, 3), strict=True)]
    recipe, data = job / "corners.toml", {"train": given, "dev": given[:8], "test": given[:8]}
    settings = ["train.steps=2", "train.evaluate_every=2", "train.report_every=1"]
    events = [*regard.train(recipe, data=data, out=tmp_path / "run", settings=settings)]
    reports = [line for event in events if event.figures for line in event.lines(2)]
    assert re.search(r"  [\d,]+ images/s  ", reports[0]) and "tok/s" not in "".join(reports)
    pixels = given[0][0].copy()
    pixels[0, 0, 0] ^= 1
    one, other = (MemoryExamples("train", [(image, "left")]) for image in (given[0][0], pixels))
    assert one.fingerprint != other.fingerprint


def test_a_resumed_run_refuses_images_of_which_others_are_held_out(tmp_path):
    write_corners(tmp_path)
    write_images(tmp_path / "classes", 40, folders=2)
    files = 'data.train={file="classes", reader="image-folder"}'
    settings = (files, "data.test=", "train.steps=2", "images.workers=0")
    list(train(prepared(tmp_path, tmp_path / "run", *settings).job))
    (tmp_path / "classes/0/00001.png").write_bytes((tmp_path / "classes/0/00000.png").read_bytes())
    again = prepared(tmp_path, tmp_path / "run", *settings, resume=True)
    with pytest.raises(BadInput, match=r"data was 8 images, .*, is 9 images, .*held_out"):
        next(iter(train(again.job, resume=True)))


def test_a_resumed_run_is_bit_exact(job, tmp_path):
    whole, parts = (prepared(job, tmp_path / name, "train.steps=20") for name in ("a", "b"))
    *_, ended = train(whole.job)
    whole.finish(ended.progress)
    for event in train(parts.job):
        if event.figures and event.figures.get("step") == 10:
            break
    parts.lock.release()
    again = prepared(job, tmp_path / "b", "train.steps=20", resume=True)
    *_, ended = train(again.job)
    again.finish(ended.progress)
    one, other = (read_folder(tmp_path / name / "model") for name in ("a", "b"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_model_is_tuned_at_another_resolution(job, tmp_path):
    pytest.importorskip("PIL")
    start = f"model.start={job / 'run' / 'model'}"
    run = prepared(
        job,
        tmp_path / "run",
        *(start, "model.size=", "model.change={image_size=16}", "train.steps=20"),
    )
    assert run.job.model.trunk.embed.position.weight.shape == (17, 16)
    *_, ended = train(run.job)
    run.finish(ended.progress)
    tuned = regard.load(tmp_path / "run" / "model", "cpu")
    assert tuned.tokenizer.size == (16, 16)
    assert [one.label for one in tuned.predict(IMAGES)] == [NAMES[n] for n in NUMBERS]


def test_a_tuned_model_crops_as_the_one_it_starts_from(job, tmp_path):
    pytest.importorskip("PIL")
    cropped = ImageProcessor(size=10, crop=(8, 8), crop_offset="round")
    small_vit().save(tmp_path / "start")
    cropped.save(tmp_path / "start")
    changes = (f"model.start={tmp_path / 'start'}", "model.size=", "model.change={}")
    run = prepared(job, tmp_path / "run", *changes, "train.steps=1")
    *_, ended = train(run.job)
    run.finish(ended.progress)
    assert regard.load(tmp_path / "run" / "model", "cpu").tokenizer == cropped


def test_images_and_patches_that_are_no_squares(job, tmp_path):
    sizes = "width=16, depth=1, heads=2, inner=16, patch_size=[4, 3], image_size=[8, 12]"
    steps = [f"train.{key}=2" for key in ("steps", "evaluate_every", "checkpoint_every")]
    run = prepared(job, tmp_path / "run", f"model.change={{{sizes}, normed=true}}", *steps)
    *_, ended = train(run.job)
    run.finish(ended.progress)
    model = regard.load(tmp_path / "run" / "model", "cpu")
    assert model.facts.trunk.embed.grid == (2, 4) and model.tokenizer.size == (8, 12)
    assert len(model.predict(IMAGES[:3])) == 3
    assert model.look(IMAGES[0]).maps[0].weights.shape[-1] == 1 + 2 * 4
    model.save(tmp_path / "again", "regard")
    again = regard.load(tmp_path / "again", "cpu")
    assert again.facts == model.facts and again.tokenizer == model.tokenizer


@pytest.mark.slow
def test_patches_are_averaged_where_there_is_no_class_token(job, tmp_path):
    changes = ("model.change.pool=mean", "model.change.prefix_tokens=0")
    run = prepared(job, tmp_path / "run", *changes)
    *_, ended = train(run.job)
    run.finish(ended.progress)
    tuned = regard.load(tmp_path / "run" / "model", "cpu")
    assert tuned.facts.pool == MeanPool()
    assert [one.label for one in tuned.predict(IMAGES)] == [NAMES[n] for n in NUMBERS]
    with pytest.raises(BadInput, match="cannot express"):
        tuned.save(tmp_path / "hf", "hf")


def test_hugging_face_reads_what_was_trained(model, tmp_path):
    transformers = pytest.importorskip("transformers")
    model.save(tmp_path / "hf", "hf")
    theirs = transformers.ViTForImageClassification.from_pretrained(tmp_path / "hf").eval()
    numbers = np.stack([row.read() for row in model.tokenizer.rows(IMAGES)])
    with torch.no_grad():
        expected = theirs(torch.from_numpy(numbers)).logits
    torch.testing.assert_close(torch.stack(model.logits(IMAGES)), expected, rtol=1e-5, atol=1e-5)
    again = regard.load(tmp_path / "hf", "cpu")
    assert again.tokenizer == model.tokenizer and again.labels.names == model.labels.names


def test_without_a_processor_it_reads_numbers_only(model, tmp_path):
    model.save(tmp_path / "hf", "hf")
    (tmp_path / "hf" / "preprocessor_config.json").unlink()
    bare = regard.load(tmp_path / "hf", "cpu")
    numbers = [row.read() for row in model.tokenizer.rows(IMAGES)]
    torch.testing.assert_close(bare.logits(numbers), model.logits(IMAGES))
    with pytest.raises(BadInput, match=r"no preprocessor_config\.json"):
        bare.logits(IMAGES)


def test_a_model_learns_from_the_predictions_of_another(job, tmp_path):
    """From them alone: the labels count for nothing, and are wrong besides."""
    teacher = f"distillation.teacher={job / 'run' / 'model'}"
    names = 'data.train={file="corners.npz", reader="npz", options={names=["right", "left"]}}'
    settings = (teacher, "distillation.weight=1.0", "train.metric=loss", names, "train.seed=7")
    run = prepared(job, tmp_path / "run", *settings)
    *_, ended = train(run.job)
    run.finish(ended.progress)
    student = regard.load(tmp_path / "run" / "model", "cpu")
    assert [one.label for one in student.predict(IMAGES)] == [NAMES[n] for n in NUMBERS]


@pytest.mark.slow
def test_the_distillation_token_of_a_deit_learns_from_a_teacher(job, tmp_path):
    """Its labels are wrong, so each head has learned the opposite of the other."""
    teacher = f"distillation.teacher={job / 'run' / 'model'}"
    names = 'data.train={file="corners.npz", reader="npz", options={names=["right", "left"]}}'
    settings = (teacher, "distillation.kind=hard", "train.metric=loss", names, "model.paper=deit")
    plain = ("images.mixup=0.0", "images.cutmix=0.0", "model.change.init_std=0.5")
    run = prepared(job, tmp_path / "run", *settings, *plain)
    *_, ended = train(run.job)
    run.finish(ended.progress)
    student = regard.load(tmp_path / "run" / "model", "cpu")
    assert student.facts.output_heads == (DistilledLabelHead(2),)
    rows = np.stack([row.read() for row in student.tokenizer.rows(IMAGES)])
    with torch.no_grad():
        outputs = student.module(pack_images(torch.from_numpy(rows)))
    of_class, of_teacher = outputs.by_head["label_layers"].argmax(-1)
    order = [student.labels.names.index(name) for name in NAMES]
    assert of_teacher.tolist() == [order[number] for number in NUMBERS]
    assert of_class.tolist() == [order[1 - number] for number in NUMBERS]
    torch.testing.assert_close(torch.stack(student.logits(IMAGES)), outputs.by_head["label"])
    student.save(tmp_path / "hf", "hf")
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert config["architectures"] == ["DeiTForImageClassificationWithTeacher"]


def test_a_deit_without_a_teacher_classifies_its_class_token(job, tmp_path):
    run = prepared(job, tmp_path / "run", "model.paper=deit", "train.steps=1")
    assert run.facts.output_heads == (LabelHead(2),) and run.facts.pool.first_read == 1


def test_two_heads_need_two_tokens(job, tmp_path):
    teacher = f"distillation.teacher={job / 'run' / 'model'}"
    with pytest.raises(BadInput, match=r"pool: a distilled label head needs the pool"):
        prepared(job, tmp_path / "run", teacher, "model.paper=deit", "model.change.pool=mean")


def test_a_teacher_of_texts_teaches_no_images(job, tmp_path):
    small_bert("one").save(tmp_path / "bert")
    with pytest.raises(BadInput, match="one of teacher and student reads texts, the other images"):
        prepared(job, tmp_path / "run", f"distillation.teacher={tmp_path / 'bert'}")


@pytest.mark.parametrize("crop", [None, (8, 8)])
def test_files_of_the_development_set_are_decoded_once(job, tmp_path, monkeypatch, crop):
    """The scores are those of images that are decoded, and cropped, at each evaluation."""
    pytest.importorskip("PIL")
    small_vit(("0", "1")).save(tmp_path / "start")
    ImageProcessor(size=10 if crop else (8, 8), crop=crop).save(tmp_path / "start")
    start = (f"model.start={tmp_path / 'start'}", "model.size=", "model.change={}")
    write_images(tmp_path / "images", 40, folders=2)
    files = 'data.{}={{file="images", reader="image-folder"}}'
    settings = ("images.workers=0", *start, *map(files.format, ("train", "dev", "test")))
    recipe = read(job / "corners.toml", settings)
    reads = []
    opened = processor.read_bytes
    monkeypatch.setattr(processor, "read_bytes", lambda path: reads.append(path) or opened(path))
    found = []
    for most in (1 << 30, 100):
        monkeypatch.setattr("regard.tasks.image_labels.MOST_KEPT", most)
        run = prepare(recipe, tmp_path / f"run-{most}", ALONE, data=tmp_path)
        reads.clear()
        found.append([run.job.evaluate(run.job.model.eval()) for _ in range(2)])
        assert len(reads) == (0 if most > 100 else 4 * 40)
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (["text.vocab=100"], r"text\.vocab"),
        (["images.mean=[0.5,0.5]"], r"images\.mean: 2 numbers, but the model reads 3"),
        (["images.operations=0"], r"images\.magnitude .* without images\.operations"),
        (["labels.kind=several"], r"images\.mixup .* where an image has not one label"),
        (["model.paper=bert"], r"images\.crop"),
        (["model.change.image_size=9"], "9 pixels are not divisible by patch_size"),
        (["model.change.image_size=[8, 9]"], "9 pixels are not divisible by patch_size"),
        (["model.change.image_size=[8, 8]"], "one number for a square, or height and width"),
        (["model.change.image_size=[8]"], "one number for a square, or height and width"),
        (['model.change.image_size="8"'], "image_size of Patches must be int"),
        (["model.change.prefix_tokens=0"], "but prefix_tokens is 0; pool = .mean. needs none"),
        (["distillation.teacher=teacher"], r"distillation\.teacher"),
    ],
)
def test_keys_that_do_not_fit_are_refused(job, settings, reason, tmp_path):
    with pytest.raises(BadInput, match=reason):
        prepared(job, tmp_path / "run", *settings)
