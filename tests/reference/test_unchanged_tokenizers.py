"""Tokenizers of today's models: tokenizer.json decides ids, rows and texts."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from closeness import SCALARS
from regard.core.errors import BadInput
from regard.models.facts import change
from regard.models.folders.loaded_model import LoadedModel
from regard.models.heads import NextTokenHead
from regard.models.label_heads import MLMHead
from regard.models.papers import bert, gpt2
from regard.text.continuation import Continuation, StopStrings, TextStream
from regard.text.text_tables import EncoderTextConfig
from regard.text.tokenizers.bpe import DecoderBPE, EncoderBPE
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer
from regard.text.tokenizers.list import learn_tokenizer
from small_tokenizers import AWKWARD, SHAPES, TEXTS, write_tokenizer

transformers = pytest.importorskip("transformers")

FAMILIES = {name: EncoderBPE() if name == "modernbert" else DecoderBPE() for name in SHAPES}
DECODERS = [name for name in SHAPES if name != "modernbert"]


def load(folder, name) -> EncoderTokenizer:
    ours = EncoderTokenizer.load(folder, family=FAMILIES[name])
    assert ours is not None
    return ours


def reference(folder, name):
    """AutoTokenizer where it uses tokenizer.json, else the class that does."""
    if not SHAPES[name].auto:
        return transformers.PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
    (folder / "config.json").write_text(json.dumps({"model_type": SHAPES[name].model_type}))
    return transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizers")
    folders = {name: write_tokenizer(folder / name, name) for name in SHAPES}
    pairs = {name: (load(at, name), reference(at, name)) for name, at in folders.items()}
    return pairs.__getitem__


def check(ours, theirs, text):
    ids = ours.words.encode(text)
    assert ids == theirs.encode(text, add_special_tokens=False, split_special_tokens=True)
    assert ours.words.encode_all([text]) == [ids]
    row = ours.row(ids).tokens.tolist()
    assert row == theirs(text, split_special_tokens=True).input_ids
    options = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
    assert ours.decode(ids) == theirs.decode(ids, **options)
    assert ours.decode(row) == theirs.decode(row, **options)


@pytest.mark.parametrize("name", SHAPES)
def test_ids_rows_and_texts(both, name):
    ours, theirs = both(name)
    assert len(ours.words) == len(theirs)
    for text in (*TEXTS, *AWKWARD):
        check(ours, theirs, text)
    pair = theirs(*TEXTS[:2], return_token_type_ids=True)
    row = ours.row(*ours.words.encode_all(TEXTS[:2]))
    assert row.tokens.tolist() == pair.input_ids
    assert row.segments.tolist() == pair.token_type_ids


LETTERS = st.sampled_from([*"Theold man€🙂é\n\t'1 9  ▁東\u0301", "<tool>", "[MASK]", "<s>"])
STRINGS = st.lists(LETTERS | st.characters(codec="utf-8"), max_size=20).map("".join)


@pytest.mark.thinned
@pytest.mark.parametrize("name", SHAPES)
@settings(max_examples=60, deadline=None)
@given(text=STRINGS)
def test_any_text(both, name, text):
    check(*both(name), text)


@pytest.mark.parametrize("name", SHAPES)
def test_special_tokens_by_role(both, name):
    ours, theirs = both(name)
    expected = {role: str(token) for role, token in theirs.special_tokens_map.items()}
    expected.pop("additional_special_tokens", None)
    assert ours.names == expected
    for role in expected:
        assert ours.words.number(expected[role]) == getattr(theirs, f"{role}_id")


NUMBERS = st.lists(st.integers(0, 1_000), max_size=12)


@pytest.mark.thinned
@pytest.mark.parametrize("name", SHAPES)
@settings(max_examples=60, deadline=None)
@given(
    prompt=STRINGS | NUMBERS,
    tokens=STRINGS | NUMBERS,
    stops=st.lists(LETTERS, max_size=1).map(tuple),
)
def test_streamed_text_is_the_whole_text(both, name, prompt, tokens, stops):
    words = both(name)[0].words
    prompt, tokens = (
        words.encode(part) if isinstance(part, str) else [n % len(words) for n in part]
        for part in (prompt, tokens)
    )
    continuation = Continuation(words.decode, prompt, words.unsettled_ids)
    stream = TextStream(continuation, StopStrings(words.decode, stops))
    pieces = [*map(stream.add, tokens), stream.end()]
    whole = Continuation(words.decode, prompt).text(tokens)
    assert "".join(pieces) == StopStrings(words.decode, stops).cut(whole)


def test_bytes_wait_for_the_end_of_their_characters(both):
    words = both("llama2")[0].words
    stream = TextStream(
        Continuation(words.decode, [], words.unsettled_ids), StopStrings(words.decode)
    )
    newline, *whale = words.encode("\n🐋")[1:]
    special = words.number("</s>")  # decoded as nothing: it does not separate bytes
    tokens = [newline, *whale, words.number("▁The"), newline, special, whale[0]]
    pieces = [*map(stream.add, tokens), stream.end()]
    assert pieces == ["", "", "", "", "", "\n🐋 The", "", "", "", "\ufffd\ufffd"]


@pytest.mark.parametrize("name", SHAPES)
def test_files_are_kept(both, name, tmp_path):
    folder = write_tokenizer(tmp_path / "read", name)
    (folder / "tokenizer.model").write_bytes(b"\x0a\x0e")
    (folder / "chat_template.jinja").write_text("{{ bos_token }}")
    ours = load(folder, name)
    (tmp_path / "written").mkdir()
    ours.save(tmp_path / "written")
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert {path.name: path.read_bytes() for path in (tmp_path / "written").iterdir()} == files
    assert load(tmp_path / "written", name).words.fingerprint == ours.words.fingerprint


@pytest.mark.parametrize("name", SHAPES)
def test_further_special_tokens(name, tmp_path):
    more = load(write_tokenizer(tmp_path, name), name).with_special_tokens(["<answer>"])
    more.save(tmp_path)
    ours, theirs = load(tmp_path, name), reference(tmp_path, name)
    assert ours.words.number("<answer>") == theirs.convert_tokens_to_ids("<answer>")
    assert ours.words.number("<answer>") == len(ours.words) - 1
    for text in (*AWKWARD, "The <answer> old"):
        check(ours, theirs, text)


@pytest.mark.parametrize(
    "settings",
    [
        {"pad_token": "<pad>"},  # in no file: it has the next id
        {"eos_token": "<|eot_id|>"},
        {"unk_token": {"__type": "AddedToken", "content": "<nothing>", "lstrip": True}},
        {"added_tokens_decoder": {"371": {"content": "<|eot_id|>", "special": False}}},
        {"added_tokens_decoder": {"372": {"content": " old", "normalized": True, "lstrip": True}}},
        {"extra_special_tokens": ["<one>", "<two>"], "bos_token": None},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_tokens_that_tokenizer_config_changes(settings, tmp_path):
    folder = write_tokenizer(tmp_path, "llama3", **settings)
    (folder / "special_tokens_map.json").unlink()
    ours, theirs = load(folder, "llama3"), reference(folder, "llama3")
    assert ours.names == {
        role: str(name) for role, name in theirs.special_tokens_map.items() if isinstance(name, str)
    }
    assert len(ours.words) == len(theirs)
    for text in (*AWKWARD, "The   old <|eot_id|> man <pad><one>"):
        check(ours, theirs, text)


@pytest.mark.parametrize("files", [["tokenizer.model"], ["vocab.json", "merges.txt"]])
def test_no_other_file_replaces_tokenizer_json(files, tmp_path):
    folder = write_tokenizer(tmp_path, "llama2")
    (folder / "tokenizer.json").unlink()
    assert EncoderTokenizer.load(folder, family=DecoderBPE()) is None
    for file in files:
        (folder / file).write_text("{}")
    message = f"has {' and '.join(files)}, but no tokenizer.json: write it with transformers: Auto"
    with pytest.raises(BadInput, match=message):
        EncoderTokenizer.load(folder, family=DecoderBPE())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"type": "Unigram", "vocab": [["a", 0.0]]}}, "not a BPE vocabulary"),
        ({"pre_tokenizer": {"type": "Nonsense"}}, "not a tokenizer.json"),
        ({"added_tokens": [{"content": "x"}, 3]}, "added tokens must be a list of tokens"),
    ],
)
def test_files_that_are_no_tokenizer(changes, message, tmp_path):
    path = write_tokenizer(tmp_path, "qwen2") / "tokenizer.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(BadInput, match=rf"tokenizer\.json: .*{message}"):
        load(tmp_path, "qwen2")


@pytest.mark.parametrize("family", [DecoderBPE(), EncoderBPE()], ids=lambda family: family.name)
@pytest.mark.parametrize("kind", [None, "byte-bpe"])
def test_a_learned_tokenizer_is_read_by_the_reference(family, kind, tmp_path):
    config = EncoderTextConfig(kind=kind, vocab=350)
    learned = learn_tokenizer(family.name, TEXTS, config, 64, ["<answer>"])
    learned.save(tmp_path)
    model_type = "llama" if family.name == "decoder-bpe" else "modernbert"
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}))
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    for first in (None, family):
        ours = EncoderTokenizer.load(tmp_path, family=first)
        assert type(ours.family) is type(family)
        assert ours.template == learned.template and ours.longest == 64
        for text in (*TEXTS, *AWKWARD, "1234 <answer>"):
            check(ours, theirs, text)
    pair = theirs(*TEXTS[:2], return_token_type_ids=True)
    row = ours.row(*ours.words.encode_all(TEXTS[:2]))
    assert row.tokens.tolist() == pair.input_ids
    assert row.segments.tolist() == pair.token_type_ids


def test_a_learned_decoder_has_single_digits_and_ends_documents():
    learned = learn_tokenizer(
        "decoder-bpe", ["2024 2024 2024 ab ab"], EncoderTextConfig(vocab=300), 8
    )
    pieces = learned.words.pieces(learned.words.encode("2024 ab"))
    assert pieces == ["2", "0", "2", "4", "▁ab"]
    assert learned.template.separator == learned.eos == learned.special_ids["bos_token"]


@pytest.mark.parametrize("name", SHAPES)
def test_words_alone_are_words_of_a_text(both, name):
    ours = both(name)[0]
    old, man = ours.pieces(["old", "man"])
    assert [*old, *man] == ours.words.encode("the old man")[-2:]


@pytest.mark.parametrize("name", SHAPES)
def test_each_character_belongs_to_its_tokens(both, name):
    words = both(name)[0].words
    for text in TEXTS:
        cut = words.segment(text)
        covered = {at for start, end in cut.spans for at in range(start, end)}
        assert covered == {*range(len(text))}
        starts = [span.start for span in cut.spans]
        assert starts == sorted(starts)


def test_the_mask_takes_the_space_before_it(both):
    ours, theirs = both("modernbert")
    for text in ("The old [MASK] reads", "[MASK]", "a  [MASK][MASK].", " [MASK] of the\n[MASK]"):
        assert ours.row(ours.masked(text)).tokens.tolist() == theirs(text).input_ids


SIZES = {"width": 12, "depth": 2, "heads": 2, "inner": 16, "longest": 48, "init_std": 0.4}


def small(tokenizer, paper, facts, head, **changes):
    torch.manual_seed(3)
    facts = change(facts, **SIZES, vocab=len(tokenizer.words), **changes).with_heads(head)
    return regard.Model(LoadedModel(paper, facts, facts.build().eval(), tokenizer))


@pytest.mark.thinned
@pytest.mark.parametrize("name", DECODERS)
def test_a_causal_model_reads_the_rows_of_the_reference(both, name):
    ours, theirs = both(name)
    model = small(ours, gpt2.PAPER, gpt2.SMALL, NextTokenHead())
    prompts = ["The old man", " 2024\n the", "naïve 東 man"]
    short = {"max_new_tokens": 12}
    ids = [theirs(prompt).input_ids for prompt in prompts]
    for prompt, row, (text,) in zip(prompts, ids, model.generate(prompts, **short), strict=True):
        ((expected,),) = model.generate([row], **short)
        assert text.hypothesis.tokens == expected.hypothesis.tokens and text.text == expected.text
        assert "".join(model.stream(prompt, **short)) == text.text
        whole = theirs.decode([*row, *text.hypothesis.tokens], skip_special_tokens=True)
        assert whole == theirs.decode(row, skip_special_tokens=True) + text.text
    first = theirs.bos_token_id if len(theirs("").input_ids) else theirs.eos_token_id
    text = ours.words.encode(prompts[0])
    (logits,) = model.logits([[first, *text]])
    table = torch.log_softmax(logits.double(), -1).numpy()
    expected = table[np.arange(len(text)), text].tolist()
    assert model.score(prompts[:1])[0] == pytest.approx(expected, **SCALARS)
    model.look("The old man reads")


def test_a_new_model_keeps_its_tokenizer(tmp_path):
    learned = learn_tokenizer("decoder-bpe", TEXTS, EncoderTextConfig(vocab=300), None)
    model = small(learned, gpt2.PAPER, gpt2.SMALL, NextTokenHead())
    model.save(tmp_path)
    again = regard.load(tmp_path, "cpu")
    assert isinstance(again.tokenizer.family, DecoderBPE)
    assert again.tokenizer.files == learned.files
    expected = model.generate(["The old 12"], max_new_tokens=5)
    assert again.generate(["The old 12"], max_new_tokens=5) == expected
    assert again.score(["The old 12"]) == model.score(["The old 12"])


def test_a_masked_lm_fills_gaps(both):
    ours, theirs = both("modernbert")
    model = small(ours, bert.PAPER, bert.TINY, MLMHead(), pool=None)
    text = "The old [MASK] reads a book."
    row = theirs(text).input_ids
    (logits,) = model.logits([row])
    best = int(logits[row.index(theirs.mask_token_id)].argmax())
    (filled,) = model.fill([text], top=1)
    assert filled.blanks[0][0].word == ours.words.pieces([best])[0]
    assert len(model.score([text.replace("[MASK]", "man")])[0]) == len(row) - 2
    model.look("The old man reads")
