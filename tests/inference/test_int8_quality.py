"""What 8 bits cost a trained model whose activations have outliers, as those of large models do."""

import math

import pytest
import torch
import torch.nn.functional as F

import regard
from regard.data.toy_language.corpus import corpus

OUTLIERS, SIZE = 4, 12.0  # channels that are so many times as large before each product
RECIPE = {
    "task": "pretrain",
    "data": {"dev": {"held_out": 20}},
    "text": {"vocab": 600},
    "objective": {"causal-lm": {"rows": "blocks"}},
    "model": {
        "paper": "llama",
        "change": {"width": 96, "depth": 3, "heads": 3, "inner": 256, "longest": 64},
    },
    "batches": {"tokens": 1_024, "longest": 64},
    "optimiser": {"kind": "adamw", "rate": 4e-3, "schedule": "linear", "warmup": 20},
    "train": {"steps": 240, "evaluate_every": 240, "checkpoint_every": 240, "precision": "fp32"},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A Llama that has learned the toy language, with outliers, and sentences it has not seen."""
    folder = tmp_path_factory.mktemp("llama")
    texts = [pair.source for pair in corpus(2_200, 0, 0).train]
    documents = [" ".join(texts[start : start + 8]) for start in range(0, 2_000, 8)]
    torch.manual_seed(0)
    regard.train(RECIPE, data={"train": documents}, out=folder / "run", on_event=lambda event: None)
    model = regard.load(folder / "run" / "model", "cpu")
    plant_outliers(model.module)
    model.save(folder / "outliers")
    return folder / "outliers", texts[2_000:2_200]


def plant_outliers(module: torch.nn.Module) -> None:
    """Multiply channels of norms, and divide the weights that read them: the model is the same."""
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for block in module.trunk.blocks:
            for norm, linear in (
                (block.attention_residual.norm, block.attention.qkv),
                (block.mlp_residual.norm, block.mlp.up),
            ):
                channels = torch.randperm(len(norm.weight), generator=draw)[:OUTLIERS]
                norm.weight[channels] *= SIZE
                linear.weight[:, channels] /= SIZE


def losses(model: regard.Model, texts: list[str], reference: regard.Model) -> tuple[float, float]:
    """Perplexity, and the divergence of the next token from the reference's, in nats."""
    surprise = divergence = 0.0
    count = 0
    rows = reference.tokenizer.rows(texts)
    for row, found_TV, wanted_TV in zip(
        rows, model.logits(rows), reference.logits(rows), strict=True
    ):
        ids_T = torch.tensor(row.tokens).long()
        found_TV, wanted_TV = found_TV.log_softmax(-1)[:-1], wanted_TV.log_softmax(-1)[:-1]
        surprise += float(F.nll_loss(found_TV, ids_T[1:], reduction="sum"))
        divergence += float(F.kl_div(found_TV, wanted_TV, reduction="sum", log_target=True))
        count += len(ids_T) - 1
    return math.exp(surprise / count), divergence / count


@pytest.mark.slow
def test_8_bits_cost_a_model_with_outliers_less_than_a_percent(trained):
    """With powers of two as scales of rows the divergence is 0.0039."""
    folder, texts = trained
    exact = regard.load(folder, "cpu", precision="fp32")
    rounded = regard.load(folder, "cpu", precision="int8")
    (wanted, _), (found, divergence) = losses(exact, texts, exact), losses(rounded, texts, exact)
    assert wanted < 20  # of 600 tokens: it has learned the language
    assert found == pytest.approx(wanted, rel=0.01)
    assert divergence < 0.003
