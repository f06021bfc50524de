"""``regard align`` with two directions, other files, and kinds of links."""

import gzip
import json

import pytest

from regard.api import load
from regard.metrics.links import HOW, flipped, format_pharaoh, parse_gold, symmetrised
from verb import run


@pytest.fixture(scope="module")
def model(small_run):
    return small_run / "run" / "model"


@pytest.fixture(scope="module")
def files(small_run):
    return small_run / "test.src", small_run / "test.tgt"


@pytest.fixture(scope="module")
def bars(files, tmp_path_factory):
    """The same pairs as one packed file, with signs that are no words of their own."""
    pairs = zip(*(path.read_text().splitlines() for path in files), strict=True)
    path = tmp_path_factory.mktemp("bars") / "pairs.txt.gz"
    text = "".join(f"Mr. {one}  ||| m.  {other} \n" for one, other in pairs)
    path.write_bytes(gzip.compress(text.encode()))
    return path


def links_of(done):
    return [parse_gold(line, 0, "links").sure for line in done.stdout.splitlines()]


@pytest.mark.thinned
@pytest.mark.parametrize("how", HOW)
def test_two_directions_become_one(model, files, how):
    pairs = list(zip(*(path.read_text().splitlines() for path in files), strict=True))
    loaded = load(model)
    forward = loaded.align(pairs)
    backward = loaded.align([(other, one) for one, other in pairs])
    expected = [
        symmetrised(one, flipped(other), how) for one, other in zip(forward, backward, strict=True)
    ]
    assert (
        links_of(run("align", model, *files, "--reverse-model", model, "--symmetrise", how))
        == expected
    )


def test_methods_chosen_by_agreement_are_reported_and_used(model, files):
    done = run("align", model, *files, "--reverse-model", model, "--choose", "agreement")
    first, *readings = done.stderr.splitlines()
    assert first.startswith("chosen by agreement on 12 pairs: 0.")
    assert [one.split(" ")[:2] for one in readings] == [
        ["method:", "layer"],
        ["reverse", "method:"],
    ]
    assert all("mean of heads" in one and "(" not in one for one in readings)
    assert len(links_of(done)) == 12


def test_weights_can_be_multiplied_first(model, files):
    two = ("align", model, *files, "--reverse-model", model)
    common = (*two, "--layer", 1, "--plain", "--symmetrise")
    made = {how: links_of(run(*common, how, "--multiply")) for how in ("intersection", "grow-diag")}
    assert all(one <= other for one, other in zip(*made.values(), strict=True))
    assert made["intersection"] != links_of(run(*common, "intersection"))


@pytest.mark.parametrize(
    "option", [("--symmetrise", "union"), ("--choose", "agreement"), ("--multiply",)]
)
def test_one_direction_has_nothing_to_agree_with(model, files, option):
    assert "--reverse-model" in run("align", model, *files, *option, code=2).stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--layer", 0), "--choose agreement: cannot be used with --layer"),
        (("--head", 0), "--choose agreement: cannot be used with"),
        (("--plain",), "--choose agreement: cannot be used with"),
    ],
)
def test_what_is_chosen_cannot_be_given_too(model, files, options, said):
    choosing = ("--reverse-model", model, "--choose", "agreement")
    (line,) = run("align", model, *files, *choosing, *options, code=2).stderr.splitlines()
    assert said in line


def test_nothing_to_agree_on_is_reported_in_one_line(model, tmp_path):
    (tmp_path / "empty").write_text("")
    empty = (tmp_path / "empty", tmp_path / "empty")
    assert run("align", model, *empty).stdout == ""
    done = run("align", model, *empty, "--reverse-model", model, "--choose", "agreement", code=2)
    assert done.stderr == "regard: --choose agreement: SRC has no pairs\n"


def test_gold_links_count_from_0_or_1(model, files):
    said = run("align", model, *files, "--gold", files[0], "--base", 7, code=2).stderr
    assert said == "regard: --base: gold links count from 0 or 1, not 7\n"
    assert "--base: needs --gold" in run("align", model, *files, "--base", 1, code=2).stderr


def test_usage_has_single_brackets():
    for verb in ("align", "recency", "papers"):
        assert "[[" not in run(verb, "--help").stdout


def test_words_of_a_bars_file_are_what_spaces_set_apart(model, bars, tmp_path):
    done = run("align", model, bars, "--json")
    record = json.loads(done.stdout.splitlines()[0])
    assert record["source"][0] == "Mr." and record["target"][0] == "m."
    gold = tmp_path / "gold"
    lines = [
        " ".join(f"{i + 1}{'-' if i else 'p'}{j + 1}" for i, j in sorted(links))
        for links in links_of(run("align", model, bars))
    ]
    gold.write_text("".join(f"{line}\n" for line in lines))
    done = run("align", model, bars, "--gold", gold, "--base", 1)
    assert "aer 0.0000  precision 1.0000  recall 1.0000" in done.stderr


def test_tokenised_files_are_split_at_spaces_with_the_option(model, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text("Mr. dog\n")
    paths = (tmp_path / "a", tmp_path / "b")
    plain = json.loads(run("align", model, *paths, "--json").stdout)
    spaced = json.loads(run("align", model, *paths, "--json", "--pretokenised").stdout)
    assert plain["source"] == ["Mr", ".", "dog"] and spaced["source"] == ["Mr.", "dog"]


def test_kinds_of_links_are_counted(model, files):
    done = run("align", model, *files, "--kinds")
    words = [sum(len(line.split()) for line in path.read_text().splitlines()) for path in files]
    shown = dict(one.split(" ") for one in done.stderr.splitlines()[-1].split("  "))
    assert list(shown) == ["1-1", "1-n", "n-1", "n-m", "spurious", "unaligned", "fertile"]
    assert 0 < int(shown["1-1"]) <= min(words)
    as_json = run("align", model, *files, "--kinds", "--json").stderr.splitlines()[-1]
    assert json.loads(as_json) == {name: int(value) for name, value in shown.items()}


def test_pharaoh_output_is_what_aligners_write(model, files):
    lines = run("align", model, *files, "--reverse-model", model).stdout.splitlines()
    assert all(line == format_pharaoh(parse_gold(line, 0, "x").sure) for line in lines)


def test_text_without_spaces_is_aligned_by_characters(model, tmp_path):
    for name, text in (("zh", "我喜欢 regard 模型。"), ("en", "dog cow")):
        (tmp_path / name).write_text(f"{text}\n")
    done = run("align", model, tmp_path / "zh", tmp_path / "en", "--json")
    record = json.loads(done.stdout)
    assert record["source"] == ["我", "喜", "欢", "regard", "模", "型", "。"]
    assert record["target"] == ["dog", "cow"]
    seen = json.loads(run("look", model, "我喜欢", "--map", "encoder", "--json").stdout)
    assert seen["columns"] == ["我", "喜", "欢", "⟨end⟩"]


def test_subwords_can_be_linked(model, tmp_path):
    pairs = [("dog xyzzy", "cow dog"), ("我 owl", "owl zebra")]
    files = tmp_path / "source", tmp_path / "target"
    for path, texts in zip(files, zip(*pairs, strict=True), strict=True):
        path.write_text("".join(f"{text}\n" for text in texts))
    loaded = load(model)
    common = ("align", model, *files, "--subwords")
    records = [json.loads(line) for line in run(*common, "--json").stdout.splitlines()]
    expected = loaded.align(pairs, subwords=True)
    for (source, target), record, links in zip(pairs, records, expected, strict=True):
        known = loaded.tokenizer
        assert record["source"] == known.source.pieces(known.source.encode(source))
        assert record["target"] == known.target.pieces(known.target.encode(target))
        assert {tuple(one) for one in record["links"]} == links
        assert {j for _, j in links} == set(range(len(record["target"])))
        assert len(record["source"]) > 2
    both = run(*common, "--reverse-model", model, "--symmetrise", "union")
    assert len(links_of(both)) == 2
    for other in (("--pretokenised",), ("--gold", files[0])):
        assert "--subwords: " in run(*common, *other, code=2).stderr
