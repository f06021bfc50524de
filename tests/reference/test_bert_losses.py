"""What an encoder learns from is what transformers' models learn from: losses, and ten steps."""

import json

import numpy as np
import pytest
import torch

from bert_folders import quietly, read_by_reference, write_bert
from regard.core.batch import IGNORED, BatchLimits, TokenRow
from regard.data.batches.sampler import Cursor
from regard.models.folders import folder as folders
from regard.models.trunk_with_heads import Outputs
from regard.objectives.label_losses import (
    Classification,
    MultiLabel,
    MultipleChoice,
    Regression,
    SpanExtraction,
    TokenClassification,
    TokenRegression,
)
from regard.objectives.masked_lm import MaskedLM
from regard.objectives.next_sentence import NextSentence
from regard.objectives.rows import AnnotatedRow
from regard.objectives.sum import Sum
from regard.training.loop import train
from regard.training.loop.events import ReportEvent
from regard.training.recipe import read
from regard.training.run import prepare
from regard.weights.files import weights_of
from small_runs import ALONE
from small_tuning import write_start, write_tuning

LENGTHS = (7, 3, 16, 1, 5, 9)
FIXED = BatchLimits(64, 8, 16)


def rows(lengths=LENGTHS):
    draw = np.random.default_rng(5)
    return [
        TokenRow(draw.integers(1, 40, length), (np.arange(length) > length // 2).astype(int))
        for length in lengths
    ]


def padded(sequences, fill=0):
    tensors = [torch.as_tensor(np.asarray(one)) for one in sequences]
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=fill)


def inputs(some):
    return {
        "input_ids": padded([row.tokens for row in some]),
        "token_type_ids": padded([row.segments for row in some]),
        "attention_mask": padded([[1] * len(row.tokens) for row in some]),
    }


def tags(some):
    draw = np.random.default_rng(6)
    goals = [draw.integers(0, 5, len(row.tokens)) for row in some]
    return [np.where(draw.random(len(one)) < 0.4, IGNORED, one) for one in goals]


def masked(some):
    draw = np.random.default_rng(7)
    found = []
    for number, row in enumerate(some):
        length = len(row.tokens)
        places = np.sort(draw.choice(length, size=max(1, length // 6), replace=False))
        targets = {"mlm": draw.integers(0, 40, len(places)), "sentence_pair": number % 2}
        found.append(AnnotatedRow(row, {"mlm": places}, targets))
    return found


def labels_of(examples):
    goals = [np.full(len(one.row.tokens), IGNORED) for one in examples]
    for goal, one in zip(goals, examples, strict=True):
        goal[one.positions["mlm"]] = one.targets["mlm"]
    return padded(goals, IGNORED)


def their_loss(kind, model, some):
    """Their loss of a batch, and the same as our objective and its examples."""
    draw = np.random.default_rng(8)
    if kind == "one label":
        goals = draw.integers(0, 3, len(some))
        said = model(**inputs(some), labels=torch.tensor(goals))
        examples = [(row, [goal]) for row, goal in zip(some, goals, strict=True)]
        return said.loss, Classification(), examples
    if kind == "several labels":
        goals = draw.integers(0, 2, (len(some), 4)).astype(np.float32)
        said = model(**inputs(some), labels=torch.tensor(goals))
        return said.loss, MultiLabel(len(goals[0])), list(zip(some, goals, strict=True))
    if kind == "a number":
        goals = draw.normal(size=len(some)).astype(np.float32)
        said = model(**inputs(some), labels=torch.tensor(goals))
        examples = [(row, [goal]) for row, goal in zip(some, goals, strict=True)]
        return said.loss, Regression(), examples
    if kind == "tags":
        goals = tags(some)
        said = model(**inputs(some), labels=padded(goals, IGNORED))
        return said.loss, TokenClassification(), list(zip(some, goals, strict=True))
    if kind == "answers":  # theirs counts padding as a place where answers begin: row by row
        ends = [tuple(np.sort(draw.integers(0, len(row.tokens), 2)).tolist()) for row in some]
        each = [
            model(
                **inputs([row]),
                start_positions=torch.tensor([start]),
                end_positions=torch.tensor([end]),
            ).loss
            for row, (start, end) in zip(some, ends, strict=True)
        ]
        return torch.stack(each).mean(), SpanExtraction(), list(zip(some, ends, strict=True))
    if kind == "choices":
        goals = draw.integers(0, 3, len(some) // 3)
        given = {name: one.unflatten(0, (-1, 3)) for name, one in inputs(some).items()}
        said = model(**given, labels=torch.tensor(goals))
        questions = [some[i : i + 3] for i in range(0, len(some), 3)]
        return said.loss, MultipleChoice(3), list(zip(questions, goals, strict=True))
    examples = masked(some)
    if kind == "words":
        said = model(**inputs(some), labels=labels_of(examples))
        return said.loss, MaskedLM(), examples
    follows = torch.tensor([one.targets["sentence_pair"] for one in examples])
    said = model(**inputs(some), labels=labels_of(examples), next_sentence_label=follows)
    return said.loss, Sum(MaskedLM(), NextSentence()), examples


@pytest.mark.parametrize(
    "kind",
    [
        "one label",
        "several labels",
        "a number",
        "tags",
        "answers",
        "choices",
        "words",
        "words and pairs",
    ],
)
def test_losses_and_gradients_are_those_of_transformers(kind, tmp_path):
    """On ragged batches, and on filled ones of fixed shape."""
    folder = write_bert(tmp_path / "hf", kind)
    theirs, ours = read_by_reference(folder), folders.read(folder).module
    wanted, objective, examples = their_loss(kind, theirs, rows())
    wanted.backward()
    weight = torch.as_tensor(np.array([objective.weight(one) for one in examples]).sum(axis=0))
    for limits in (None, FIXED):
        batch = objective.collate(examples, limits)
        loss = (objective(ours, batch)[0] / weight).sum()
        torch.testing.assert_close(loss.float(), wanted.detach(), atol=1e-5, rtol=1e-5)
        ours.zero_grad()
        loss.backward()
        torch.testing.assert_close(
            ours.trunk.embed.token.weight.grad,
            theirs.bert.embeddings.word_embeddings.weight.grad,
            atol=1e-5,
            rtol=1e-4,
        )


def test_numbers_of_words_are_a_mean_over_those_that_have_one(tmp_path):
    ours = folders.read(write_bert(tmp_path / "hf", "tags", num_labels=1)).module
    some, draw = rows(), np.random.default_rng(9)
    goals = [
        np.where(draw.random(len(row.tokens)) < 0.5, np.nan, len(row.tokens) / 4) for row in some
    ]
    objective, examples = TokenRegression(), list(zip(some, goals, strict=True))
    free, fixed = objective.collate(examples), objective.collate(examples, FIXED)
    said = ours(free.inputs).by_head["token_label"][:, 0].detach()
    flat = torch.tensor(np.concatenate(goals)).float()
    wanted = ((said - flat)[~flat.isnan()] ** 2).mean()
    for batch in (free, fixed):
        assert batch.weight == int((~flat.isnan()).sum()) == sum(map(objective.weight, examples))
        torch.testing.assert_close(objective(ours, batch)[0] / batch.weight, wanted)


def test_weights_of_tags_are_torchs():
    weights = (0.5, 2.0, 1.0, 1.0, 3.0)
    goals = np.array([0, IGNORED, 4, 1])
    objective = TokenClassification(weights=weights)
    example = (rows([4])[0], goals)
    logits = torch.randn(4, 5)
    outputs = Outputs(torch.zeros(4, 2), None, {"token_label": logits})
    loss, _ = objective.loss(outputs, objective.collate([example]))
    wanted = torch.nn.functional.cross_entropy(
        logits, torch.tensor(goals), weight=torch.tensor(weights)
    )
    assert objective.weight(example) == 5.5
    torch.testing.assert_close(loss / objective.weight(example), wanted)


def test_ten_steps_are_those_of_a_plain_loop(tmp_path):
    """The Trainer's computation: AdamW, a linear schedule with warm-up, the norm clipped to 1."""
    write_tuning(tmp_path, "one")
    settings = (
        f"model.start={write_start(tmp_path / 'start')}",
        "model.size=",
        "text=false",
        "model.change={dropout=0.0, attention_dropout=0.0}",
        "optimiser.schedule=linear",
        "optimiser.rate=0.01",
        "train.steps=10",
    )
    run = prepare(read(tmp_path / "owls.toml", settings), tmp_path / "run", ALONE, data=tmp_path)
    drawn = run.job.sampler.batches(Cursor())
    batches = [next(drawn)[1].read() for _ in range(10)]
    folders.write(
        tmp_path / "begin",
        folders.LoadedModel(run.paper, run.facts, run.job.model, run.tokenizer, run.labels),
        "hf",
    )
    said = json.loads((tmp_path / "begin" / "config.json").read_text())
    assert said["architectures"] == ["BertForSequenceClassification"]
    theirs = read_by_reference(tmp_path / "begin").train()
    facts = run.job.recipe.optimiser

    def decays(name):
        return not (name.endswith("bias") or "LayerNorm" in name)

    named = list(theirs.named_parameters())
    groups = [
        {"params": [one for name, one in named if decays(name)], "weight_decay": facts.decay},
        {"params": [one for name, one in named if not decays(name)], "weight_decay": 0.0},
    ]
    adam = torch.optim.AdamW(groups, lr=facts.rate, betas=facts.betas, eps=facts.eps)
    wanted = []
    for number, batch in enumerate(batches, start=1):
        goals = torch.tensor([goal[0] for _, goal in batch])
        loss = theirs(**inputs([row for row, _ in batch]), labels=goals).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(theirs.parameters(), facts.clip)
        rising = number <= facts.warmup
        factor = number / facts.warmup if rising else (11 - number) / (10 - facts.warmup)
        for group in adam.param_groups:
            group["lr"] = facts.rate * factor
        adam.step()
        adam.zero_grad()
        wanted.append(loss.item())
    found = [event.loss for event in train(run.job) if isinstance(event, ReportEvent)]
    assert found == pytest.approx(wanted, abs=1e-5)
    assert wanted[-1] < wanted[0] - 0.05  # they move
    quietly(lambda: theirs.save_pretrained(tmp_path / "end"))
    last = weights_of(folders.read(tmp_path / "end").module)
    for name, tensor in weights_of(run.job.model).items():
        both = [tensor, last[name]]
        if name.endswith("qkv.bias"):  # a softmax does not see the keys' bias: Adam follows noise
            both = [torch.cat([one.chunk(3)[0], one.chunk(3)[2]]) for one in both]
        torch.testing.assert_close(*both, atol=1e-5, rtol=0, msg=name)
