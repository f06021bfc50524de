"""Images: the last layer is computed for the tokens that are read, and gives the same."""

import pytest
import torch

from closeness import GRADIENTS, VALUES
from regard.core.batch import pack_images
from regard.core.tape import Tape
from regard.models.facts import change
from regard.models.label_heads import LabelHead
from regard.models.papers import deit, vit
from regard.models.papers.deit import DistilledLabelHead
from regard.models.pools import FirstTokens, MeanPool

SIZES = {"width": 12, "depth": 2, "heads": 3, "inner": 24, "patch_size": 4, "image_size": 8}
VIT = change(vit.TINY, **SIZES, output_heads=(LabelHead(3),))
DEIT = change(deit.TINY, **SIZES, pool=FirstTokens(2), output_heads=(DistilledLabelHead(3),))
CASES = {
    "ViT": (VIT, 1),
    "post-norm": (change(VIT, norm="post"), 1),
    "layer scale": (change(VIT, layer_scale=0.3), 1),
    "one layer": (change(VIT, depth=1), 1),
    "DeiT": (DEIT, 2),
    "mean of all tokens": (change(VIT, pool=MeanPool()), 5),
    "no head": (change(VIT, output_heads=()), 1),
}
IMAGES = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(1))


@pytest.fixture(params=CASES.values(), ids=CASES)
def case(request):
    facts, count = request.param
    torch.manual_seed(0)
    module = facts.build()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return module, count


def gradients(module, only_read):
    module.zero_grad()
    outputs = module(pack_images(IMAGES), only_read=only_read)
    (outputs.pooled_BD.square().sum() + sum(map(torch.sum, outputs.by_head.values()))).backward()
    return outputs, {name: parameter.grad for name, parameter in module.named_parameters()}


def test_pools_and_heads_read_the_same(case):
    module, count = case
    (every, expected), (read, found) = gradients(module, False), gradients(module, True)
    tokens = len(every.encoded.states_TD) // len(IMAGES)
    assert len(read.encoded.states_TD) == count * len(IMAGES)
    first_BLD = every.encoded.states_TD.unflatten(0, (-1, tokens))[:, :count]
    torch.testing.assert_close(read.encoded.states_TD, first_BLD.flatten(0, 1), **VALUES)
    torch.testing.assert_close(read.pooled_BD, every.pooled_BD, **VALUES)
    torch.testing.assert_close(read.by_head, every.by_head, **VALUES)
    torch.testing.assert_close(found, expected, **GRADIENTS)


def test_a_tape_sees_all_tokens(case):
    module, _ = case
    tape = Tape("trunk.output")
    module(pack_images(IMAGES), only_read=True, tape=tape)
    assert len(tape.records["trunk.output"]) == len(module(pack_images(IMAGES)).encoded.states_TD)
