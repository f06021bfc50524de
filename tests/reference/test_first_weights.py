"""First weights of every paper have the distributions of a reference: ``transformers`` where it has
the paper, else torch and the formulas that the paper or its code has.

Compared are mean, standard deviation and kurtosis (1.8: uniform, 3: normal, 2.36: normal, cut off
at two deviations) of every tensor, by samples of one shape: bounds follow from its size.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import pytest
import torch
from torch import Tensor, nn

from bert_folders import quietly
from regard.models.facts import change, paths
from regard.models.formats.architectures import HFHead
from regard.models.paper import Paper
from regard.models.papers import LINEAGE
from regard.models.papers import paper as paper_of
from regard.models.pools import LastToken
from regard.weights.files import read_folder, weights_of
from regard.weights.weight_map import Extras

transformers = pytest.importorskip("transformers")

FEW = {"vocab": 400, "cells": 128}
SIZES = {
    **FEW,
    **{"width": 96, "depth": 2, "heads": 4, "inner": 384, "key": 40, "kv_heads": 2},
    **{"longest": 64, "embedding_size": 48, "image_size": 64, "patch_size": 8},
}
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 1, "decoder_start_token_id": 0}
ERRORS = 6  # standard errors within which statistics of two samples agree
Sample = Callable[[Tensor], Tensor]  # a tensor of the same shape


@dataclass(frozen=True)
class FromConfig:
    """A new model of ``transformers``, save tensors whose samples are others for a reason."""

    sizes: tuple[str, ...] = ()  # default: the paper's default size
    but: Mapping[str, Sample] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True)
class Formulas:
    """Samples by patterns of our names, before ``USUAL``; other layers begin as those of torch."""

    samples: Mapping[str, Sample] = field(default_factory=dict)
    reason: str = ""  # why this is not what the paper describes
    size: str = "laptop"


def normal(std: float) -> Sample:
    return lambda tensor: torch.empty_like(tensor).normal_(std=std)


def uniform(bound: float) -> Sample:
    return lambda tensor: torch.empty_like(tensor).uniform_(-bound, bound)


def constant(value: float) -> Sample:
    return lambda tensor: torch.full_like(tensor, value)


def inverse_root(tensor: Tensor) -> Tensor:
    """Normal, of deviation 1/√size of the last axis."""
    return normal(tensor.shape[-1] ** -0.5)(tensor)


def inverse_root_uniform(tensor: Tensor) -> Tensor:
    """Uniform, up to 1/√size of the last axis."""
    return uniform(tensor.shape[-1] ** -0.5)(tensor)


def glorot(gain: float = 1.0, parts: int = 1) -> Sample:
    """Glorot's uniform distribution, of each part of the outputs on its own."""

    def sample(tensor: Tensor) -> Tensor:
        outputs, inputs = tensor.shape[-2:]
        return uniform(gain * math.sqrt(6 / (inputs + outputs / parts)))(tensor)

    return sample


def orthogonal(gates: int) -> Sample:
    """A normal distribution with the deviation of an orthogonal matrix for each gate."""
    return lambda tensor: normal(max(len(tensor) // gates, tensor.shape[1]) ** -0.5)(tensor)


def with_open_gate(gates: int, value: float = 1.0) -> Sample:
    """Zeros, but ones for the second gate."""

    def sample(tensor: Tensor) -> Tensor:
        bias = torch.zeros_like(tensor)
        bias.chunk(gates)[1].fill_(value)
        return bias

    return sample


def convolved(tensor: Tensor) -> Tensor:
    """√(4 (1 - p) / inputs), of p = 0.1 (Gehring et al., 2016; Dauphin et al., 2016)."""
    return normal(math.sqrt(4 * 0.9 / tensor.shape[1]))(tensor)


USUAL: Mapping[str, Sample] = {
    r"characters\.token\.weight": uniform(1.0),
    r"(highways|input_layer)\.\d\.(transform|gate)\.weight": inverse_root,
    r"(highways|input_layer)\.\d\.transform\.bias": constant(0),
    r"(highways|input_layer)\.\d\.gate\.bias": constant(-2),
    r"embed\..*(token|position|indicator)\.weight": inverse_root,
    r"(cross|attention)\.score\.(query|key|weight)": glorot(),
    r"score\.(v|product)": inverse_root_uniform,
    r"pool\.learned": inverse_root,
    r"mix.*\.logits": constant(0),
    r"mix.*\.scale": constant(1),
}

ELMO_LAYERS = {
    r"(frozen\.)?trunk\.embed\.token\.weight": uniform(1.0),
    r"embed\.projection\.weight": inverse_root,
    r"(embed\.projection\.bias|blocks\.\d\.bias)": constant(0),
    r"blocks\.\d\.(gates|projection)": glorot(),
}
ATTENTION = {  # of fairseq, and of tensor2tensor but for the gain of queries, keys and values
    r"attention\.qkv\.weight": glorot(1 / math.sqrt(2), parts=3),
    r"cross\.q\.weight": glorot(1 / math.sqrt(2)),
    r"cross\.kv\.weight": glorot(1 / math.sqrt(2), parts=2),
    r"(\.o|mlp\.up|mlp\.down)\.weight": glorot(),
    r"(qkv|q|kv|o|up|down|head)\.bias": constant(0),
}
ONE_BOUND = "one bound for all weights (0.08, 0.05, 0.1) suits one width; torch's follows the width"
AS_TORCH = "as in torch; forget gates begin open (Jozefowicz et al., 2015)"
REFERENCES: Mapping[str, FromConfig | Formulas] = {
    "cho": Formulas(reason="the paper: N(0, 0.01), orthogonal recurrent matrices"),
    "sutskever": Formulas(reason=ONE_BOUND),
    "zaremba": Formulas(reason=ONE_BOUND, size="small"),
    "bahdanau": Formulas(reason="the paper: N(0, 0.01), orthogonal recurrent matrices"),
    "luong": Formulas(reason=ONE_BOUND),
    "dai": Formulas(reason=AS_TORCH, size="classifier"),
    "ma": Formulas(reason=AS_TORCH),
    "context2vec": Formulas(reason=AS_TORCH),
    "esim": Formulas(reason=AS_TORCH),
    "bidaf": Formulas(reason=AS_TORCH),
    "gehring": Formulas(
        {
            r"source\.layers\.\d\.linear\.weight": convolved,
            r"source\.layers\.\d\.linear\.bias": constant(0),
            r"embed\.position\.weight": normal(1.0),
        },
        reason="token vectors, multiplied by √width, and positions begin at one size",
    ),
    "lin": Formulas(reason=AS_TORCH),
    "taglm": Formulas(ELMO_LAYERS, reason=AS_TORCH, size="base"),
    "transformer": Formulas(ATTENTION),
    "he": Formulas(
        {
            r"states": orthogonal(5),
            r"inputs\.weight": orthogonal(6),
            r"inputs\.bias": with_open_gate(6),
        }
    ),
    "lee": Formulas(reason=AS_TORCH),
    "cove": Formulas(reason=AS_TORCH, size="mt-lstm"),
    "awd-lstm": Formulas(reason="token vectors: the code has ±0.1", size="penn-treebank"),
    "clark": Formulas(reason=AS_TORCH),
    "marian": Formulas(ATTENTION, reason="transformers: N(0, 0.02); Marian itself: Glorot's"),
    "ulmfit": Formulas(reason="token vectors: the code has ±0.1", size="base"),
    "elmo": Formulas(ELMO_LAYERS, reason="filters: the code has ±0.05", size="small"),
    "gpt": FromConfig(),
    "bert": FromConfig(reason="the code of the paper cuts off at two deviations"),
    "gpt-2": FromConfig(),
    "ernie": FromConfig(),
    "grover": FromConfig(),
    "xlnet": FromConfig(),
    "roberta": FromConfig(),
    "spanbert": FromConfig(),
    "albert": FromConfig(),
    "distilbert": FromConfig(),
    "t5": FromConfig(("small", "v1.1-small")),
    "electra": FromConfig(),
    "mt5": FromConfig(),
    "vit": FromConfig(),
    "deit": FromConfig(
        but={r"(cls_token|distillation_token|position_embeddings)": normal(0.02)},
        reason="the code of the paper and timm draw them as other weights; transformers: zeros",
    ),
    "llama": FromConfig(),
    "mistral": FromConfig(),
    "qwen2": FromConfig(),
    "modernbert": FromConfig(),
}


def small(facts, sizes: Mapping[str, int]):
    """The facts with small numbers, where they have such facts."""
    own = {path.rpartition(".")[2]: value for path, value in paths(facts)}
    return change(facts, **{key: n for key, n in sizes.items() if own.get(key) is not None})


def with_head(paper: Paper, facts, form: HFHead):
    """The model with a head in the form of the paper, and a pool if the head needs one."""
    pool = form.pool or facts.pool or (LastToken() if form.head.per_row else None)
    return paper.fit_heads(replace(facts, pool=pool, output_heads=(form.head,)))


def agree(name: str, ours: Tensor, theirs: Tensor) -> None:
    """Mean, standard deviation and kurtosis of two samples agree within their errors."""
    ours, theirs = ours.double().flatten(), theirs.double().flatten()
    assert ours.shape == theirs.shape, name
    stds = ours.std(correction=0), theirs.std(correction=0)
    error = ERRORS * max(map(float, stds)) / math.sqrt(len(ours))
    assert ours.mean().item() == pytest.approx(theirs.mean().item(), abs=error * 1.5), name
    assert stds[0].item() == pytest.approx(stds[1].item(), abs=error), name
    if min(stds):
        kurtosis = [((x - x.mean()) / x.std()).pow(4).mean().item() for x in (ours, theirs)]
        error = ERRORS * math.sqrt(48 / len(ours))
        assert kurtosis[0] == pytest.approx(kurtosis[1], abs=error), name


def compare_with_config(paper: Paper, facts, reference: FromConfig, folder) -> set[str]:
    """Compare the tensors of a new model with those of ``transformers``; return their names."""
    form = paper.formats["hf"]
    config = form.config_of(facts)
    kind, model_type = config.pop("architectures")[0], config.pop("model_type")
    settings = transformers.CONFIG_MAPPING[model_type](**IDS | config)
    torch.manual_seed(1)
    quietly(lambda: getattr(transformers, kind)(settings).save_pretrained(folder))
    lines = form.weight_map(facts)
    theirs = {name.removeprefix(lines.prefix): x for name, x in read_folder(folder).items()}
    torch.manual_seed(2)
    tensors = lines.write(weights_of(facts.build()), Extras())
    ours = {name.removeprefix(lines.prefix): x for name, x in tensors.items()}
    for name in (shared := ours.keys() & theirs.keys()):
        samples = (sample for pattern, sample in reference.but.items() if re.search(pattern, name))
        sample = next(samples, None)
        agree(f"{kind} {name}", ours[name], theirs[name] if sample is None else sample(ours[name]))
    return {*shared}


def of_torch(module: nn.Module, name: str) -> Tensor:
    """A new weight of a layer of torch."""
    match module:
        case nn.Linear():
            new: nn.Module = nn.Linear(module.in_features, module.out_features)
        case nn.LSTM() | nn.GRU():
            sizes = module.input_size, module.hidden_size
            new = type(module)(*sizes, bidirectional=module.bidirectional)
            if isinstance(module, nn.LSTM):
                for bias in (value for key, value in new.named_parameters() if "bias_ih" in key):
                    nn.init.ones_(bias.detach().chunk(4)[1])
        case nn.Conv1d():
            new = nn.Conv1d(module.in_channels, module.out_channels, module.kernel_size[0])
        case nn.LayerNorm():
            new = nn.LayerNorm(module.normalized_shape)
        case _:
            raise AssertionError(f"no reference for {name} of {type(module).__name__}")
    return getattr(new, name).detach()


@pytest.mark.parametrize("key", [paper.key for paper in LINEAGE])
def test_first_weights_are_those_of_the_reference(key, tmp_path):
    paper, reference = paper_of(key), REFERENCES[key]
    if isinstance(reference, FromConfig):
        for size in reference.sizes or (paper.default_size,):
            facts = small(paper.sizes[size], SIZES)
            forms = [with_head(paper, facts, form) for form in paper.heads] or [facts]
            for number, model in enumerate(forms):
                folder = tmp_path / f"{size}-{number}"
                assert compare_with_config(paper, model, reference, folder)
        return
    torch.manual_seed(1)
    size = reference.size if reference.size in paper.sizes else paper.default_size
    module = small(paper.sizes[size], FEW).build()
    owners = dict(module.named_modules())
    for name, weight in module.named_parameters():
        rules = {**reference.samples, **USUAL}.items()
        sample = next((sample for pattern, sample in rules if re.search(pattern + "$", name)), None)
        owner, _, own = name.rpartition(".")
        weight = weight.detach()
        agree(name, weight, of_torch(owners[owner], own) if sample is None else sample(weight))


@pytest.mark.parametrize(
    ("key", "changes"),
    [("t5", {"init": "xavier", "head_std": None}), ("modernbert", {"init_cutoff": None})],
)
def test_folders_that_do_not_say_how_weights_were_drawn_are_exported(key, changes):
    """Trained weights do not depend on it, and folders of earlier versions lack the facts."""
    paper = paper_of(key)
    facts = change(small(paper.sizes[paper.default_size], SIZES), **changes)
    config = paper.formats["hf"].config_of(facts)
    again = paper.formats["hf"].facts_of(config, ())
    assert change(again, **changes) == facts
