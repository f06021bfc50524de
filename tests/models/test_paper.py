"""A paper says in which form its models have heads, and pools under them."""

from dataclasses import replace

import torch

from regard.models.facts import FirstToken, LabelHead, MLMHead, TokenLabelHead, change
from regard.models.papers import bert

PAPER = replace(
    bert.PAPER,
    heads={"label.dense": "tanh", "mlm.dense_activation": "relu"},
    pools={"label": FirstToken(dense=False)},
)


def test_heads_and_pools_take_the_form_of_the_paper():
    facts = change(bert.TINY, output_heads=(LabelHead(3, dropout=0.2),))
    fitted = PAPER.fit_heads(facts)
    assert fitted.output_heads == (LabelHead(3, dropout=0.2, dense="tanh"),)
    assert fitted.pool == FirstToken(dense=False)
    assert bert.PAPER.fit_heads(facts) == facts


def test_other_heads_stay_as_they_are():
    tagger = change(bert.TINY, pool=None, output_heads=(TokenLabelHead(3),))
    assert PAPER.fit_heads(tagger) == tagger
    (head,) = PAPER.fit_heads(change(bert.TINY, output_heads=(MLMHead(),))).output_heads
    assert head == MLMHead(dense_activation="relu")
    module = head.build(bert.TINY.trunk, bert.TINY.trunk.build().embed.token)
    assert module.activation(torch.tensor(-1.0)) == 0
