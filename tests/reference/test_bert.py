"""F1, F9: every layer and every head of BERT computes what ``transformers`` computes."""

from itertools import product

import pytest
import torch
from torch.nn import functional

from bert_folders import HEADS, SMALL, agree, our_values, reference, save, their_values, write_bert
from regard.core.errors import BadInput
from regard.models.facts import change
from regard.models.folders import folder as folders
from regard.models.papers import bert
from regard.text.templates import RowBuilder
from regard.text.tokenizers.wordpiece import WordPiece
from regard.weights.files import load_weights, read_folder, weights_of
from regard.weights.weight_map import Extras

transformers = pytest.importorskip("transformers")

SHAPES = {
    "odd sizes": {
        "hidden_size": 15,
        "num_hidden_layers": 3,
        "num_attention_heads": 3,
        "intermediate_size": 7,
        "layer_norm_eps": 1e-3,
    },
    "relu": {"hidden_act": "relu"},
    "gelu by tanh": {"hidden_act": "gelu_new"},
    "one segment": {"type_vocab_size": 1},
    "other vocabulary": {"vocab_size": 57, "max_position_embeddings": 31},
    "untied": {"tie_word_embeddings": False},
    "dropout of its own": {"classifier_dropout": 0.3},
}
# The texts of each row by their lengths; None fills it up to the last position.
BATCHES = {
    "one row": [(5, 3)],
    "ragged": [(3, 4), (1,), (6, 2), (2,), (0,)],
    "empty second text": [(4, 0), (3, 2), (0, 0)],
    "longest": [(3, None), (2,), (1, 5), (None,)],
}
CELLS = list(product(SHAPES, HEADS))


@pytest.fixture(scope="module", params=CELLS, ids=" / ".join)
def models(request, tmp_path_factory):
    """The reference's, and ours as read from the folder that it wrote."""
    shape, head = request.param
    theirs = reference(head, **SHAPES[shape])
    return theirs, folders.read(save(theirs, tmp_path_factory.mktemp("bert")))


def rows_of(batch: str, config, seed: int = 0):
    """Random ids in BERT's template; 0 is the pad, whose vector the reference keeps as it is."""
    template = RowBuilder(WordPiece().template, {"cls": 1, "sep": 2})
    draw = torch.Generator().manual_seed(seed)
    rows = []
    for lengths in BATCHES[batch]:
        room = config.max_position_embeddings - len(lengths) - 1 - sum(n or 0 for n in lengths)
        filled = [room if length is None else length for length in lengths]
        ids = [torch.randint(1, config.vocab_size, (n,), generator=draw).tolist() for n in filled]
        row = template.row(*ids)
        if config.type_vocab_size == 1:
            row = row._replace(segments=[0] * len(row.tokens))
        rows.append(row)
    return rows


@pytest.mark.thinned
@pytest.mark.parametrize("batch", BATCHES)
@torch.no_grad()
def test_every_value_agrees(models, batch):
    theirs, ours = models
    rows = rows_of(batch, theirs.config)
    found, wanted = our_values(ours, rows), their_values(theirs, rows)
    agree(found, wanted)
    assert f"trunk.blocks.{theirs.config.num_hidden_layers - 1}.output" in found
    logits = {name for name in wanted if name.endswith(".logits")}
    assert logits == {name for name in found if name.endswith(".logits")}
    assert logits or type(theirs) is transformers.BertModel
    for name, value in wanted.items():
        if len(value) > 1:
            assert value.std(0).max() > 1_000 * 1e-5, name  # or agreeing would say little


def test_no_architecture_is_left_out():
    """What regard may write, and what ``transformers`` has, is what was compared above."""
    compared = {name for name, _ in HEADS.values()}
    written = set()
    tables = (bert.MLM, bert.SENTENCE_PAIR, bert.SPAN, bert.LABEL, bert.TOKEN_LABEL, bert.CHOICE)
    choices = ((table.head, None) for table in tables)
    for pool, *heads in product((bert.BASE.pool, None), *choices):
        some = tuple(head for head in heads if head is not None)
        try:
            facts = change(bert.BASE, pool=pool, output_heads=some)
        except BadInput:  # rows are judged by what was pooled
            continue
        written.add(bert.HF.architecture(facts))
    known = {name for name in dir(transformers) if name.startswith("BertFor")}
    assert compared == written == {*bert.ARCHITECTURES.heads} == {"BertModel"} | known
    outputs = {settings.get("num_labels") for _, settings in HEADS.values()}
    assert {1, 3} <= outputs and len(outputs) == len({3, 4, 1, 5, None})


def test_batches_are_what_they_are_called():
    config = transformers.BertConfig(**SMALL)
    lengths = [len(row.tokens) for row in rows_of("longest", config)]
    assert max(lengths) == config.max_position_embeddings and len(set(lengths)) > 2
    first, *_ = rows_of("empty second text", config)
    assert list(first.tokens)[-2:] == [2, 2] and list(first.segments)[-2:] == [0, 1]


@torch.no_grad()
def test_every_tensor_of_the_file_matters(tmp_path):
    """A tensor that was read to the wrong place, or nowhere, would go unnoticed otherwise."""
    stored = folders.read(write_bert(tmp_path / "hf", "words and pairs"))
    rows = rows_of("longest", transformers.BertConfig(**SMALL))
    tensors, names = read_folder(tmp_path / "hf"), bert.HF.weights
    before, silent = our_values(stored, rows), []
    for name, tensor in tensors.items():
        changed = {**tensors, name: tensor + 0.1 * torch.randn_like(tensor)}
        load_weights(stored.module, names.read(changed, weights_of(stored.module), "")[0], "")
        after = our_values(stored, rows)
        logits = [name for name in before if name.endswith(".logits")]
        if all(torch.allclose(before[n], after[n], atol=1e-4) for n in logits):
            silent.append(name)
    # softmax(q·(k + b)) does not depend on b
    assert silent == [f"bert.encoder.layer.{i}.attention.self.key.bias" for i in (0, 1)]


@pytest.mark.parametrize("head", ["words", "pairs", "one label", "tags", "answers", "choices"])
def test_gradients_agree(head, tmp_path):
    """Of every tensor, in training, with dropout at 0."""
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    theirs = reference(head, **still).train()
    ours = folders.read(save(theirs, tmp_path))
    ours.module.train()
    rows = rows_of("ragged", theirs.config)
    for value in (their_values(theirs, rows), our_values(ours, rows)):
        (logits,) = (one for name, one in value.items() if name.endswith(".logits"))
        goals = torch.arange(len(logits)) % logits.shape[-1]
        (functional.cross_entropy(logits, goals) + logits.square().mean()).backward()
    found = {
        name: torch.zeros_like(one) if one.grad is None else one.grad
        for name, one in ours.module.named_parameters()
    }
    found = bert.HF.weights.write(found, Extras())
    for name, one in theirs.named_parameters():
        wanted = torch.zeros_like(one) if one.grad is None else one.grad
        torch.testing.assert_close(found[name], wanted, rtol=1e-4, atol=1e-5, msg=name)
    assert sum(float(one.abs().max()) > 1e-3 for one in found.values()) > 0.8 * len(found)
