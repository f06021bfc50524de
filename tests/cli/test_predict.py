"""``regard predict`` for encoders, whatever they were tuned for."""

import json

import pytest

from small_bert import SENTENCES, model
from verb import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("tuned")

    def of(kind):
        if not (place / kind).exists():
            model(kind).save(place / kind)
        return place / kind

    return of


def lines(*arguments, stdin):
    """What was printed, as many lines as came in."""
    printed = run("predict", *arguments, "--device", "cpu", stdin=stdin).stdout.split("\n")
    assert printed.pop() == "" and len(printed) == stdin.count("\n")
    return printed


def records(*arguments, stdin):
    found = [json.loads(line) for line in lines(*arguments, "--json", stdin=stdin)]
    assert [one["line"] for one in found] == list(range(1, len(found) + 1))
    return found


def test_labels_of_texts_and_pairs(folder):
    stdin = "The storm\n\nThe storm\tcame in\n"
    one, empty, two = lines(folder("one"), stdin=stdin)
    first, second = model("one").predict(["The storm", ("The storm", "came in")])
    assert one == f"{first.label}\t{first.probability:.4f}" and empty == ""
    assert two == f"{second.label}\t{second.probability:.4f}"
    found = records(folder("one"), stdin=stdin)
    assert found[0]["probabilities"] == pytest.approx(first.probabilities)
    nothing = dict.fromkeys(("label", "probability", "probabilities", "cut"))
    assert found[1] == {"line": 2, **nothing} and found[0]["cut"] is False
    assert found[2]["label"] == second.label


LONG = " ".join(SENTENCES)  # more tokens than the models read


def test_texts_that_were_cut_are_counted(folder):
    given = json.dumps({"first": "cat", "choices": ["sea", LONG]})
    asked = f"Who?\t{LONG}\n{LONG}\tAda\n"
    for kind, stdin, cut in [
        ("one", f"cat\n\n{LONG}\ncat\t{LONG}\n", [False, None, True, True]),
        ("choose", f"{given}\n", [True]),
        ("tags", f"{LONG}\n", [False]),  # read in several rows
        ("answer", asked, [False, True]),
    ]:
        done = run("predict", folder(kind), "--json", "--device", "cpu", stdin=stdin)
        assert [json.loads(line)["cut"] for line in done.stdout.splitlines()] == cut
        count, number = sum(map(bool, cut)), sum(one is not None for one in cut)
        said = [line for line in done.stderr.splitlines() if "cut" in line]
        expected = f"{count} of {number} inputs were cut: "
        assert [line.startswith(expected) for line in said] == [True] * bool(count), said
    done = run("predict", folder("one"), "--device", "cpu", stdin=f"{LONG}\n")
    assert done.stderr.endswith(
        "1 of 1 inputs were cut: more than 48 tokens, special ones counted\n"
    )


def test_special_tokens_count_as_in_the_api(folder):
    text = SENTENCES[0]
    count = len(model("one").encode([text])[0])  # with its special tokens
    run("predict", folder("one"), "--max-length", count, "--device", "cpu", stdin=f"{text}\n")
    short = ("--max-length", count - 1, "--device", "cpu")
    refused = run("predict", folder("one"), *short, stdin=f"{text}\n", code=2)
    assert f"standard input:1: {count} tokens, more than {count - 1}; " in refused.stderr
    (whole,) = model("one").predict([text], max_length=count)
    (cut,) = model("one").predict([text], max_length=count - 1)
    assert whole == model("one").predict([text])[0] != cut


def test_results_are_written_to_a_file_or_nothing_is(folder, tmp_path):
    out, stdin = tmp_path / "labels.txt", "cat\nThe storm\n"
    printed = run("predict", folder("one"), "--device", "cpu", stdin=stdin).stdout
    done = run("predict", folder("one"), "--device", "cpu", "--out", out, stdin=stdin)
    assert done.stdout == "" and out.read_text() == printed and f"wrote {out}" in done.stderr
    long = ("--max-length", 9, "--out", out)
    run("predict", folder("one"), "--device", "cpu", *long, stdin=f"cat\n{LONG}\n", code=2)
    assert out.read_text() == printed and [*tmp_path.iterdir()] == [out]


def test_several_labels_and_numbers(folder):
    stdin = "cat\n\n" + SENTENCES[0] + "\n"
    said = model("several").predict(["cat", SENTENCES[0]])
    printed = lines(folder("several"), stdin=stdin)
    assert [printed[0], printed[2]] == ["\t".join(one.labels) for one in said]
    found = records(folder("several"), stdin=stdin)
    assert found[0]["labels"] == list(said[0].labels) and found[1]["labels"] is None
    (value, _) = (one.value for one in model("number").predict(["cat", SENTENCES[0]]))
    assert float(lines(folder("number"), stdin=stdin)[0]) == pytest.approx(value, abs=1e-4)
    found = records(folder("number"), stdin=stdin)
    assert found[0]["values"] == {"likeness": pytest.approx(value, abs=1e-6)}
    assert found[1] == {"line": 2, "values": None, "cut": None}


def test_tags_and_entities(folder):
    stdin = f"{SENTENCES[4]}\n\nin  London.\n"
    (said, _) = model("tags").predict([SENTENCES[4], "in  London."])
    printed = lines(folder("tags"), stdin=stdin)
    assert printed[0] == " ".join(f"{word.text}/{word.tag}" for word in said.words)
    assert printed[1] == ""
    assert len(printed[2].split()) == 3
    assert len(lines(folder("tags"), "--pretokenised", stdin=stdin)[2].split()) == 2
    entities = "\t".join(f"{one.text}/{one.label}" for one in said.entities)
    assert lines(folder("tags"), "--entities", stdin=stdin)[0] == entities and entities
    found = records(folder("tags"), stdin=stdin)
    for one in (*found[0]["words"], *found[0]["entities"]):
        assert SENTENCES[4][one["start"] : one["end"]] == one["text"]
        assert 0 < one["probability"] <= 1
    assert [one["label"] for one in found[0]["entities"]] == [one.label for one in said.entities]
    assert found[1] == {"line": 2, "words": None, "cut": None}


def test_tags_that_mean_no_entities(folder):
    assert "entities" not in records(folder("parts"), stdin="cat\n")[0]
    refused = run("predict", folder("parts"), "--entities", stdin="cat\n", code=2)
    assert "entities cannot be printed: the tags of this model mark no entities" in refused.stderr
    word, number = lines(folder("numbers"), stdin="cat\n")[0].split("/")
    assert word == "cat" and float(number) == pytest.approx(
        model("numbers").predict(["cat"])[0].words[0].value, abs=1e-4
    )
    assert set(records(folder("numbers"), stdin="cat\n")[0]["words"][0]) == {
        *("text", "start", "end", "value")
    }


def test_answers(folder):
    question, context = "Who mended the nets?", SENTENCES[0]
    asked = json.dumps({"question": question, "context": context})
    stdin = f"{question}\t{context}\n\n{asked}\n"
    (said,) = model("answer").predict([(question, context)])
    one, empty, other = lines(folder("answer"), stdin=stdin)
    assert one == other and empty == ""
    shown, probability = one.split("\t")
    assert shown == said.text
    wanted = said.answer.probability if said.answer else said.no_answer_probability
    assert float(probability) == pytest.approx(wanted, abs=1e-4)
    found = records(folder("answer"), stdin=stdin)
    assert found[0]["none"]["no_answer"] == pytest.approx(said.no_answer, abs=1e-4)
    for best in found[0]["best"]:
        assert context[best["start"] : best["end"]] == best["text"]
    assert found[1]["answer"] is None and found[1]["best"] is None


def test_choices(folder):
    asked = {"first": "The storm", "choices": ["came in", "sings", "had a cat"]}
    stdin = json.dumps(asked) + "\n\n"
    (said,) = model("choose").predict([(asked["first"], asked["choices"])])
    assert lines(folder("choose"), stdin=stdin) == [f"{said.index}\t{said.probability:.4f}", ""]
    found = records(folder("choose"), stdin=stdin)
    assert found[0]["choice"] == said.index and found[0]["text"] == asked["choices"][said.index]
    assert found[0]["probabilities"] == pytest.approx(said.probabilities)


@pytest.mark.parametrize(
    ("kind", "line", "message"),
    [
        ("one", "a\tb\tc", "3 texts between tabs"),
        ("answer", "Who?", "no tab between a question and its context"),
        ("answer", '{"question": "Who?"}', "no key 'context'"),
        ("answer", '{"question": 1, "context": "a"}', "the value of 'question' is not text"),
        ("answer", "{Who?", "not JSON"),
        ("choose", "Who?", "not JSON"),
        ("choose", "[1]", "the line is not a JSON object"),
        ("choose", '{"first": "a", "choices": []}', "the list of choices is empty"),
        ("choose", '{"first": "a", "choices": ["b", 1]}', "a choice is not text"),
        ("choose", '{"choices": ["b"]}', "no key 'first'"),
    ],
)
def test_bad_lines_are_named(folder, tmp_path, kind, line, message):
    (tmp_path / "in.txt").write_text(f"\n{line}\n")
    refused = run("predict", folder(kind), tmp_path / "in.txt", code=2)
    assert f"in.txt:2: {message}" in refused.stderr and refused.stdout == "\n"
    assert refused.stderr.count("\n") == 1


def test_options_that_mean_nothing(folder):
    for option in ("--pretokenised", "--entities"):
        refused = run("predict", folder("one"), option, stdin="cat\n", code=2)
        assert (
            f"{option[2:]} cannot be used with this model: it does not tag words" in refused.stderr
        )


def test_an_encoder_without_a_task(folder):
    refused = run("predict", folder("states"), stdin="cat\n", code=2)
    assert "has no head of a task" in refused.stderr


def test_next_sentences(folder):
    (line,) = lines(folder("pairs"), stdin="The storm\tcame in\n")
    (found,) = model("pairs").predict([("The storm", "came in")])
    assert line == f"{found.label}\t{found.probability:.4f}"
    assert found.label in ("IsNext", "NotNext")
    refused = run("predict", folder("pairs"), "--device", "cpu", stdin="cat\n", code=2)
    assert "standard input:1: this model classifies pairs of texts" in refused.stderr
