"""Tokenizers of GPT and GPT-2: the ids, texts and files of ``transformers``, on awkward strings."""

import gzip
import json
import os
from pathlib import Path

import pytest

import regard
from encoder_family import Family
from hub_folders import as_before
from regard.core.errors import BadInput
from regard.models.papers import LINEAGE, gpt, gpt2
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer, train_encoder_tokenizer

transformers = pytest.importorskip("transformers")

PAPERS = {paper.formats["hf"].model_type: paper for paper in (gpt.PAPER, gpt2.PAPER)}
CORPUS = (
    "The old sailor mended his nets before the storm came in; naïve café, don't!",
    "Nobody believed that the lighthouse keeper had a cat which could read.\n\n東京 🐋",
)
AWKWARD = (
    "",
    " ",
    "  two  spaces ",
    "a" + " " * 20 + "b",
    "lines\n\n\nand\r\n\ttabs\x85\u2028\u2029",
    "naïve cafe\u0301 東京の猫 🐋👩‍👩‍👧🇩🇪",
    "don't WE'LL I'm 12,345.6 ½² _under_score--dash…",
    "\u200b\xa0\x00\x1f\x7f\ufffd\u00ad",
    "İstanbul ǅ ſ ﬁ ß 𝔘𝔫𝔦",
    "عربي עברית हिन्दी",
    "<|endoftext|> <unk> the</w>",
    "storm" * 20_000,
    "é" * 50_000,
)


def learn(kind: str) -> EncoderTokenizer:
    paper = PAPERS[kind]
    return train_encoder_tokenizer(CORPUS, paper.tokenizer, 320, lower=paper is gpt.PAPER)


def both(folder: Path, kind: str):
    (folder / "config.json").write_text(json.dumps({"model_type": kind}))
    ours = PAPERS[kind].formats["hf"].load_tokenizer(folder, {})
    return ours, transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)


def check(ours, theirs) -> None:
    for text in (*CORPUS, *AWKWARD):
        ids = ours.words.encode(text)
        assert ids == theirs(text, split_special_tokens=True).input_ids
        assert ours.row(ids).tokens.tolist() == ids  # nothing stands around a text
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)
    pair = ours.row(*ours.words.encode_all(CORPUS))
    assert pair.tokens.tolist() == theirs(*CORPUS).input_ids


@pytest.mark.thinned
@pytest.mark.parametrize("files", [("vocab.json", "merges.txt"), ("tokenizer.json",)])
@pytest.mark.parametrize("kind", PAPERS)
def test_a_folder_that_names_no_class(kind, files, tmp_path):
    """As published: the paper decides what the files mean."""
    learned = learn(kind)
    for name in files:
        (tmp_path / name).write_bytes(learned.files[name])
    ours, theirs = both(tmp_path, kind)
    assert type(theirs).__name__ == ours.family.classes[0]
    check(ours, theirs)


@pytest.mark.parametrize(
    ("there", "absent"), [("vocab.json", "merges.txt"), ("merges.txt", "vocab.json")]
)
def test_half_of_the_files_is_an_error_that_names_the_other(there, absent, tmp_path):
    (tmp_path / there).write_bytes(learn("gpt2").files[there])
    with pytest.raises(BadInput, match=f": has {there}, but no {absent}, nor tokenizer.json$"):
        PAPERS["gpt2"].formats["hf"].load_tokenizer(tmp_path, {})


@pytest.mark.parametrize("kind", PAPERS)
def test_what_we_learn_the_reference_reads_and_the_reverse(kind, tmp_path):
    learn(kind).save(tmp_path)
    ours, theirs = both(tmp_path, kind)
    check(ours, theirs)
    theirs.save_pretrained(tmp_path / "theirs")
    again = EncoderTokenizer.load(tmp_path / "theirs")
    assert type(again.family) is type(ours.family)
    check(again, theirs)


@pytest.mark.parametrize("kind", PAPERS)
def test_special_tokens_are_added_to_a_file_in_its_form(kind, tmp_path):
    written = as_before(json.loads(learn(kind).files["tokenizer.json"]))
    (tmp_path / "tokenizer.json").write_text(json.dumps(written))
    more = both(tmp_path, kind)[0].with_special_tokens(["<sum>"])
    more.save(tmp_path)
    again = json.loads((tmp_path / "tokenizer.json").read_text())
    assert again["model"]["merges"] == written["model"]["merges"]
    ours, theirs = both(tmp_path, kind)
    check(ours, theirs)
    assert ours.words.number("<sum>") == theirs.convert_tokens_to_ids("<sum>")


@pytest.mark.parametrize("merge", ["Ġ", "a b c", " b", ["a"], ["a", ""], 5, None])
def test_merges_that_are_not_two_pieces(merge, tmp_path):
    content = json.loads(learn("gpt2").files["tokenizer.json"])
    content["model"]["merges"][1] = merge
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(BadInput, match=r"tokenizer.json: merge 2, .*, is not two pieces$"):
        PAPERS["gpt2"].formats["hf"].load_tokenizer(tmp_path, {})
    del content["model"]["merges"]
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(BadInput, match=r"tokenizer.json: has no list of merges$"):
        PAPERS["gpt2"].formats["hf"].load_tokenizer(tmp_path, {})


def test_the_class_that_config_names(tmp_path):
    """As in old folders; a class of another language cuts words otherwise."""
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n")
    (tmp_path / "config.json").write_text('{"tokenizer_class": "BertJapaneseTokenizer"}')
    message = r"config.json: the tokenizer_class 'BertJapaneseTokenizer' is not supported"
    with pytest.raises(BadInput, match=message):
        EncoderTokenizer.load(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    assert EncoderTokenizer.load(tmp_path).words.encode("a") == [5]


@pytest.mark.parametrize("form", ["files", "tokenizer.json"])
@pytest.mark.parametrize("kind", PAPERS)
def test_published_vocabularies(kind, form, tmp_path):
    if "REGARD_DATA" not in os.environ:
        pytest.skip("REGARD_DATA names no folder with data")
    for name in ("vocab.json", "merges.txt"):
        path = Path(os.environ["REGARD_DATA"]) / "tokenizers" / f"{kind}.{name}.gz"
        (tmp_path / name).write_bytes(gzip.decompress(path.read_bytes()))
    ours, theirs = both(tmp_path, kind)
    if form == "tokenizer.json":
        for name in ours.files:
            (tmp_path / name).unlink()
        written = as_before(json.loads(ours.words.content))
        (tmp_path / "tokenizer.json").write_text(json.dumps(written))
        ours, theirs = both(tmp_path, kind)
    assert len(ours.words) == next(iter(PAPERS[kind].sizes.values())).trunk.embed.vocab
    check(ours, theirs)


@pytest.mark.parametrize("pad", ["<|endoftext|>", "[PAD]"])
def test_a_pad_token_that_was_added(pad, tmp_path):
    learn("gpt2").save(tmp_path)
    _, theirs = both(tmp_path, "gpt2")
    theirs.pad_token = pad
    theirs.add_tokens(["storms"])
    theirs.save_pretrained(tmp_path / "theirs")
    ours, theirs = both(tmp_path / "theirs", "gpt2")
    assert ours.pad == theirs.pad_token_id and len(ours.words) == len(theirs)
    assert ours.words.encode("the storms") == theirs("the storms").input_ids


def test_tokens_that_it_does_not_have():
    ours = learn("gpt2")
    with pytest.raises(BadInput, match="this tokenizer has no mask token"):
        _ = ours.mask
    assert ours.special_ids == dict.fromkeys(("bos_token", "eos_token"), ours.words.eos)
    assert learn("openai-gpt").special_ids == {}
    with pytest.raises(BadInput, match="GPT's BPE reads lower case only"):
        train_encoder_tokenizer(CORPUS, "gpt-bpe", 320, lower=False)


def test_a_surrogate_without_its_half_is_refused(tmp_path):
    sizes = {"vocab_size": 320, "n_embd": 12, "n_layer": 1, "n_head": 2, "n_positions": 20}
    family = Family(gpt2.PAPER, "GPT2Config", sizes, {})
    family.reference("GPT2LMHeadModel").save_pretrained(tmp_path)
    learn("gpt2").save(tmp_path)
    model = regard.load(tmp_path, "cpu")
    with pytest.raises(BadInput, match=r"input 2: a character of .* is not valid Unicode"):
        model.logits(["the storm", "the \ud83d storm"])
    (logits_TV,) = model.logits(["the storm"])
    ids = model.tokenizer.words.encode("the storm")
    assert logits_TV.equal(model.logits([ids])[0])
    assert model.embed(["the storm", "a"]).shape == (2, 12)
    view = model.look("the storm storms")
    assert [each.name for each in view.maps] == ["decoder"]


def test_every_family_of_a_paper_can_be_learned():
    from regard.text.tokenizers import FAMILIES

    alone = {"plain", "characters", "words", "images"}  # learned on their own, or not at all
    known = {family.name for family in FAMILIES} | alone
    assert {paper.tokenizer for paper in LINEAGE} <= known
