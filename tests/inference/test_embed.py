"""Vectors of texts, and the files with which folders say how to make them."""

import json
from dataclasses import replace

import pytest
import torch

import regard
from regard.api import Model
from regard.core.batch import TokenRow
from regard.core.errors import BadInput
from regard.models.folders import folder as folders
from regard.models.folders.loaded_model import check_scores
from regard.models.folders.sentence_transformers import embedding_of, files_of
from regard.models.pools import LastToken
from regard.text.templates import Template
from regard.text.tokenizers.wordpiece import WordPiece
from serving.running_server import running
from small_bert import SENTENCES, model, small_bert, vocabulary
from small_families import FACTS, IDS, small_family
from small_mistakes import TRANSLATORS, small_translator
from verb import run

TEXTS = [*SENTENCES, "", "storm", " ".join(SENTENCES)]
MODULES = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}


def with_files(folder, modules=MODULES, pool="mean_tokens", longest=12, lower=False, **more):
    """A Hugging Face folder with the files of sentence-transformers beside it."""
    folders.write(folder, small_bert(), "hf")
    listed = [
        {"idx": number, "name": str(number), "path": place, "type": f"x.models.{kind}"}
        for number, (kind, place) in enumerate(modules.items())
    ]
    modes = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")
    pooling = {f"pooling_mode_{mode}": mode in pool.split("+") for mode in modes}
    pooling |= {"include_prompt": more.pop("include_prompt", True)}
    (folder / "1_Pooling").mkdir()
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    reading = {"max_seq_length": longest, "do_lower_case": lower}
    (folder / "sentence_bert_config.json").write_text(json.dumps(reading))
    (folder / "config_sentence_transformers.json").write_text(json.dumps(more))
    return folder


def test_ways_of_pooling():
    one = model("states")
    states = one.encode(TEXTS)
    wanted = {
        "mean": [each.mean(0) for each in states],
        "max": [each.amax(0) for each in states],
        "first": [each[0] for each in states],
        "pooled": [torch.tanh(one.module.pool.dense(each[0])) for each in states],
    }
    for pool, vectors in wanted.items():
        vectors = torch.stack(vectors)
        torch.testing.assert_close(one.embed(TEXTS, pool), vectors, atol=1e-5, rtol=1e-5)
        scaled = one.embed(TEXTS, pool, normalise=True)
        unit = torch.nn.functional.normalize(vectors, dim=-1)
        torch.testing.assert_close(scaled, unit, atol=1e-5, rtol=1e-5)
    assert torch.equal(one.embed(TEXTS), one.embed(TEXTS, "mean"))
    assert one.embed([]).shape == (0, 16)
    with pytest.raises(BadInput, match="pool is mean, max, first or pooled, not 'median'"):
        one.embed(TEXTS, "median")
    with pytest.raises(BadInput, match="this model has no pool"):
        model("words").embed(TEXTS, "pooled")


class SummaryLast(WordPiece):
    template = Template("A sep cls:1", "A sep B:1 sep:1 cls:1")


def test_the_first_state_is_that_of_the_summary_token_wherever_it_stands():
    loaded = small_bert()
    tokenizer = replace(loaded.tokenizer, family=SummaryLast())
    facts = replace(loaded.facts, pool=LastToken())
    module = facts.build().eval()
    for given in (tokenizer, None):  # the template says it, or the pool
        one = Model(replace(loaded, facts=facts, module=module, tokenizer=given))
        rows = [[7, 8, 3, 2], [9, 3, 2]] if given is None else TEXTS
        states = one.encode(rows)
        expected = torch.stack([each[-1] for each in states])
        torch.testing.assert_close(one.embed(rows, "first"), expected, atol=1e-5, rtol=1e-5)


def test_texts_pairs_and_ids_together():
    one = model("states")
    pair = ("The storm", "came in")
    row = vocabulary().row(*map(vocabulary().words.encode, pair))
    text, both, ids, made = one.embed(["storm", pair, [2, 7, 8, 3], row])
    torch.testing.assert_close(both, made)
    torch.testing.assert_close(text, one.embed(["storm"])[0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(
        ids, one.embed([TokenRow([2, 7, 8, 3], [0] * 4)])[0], atol=1e-5, rtol=1e-5
    )


def test_what_a_folder_says_is_done(tmp_path):
    folder = with_files(tmp_path / "st", longest=12)
    loaded, plain = regard.load(folder, "cpu"), model("states")
    assert loaded.notes["embedding"] == {
        "pool": "mean",
        "normalise": True,
        "longest": 12,
        "lower": False,
    }
    cut = [vocabulary().row(vocabulary().words.encode(one), longest=12) for one in TEXTS]
    wanted = plain.embed(cut, "mean", normalise=True)
    torch.testing.assert_close(loaded.embed(TEXTS), wanted, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(
        loaded.embed(TEXTS, "max", normalise=False), plain.embed(cut, "max"), atol=1e-5, rtol=1e-5
    )


def test_the_files_survive_conversion(tmp_path):
    folder = with_files(tmp_path / "st")
    regard.load(folder, "cpu").save(tmp_path / "ours")
    ours = regard.load(tmp_path / "ours", "cpu")
    ours.save(tmp_path / "again", "hf")
    names = [
        "1_Pooling/config.json",
        "config_sentence_transformers.json",
        "modules.json",
        "sentence_bert_config.json",
    ]
    assert sorted(files_of(folder)) == names
    for name in names:
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()
    again = regard.load(tmp_path / "again", "cpu")
    assert again.notes["embedding"] == ours.notes["embedding"]
    assert torch.equal(again.embed(TEXTS), ours.embed(TEXTS))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"modules": {**MODULES, "Dense": "3_Dense"}}, "a module Dense is not supported"),
        ({"pool": "mean_tokens+max_tokens"}, "this kind of pooling"),
        ({"pool": "mean_sqrt_len_tokens"}, "this kind of pooling"),
        ({"default_prompt_name": "query"}, "default_prompt_name 'query' is none of prompts"),
        ({"prompts": ["query: "]}, "prompts must be texts by name"),
        ({"prompts": {"query": 3}}, "prompts must be texts by name"),
        ({"prompts": {"query": "q"}, "include_prompt": False}, "include_prompt = false"),
    ],
)
def test_what_cannot_be_done_is_reported(tmp_path, changes, reason):
    loaded = regard.load(with_files(tmp_path / "st", **changes), "cpu")
    with pytest.raises(BadInput, match=f"{reason}.* is not supported|{reason}"):
        loaded.embed(TEXTS)
    torch.testing.assert_close(
        loaded.embed(TEXTS, "mean"), model("states").embed(TEXTS), atol=1e-5, rtol=1e-5
    )


PROMPTS = {"query": "The STORM: ", "passage": "", "document": "she read: "}


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("default", [None, "query", "passage"])
def test_prompts_are_put_before_texts(tmp_path, default, lower):
    more = {"prompts": PROMPTS, "default_prompt_name": default}
    loaded = regard.load(with_files(tmp_path / "st", lower=lower, **more), "cpu")
    plain = regard.load(with_files(tmp_path / "plain", lower=lower), "cpu")
    for name, prompt in {**PROMPTS, None: PROMPTS.get(default, "")}.items():
        expected = plain.embed([prompt + text for text in TEXTS])
        found = loaded.embed(TEXTS, prompt_name=name)
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)
        assert torch.equal(found, plain.embed(TEXTS)) == (not prompt)
    component, longest = loaded.component("embed", prompt_name="document"), 12
    words = len(loaded.tokens(["she read: storm"])[0].ids)
    assert component.token_count("storm", longest) == words
    rows = component.prepare(["storm", "storm " * 9], [0, 1])
    assert [row.cut for row in rows] == [False, True]  # 9 words alone have room
    assert not loaded.component("embed", prompt_name="passage").prepare(["storm " * 9], [0])[0].cut
    again = regard.load(saved(loaded, tmp_path / "ours"), "cpu")
    assert torch.equal(again.embed(TEXTS), loaded.embed(TEXTS))
    assert again.notes["embedding"]["prompts"] == PROMPTS


def saved(loaded, folder):
    loaded.save(folder)
    return folder


def test_pairs_and_ids_have_no_prompt(tmp_path):
    more = {"prompts": PROMPTS, "default_prompt_name": "query"}
    loaded = regard.load(with_files(tmp_path / "st", **more), "cpu")
    plain = regard.load(with_files(tmp_path / "plain"), "cpu")
    others = [("The storm", "came in"), [2, 7, 8, 3]]
    torch.testing.assert_close(loaded.embed(others), plain.embed(others), atol=1e-6, rtol=1e-5)
    loaded.embed(others, prompt_name="passage")  # which is empty
    for given in others:
        with pytest.raises(BadInput, match="a prompt is put before a text, not before a pair"):
            loaded.embed([given], prompt_name="query")


def test_prompts_that_a_model_does_not_have(tmp_path):
    loaded = regard.load(with_files(tmp_path / "st", prompts=PROMPTS), "cpu")
    known = "no prompt 'qurey'; its prompts are query, passage, document"
    with pytest.raises(BadInput, match=known):
        loaded.embed(["a"], prompt_name="qurey")
    translator = Model(small_translator(next(iter(TRANSLATORS))))
    for other in (model("states"), translator):
        with pytest.raises(BadInput, match="no prompt 'query'; it has no prompts"):
            other.embed(["a"], prompt_name="query")


@pytest.mark.parametrize(("pool", "name"), [("cls_token", "first"), ("max_tokens", "max")])
def test_other_ways_are_known(tmp_path, pool, name):
    folder = with_files(tmp_path / "st", pool=pool, longest=None, lower=True)
    said = embedding_of(folder)
    assert said == {"pool": name, "normalise": True, "longest": None, "lower": True}
    loaded = regard.load(folder, "cpu")
    assert torch.equal(loaded.embed(["STORM"]), loaded.embed(["storm"]))


@pytest.mark.parametrize("place", ["..", "../other", "/etc", "a/b", ".hidden", "x" * 300])
def test_no_file_outside_the_folder_is_read(tmp_path, place):
    folder = with_files(tmp_path / "st", modules={"Transformer": "", "Pooling": place})
    with pytest.raises(BadInput, match="must be the short name of a folder beside it"):
        regard.load(folder, "cpu")


@pytest.mark.parametrize("content", ["", "{}x", "\udcff"])
def test_files_that_are_not_json_are_named(tmp_path, content):
    folder = with_files(tmp_path / "st")
    (folder / "modules.json").write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(BadInput, match=r"modules\.json: not JSON"):
        regard.load(folder, "cpu")


@pytest.mark.parametrize("content", ['[{"type": "a"}]', "[1]", "3"])
def test_damaged_files_are_named(tmp_path, content):
    folder = with_files(tmp_path / "st")
    (folder / "modules.json").write_text(content)
    with pytest.raises(BadInput, match=r"modules\.json: must be a list of modules"):
        regard.load(folder, "cpu")


def test_a_broken_model_is_reported(tmp_path):
    broken = model("states")
    broken.module.trunk.embed.norm.bias.data.fill_(float("nan"))
    weight = r"; the weight trunk\.embed\.norm\.bias is NaN or infinite \(16 of 16 numbers\)"
    for method in (broken.embed, broken.encode):
        with pytest.raises(BadInput, match="the model is broken: its states are NaN.*" + weight):
            method(["storm"])
    broken.save(tmp_path / "model")
    refused = run("embed", tmp_path / "model", stdin="storm\n", code=2).stderr
    assert "the weight trunk.embed.norm.bias is NaN" in refused.splitlines()[-1]
    with running({"broken": broken}) as server:
        for path in ("/embed", "/embed_all"):
            response = server.post(path, {"inputs": "storm"})
            assert response.status_code == 400
            assert "trunk.embed.norm.bias" in response.json()["error"]


@pytest.mark.parametrize("family", [name for name in FACTS if name != "vit"])
def test_a_nan_in_any_weight_of_an_encoder_is_refused(family, tmp_path):
    """Where torch's attention would hide it, before the model runs."""
    inspected = small_family(family)
    runner, facts = inspected, inspected.facts
    path = facts.encoder.state_path(facts.encoder_path, -1)
    passed = []
    for name, weight in runner.module.encoder.named_parameters():
        before = weight.detach().clone()
        weight.data.fill_(float("nan"))
        try:
            check_scores(runner.module, tmp_path)
            runner.states(runner.read_rows([IDS]), path)
            passed.append(name)
        except BadInput as error:
            assert f"the weight {facts.encoder_path}" in str(error), error
        finally:
            weight.data.copy_(before)
    assert {*passed} <= {"query_embed.weight"}  # XLNet's, for pre-training


def test_a_broken_weight_of_scores_is_refused_with_its_folder(tmp_path):
    broken = model("states")
    broken.module.trunk.blocks[1].attention.qkv.weight.data[0, 0] = float("nan")
    broken.save(tmp_path / "model")
    refused = run("embed", tmp_path / "model", stdin="storm\n", code=2).stderr
    fault = (
        "the weight trunk.blocks.1.attention.qkv.weight is NaN or infinite; copy the folder again"
    )
    assert refused.splitlines()[-1].endswith(f"model: {fault}")


def test_values_that_overflow_are_told_from_broken_weights():
    overflowing = model("states")
    overflowing.module.trunk.embed.norm.bias.data.fill_(3e38)
    with pytest.raises(BadInput, match=r"broken.*; all weights are finite, so values overflow"):
        overflowing.encode(["storm"])
