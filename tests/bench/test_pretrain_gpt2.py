"""The benchmark of GPT-2: systems learn the same rows alike, and all of it runs at tiny size."""

import pytest
import torch

from regard.models.facts import change
from regard.models.papers import gpt2

pytest.importorskip("transformers")
COMPILED = ("plain", "compiled")


def slow(value):
    return pytest.param(value, marks=pytest.mark.slow)


@pytest.mark.parametrize("peers", [[], ["eager"], slow(["plain", "eager", "compiled"])])
def test_it_runs(peers, printed):
    import pretrain_gpt2

    *systems, place = printed(pretrain_gpt2, "--tiny", "--peers", *peers)
    names = ["regard", *(pretrain_gpt2.PEERS[one] for one in peers)]
    assert [one["system"] for one in systems] == names
    assert all(one["tokens_per_second"][0] > 0 for one in systems)
    assert len({round(one["first_loss"], 2) for one in systems}) == 1
    assert place["rows"] == 4 and place["length"] == 64


@pytest.mark.parametrize("form", ["eager", "plain-eager", *(slow(form) for form in COMPILED)])
def test_all_systems_have_the_same_losses_with_the_same_weights(form, tmp_path):
    """In fp32; also after steps, by the same optimiser."""
    import pretrain_gpt2
    from peers.gpt2 import causal_lm

    corpus = {"corpus": {"count": 12, "length": 20, "vocab": 320}, "rows": 4}
    pretrain_gpt2.write_initial(gpt2.PAPER, pretrain_gpt2.facts_of("small", tiny=True), tmp_path)
    ours = pretrain_gpt2.ours("small", tiny=True, **corpus)
    theirs = causal_lm(form, str(tmp_path), **corpus, optimiser=pretrain_gpt2.ADAMW)
    for _ in range(2):
        torch.testing.assert_close(theirs.work(), ours.work(), rtol=1e-5, atol=1e-5)


def test_tokens_that_fill_up_the_vocabulary_have_zero_vectors(tmp_path):
    import pretrain_gpt2
    from peers.plain_gpt import PlainGPT

    facts = change(pretrain_gpt2.facts_of("small", tiny=True), vocab=300)
    pretrain_gpt2.write_initial(gpt2.PAPER, facts, tmp_path)
    token = PlainGPT.from_folder(tmp_path).token.weight
    assert len(token) == 320 and not token[300:].any()
    expected = pretrain_gpt2.initial_model(facts).trunk.embed.token.weight
    assert torch.equal(token[:300], expected)
