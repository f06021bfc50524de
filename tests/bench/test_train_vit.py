"""The benchmark of ViT: systems learn the same images alike, and all of it runs at tiny size."""

from itertools import pairwise

import pytest
import torch

CORPUS = {"count": 3, "rows": 4, "size": 16, "labels": 1_000}


def slow(value):
    return pytest.param(value, marks=pytest.mark.slow)


@pytest.mark.parametrize("options", [["--peers"], ["--augment", "--peers"], slow([])])
def test_it_runs(options, printed):
    import train_vit

    if not options:
        pytest.importorskip("timm")
    *systems, place = printed(train_vit, "--tiny", *options)
    peers = [] if options else [train_vit.PEERS[one] for one in train_vit.USUAL]
    assert [one["system"] for one in systems] == ["regard", *peers]
    assert all(one["images_per_second"][0] > 0 for one in systems)
    assert all(
        abs(one["first_loss"] - other["first_loss"]) < 0.01 for one, other in pairwise(systems)
    )
    assert place["rows"] == 4 and place["augmented"] == ("--augment" in options)


@pytest.mark.parametrize("peer", ["eager", slow("compiled"), "timm", slow("timm-compiled")])
def test_all_systems_have_the_same_losses_with_the_same_weights(peer, tmp_path):
    """In fp32; also after steps, by the same optimiser."""
    import train_vit

    form = train_vit.form_of(peer)
    pytest.importorskip("timm" if form == "timm" else "transformers")
    from peers.vit import classification

    train_vit.write_initial(train_vit.facts_of("base", tiny=True), form, tmp_path)
    ours = train_vit.ours("base", tiny=True, corpus=CORPUS)
    theirs = classification(peer, str(tmp_path), CORPUS, train_vit.ADAMW)
    torch.testing.assert_close(theirs.work(), ours.work(), rtol=1e-5, atol=1e-5)
