"""Every layer of every paper can be compared, on examples that each model can read."""

import numpy as np
import pytest
import torch

from regard.core.batch import TokenRow
from regard.inside import parity
from regard.models.facts import change, paths
from regard.models.features import Features
from regard.models.label_heads import LabelHead, MLMHead, SentencePairHead
from regard.models.papers import LINEAGE, bert, elmo, lin, ma

SMALL = {
    "width": 8,
    "heads": 2,
    "kv_heads": None,
    "inner": 8,
    "depth": 2,
    "vocab": 20,
    "embedding": 8,
}


OWN = {
    "cove": {"target.width": 16},  # as wide as both directions of the source
    "ma": {"embedding": 38},
    **{key: {"embedding": 108} for key in ("bidaf", "clark")},
    "he": {"indicator": 4},
    "lee": {"embedding": 158},
}


def small(paper):
    facts = next(iter(paper.sizes.values()))
    known = {path.split(".")[-1] for path, _ in paths(facts)}
    sizes = {name: size for name, size in SMALL.items() if name in known}
    return change(facts, **sizes | OWN.get(paper.key, {}))


FACTS = {paper.key: small(paper) for paper in LINEAGE}
FACTS["bert, heads"] = FACTS["bert"].with_heads(MLMHead(), SentencePairHead(), LabelHead(3))
STEPWISE = {"decoder block 1", "decoder block 2"}  # an RNN decoder may run step by step


@pytest.mark.thinned
@pytest.mark.parametrize("facts", FACTS.values(), ids=list(FACTS))
def test_all_layers_have_outputs_for_all_examples(facts):
    torch.manual_seed(0)
    module, examples = facts.build().eval(), list(parity.random_examples(facts))
    found = parity.layer_outputs(module, facts, examples)
    assert facts.layer_paths.keys() - found.keys() <= STEPWISE
    assert all(len(values) == len(parity.LENGTHS) for values in found.values())
    assert parity.largest_differences(found, found) == dict.fromkeys(found, 0)
    other = parity.layer_outputs(facts.build().eval(), facts, examples)
    assert min(parity.largest_differences(found, other).values()) > 1e-5


def test_layers_are_those_of_each_side_with_pool_and_heads():
    assert [*FACTS["transformer"].layer_paths.items()][::3] == [
        ("encoder embedding", "source.embed.output"),
        ("decoder embedding", "target.embed.output"),
        ("next_token logits", "logits"),
    ]
    assert [*FACTS["bert, heads"].layer_paths] == [
        *("embedding", "block 1", "block 2", "pooled"),
        *("mlm logits", "sentence_pair logits", "label logits"),
    ]


def test_random_examples_are_the_same_each_time_and_fit():
    facts = change(bert.TINY, longest=8, vocab=20)
    first, second = (list(parity.random_examples(facts)) for _ in range(2))
    assert first == second
    assert [len(one["trunk"].tokens) for one in first] == [1, 6, 8, 8]
    assert {i for one in first for i in one["trunk"].segments} == {0, 1}


def test_random_examples_leave_out_ids():
    facts = change(bert.TINY, vocab=5)
    drawn = {
        i for one in parity.random_examples(facts, without={1, 7}) for i in one["trunk"].tokens
    }
    assert drawn == {0, 2, 3, 4}


def test_rows_are_truncated_to_what_a_model_reads():
    row = TokenRow(np.arange(12), np.zeros(12))
    example = parity.truncate({"trunk": row}, change(bert.TINY, longest=8))
    assert len(example["trunk"].tokens) == len(example["trunk"].segments) == 8
    whole = parity.truncate({"source": row, "target": row}, FACTS["transformer"])
    assert len(whole["target"].tokens) == 12


def test_random_words_have_characters_that_there_are():
    frozen = Features(change(elmo.SMALL, vocab=7, longest=9).trunk)
    words = {"trunk.embed.vocab": 1_000, "trunk.embed.characters.longest": 9}
    with_characters = change(ma.LAPTOP, **words, **{"trunk.embed.characters.vocab": 5})
    featured = change(lin.LAPTOP, features=frozen, **{"trunk.embed.vocab": 1_000})
    for facts, most in ((with_characters, 5), (featured, 7)):
        rows = [one["trunk"].tokens for one in parity.random_examples(facts)]
        ids_TC = np.concatenate(rows)
        assert ids_TC.shape[1] == 10
        assert ids_TC[:, 0].max() > most > ids_TC[:, 1:].max()
