"""What a model of images looks at is what ``transformers`` says it looks at."""

import re

import numpy as np
import pytest
import torch

import regard

transformers = pytest.importorskip("transformers")

SIZES = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "num_labels": 3}
SIZES |= {"intermediate_size": 20, "image_size": 12, "patch_size": 4}
MODELS = (
    "ViTModel",
    "ViTForImageClassification",
    "DeiTModel",
    "DeiTForImageClassificationWithTeacher",
)


def reference(name):
    torch.manual_seed(0)
    config = getattr(transformers, f"{re.match('ViT|DeiT', name)[0]}Config")
    model = getattr(transformers, name)(config(**SIZES, attn_implementation="eager"))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


@pytest.mark.parametrize("size", [(12, 12), (8, 20)])
@pytest.mark.parametrize("name", MODELS)
def test_every_layer_and_head(name, size, tmp_path):
    theirs = reference(name)
    theirs.save_pretrained(tmp_path)
    pixels = torch.randn(1, 3, *size, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = theirs(pixels, output_attentions=True, interpolate_pos_encoding=True).attentions
    seen = regard.load(tmp_path, "cpu").look(pixels[0].numpy())
    found = seen.maps[0].weights
    np.testing.assert_allclose(found, torch.cat(expected).numpy(), atol=1e-5, rtol=0)
    assert np.abs(found - found.mean()).max() > 0.01  # they are not all alike
    prefix = 2 if name.startswith("DeiT") else 1
    assert seen.image.grid == (size[0] // 4, size[1] // 4)
    of_class = expected[1][0, 2, 0, prefix:].reshape(seen.image.grid)
    np.testing.assert_allclose(seen.class_token(1, 2), of_class.numpy(), atol=1e-5, rtol=0)
