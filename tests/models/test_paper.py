"""A paper says in which form its models have heads, and pools under them."""

import torch

from regard.models.facts import change
from regard.models.label_heads import LabelHead, MLMHead, SentencePairHead, TokenLabelHead
from regard.models.model_tables import ModelConfig, trunk_facts
from regard.models.papers import bert, distilbert, lin, roberta
from regard.models.pools import FirstToken


def test_heads_and_pools_take_the_form_of_the_paper():
    facts = change(bert.TINY, output_heads=(LabelHead(3, dropout=0.1),))
    fitted = roberta.PAPER.fit_heads(facts)
    assert fitted.output_heads == (LabelHead(3, dropout=0.1, dense="tanh"),)
    assert fitted.pool == FirstToken(dense=False)
    assert bert.PAPER.fit_heads(facts) == lin.PAPER.fit_heads(facts) == facts


def test_the_dropout_of_a_head_is_that_of_the_trunk_where_the_paper_has_no_other():
    facts = change(bert.TINY, output_heads=(LabelHead(3),), **{"stack.dropout": 0.3})
    (head,) = bert.PAPER.fit_heads(facts).output_heads
    assert head == LabelHead(3, dropout=0.3)
    (head,) = distilbert.PAPER.fit_heads(facts).output_heads
    assert head == LabelHead(3, dropout=0.2, dense="relu", last_only=True)


def test_other_heads_stay_as_they_are():
    tagger = change(bert.TINY, pool=None, output_heads=(TokenLabelHead(3, dropout=0.1),))
    assert roberta.PAPER.fit_heads(tagger) == tagger
    fitted = roberta.PAPER.fit_heads(change(bert.TINY, output_heads=(MLMHead(),)))
    assert fitted.output_heads == (MLMHead(dense_activation="gelu"),)


def test_the_dense_layer_of_the_mlm_head_may_have_its_own_activation():
    head, trunk = MLMHead(dense_activation="relu"), bert.TINY.trunk
    module = head.build(trunk, trunk.build().embed.token, trunk.width)
    assert module.activation(torch.tensor(-1.0)) == 0


def test_a_dropout_that_a_recipe_changes_is_that_of_the_trunk():
    config = ModelConfig(paper="bert", size="tiny", change={"dropout": 0.3, "label.dense": "relu"})

    def with_heads(facts):
        return bert.PAPER.fit_heads(facts.with_heads(SentencePairHead(), LabelHead(2)))

    _, facts = trunk_facts(config, None, with_heads, {})
    assert facts.trunk.stack.dropout == 0.3
    assert facts.output_heads == (SentencePairHead(), LabelHead(2, dropout=0.3, dense="relu"))
