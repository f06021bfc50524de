"""Patches: what they read, where they stand, positions on other grids, and dropped rows."""

from itertools import product

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from regard.core.batch import pack_images
from regard.core.errors import BadInput
from regard.core.layout import Layout
from regard.layers.block import Residual
from regard.layers.dropout import DropPath
from regard.models.facts import change
from regard.models.label_heads import MLMHead
from regard.models.papers import vit
from regard.models.patches import LearnedGrid, Patches, SinusoidGrid, resample_positions
from regard.models.pools import FirstToken, FirstTokens, MeanPool
from regard.models.transformer import Stack
from regard.models.trunk import Trunk
from regard.models.trunk_with_heads import TrunkWithHeads

SMALL = change(vit.BASE, width=16, depth=2, heads=2, inner=20, patch_size=4, image_size=12)


def images(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def run(facts, pixels):
    torch.manual_seed(0)
    return facts.build().eval()(pack_images(pixels))


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 4), st.integers(1, 4))
def test_patches_are_a_convolution_whose_stride_is_its_size(patch, channels, rows, columns):
    embed = Patches(patch_size=patch, image_size=patch, channels=channels, prefix_tokens=0)
    module = embed.build(8, 0.0)
    pixels = images(2, channels, rows * patch, columns * patch)
    weight = module.projection.weight.view(8, channels, patch, patch)
    expected = F.conv2d(pixels, weight, module.projection.bias, stride=patch)
    found = module._patches(pixels, (rows, columns))
    torch.testing.assert_close(
        module.projection(found), expected.flatten(2).transpose(1, 2), rtol=1e-4, atol=1e-5
    )


def test_rows_are_even_and_begin_with_the_prefix():
    module = SMALL.trunk.build()
    pixels = images(3, 3, 12, 12)
    layout = module.embed.layout_of(pixels, Layout.rectangle(3, 1))
    assert layout.full and (layout.rows, layout.longest) == (3, 10)
    assert module(pixels, Layout.rectangle(3, 1)).layout.lengths == (10,) * 3
    first_BD = layout.pad(module.embed(pixels, layout))[:, 0]
    own_D = module.embed.prefix.weight[0] + module.embed.position.weight[0]
    torch.testing.assert_close(first_BD, own_D.expand(3, -1))


@pytest.mark.parametrize(
    ("pool", "prefix"),
    [*product([FirstToken(dense=False), FirstToken()], [1, 2]), *product([MeanPool()], [0, 1, 2])],
)
@pytest.mark.parametrize("positions", ["learned", "sinusoid"])
def test_an_image_does_not_depend_on_the_others_of_its_batch(pool, prefix, positions):
    facts = change(SMALL, pool=pool, prefix_tokens=prefix, positions=positions)
    together = run(facts, images(4, 3, 12, 12)).pooled_BD
    alone = run(facts, images(4, 3, 12, 12)[2:3]).pooled_BD
    torch.testing.assert_close(together[2:3], alone)


@pytest.mark.parametrize(("pool", "prefix"), [(FirstToken(dense=False), 0), (FirstTokens(2), 1)])
def test_no_patch_is_read_in_place_of_a_class_token(pool, prefix):
    with pytest.raises(BadInput, match=f"prefix_tokens is {prefix}; pool = .mean. needs none"):
        change(SMALL, pool=pool, prefix_tokens=prefix).build()


def test_images_that_patches_do_not_fill_are_an_error():
    for shape in [(1, 3, 13, 12), (1, 1, 12, 12)]:
        with pytest.raises(ValueError, match="cannot be divided into patches of 3 × 4 × 4"):
            run(SMALL, images(*shape))
    with pytest.raises(BadInput, match="13 pixels are not divisible by patch_size"):
        change(SMALL, image_size=13)
    with pytest.raises(BadInput, match="sinusoids need a width"):
        change(SMALL, width=6, positions="sinusoid").build()


def test_positions_of_a_grid_that_is_the_same_stay_as_they_are():
    weight = images(1 + 9, 8)
    assert resample_positions(weight, 1, (3, 3), (3, 3)) is weight
    other = resample_positions(weight, 1, (3, 3), (5, 4))
    assert other.shape == (1 + 20, 8) and torch.equal(other[0], weight[0])


@given(st.integers(0, 2), st.integers(1, 5), st.integers(1, 5))
def test_equal_vectors_stay_equal_on_another_grid(prefix, rows, columns):
    grid = LearnedGrid((3, 3), prefix, 4)
    torch.nn.init.constant_(grid.weight, 2.5)
    found = grid((rows, columns))
    torch.testing.assert_close(found, torch.full((prefix + rows * columns, 4), 2.5))


@pytest.mark.parametrize("after", [(2, 8), (8, 2), (1, 16), (3, 5), (6, 6)])
def test_vectors_of_rows_stay_equal_along_them_on_another_grid(after):
    """Also on a grid of as many patches in another shape: 4 × 4 and 2 × 8."""
    place = torch.arange(4.0)
    weight_PD = torch.stack(torch.meshgrid(place, place, indexing="ij"), -1).flatten(0, 1)
    found_RCD = resample_positions(weight_PD, 0, (4, 4), after).unflatten(0, after)
    row_R, column_C = found_RCD[:, 0, 0], found_RCD[0, :, 1]
    expected = torch.stack(torch.meshgrid(row_R, column_C, indexing="ij"), -1)
    torch.testing.assert_close(found_RCD, expected)
    for along, size in ((row_R, after[0]), (column_C, after[1])):
        middle = torch.tensor(1.5)  # of places that are as far from both ends
        torch.testing.assert_close(along, 2 * middle - along.flip(0))
        assert size == 1 or (along.diff() > 0).all()


def test_sinusoids_tell_rows_and_columns_apart():
    """As in big_vision's posemb_sincos_2d."""
    found = SinusoidGrid((2, 3), 1, 8)((2, 3))
    assert torch.equal(found[0], torch.zeros(8))
    y, x = torch.meshgrid(torch.arange(2.0), torch.arange(3.0), indexing="ij")
    omega = 1.0 / 10_000.0 ** (torch.arange(2) / 1)
    y, x = (at.flatten()[:, None] * omega for at in (y, x))
    expected = torch.cat([x.sin(), x.cos(), y.sin(), y.cos()], 1)
    torch.testing.assert_close(found[1:], expected)


def test_sinusoids_of_a_grid_are_computed_once():
    model = change(SMALL, positions="sinusoid").build().eval()
    position = model.trunk.embed.position
    assert not position.state_dict()
    with Operations() as ran:
        model(pack_images(images(2, 3, 12, 12)))
    assert ran.names and not ran.names & {"sin", "cos"}
    other = position((2, 5))
    assert torch.equal(other, SinusoidGrid((2, 5), 1, 16)((2, 5)))
    assert position.to("meta")((3, 3)).is_meta


class Operations(TorchDispatchMode):
    """Notes the names of all operations that run."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.add(function.overloadpacket.__name__)
        return function(*args, **(kwargs or {}))


def test_drop_path_drops_whole_rows_and_keeps_the_mean():
    torch.manual_seed(0)
    drop = DropPath(0.25).train()
    for layout in (Layout.rectangle(400, 3), Layout.ragged([1, 2, 3, 4] * 100)):
        kept = layout.split(drop(torch.ones(layout.tokens, 5), layout))
        assert {float(row.min()) for row in kept} == {float(row.max()) for row in kept}
        ones = [float(row[0, 0]) for row in kept]
        assert min(ones) == 0 and max(ones) == pytest.approx(1 / 0.75)
        assert sum(ones) / 400 == pytest.approx(1, abs=0.1)
    x = torch.ones(6, 5)
    assert DropPath(0.25).eval()(x, Layout.rectangle(2, 3)) is x


def test_the_rate_of_drop_path_rises_from_layer_to_layer():
    blocks = change(SMALL, depth=5, drop_path=0.2).build().trunk.blocks
    rates = [block.mlp_residual.drop_path.rate for block in blocks]
    assert rates == pytest.approx([0.0, 0.05, 0.1, 0.15, 0.2])


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_layer_scale_multiplies_what_is_added(norm):
    post = norm == "post"
    plain, scaled = Residual(6, post=post), Residual(6, post=post, layer_scale=0.5)
    x = images(4, 6)
    torch.testing.assert_close(scaled(x, torch.exp), plain(x, lambda y: 0.5 * y.exp()))
    assert scaled.layer_scale.requires_grad and plain.layer_scale is None


def test_only_encoders_have_layer_scale():
    with pytest.raises(BadInput, match="layer_scale is supported only in encoders"):
        Stack(width=8, depth=1, heads=1, inner=8, cross=True, layer_scale=0.1)


def test_flops_count_all_patches_of_an_image():
    facts = TrunkWithHeads(Trunk(SMALL.trunk.embed, SMALL.trunk.stack))
    reads = facts.trunk.macs()
    expected = 6 * 2 * (10 * reads.token + 100 * reads.own_pair)
    assert facts.training_flops([(1,), (1,)]) == expected


@pytest.mark.slow
@pytest.mark.parametrize("positions", ["learned", "sinusoid"])
def test_compiled_is_the_same(positions):
    torch.manual_seed(0)
    model = change(SMALL, layer_scale=0.1, positions=positions).build().eval()
    batch = pack_images(images(2, 3, 12, 12))
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(batch).pooled_BD, model(batch).pooled_BD)


def test_a_trunk_without_vocabulary_names_no_tokens():
    with pytest.raises(BadInput, match="has no vocabulary to predict"):
        SMALL.with_heads(MLMHead())
