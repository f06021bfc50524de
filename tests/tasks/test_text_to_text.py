"""Task tokens end to end: a causal model learns answers, writes them, and stops."""

import json

import pytest
import torch

import regard
from regard.core.errors import BadInput
from regard.generation import Beam, Greedy
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer, train_encoder_tokenizer
from regard.training.loop.events import ReportEvent
from regard.training.recipe import read, task_of
from regard.training.run import prepare
from small import WORDS
from small_answers import write_answers
from small_gpt import write_gpt2
from small_runs import ALONE

COPIES = [(word, word) for word in WORDS]
SIZES = {"width": 32, "depth": 1, "heads": 2, "inner": 64, "longest": 48, "init_std": 0.1}
CHANGED = {
    "model.change": {**SIZES, "dropout": 0.0, "attention_dropout": 0.0},
    "train.steps": 60,
    "train.smoothing": 0.0,
    "train.evaluate_every": 60,
    "train.checkpoint_every": 60,
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_answers(tmp_path_factory.mktemp("answers"))


@pytest.fixture(scope="module")
def copied(corpus, tmp_path_factory):
    """A model that repeats a word, and its events."""
    out = tmp_path_factory.mktemp("copied") / "run"
    data = {"train": COPIES * 4, "dev": COPIES, "test": COPIES}
    events = [*regard.train(corpus, data, out, settings=CHANGED, device="cpu")]
    return regard.load(out / "model", "cpu"), events


def test_it_learns_answers_and_stops(copied):
    model, events = copied
    reports = [event.loss for event in events if isinstance(event, ReportEvent)]
    assert reports[-1] < 0.2 * reports[0]
    for word, (best, *_) in zip(WORDS, model.generate(WORDS), strict=True):
        assert (best.text, best.ended) == (word, "eos")
        assert best.hypothesis.finished
    (scores,) = [event.scores for event in events if hasattr(event, "scores")]
    assert {score.name: score.value for score in scores}["exact match"] == 100
    assert {score.name: score.value for score in scores}["TER"] == 0


def test_a_prompt_ends_with_the_task_token(copied):
    model, _ = copied
    words = model.tokenizer.words
    (row,) = model.generator.read_prompts(["cow"])
    assert row == [*words.encode("cow"), words.number("<reverse>")]
    assert model.generate([row])[0][0].text == "cow"  # ids are read as given
    assert "".join(model.stream("cow", Greedy())) == "cow"
    assert words.number("<reverse>") not in words.encode("<reverse>")  # a text is no task token


@pytest.mark.parametrize("search", [Greedy(), Beam(3, best=2)], ids=str)
def test_a_batch_gives_what_its_texts_give_alone(copied, search):
    model, _ = copied
    texts = ["cow", "cow owl", "", "an unseen wörd", "fox " * 5]
    together = model.generate(texts, search)
    for text, found in zip(texts, together, strict=True):
        (alone,) = model.generate([text], search)
        assert [one.hypothesis.tokens for one in found] == [one.hypothesis.tokens for one in alone]


def test_a_converted_folder_reads_the_task_token_too(copied, tmp_path):
    model, _ = copied
    model.save(tmp_path / "hf", format="hf")
    again = regard.load(tmp_path / "hf", "cpu")
    expected = [one[0].text for one in model.generate(WORDS, Greedy())]
    assert [one[0].text for one in again.generate(WORDS, Greedy())] == expected
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    number = model.tokenizer.words.number("<reverse>")
    assert theirs("cow<reverse>")["input_ids"] == model.generator.read_prompts(["cow"])[0]
    assert theirs.convert_tokens_to_ids("<reverse>") == number == len(theirs) - 1


@pytest.mark.parametrize("longest", [0, 2])
def test_of_long_texts_the_beginning_is_read(corpus, longest, tmp_path):
    recipe = read(corpus, [f"prompt.longest={longest}"])
    run = prepare(recipe, tmp_path / "run", ALONE, data=corpus.parent)
    words, objective = run.tokenizer.words, run.job.objective
    text, answer = words.encode("cow owl fox"), words.encode("fox owl cow")
    assert len(text) > len({*text[:2]}) == 2
    beginning = text[:longest] if longest else text
    row = [*beginning, words.number("<reverse>"), *answer]
    assert objective.collate([(text, answer)]).inputs.tokens_T.tolist() == row
    assert objective.length((text, answer)) == (len(row),)
    run.release()


def test_a_model_of_another_prompt_is_refused(corpus, copied):
    model, _ = copied
    task = task_of(read(corpus, ["prompt.task_token=<to-de>"]))
    with pytest.raises(BadInput, match=r"trained with the prompt .*<reverse>.*not .*<to-de>"):
        task.test_scores(model, [("here", "cow", "cow")])


@pytest.mark.parametrize("token", ["reverse", "<>", "<a b>", "<1>", "</s>", ""])
def test_a_task_token_looks_like_one(corpus, token):
    with pytest.raises(BadInput, match=r"prompt.task_token"):
        read(corpus, {"prompt.task_token": token})


def test_a_bidirectional_model_is_refused(corpus, tmp_path):
    recipe = read(corpus, ["model.paper=bert", "model.size=tiny", "model.change={}"])
    with pytest.raises(BadInput, match="this task needs a causal model"):
        prepare(recipe, tmp_path / "run", ALONE, data=corpus.parent)


def started(folder, **settings):
    """Settings that begin with a folder."""
    begin = {"model.start": str(folder), "model.size": None, "text": False, "model.change": {}}
    return begin | {"prompt.longest": 12} | settings


def published(folder, kind):
    """A folder of ``transformers``, whose tokenizer was saved by regard or by ``transformers``."""
    transformers = pytest.importorskip("transformers")
    write_gpt2(folder)
    if kind == "transformers":
        transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(folder)
    if kind == "merges":
        (folder / "tokenizer.json").unlink()
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["regard", "transformers", "merges"])
def test_a_start_learns_the_task_token(corpus, kind, tmp_path):
    start = published(tmp_path / "start", kind)
    given = regard.load(start, "cpu")
    recipe = read(corpus, started(start))
    run = prepare(recipe, tmp_path / "begun", ALONE, data=corpus.parent)
    before, now = (
        one.state_dict()["trunk.embed.token.weight"] for one in (given.module, run.job.model)
    )
    assert torch.equal(now[:-1], before) and now[-1].any()
    assert run.tokenizer.words.number("<reverse>") == len(before)
    run.release()

    settings = started(start, **{"train.steps": 2, "train.evaluate_every": 2})
    for _ in regard.train(corpus, corpus.parent, tmp_path / "run", settings=settings, device="cpu"):
        pass
    model = regard.load(tmp_path / "run" / "model", "cpu")
    model.save(tmp_path / "hf", format="hf")
    assert regard.load(tmp_path / "hf", "cpu").generator.search == model.generator.search
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "hf").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    (row,) = model.generator.read_prompts(["The dog"])
    assert tokenizer("The dog<reverse>")["input_ids"] == row and row[-1] == len(before)
    with torch.inference_mode():
        expected = theirs(torch.tensor([row])).logits[0]
    torch.testing.assert_close(model.logits([row])[0], expected, rtol=0, atol=1e-5)


def test_rows_that_are_longer_than_the_model_reads_are_refused(corpus, tmp_path):
    start = published(tmp_path / "start", "regard")
    recipe = read(corpus, started(start, **{"prompt.longest": 40}))
    said = r"^data.dev: a row has \d+ tokens, but the model has 48 positions: set prompt.longest"
    with pytest.raises(BadInput, match=said):
        prepare(recipe, tmp_path / "run", ALONE, data=corpus.parent)


def test_a_start_that_knows_the_task_token_stays_as_large(corpus, copied, tmp_path):
    model, _ = copied
    model.save(tmp_path / "start")
    recipe = read(corpus, started(tmp_path / "start"))
    run = prepare(recipe, tmp_path / "run", ALONE, data=corpus.parent)
    assert run.facts.sizes["tokens"] == model.facts.sizes["tokens"]
    assert run.tokenizer.words.fingerprint == model.tokenizer.words.fingerprint
    run.release()


def test_a_broken_note_is_one_line(copied, tmp_path):
    model, _ = copied
    model.save(tmp_path / "broken")
    config = json.loads((tmp_path / "broken" / "config.json").read_text())
    config["notes"]["prompt"] = {"task_token": 7}
    (tmp_path / "broken" / "config.json").write_text(json.dumps(config))
    with pytest.raises(BadInput, match=r"notes.prompt does not describe a prompt"):
        regard.load(tmp_path / "broken", "cpu").generate(["cow"])


def test_further_special_tokens_are_part_of_the_vocabulary(tmp_path):
    tokens = ("<to-de>", "<to-fr>")
    learned = train_encoder_tokenizer(
        WORDS * 3, "gpt2-bpe", 300, lower=False, longest=None, special_tokens=tokens
    )
    learned.save(tmp_path)
    again = EncoderTokenizer.load(tmp_path)
    assert again is not None and len(again.words) == len(learned.words) <= 300
    for one in tokens:
        assert again.words.number(one) == learned.words.number(one)
        assert again.words.decode([again.words.number(one)]) == ""
    with pytest.raises(BadInput, match=r"has <\|endoftext\|> already"):
        train_encoder_tokenizer(
            WORDS, "gpt2-bpe", 300, lower=False, special_tokens=["<|endoftext|>"]
        )
