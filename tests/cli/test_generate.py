"""regard generate: lines, JSON, samples, streams, and prompts typed at a terminal."""

import json

import pytest

import regard
from regard.generation import Beam, Greedy, Sample
from regard.inference.decoder_model import ONE_LINE
from regard.inference.generator import Ending
from small_gpt import write_gpt2
from verb import run

pytest.importorskip("transformers")

PROMPTS = ["The old man", "", "A dog barks at"]
LINES = "\n".join(PROMPTS) + "\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_gpt2(tmp_path_factory.mktemp("gpt2"), repetition_penalty=1.5)


@pytest.fixture(scope="module")
def model(folder):
    return regard.load(folder, "cpu")


def generate(folder, *options, **how):
    return run("generate", folder, "--device", "cpu", "--max-new-tokens", 9, *options, **how)


def lines(found, best: int = 1) -> str:
    """What is printed for continuations."""
    return "".join(one.text.translate(ONE_LINE) + "\n" for n in found for one in n[:best])


OPTIONS = [
    ((), Greedy(repetition_penalty=1.5)),
    (("--repetition-penalty", 1), Greedy()),
    (("--top-p", 0.8, "--seed", 3), Sample(top_p=0.8, seed=3, repetition_penalty=1.5)),
    (("--search", "sample", "--no-repeat", 2), Sample(no_repeat=2, repetition_penalty=1.5)),
    (("--beam", 3, "--repetition-penalty", 1), Beam(3)),
    (
        ("--search", "beam", "--beam", 2, "--stop", "transformers", "--length", "power"),
        Beam(2, length="power", stop="transformers", repetition_penalty=1.5),
    ),
]


@pytest.mark.parametrize(("options", "search"), OPTIONS, ids=lambda one: str(one)[:50])
def test_lines_are_continued(options, search, folder, model):
    done = generate(folder, *options, stdin=LINES)
    assert done.stdout == lines(model.generate(PROMPTS, search, max_new_tokens=9))


def test_several_samples_and_records(folder, model):
    options = ("--temperature", 2, "--best", 3, "--min-new-tokens", 4)
    plain = generate(folder, *options, stdin=LINES)
    search = Sample(temperature=2.0, count=3, repetition_penalty=1.5)
    found = model.generate(PROMPTS, search, max_new_tokens=9, min_new_tokens=4)
    assert plain.stdout == lines(found, 3)
    done = generate(folder, *options, "--json", stdin=LINES)
    records = [json.loads(one) for one in done.stdout.splitlines()]
    assert [one["line"] for one in records] == [1] * 3 + [2] * 3 + [3] * 3
    first = found[0][0]
    assert records[0]["text"] == first.text and records[0]["ended"] == first.ended
    assert records[0]["logprobs"] == pytest.approx(first.hypothesis.logprobs, abs=1e-4)
    assert records[0]["ids"] == [*first.hypothesis.tokens] and len(records[0]["ids"]) >= 4
    assert records[0]["tokens"] == model.tokenizer.words.pieces(first.hypothesis.tokens)
    assert {one["engine"] for one in records} <= {"torch", "cpp"}


def test_minimum_risk_and_diverse_beams(folder):
    for options in (
        ("--search", "mbr", "--samples", 4, "--temperature", 2),
        ("--search", "mbr", "--candidates", "beam", "--beam", 2, "--samples", 3),
        ("--groups", 2, "--beam", 2, "--diversity", 1.0),
    ):
        assert len(generate(folder, *options, stdin=LINES).stdout.split("\n")) == 4


def test_a_file_appears_with_its_folders_or_not_at_all(folder, tmp_path):
    out = tmp_path / "new" / "out.txt"
    generate(folder, "--out", out, stdin="A\n" + "The old man " * 30 + "\n", code=2)
    assert not out.parent.exists()
    generate(folder, "--out", out, stdin=LINES)
    assert out.read_text() == generate(folder, stdin=LINES).stdout


def test_stop_strings_are_cut(folder, model):
    free = model.generate(PROMPTS[:1], max_new_tokens=9)[0][0].text
    done = generate(folder, "--stop-string", free[4:6], "--stop-string", "\\n", stdin=PROMPTS[0])
    assert done.stdout == free[: free.index(free[4:6])].split("\n")[0] + "\n"


def test_a_stream_prints_the_texts_as_they_are(folder, model):
    done = generate(folder, "--stream", "--top-k", 9, stdin=LINES)
    found = model.generate(PROMPTS, Sample(top_k=9, repetition_penalty=1.5), max_new_tokens=9)
    assert done.stdout == "".join(n[0].text + "\n" for n in found)


UNFINISHED = "of {} texts are unfinished: they end at the limit of new tokens (max_new_tokens)\n"


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("options", [(), ("--top-k", 9), ("--beam", 2)], ids=str)
@pytest.mark.parametrize("limit", [2, 9])
def test_streams_say_which_texts_are_unfinished(folder, monkeypatch, typed, options, limit):
    if options[:1] == ("--beam",) and not typed:
        pytest.skip("beams cannot stream")
    options = (*options, "--max-new-tokens", limit)
    found = generate(folder, *options, "--json", stdin=LINES).stdout.splitlines()
    ends = [json.loads(line)["ended"] for line in found]
    assert limit > 2 or "length" in ends
    if typed:
        monkeypatch.setattr("regard.cli.io.typed_prompts.is_typed", lambda file: True)
    done = generate(folder, *options, *([] if typed else ["--stream"]), stdin=LINES)
    count, each = ends.count("length"), "1 " + UNFINISHED.format(1)
    if typed:
        assert done.stderr.count(each) == done.stderr.count("unfinished") == count
    else:
        whole = f"{count} " + UNFINISHED.format(len(ends))
        assert done.stderr.endswith(whole * bool(count)) and done.stderr.count("unfinished") <= 1


def test_why_a_streamed_text_ended_is_the_value_of_its_stream(model):
    generator = model.generator
    for ending in (Ending(2), Ending(9, 9), Ending(99, 99), Ending(9, 0, ("e", "a"))):
        for number, prompt in enumerate(PROMPTS):
            stream, pieces = generator.stream(prompt, ending=ending, number=number), []
            while True:
                try:
                    pieces.append(next(stream))
                except StopIteration as end:
                    ((whole,),) = generator.generate([prompt], ending=ending, first=number)
                    assert (end.value, "".join(pieces)) == (whole.ended, whole.text)
                    break


@pytest.fixture
def terminal(monkeypatch):
    """Standard input is taken for a terminal."""
    monkeypatch.setattr("regard.cli.io.typed_prompts.is_typed", lambda file: True)


def test_prompts_are_asked_for_at_a_terminal(folder, model, terminal):
    long = "The old man " * 30
    done = generate(folder, stdin=f"{PROMPTS[0]}\n{long}\n{PROMPTS[2]}\n")
    found = model.generate([PROMPTS[0], PROMPTS[2]], max_new_tokens=9)
    assert done.stdout == "".join(n[0].text + "\n" for n in found)
    assert done.stderr.count("> ") == 4  # the last is answered by the end of input
    assert "but the model has 48 positions" in done.stderr


def test_an_interrupt_stops_a_text_and_not_the_session(folder, model, terminal, monkeypatch):
    from regard.inference.generator import Generator

    stream = Generator.stream

    def interrupted(self, prompt, *arguments, number, **settings):
        yield from stream(self, prompt, *arguments, number=number, **settings)
        if number == 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(Generator, "stream", interrupted)
    done = generate(folder, stdin=LINES)
    found = model.generate(PROMPTS, max_new_tokens=9)
    assert done.stdout == "".join(n[0].text + "\n" for n in found)


def test_beams_answer_at_the_end(folder, model, terminal):
    done = generate(folder, "--beam", 2, "--best", 2, stdin=PROMPTS[0])
    found = model.generate(PROMPTS[:1], Beam(2, 2, repetition_penalty=1.5), max_new_tokens=9)
    assert done.stdout == lines(found, 2)


def test_the_last_position_is_noted(folder):
    options = ("--max-new-tokens", 99, "--min-new-tokens", 99)
    for mode in ((), ("--stream",)):
        done = generate(folder, *options, *mode, stdin="A\n")
        assert done.stderr.count("line 1: ended at the last position of the model\n") == 1


@pytest.mark.slow
def test_workers_give_the_same(folder, model):
    done = generate(folder, "--workers", 1, "--batch-size", 2, stdin=LINES)
    assert done.stdout == lines(model.generate(PROMPTS, max_new_tokens=9))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--stream", "--json"), "--json: cannot be used with --stream"),
        (("--search", "beam", "--groups", 1, "--diversity", 1), "--diversity: needs --groups"),
        (("--search", "greedy", "--top-k", 3), "--top-k: cannot be used with --search greedy"),
        (("--temperature", 0), "a temperature must be positive"),
        (("--max-length", 2), "standard input:1: 3 tokens, more than 2"),
        (("--min-new-tokens", 10), "max_new_tokens must be at least 10"),
    ],
)
def test_what_cannot_be_is_one_line(options, message, folder):
    done = generate(folder, *options, stdin=LINES, code=2)
    assert message in done.stderr and done.stderr.count("regard:") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--stream", "--best", 2), "--best: cannot be used with --stream"),
        (("--stream", "--beam", 2), "--search beam: cannot be used with --stream"),
        (("--tree", 3, "--beam", 3), "--search beam: cannot be used with --tree"),
        (("--tree", 3, "--samples", 3), "--search mbr: cannot be used with --tree"),
        (("--tree", 3, "--stream"), "--stream: cannot be used with --tree"),
        (("--search", "greedy", "--beam", 2), "--beam: cannot be used with --search greedy"),
        (("--stop-string", ""), "at least one character"),
    ],
)
def test_options_are_checked_before_a_model_is_loaded(options, message, tmp_path):
    assert message in generate(tmp_path / "none", *options, stdin=LINES, code=2).stderr


def test_a_file_below_a_file_is_no_place_for_texts(folder, tmp_path):
    (tmp_path / "p.txt").touch()
    done = generate(folder, "--out", tmp_path / "p.txt" / "x.txt", stdin=LINES, code=2)
    assert f"regard: {tmp_path / 'p.txt'}: is a file, not a folder" in done.stderr


@pytest.mark.parametrize("times", [30, 2_000])
def test_a_prompt_beyond_the_positions_names_its_line(times, folder):
    done = generate(folder, stdin="A\n" + "The old man " * times + "\n", code=2)
    complaint = done.stderr.splitlines()[-1]
    assert complaint.startswith("regard: standard input:2: ")
    assert complaint.endswith(" tokens, but the model has 48 positions: shorten it")
    assert len(done.stdout.splitlines()) == 1


def test_a_model_that_cannot_generate_says_so(tmp_path):
    from transformers import BertConfig, BertModel

    config = BertConfig(vocab_size=9, hidden_size=4, num_hidden_layers=1, num_attention_heads=1)
    BertModel(config).save_pretrained(tmp_path)
    done = run("generate", tmp_path, "--device", "cpu", stdin="x", code=2)
    assert "BERT is no causal model with a next-token head" in done.stderr


def test_a_page_of_several_prompts_is_refused_before_it_is_written(folder, tmp_path):
    page = tmp_path / "tree.html"
    result = generate(folder, "--tree", 2, "--html", page, stdin=LINES, code=2)
    assert "a page shows one prompt" in result.stderr
    assert not page.exists() and not result.stdout
