"""Augmentation: what each operation does, that keys decide it, and that it compiles whole."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.data import counter_rng
from regard.images import augment
from regard.images.augment import (
    COLOURS,
    FARTHEST,
    QUANTILES,
    Augmentation,
    Draws,
    Mixing,
    _affine,
    _warped,
    autocontrast,
    beta_quantiles,
    brightness,
    colour,
    contrast,
    draw_beta,
    equalise,
    posterise,
    random_augment,
    random_crop,
    random_erasing,
    random_flip,
    random_resized_crop,
    sharpness,
    solarise,
)

ALL = Augmentation(crop=2, crop_area=0.3, flip=True, operations=2, magnitude=0.9, erase=0.5)
STEPS = {
    "crop": lambda images, draws: random_crop(images, draws, 3),
    "resized": lambda images, draws: random_resized_crop(images, draws, 0.2),
    "flip": random_flip,
    "operations": lambda images, draws: random_augment(images, draws, 3, 1.0),
    "erase": lambda images, draws: random_erasing(images, draws, 0.7),
    "all": ALL,
}


def batch(rows=16, channels=3, height=8, width=9):
    draw = torch.Generator().manual_seed(0)
    return torch.rand(rows, channels, height, width, generator=draw)


def keys(rows=16, key=(1, 2)):
    return torch.from_numpy(counter_rng.streams(key, np.arange(rows)).view(np.int64))


def test_numbers_are_uniform_and_those_of_the_host():
    keys_B = keys(20_000)
    draws = Draws(keys_B)
    drawn = [draws.uniform() for _ in range(3)]
    for number, found in enumerate(drawn):
        expected = counter_rng.uniform(keys_B.numpy().view(np.uint64), number)
        np.testing.assert_allclose(found.numpy(), expected, atol=2.0**-23)
        assert found.min() >= 0 and found.max() < 1
        assert float(found.mean()) == pytest.approx(0.5, abs=0.01)
        assert float(found.var()) == pytest.approx(1 / 12, abs=0.005)
    assert abs(float(torch.corrcoef(torch.stack(drawn))[0, 1])) < 0.03


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("channels", [1, 3])
def test_what_is_drawn_for_an_image_follows_from_its_key(step, channels):
    images, keys_B = batch(channels=channels), keys()
    whole = STEPS[step](images, Draws(keys_B))
    assert whole.shape == images.shape and whole.isfinite().all()
    assert whole.min() >= 0 and whole.max() <= 1
    order = torch.randperm(16)
    alone = STEPS[step](images[order][:5], Draws(keys_B[order][:5]))
    torch.testing.assert_close(alone, whole[order][:5])
    assert not torch.equal(STEPS[step](images, Draws(keys(key=(1, 3)))), whole)


def test_flips_mirror_half_of_the_images():
    images = batch(400)
    flipped = random_flip(images, Draws(keys(400)))
    same = (flipped == images).flatten(1).all(1)
    mirrored = (flipped == images.flip(3)).flatten(1).all(1)
    assert (same ^ mirrored).all() and 150 < int(same.sum()) < 250


@given(st.integers(1, 4), st.integers(1, 6), st.integers(1, 6))
def test_a_crop_moves_an_image_and_fills_with_zeros(padding, height, width):
    images = batch(6, 2, height, width) + 1
    found = random_crop(images, Draws(keys(6)), padding)
    padded = torch.nn.functional.pad(images, (padding,) * 4)
    for image, whole in zip(found, padded, strict=True):
        windows = whole.unfold(1, height, 1).unfold(2, width, 1)
        places = windows.permute(1, 2, 0, 3, 4).flatten(0, 1)
        assert (places == image).flatten(1).all(1).any()


def test_all_places_of_a_crop_are_as_likely():
    images = torch.zeros(5_000, 1, 3, 3)
    images[:, 0, 1, 1] = 1
    found = random_crop(images, Draws(keys(5_000)), 1).mean(0)[0] * 9
    torch.testing.assert_close(found, torch.ones(3, 3), atol=0.15, rtol=0)


@pytest.mark.parametrize("least", [0.08, 0.5, 0.9, 0.99])
def test_a_resized_crop_has_the_area_that_was_drawn(least, monkeypatch):
    thetas = []
    monkeypatch.setattr(augment, "_warped", lambda images, theta, outside: thetas.append(theta))
    random_resized_crop(batch(5_000), Draws(keys(5_000)), least)
    (theta_B23,) = thetas
    width_B, height_B = theta_B23[:, 0, 0], theta_B23[:, 1, 1]
    area_B = least + (1 - least) * Draws(keys(5_000)).uniform()
    torch.testing.assert_close(width_B * height_B, area_B)
    for size_B, place_B in ((width_B, theta_B23[:, 0, 2]), (height_B, theta_B23[:, 1, 2])):
        assert size_B.max() <= 1 and (place_B.abs() + size_B).max() <= 1 + 1e-6
    ratio_B = width_B / height_B
    assert ratio_B.max() <= 4 / 3 + 1e-5 and ratio_B.min() >= 3 / 4 - 1e-5
    assert 0.45 < float((ratio_B > 1).float().mean()) < 0.55


def test_an_erased_rectangle_is_grey_and_not_too_large():
    images = torch.zeros(500, 3, 20, 20)
    erased = random_erasing(images, Draws(keys(500)), 0.5) == 0.5
    shares = erased[:, 0].float().mean((1, 2))
    assert (erased.all(1) == erased.any(1)).all()  # all channels
    assert 200 < int((shares > 0).sum()) < 300
    assert float(shares[shares > 0].min()) > 0.01 and float(shares.max()) < 0.4
    for image in erased[:, 0]:
        rows, columns = image.any(1), image.any(0)
        assert int(image.sum()) == int(rows.sum()) * int(columns.sum())  # a rectangle


ZERO = torch.zeros(16, 1, 1, 1)


@pytest.mark.parametrize("sides", [(1, 1), (2, 2), (1, 5), (5, 2)])
def test_the_smallest_images_can_be_augmented(sides):
    images = batch(64, 3, *sides)
    torch.testing.assert_close(sharpness(images, torch.ones(64, 1, 1, 1)), images)
    assert ALL(images, Draws(keys(64))).shape == images.shape


@pytest.mark.parametrize("change", [brightness, contrast, colour, sharpness, solarise])
def test_no_change_leaves_an_image_as_it_is(change):
    torch.testing.assert_close(change(batch(), ZERO), batch())


def test_colours_change_as_they_are_called():
    images, up = batch(), ZERO + 1
    assert (brightness(images, up) >= images).all()
    torch.testing.assert_close(brightness(images, -up), 0.1 * images)
    assert (contrast(images, -up).std((1, 2, 3)) < images.std((1, 2, 3))).all()
    grey = colour(images, -up / 0.9)
    torch.testing.assert_close(grey[:, 0], grey[:, 1])
    assert (sharpness(images, -up).diff(dim=3).abs().mean() < images.diff(dim=3).abs().mean()).all()
    assert len(posterise(images, up).unique()) <= 17
    every = torch.arange(256).view(1, 1, 16, 16)
    torch.testing.assert_close(posterise(every / 255, up[:1]), (every & 0xF0) / 255)
    torch.testing.assert_close(solarise(images, up), 1 - images)
    stretched = autocontrast(images * 0.2 + 0.3, up)
    torch.testing.assert_close(stretched.amin((2, 3)), torch.zeros(16, 3))
    torch.testing.assert_close(stretched.amax((2, 3)), torch.ones(16, 3))
    even = torch.full((1, 3, 4, 4), 0.3)
    assert torch.equal(autocontrast(even, up[:1]), even)


@pytest.mark.parametrize("strength", [0.0, 0.25, 0.5, 0.75, 1.0, -1.0])
def test_colours_are_those_of_pillow(strength):
    """To the rounding of bytes: of an image and of the one with which it is mixed."""
    image = pytest.importorskip("PIL.Image")
    from PIL import ImageEnhance, ImageOps

    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    pixels[:2] = 0
    picture, change = image.fromarray(pixels), ZERO[:1] + strength
    enhanced = {
        brightness: ImageEnhance.Brightness,
        contrast: ImageEnhance.Contrast,
        colour: ImageEnhance.Color,
        sharpness: ImageEnhance.Sharpness,
    }
    pictures = {one: of(picture).enhance(1 + 0.9 * strength) for one, of in enhanced.items()}
    pictures[posterise] = ImageOps.posterize(picture, round(8 - 4 * abs(strength)))
    pictures[solarise] = ImageOps.solarize(picture, round(256 * (1 - abs(strength))))
    pictures[autocontrast] = ImageOps.autocontrast(picture)
    images = torch.from_numpy(pixels).permute(2, 0, 1)[None] / 255
    for one, expected in pictures.items():
        (found,) = (one(images, change) * 255).permute(0, 2, 3, 1).numpy()
        np.testing.assert_allclose(found, np.asarray(expected), 0, 2, err_msg=one.__name__)


@pytest.mark.parametrize("channels", [1, 3])
def test_equalisation_is_that_of_pillow(channels):
    """Of noise, of few numbers, of one number, of two, and of images too small to be changed."""
    image = pytest.importorskip("PIL.Image")
    from PIL import ImageOps

    draw = np.random.default_rng(0)
    shape = (channels, 30, 40)
    dark = (draw.random(shape) ** 4 * 255).astype(np.uint8)
    few = draw.choice(np.uint8([0, 3, 4, 250]), shape, p=[0.1, 0.6, 0.2, 0.1])
    edges = np.where(draw.random(shape) < 0.5, 0, 255).astype(np.uint8)
    slope = np.broadcast_to(np.arange(40, dtype=np.uint8), shape)
    noise = draw.integers(0, 256, shape, dtype=np.uint8)
    bytes_BCHW = np.stack([noise, dark, few, edges, slope, np.full(shape, 77, np.uint8)])
    for pixels in (bytes_BCHW, bytes_BCHW[..., :9, :11], bytes_BCHW[..., :17, :17]):
        found = equalise(torch.from_numpy(pixels / np.float32(255)), ZERO[: len(pixels)])
        for one, equal in zip(pixels, found, strict=True):
            picture = image.fromarray(one[0] if channels == 1 else one.transpose(1, 2, 0).copy())
            expected = np.array(ImageOps.equalize(picture)).reshape(*one.shape[1:], -1)
            assert np.array_equal(expected.transpose(2, 0, 1), (equal * 255).round().numpy())
    even = torch.full((1, 3, 4, 4), 0.3001)
    assert torch.equal(equalise(even, ZERO[:1]), even)  # as it is, not as bytes


@pytest.mark.parametrize("number", range(len(FARTHEST)))
def test_places_move_as_far_as_their_strength(number):
    images = batch(2)
    chosen, strength = torch.tensor([number, -1]), torch.tensor([0.5, 0.5])
    theta = _affine(chosen, strength)
    torch.testing.assert_close(theta[1], torch.eye(2, 3))
    moved = _warped(images, theta)
    torch.testing.assert_close(moved[1], images[1], atol=1e-4, rtol=0)
    assert not torch.allclose(moved[0], images[0], atol=0.1)
    back = _affine(chosen, -strength)
    whole = torch.tensor([[0.0, 0.0, 1.0]])
    product = torch.cat([theta[0], whole]) @ torch.cat([back[0], whole])
    torch.testing.assert_close(product, torch.eye(3), atol=1e-5, rtol=0)


def test_every_operation_is_drawn():
    images, draws = batch(600, height=24, width=24), Draws(keys(600))
    found = random_augment(images, draws, 1, 0.8)
    changed = (found != images).flatten(1).any(1)
    share = (len(COLOURS) + len(FARTHEST)) / (1 + len(COLOURS) + len(FARTHEST))
    assert float(changed.float().mean()) == pytest.approx(share, abs=0.05)


@pytest.mark.parametrize("alpha", [0.2, 0.8, 1.0, 4.0])
def test_shares_follow_a_beta_distribution(alpha):
    quantiles = beta_quantiles(alpha)
    assert len(quantiles) == QUANTILES + 1 and (quantiles.diff() >= 0).all()
    shares = draw_beta(Draws(keys(50_000)), quantiles)
    assert float(shares.mean()) == pytest.approx(0.5, abs=0.01)
    assert float(shares.var()) == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.03)


@pytest.mark.parametrize(("mixup", "cutmix"), [(0.8, 0.0), (0.0, 1.0), (0.8, 1.0)])
def test_mixed_images_are_made_of_two_by_their_shares(mixup, cutmix):
    images = torch.arange(1.0, 9).view(-1, 1, 1, 1).expand(-1, 3, 16, 16)
    mixed_B = torch.tensor([True] * 7 + [False])
    found, share_B = Mixing(mixup, cutmix)(images, mixed_B, Draws(keys(8)))
    others = images.roll(-1, 0)
    expected = share_B * images[:, 0, 0, 0] + (1 - share_B) * others[:, 0, 0, 0]
    torch.testing.assert_close(found.mean((1, 2, 3)), expected)
    assert share_B[7] == 1 and torch.equal(found[7], images[7])
    assert (share_B[:7] < 1).any()
    whole = ((found == images) | (found == others)).flatten(1).all(1)
    if not mixup:
        assert whole.all()
    if not cutmix:
        assert (found == found[:, :1, :1, :1]).all()


def test_boxes_of_cutmix_lie_around_a_pixel_and_are_clipped():
    """As the algorithm of Yun et al. (2019) draws them, one image after the other."""
    images = torch.arange(1.0, 301).view(-1, 1, 1, 1).expand(-1, 1, 9, 16)
    found, share_B = Mixing(0.0, 1.0)(images, torch.ones(300, dtype=torch.bool), Draws(keys(300)))
    draws = Draws(keys(300))
    draws.uniform()  # mixup or CutMix
    lam_B = draw_beta(draws, beta_quantiles(1.0))
    drawn = zip(lam_B.tolist(), draws.uniform().tolist(), draws.uniform().tolist(), strict=True)
    expected, others, clipped = images.clone(), images.roll(-1, 0), 0
    for number, (lam, *places) in enumerate(drawn):
        box = []
        for size, place in zip((9, 16), places, strict=True):
            half, centre = int(size * (1 - lam) ** 0.5) // 2, int(size * place)
            box.append(slice(max(0, centre - half), min(size, centre + half)))
            clipped += centre < half or centre + half > size
        expected[number, :, box[0], box[1]] = others[number, :, box[0], box[1]]
    assert torch.equal(found, expected) and clipped > 100
    torch.testing.assert_close(share_B, (expected == images).float().mean((1, 2, 3)))


@pytest.mark.slow
def test_a_step_compiles_whole():
    mixing = Mixing(0.8, 1.0)

    def step(images, keys_B):
        draws = Draws(keys_B)
        return mixing(ALL(images, draws), keys_B != 0, draws)

    compiled = torch.compile(step, backend="eager", fullgraph=True)
    for one, other in zip(compiled(batch(), keys()), step(batch(), keys()), strict=True):
        torch.testing.assert_close(one, other)
