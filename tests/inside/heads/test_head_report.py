"""The report on heads: of every kind of model, as a table, a drawing and a page; and its verb."""

import csv
import io
import json
import random
from xml.etree import ElementTree

import numpy as np
import pytest

import regard
from regard import BadInput
from regard.core.tape import NULL_TAPE
from regard.inference.generator import Generator
from regard.inside.heads import report_heads as module
from regard.views.pages import records_in
from regard.views.panels import png_bytes
from small_bert import SENTENCES
from small_bert import model as small_encoder
from small_gpt import small_gpt2
from small_images import small_vit
from verb import run

SVG = "{http://www.w3.org/2000/svg}"
TEXTS = ["The old man reads a book.", "A dog barks at the man."]


def write_treebank(path, sentences=20, seed=0):
    """Determiners, adjectives, nouns and verbs: "the old cat came"."""
    draw, lines = random.Random(seed), []
    for _ in range(sentences):
        words = [
            draw.choice(["the", "a"]),
            *["old"] * draw.randrange(3),
            draw.choice(["cat", "boat"]),
        ]
        noun = len(words)
        words += [draw.choice(["came", "sing"])]
        for number, word in enumerate(words, start=1):
            relation = {1: "det", noun: "nsubj", noun + 1: "root"}.get(number, "amod")
            head = {noun: noun + 1, noun + 1: 0}.get(number, noun)
            lines.append(f"{number}\t{word}\t_\tX\t_\t_\t{head}\t{relation}\t_\t_")
        lines.append("")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def encoder():
    return small_encoder("words")


@pytest.fixture(scope="module")
def treebank(tmp_path_factory):
    return write_treebank(tmp_path_factory.mktemp("treebank") / "small.conllu")


@pytest.fixture(scope="module")
def report(encoder, treebank):
    return encoder.heads(treebank=treebank, least=8)


def test_a_treebank_alone_gives_relations_and_all_figures(report):
    assert {score.relation for score in report.relations} >= {"all", "det", "nsubj"}
    assert all(score.count >= 8 for score in report.relations)
    (det,) = (score for score in report.relations if score.relation == "det")
    assert det.interval.low <= det.accuracy <= det.interval.high
    assert len(report.heads) == 4 and "importance" in report.figure_names
    assert report.notes[0] == "10 inputs"
    assert any("first half of small.conllu" in note for note in report.notes)


def test_treebank_words_are_words_of_the_model(encoder):
    inspected = encoder.inspected
    rows = module.read_words(inspected, ["nets", "don't", "x-y", "whale"])
    labels = rows["trunk"].keys
    assert labels.words == ("[CLS]", "nets", "don't", "x-y", "whale", "[SEP]")
    assert sorted(at for group in labels.groups for at in group) == [
        *range(len(rows["trunk"].row.tokens))
    ]
    assert labels.special_words.tolist() == [True, False, False, False, False, True]


class InductionModel(Generator):
    """A model whose head 1 of layer 1 attends to the token after the copy of the first half."""

    def run(self, inputs, tape=NULL_TAPE):
        tape.edits["trunk.blocks.1.attention.weights"] = self.edit
        self.lengths[:] = [len(rows["trunk"].row.tokens) for rows in inputs]
        return super().run(inputs, tape)

    @property
    def lengths(self):
        return self.__dict__.setdefault("_lengths", [])

    def edit(self, name, weights_BHLS):
        planted = weights_BHLS.clone()
        for row, size in enumerate(self.lengths):
            keys = [at if at < size // 2 else at - size // 2 + 1 for at in range(size)]
            planted[row, 1, :size] = 0
            planted[row, 1, range(size), keys] = 1
        return planted


def test_a_causal_model_with_a_planted_induction_head():
    loaded = small_gpt2()
    model = InductionModel(loaded._loaded)
    found = module.report_heads(model, "GPT-2", [model.read(text) for text in TEXTS])
    roles = {head.place: head.role for head in found.heads}
    assert roles[("decoder", 1, 1)] == "induction"
    assert list(roles.values()).count("induction") == 1
    assert found.by_role[0].place == ("decoder", 1, 1)
    assert {"previous", "duplicate", "induction", "importance"} <= {*found.figure_names}
    assert "special" not in found.figure_names and "distance" not in found.figure_names


def test_induction_scores_are_those_of_model_induction():
    loaded = small_gpt2()
    found = loaded.heads(TEXTS[:1])
    (scores,) = (loaded.induction(text, repeat=True).layers for text in TEXTS[:1])
    figures = [head.figures["induction"] for head in found.heads]
    np.testing.assert_allclose(figures, np.concatenate(scores), rtol=1e-5)


def test_a_translator_has_three_sites_and_its_encoder_parses(small_run, treebank):
    loaded = regard.load(small_run / "run" / "model", "cpu")
    both = loaded.heads([("dog cow owl", "owl cow dog"), ("pig hen rat dog", "dog rat hen pig")])
    assert {head.site for head in both.heads} == {"cross", "encoder", "decoder"}
    by_site = {head.site: head.figures for head in both.heads}
    assert by_site["cross"]["diagonal"] is not None and by_site["cross"]["offset"] is None
    assert by_site["encoder"]["diagonal"] is None and by_site["encoder"]["offset"] is not None
    assert all(head.figures["importance"] > 0 for head in both.heads)
    parsed = loaded.heads(treebank=treebank, least=8)
    assert {head.site for head in parsed.heads} == {"encoder"} and parsed.relations
    assert any(note.startswith("no importance") for note in parsed.notes)


def test_recurrent_attention(owl_run):
    loaded = regard.load(owl_run / "run" / "model", "cpu")
    found = loaded.heads(["dog owl pig", "hen rat cow cow"], labels=["owl", "owl"])
    (head,) = found.heads
    assert head.site == "pool" and head.figures["importance"] > 0
    assert 0 < head.figures["entropy"] <= 2 and head.figures["offset"] is None
    with pytest.raises(BadInput, match="no self-attention over the words"):
        loaded.heads(treebank=write_treebank(owl_run / "bank.conllu"))


def test_a_model_of_images_has_distances():
    pixels = np.random.default_rng(3).integers(0, 256, (2, 8, 12, 3), dtype=np.uint8)
    loaded = small_vit(size=(8, 12))
    found = loaded.heads(list(pixels))
    farthest = np.linalg.norm([1, 2])
    assert all(0 < head.figures["distance"] < farthest for head in found.heads)
    assert found.notes == (
        "2 inputs",
        "no importance: it needs texts and a head that predicts tokens, or labels",
    )
    assert "importance" in loaded.heads(list(pixels), labels=["left", "right"]).figure_names


def test_what_cannot_be_reported_is_refused(encoder, treebank, tmp_path):
    for texts in ([], ["a cat " * 40]):
        with pytest.raises(BadInput, match="no input: name texts"):
            encoder.heads(texts)
    with pytest.raises(BadInput, match="2 labels for 1 inputs"):
        small_encoder("one").heads(["A cat."], labels=["good", "bad"])
    with pytest.raises(BadInput, match="predicts no labels"):
        encoder.heads(["A cat."], labels=["good"])
    with pytest.raises(BadInput, match="name the first, too"):
        encoder.heads(["A cat."], test=treebank)
    with pytest.raises(BadInput, match=r"no file called \*dev\*\.conllu"):
        encoder.heads(treebank=tmp_path)
    with pytest.raises(BadInput, match="do not choose any"):
        encoder.heads(["A cat."]).choose(layer=1)
    long = encoder.heads(["A cat.", "a cat " * 40])
    assert "1 inputs left out: more tokens than positions" in long.notes


def test_drawing_and_page(report):
    root = ElementTree.fromstring(report.svg())
    tooltips = [each.text for each in root.iter(f"{SVG}title")][1:]
    assert len(tooltips) == 4 and tooltips[0].startswith("encoder 0 0: ")
    assert "entropy" in tooltips[0]
    (shown,) = records_in(report.html())
    (site,) = shown.json["sites"]
    drawn = ElementTree.fromstring(bytes(shown.array(shown.json["drawing"])))
    cells = [each.get("data-cell") for each in drawn.iter(f"{SVG}g") if each.get("data-cell")]
    assert cells == [each.anchor for each in report.heads]
    assert site["name"] == "encoder" and [len(layer) for layer in site["layers"]] == [2, 2]
    assert {"role", "summary", "figures"} == {*site["layers"][1][0]}
    relations, heads = shown.json["tables"]
    assert relations["title"] == "Relations" and relations["rows"][0][0] == "all"
    assert heads["columns"][:4] == ["site", "layer", "head", "role"] and len(heads["rows"]) == 4
    assert any(note.startswith("entropy: entropy of") for note in shown.json["notes"])
    text = report.text(60)
    assert "layer 1" in text and "nsubj: layer" in text
    assert max(map(len, text.splitlines())) <= 60
    record = json.loads(json.dumps(report.to_json()))
    assert len(record["heads"]) == 4 and record["relations"][0]["relation"] == "all"


def test_the_verb(encoder, treebank, tmp_path):
    encoder.save(tmp_path / "model")
    (tmp_path / "texts.txt").write_text(
        "\n".join([*SENTENCES[:3], "", "A cat.\tThe storm."]) + "\n"
    )
    files = {name: tmp_path / f"heads.{name}" for name in ("html", "svg")}
    arguments = ["--treebank", treebank, "--test", treebank, "--least", 8]
    drawn = [f"--{name}={path}" for name, path in files.items()]
    text = ["--text", tmp_path / "texts.txt"]
    shown = run("heads", tmp_path / "model", *text, *arguments, *drawn)
    assert "relation" in shown.stdout and "importance" in shown.stdout
    assert "4 inputs" in shown.stdout
    assert "scored on small.conllu" in shown.stdout
    assert all(path.stat().st_size for path in files.values())
    lines = run("heads", tmp_path / "model", *text, "--json").stdout.splitlines()
    records = [json.loads(line) for line in lines]
    assert len(records) == 4 and records[0]["site"] == "encoder"
    printed = run("heads", tmp_path / "model", *text, "--format", "csv").stdout
    rows = [*csv.DictReader(io.StringIO(printed))]
    assert float(rows[0]["entropy"]) == records[0]["entropy"]
    assert r"\begin{tabular}" in run("heads", tmp_path / "model", *text, "--format", "latex").stdout
    for wrong, error in (
        ([], "give --text FILE, --treebank FILE, or both"),
        ([*text, "--test", treebank], "--test: needs --treebank"),
        (["--treebank", treebank, "--labels", treebank], "--labels: needs --text"),
        (["--treebank", tmp_path / "texts.txt"], "texts.txt:1: 1 columns instead of 10"),
    ):
        refused = run("heads", tmp_path / "model", *wrong, code=2)
        assert error in refused.stderr
        assert refused.stderr.count("\n") == 1


def test_the_verb_reads_images(tmp_path):
    small_vit().save(tmp_path / "model")
    pixels = np.random.default_rng(3).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.png").write_bytes(png_bytes(pixels))
    for given in ("images", "images/a.png"):
        assert "distance" in run("heads", tmp_path / "model", "--text", tmp_path / given).stdout
