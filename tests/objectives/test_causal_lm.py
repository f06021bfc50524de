"""The next token: targets, what a token may see, metrics, and runs over documents and blocks."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

import regard
from regard.core.batch import IGNORED, TokenRow
from regard.core.errors import BadInput
from regard.models.facts import change
from regard.models.heads import NextTokenHead
from regard.models.papers import awd_lstm, bert, gpt2
from regard.objectives.causal_lm import CausalLM
from regard.objectives.rows import AnnotatedRow
from regard.objectives.sum import Sum
from small_documents import write_animals
from verb import run

TINY = change(gpt2.SMALL, vocab=30, depth=2, width=8, heads=2, inner=12, longest=12, dropout=0.0)
TINY = change(TINY, attention_dropout=0.0, init_std=0.5)


def annotated(*tokens, after=None):
    row = TokenRow(np.array(tokens), np.zeros(len(tokens), int))
    example = AnnotatedRow(row, {}, {} if after is None else {"next_token": after})
    return CausalLM().annotator(None)([example], np.arange(1), (0, 0))[0]


def test_the_target_of_a_token_is_the_next_one():
    row = annotated(5, 6, 7, after=8)
    assert row.targets["next_token"].tolist() == [6, 7, 8] and CausalLM().weight(row) == 3
    row = annotated(5, 6, 7)
    assert row.targets["next_token"].tolist() == [6, 7, IGNORED] and CausalLM().weight(row) == 2


def test_the_loss_is_that_of_each_row_alone():
    torch.manual_seed(0)
    objective = Sum(CausalLM())
    facts = objective.fit(TINY)
    model, rows = facts.build(), [annotated(5, 6, 7, after=8), annotated(9), annotated(1, 2)]
    assert facts.output_heads == (NextTokenHead(),) and facts.scaled_init
    loss, _ = objective(model, objective.collate(rows))
    expected = 0.0
    for row in rows:
        alone = objective.collate([row])
        logits = model(alone.inputs).by_head["next_token"]
        expected += cross_entropy(
            logits, alone.targets["next_token"], ignore_index=IGNORED, reduction="sum"
        )
    torch.testing.assert_close(loss, torch.as_tensor(expected))


def test_no_token_sees_later_ones_or_those_of_other_rows():
    torch.manual_seed(0)
    model = Sum(CausalLM()).fit(TINY).build()
    batch = Sum(CausalLM()).collate([annotated(5, 6, 7, 8), annotated(9, 10, 11)])
    vectors = model.trunk.embed.token(batch.inputs.tokens_T).detach().requires_grad_()
    model.trunk.embed.token.forward = lambda tokens_T: vectors
    logits_TV = model(batch.inputs).by_head["next_token"]
    for at, row in enumerate([range(4)] * 4 + [range(4, 7)] * 3):
        (gradient,) = torch.autograd.grad(logits_TV[at].sum(), vectors, retain_graph=True)
        seen = gradient.abs().sum(-1).nonzero()[:, 0].tolist()
        assert seen == [*range(row[0], at + 1)]


def test_a_model_that_sees_later_tokens_is_refused():
    with pytest.raises(BadInput, match="causal-lm: this model is not causal"):
        Sum(CausalLM()).check(bert.TINY)


def test_bits_per_byte_count_the_bytes_of_all_targets():
    rows = [annotated(1, 2, after=0), annotated(2, 1)]
    words = SimpleNamespace(byte_sizes=np.array([0, 3, 1]))
    found = CausalLM().text_metrics(2.0, SimpleNamespace(words=words), rows)
    assert found == {"bits_per_byte": pytest.approx(2.0 * 3 / math.log(2) / 4)}
    words.byte_sizes = None
    assert CausalLM().text_metrics(2.0, SimpleNamespace(words=words), rows) == {}


RECIPE = """
task = "pretrain"
[data]
train = { documents = "animals.txt" }
dev = { held_out = 4 }
[text]
vocab = VOCAB
[model]
paper = "PAPER"
change = { width = 32, inner = 64, depth = 2, heads = 2, longest = 64, init_std = 0.1 }
[batches]
tokens = 512
rows = 24
longest = 64
mixed = true
[optimiser]
kind = "adamw"
rate = 5e-3
schedule = "constant"
warmup = 5
[train]
steps = 30
smoothing = 0.0
precision = "fp32"
evaluate_every = 30
report_every = 10
"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_animals(tmp_path_factory.mktemp("animals"))


def train(corpus, out, recipe, *settings):
    (out / "r.toml").write_text(recipe)
    given = [word for setting in settings for word in ("--set", setting)]
    run("train", out / "r.toml", "--data", corpus, "--out", out / "run", *given)
    lines = (out / "run" / "metrics.jsonl").read_text().splitlines()
    return regard.load(out / "run" / "model", "cpu"), [json.loads(line) for line in lines]


@pytest.mark.thinned
@pytest.mark.parametrize("rows", ["documents", "blocks"])
def test_gpt2_learns_bytes_and_is_read_by_the_reference(corpus, tmp_path, rows):
    """A vocabulary without merges: the letters of a text."""
    recipe = RECIPE.replace("PAPER", "gpt-2").replace("VOCAB", "257")
    model, lines = train(corpus, tmp_path, recipe, f"objective.causal-lm.rows={rows}")
    dev = [line for line in lines if "perplexity" in line]
    assert dev and dev[-1]["bits_per_byte"] < 4  # 8 without learning
    assert dev[-1]["loss"] / math.log(2) == pytest.approx(dev[-1]["bits_per_byte"], rel=0.02)
    assert len(model.tokenizer.words) == 257
    text = "The otter is\n swimming."
    assert model.tokenizer.decode(model.tokenizer.words.encode(text)) == text
    model.save(tmp_path / "hf", "hf")
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path / "hf", local_files_only=True
    )
    ids = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")(text).input_ids
    assert ids == model.tokenizer.words.encode(text)
    (logits_TV,) = model.logits([text])
    expected_TV = theirs(torch.tensor([ids])).logits[0]
    torch.testing.assert_close(logits_TV, expected_TV, rtol=1e-5, atol=1e-5)
    assert theirs.config.eos_token_id == model.tokenizer.words.eos


def test_gpt_learns_its_own_pieces(corpus, tmp_path):
    recipe = RECIPE.replace("PAPER", "gpt").replace("VOCAB", "120\nlower = true")
    model, lines = train(corpus, tmp_path, recipe)
    dev = [line for line in lines if "perplexity" in line]
    assert dev and "bits_per_byte" not in dev[-1]
    assert model.paper.name == "GPT"


def test_activations_are_penalised_after_dropout_and_their_changes_before_it():
    """awd-lstm-lm, main.py: AR is of the dropped states, TAR of those before dropout."""
    torch.manual_seed(0)
    facts = change(awd_lstm.WIKITEXT_2, vocab=30, width=6, embedding=4, last_width=4)
    plain, penalised = CausalLM("streams"), CausalLM("streams", ar=2.0, tar=3.0)
    model = Sum(penalised).fit(facts).build().train()
    batch = Sum(penalised).collate([annotated(5, 6, 7, 8, after=9), annotated(1, 2, 3, 4, after=5)])
    outputs = model(batch.inputs)
    dropped_BLD, before_BLD = (
        states_TD.view(2, 4, -1)
        for states_TD in (outputs.encoded.states_TD, outputs.encoded.undropped_TD)
    )
    assert (dropped_BLD == 0).any() and not (before_BLD == 0).any()
    penalty = 2 * dropped_BLD.square().mean() + 3 * before_BLD.diff(dim=1).square().mean()
    expected = plain.loss(outputs, batch)[0] + 8 * penalty
    torch.testing.assert_close(penalised.loss(outputs, batch)[0], expected)
