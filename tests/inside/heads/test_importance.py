"""Importance of heads: the gradient of a gate, held against finite differences."""

import numpy as np
import pytest
import torch

import regard
from regard import BadInput, Tape
from regard.inside.heads.importance import head_importance
from regard.inside.heads.text_loss import label_loss, text_loss
from small_bert import SENTENCES
from small_bert import model as small_encoder
from small_gpt import small_gpt2

TEXTS = [*SENTENCES[:2], "A cat."]


def slow_importance(model, batch_of, path, heads, step=1e-2):
    """|change of the loss| for a small change of each gate, one text and one head at a time."""
    importance_H = np.zeros(heads)
    for text in TEXTS:
        rows, loss = batch_of(text)
        for head in range(heads):
            losses = []
            for sign in (1, -1):

                def gated(name, value, head=head, sign=sign):
                    value = value.clone()
                    value.select(1, head).mul_(1 + sign * step)
                    return value

                with torch.no_grad():
                    losses.append(float(loss(model.run(rows, Tape(edits={path: gated})))))
            importance_H[head] += abs(losses[0] - losses[1]) / (2 * step) / len(TEXTS)
    return importance_H


@pytest.mark.parametrize("kind", ["words", "one"])
def test_gradients_of_gates_are_changes_of_the_loss(kind):
    loaded = small_encoder(kind)
    loaded.module.double()
    model = loaded.inspected

    def batch_of(*texts):
        rows = [model.read(text) for text in texts]
        if kind == "words":
            return text_loss(model, rows)
        return label_loss(model, rows, ["good"] * len(rows), loaded.labels.names)

    importance = head_importance(model, [batch_of(*TEXTS[:2]), batch_of(TEXTS[2])])
    assert importance["encoder"].shape == (2, 2)
    for layer in range(2):
        path = f"trunk.blocks.{layer}.attention.head_outputs"
        expected = slow_importance(model, batch_of, path, 2)
        np.testing.assert_allclose(importance["encoder"][layer], expected, rtol=2e-3)
    assert (importance["encoder"] > 0).all()


def test_the_loss_of_a_causal_model_is_that_of_its_next_tokens():
    loaded = small_gpt2()
    model = loaded.inspected
    texts = ["The old man reads.", "A dog barks at the man.", "A cat."]
    rows = [model.read(text) for text in texts]
    with torch.no_grad():
        whole, *each = (
            float(text_loss(model, some)[1](model.run(some)))
            for some in (rows, rows[:1], rows[1:2], rows[2:])
        )
    (logits,) = (torch.log_softmax(logits, -1) for logits in loaded.logits(texts[2:]))
    ids = torch.tensor(rows[2]["trunk"].row.tokens)
    assert each[2] == pytest.approx(float(-logits[:-1].gather(1, ids[1:, None]).mean()), 1e-5)
    assert whole == pytest.approx(sum(each), 1e-5)
    importance = head_importance(model, [text_loss(model, rows)])
    assert importance["decoder"].shape == (2, 2) and (importance["decoder"] > 0).all()


def test_recurrent_attention_has_a_gate_on_its_weights(owl_run):
    loaded = regard.load(owl_run / "run" / "model", "cpu")
    model = loaded.inspected
    rows = [model.read("dog owl pig"), model.read("hen rat")]
    names = loaded.labels.names
    importance = head_importance(model, [label_loss(model, rows, [names[0]] * 2, names)])
    (site,) = model.sites
    assert importance[site.name].shape == (1, 1) and importance[site.name][0, 0] > 0


def test_what_has_no_loss_or_no_such_label_is_refused():
    loaded = small_encoder("states")
    rows = [loaded.inspected.read("A cat.")]
    assert text_loss(loaded.inspected, rows) is None
    with pytest.raises(BadInput, match="no inputs"):
        head_importance(loaded.inspected, [])
    loaded = small_encoder("one")
    with pytest.raises(BadInput, match=r"labels:1: the model has no label 'goood'.*good"):
        label_loss(loaded.inspected, rows, ["goood"], loaded.labels.names)
