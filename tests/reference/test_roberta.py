"""RoBERTa: values of every head, folders both ways, byte-level tokenizer, template and tasks."""

import json

import numpy as np
import pytest
import torch

import regard
from regard.ground.batch import TokenRow, pack_rows
from regard.models.formats import folder as folders
from regard.models.papers import roberta
from regard.text.encoder_tokenizer import train_encoder_tokenizer
from regard.weights.files import read_folder
from verb import run

transformers = pytest.importorskip("transformers")

SMALL = {
    "vocab_size": 60,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 22,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
    "num_labels": 3,
}
HEADS = {
    "RobertaModel": None,
    "RobertaForMaskedLM": "mlm",
    "RobertaForSequenceClassification": "label",
    "RobertaForTokenClassification": "token_label",
    "RobertaForQuestionAnswering": "span",
    "RobertaForMultipleChoice": "choice",
}
LENGTHS = (7, 1, 20, 3, 12)  # 20 is the last position
SENTENCES = (
    "The old sailor mended his nets before the storm came in.",
    "Nobody believed that the lighthouse keeper had a cat which could read.",
    "Ada Lovelace met Charles Babbage in London; naïve cafés, 東京 and 🙂 too.",
    "  two spaces,\ttabs\nand lines  ",
)


def reference(kind: str, **settings):
    torch.manual_seed(0)
    labels = {"num_labels": 2} if kind == "RobertaForQuestionAnswering" else {}
    config = transformers.RobertaConfig(**SMALL | labels | settings)
    model = getattr(transformers, kind)(config)
    with torch.no_grad():
        for parameter in model.parameters():  # biases and norms that differ from their start
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.eval()


def rows() -> list[TokenRow]:
    draw = torch.Generator().manual_seed(1)
    ids = [torch.randint(2, 60, (length,), generator=draw).tolist() for length in LENGTHS]
    return [TokenRow(one, [0] * len(one)) for one in ids]


@pytest.mark.parametrize("settings", [{}, {"tie_word_embeddings": False}, {"hidden_act": "relu"}])
@pytest.mark.parametrize("kind", HEADS)
@torch.no_grad()
def test_every_head_agrees_on_ragged_rows(kind, settings, tmp_path):
    theirs = reference(kind, **settings)
    theirs.save_pretrained(tmp_path)
    ours, batch = folders.read(tmp_path), pack_rows(rows())
    assert ours.paper is roberta.PAPER
    outputs = ours.module(batch)
    for row, states_TD, place in zip(
        rows(), batch.layout.split(outputs.states_TD), range(len(LENGTHS)), strict=True
    ):
        ids = torch.tensor([row.tokens])
        given = ids[None] if kind == "RobertaForMultipleChoice" else ids
        expected = theirs(given, output_hidden_states=True)
        torch.testing.assert_close(states_TD, expected.hidden_states[-1][0], rtol=1e-5, atol=1e-5)
        if HEADS[kind] is None:
            pooled_D = outputs.pooled_BD[place]
            torch.testing.assert_close(pooled_D, expected.pooler_output[0], rtol=1e-5, atol=1e-5)
            continue
        if kind == "RobertaForQuestionAnswering":
            wanted = torch.stack([expected.start_logits[0], expected.end_logits[0]], -1)
        else:
            wanted = expected.logits[0]
        logits = outputs.by_head[HEADS[kind]]
        per_row = ours.facts.head(HEADS[kind]).per_row
        found = logits[place] if per_row else batch.layout.split(logits)[place]
        torch.testing.assert_close(found, wanted.view_as(found), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", HEADS)
def test_a_folder_comes_back_bit_for_bit(kind, tmp_path):
    reference(kind).save_pretrained(tmp_path / "theirs")
    regard.load(tmp_path / "theirs", "cpu").save(tmp_path / "ours", "regard")
    regard.load(tmp_path / "ours", "cpu").save(tmp_path / "again", "hf")
    before, after = (read_folder(tmp_path / name) for name in ("theirs", "again"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    config, again = (
        json.loads((tmp_path / name / "config.json").read_text()) for name in ("theirs", "again")
    )
    assert config == again


def test_sizes_are_those_of_the_published_models():
    assert roberta.PAPER.parameters(roberta.BASE) == 124_645_632
    assert roberta.PAPER.parameters(roberta.LARGE) == 355_359_744


@pytest.fixture(scope="module")
def tokenizer():
    return train_encoder_tokenizer(SENTENCES * 3, "byte-bpe", 320, lower=False, longest=20)


def test_the_tokenizer_is_read_by_the_reference_and_gives_the_same_ids(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    for text in (*SENTENCES, "a", " ", "naïve🙂x", "the\n\nsea", "</s> is text"):
        if "</s>" not in text:
            expected = theirs(text).input_ids
            assert tokenizer.row(tokenizer.words.encode(text)).tokens.tolist() == expected
    pair = tokenizer.row(*tokenizer.words.encode_all(["the sea", "a storm"]))
    assert pair.tokens.tolist() == theirs("the sea", "a storm").input_ids
    assert not np.any(pair.segments)


RECIPE = """
task = "{task}"
[data]
train = {train}
dev = {dev}
[text]
vocab = 300
[model]
paper = "roberta"
change = {{ width = 12, depth = 1, heads = 2, inner = 16, longest = 48 }}
[batches]
tokens = 256
rows = 8
longest = 40
[optimiser]
rate = 1e-3
warmup = 1
[train]
steps = 3
precision = "fp32"
smoothing = 0.0
report_every = 1
"""
FILES = {
    "classify": ("tsv", "a.tsv", "text\tlabel\nthe sea\tgood\na storm\tbad\n" * 4),
    "tag": ("CoNLL", "a.conll", "Ada NNP B-NP B-PER\nsails VB B-VP O\n\n" * 6),
    "answer": (
        "SQuAD",
        "a.json",
        json.dumps(
            {
                "data": [
                    {
                        "title": "Ada",
                        "paragraphs": [
                            {
                                "context": "Ada met Charles in London.",
                                "qas": [
                                    {
                                        "id": str(i),
                                        "question": "Who met Charles?",
                                        "answers": [{"text": "Ada", "answer_start": 0}],
                                    }
                                    for i in range(6)
                                ],
                            }
                        ],
                    }
                ]
            }
        ),
    ),
    "choose": (
        "SWAG",
        "a.csv",
        "video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label"
        "\n" + "x,1,a b,the sea,a,gold,one,two,three,four,1\n" * 6,
    ),
}
INPUTS = {
    "classify": ["the sea", ("the sea", "a storm")],
    "tag": ["Ada sails"],
    "answer": [("Who?", "Ada met Charles.")],
    "choose": [("the sea", ["one", "two"])],
}


@pytest.mark.parametrize("task", FILES)
def test_every_task_trains_and_predicts(task, tmp_path):
    reader, name, content = FILES[task]
    (tmp_path / name).write_text(content)
    options = ', options = { texts = ["text"], label = "label" }' if reader == "tsv" else ""
    table = f'{{ reader = "{reader}", file = "{name}"{options} }}'
    (tmp_path / "r.toml").write_text(RECIPE.format(task=task, train=table, dev=table))
    out = tmp_path / "run"
    run("train", str(tmp_path / "r.toml"), "--data", str(tmp_path), "--out", str(out))
    model = regard.load(out / "model", "cpu")
    assert model.paper is roberta.PAPER
    assert len(model.predict(INPUTS[task])) == len(INPUTS[task])
    model.save(tmp_path / "hf", "hf")
    again = regard.load(tmp_path / "hf", "cpu")
    assert [str(one) for one in again.predict(INPUTS[task])] == [
        str(one) for one in model.predict(INPUTS[task])
    ]
    kind = json.loads((tmp_path / "hf" / "config.json").read_text())["architectures"][0]
    getattr(transformers, kind).from_pretrained(tmp_path / "hf", local_files_only=True)


def test_masked_lm_trains_on_full_rows_and_fills_masks(tmp_path):
    (tmp_path / "books.txt").write_text("\n\n".join("\n".join(SENTENCES[:3]) for _ in range(6)))
    table = '{ documents = "books.txt" }'
    recipe = RECIPE.format(task="pretrain", train=table, dev="{ held_out = 1 }")
    recipe += "\n[objective]\nmasked-lm = {}\nnext-sentence = false\n"
    (tmp_path / "r.toml").write_text(recipe)
    out = tmp_path / "run"
    run("train", str(tmp_path / "r.toml"), "--data", str(tmp_path), "--out", str(out))
    model = regard.load(out / "model", "cpu")
    (filled,) = model.fill(["The old<mask> mended his nets."])
    assert len(filled.blanks) == 1 and len(filled.blanks[0]) == 5
    model.save(tmp_path / "hf", "hf")
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(
        tmp_path / "hf", local_files_only=True
    )
    assert type(theirs) is transformers.RobertaForMaskedLM
