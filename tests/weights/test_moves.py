"""Moves: whatever a rule does to the tensors of a file, the file is written again bit for bit."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from regard.core.errors import BadInput
from regard.weights.lines import Rule
from regard.weights.moves import Join, Move, Reshape, Split, Transpose
from regard.weights.weight_map import Extras, WeightMap

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """A rule, and the shapes of its tensors in the file and in the model."""

    rule: Rule
    files: list[Shape]
    ours: list[Shape]

    @property
    def map(self) -> WeightMap:
        return WeightMap((self.rule,))

    @property
    def expected(self) -> dict[str, Tensor]:
        return {f"our{i}.x": torch.empty(shape, device="meta") for i, shape in enumerate(self.ours)}

    def file(self, of: Any) -> dict[str, Tensor]:
        return {f"file{i}.x": of(shape) for i, shape in enumerate(self.files)}


def names(kind: str, count: int) -> str:
    """The column of a rule with so many tensors."""
    listed = ",".join(f"{kind}{i}" for i in range(count))
    return f"{{{listed}}}.*" if count > 1 else f"{listed}.*"


@st.composite
def moves(draw, shapes: list[Shape]) -> Move:
    """A move that can be made of tensors of these shapes."""
    (first, *others) = shapes
    axis = draw(st.integers(0, len(first) - 1))
    options: list[Any] = [
        st.just(Transpose()),
        st.permutations(range(len(first))).map(lambda axes: Transpose(tuple(axes))),
    ]
    if all(shape == first for shape in shapes):
        options.append(st.sampled_from(reshapes(first)))
    if others and all(
        shape[:axis] + shape[axis + 1 :] == first[:axis] + first[axis + 1 :]
        and len(shape) == len(first)
        for shape in others
    ):
        options.append(st.just(Join(tuple(shape[axis] for shape in shapes), axis)))
    if not others and first[axis] > 1:
        cut = st.integers(1, first[axis] - 1)
        options.append(cut.map(lambda n: Split((n, first[axis] - n), axis)))
        options.append(st.just(Split((1,) * first[axis], axis)))
    if len({len(shape) for shape in shapes}) > 1:
        options = [st.just(Transpose())]
    return draw(st.one_of(options))


def reshapes(shape: Shape) -> list[Reshape]:
    flat = torch.Size(shape).numel()
    return [
        Reshape(shape, (-1,)),
        Reshape(shape, (1, *shape)),
        Reshape(shape, (flat, 1)),
        Reshape((*shape[:-1], -1), (-1, shape[-1])),
    ]


@st.composite
def cases(draw) -> Case:
    size, count = st.integers(1, 4), draw(st.integers(1, 3))
    files = [tuple(draw(st.lists(size, min_size=1, max_size=4)))] * count
    chain, shapes = [], files
    for _ in range(draw(st.integers(0, 5))):
        chain.append(draw(moves(shapes)))
        made = chain[-1].read([torch.empty(shape, device="meta") for shape in shapes])
        shapes = [tuple(tensor.shape) for tensor in made]
    rule = Rule(names("file", count), names("our", len(shapes)), tuple(chain))
    return Case(rule, files, shapes)


def random_bits(shape: Shape) -> Tensor:
    """Any bits at all: NaN and infinity are numbers like any other."""
    return torch.randint(-(2**31), 2**31, shape, dtype=torch.int32).view(torch.float32)


def bits(tensors: dict[str, Tensor]) -> dict[str, Any]:
    return {
        name: (tuple(one.shape), one.contiguous().view(torch.int32).tolist())
        for name, one in tensors.items()
    }


@given(cases())
def test_what_is_read_is_written_bit_for_bit(case):
    file = case.file(random_bits)
    ours, beside = case.map.read(file, case.expected, "a file")
    assert {name: one.shape for name, one in ours.items()} == {
        name: one.shape for name, one in case.expected.items()
    }
    assert bits(case.map.write(ours, beside)) == bits(file)


@given(cases())
def test_what_is_written_is_read_bit_for_bit(case):
    """What never was in a file: what a slice leaves out is zero there."""
    ours = {name: random_bits(tuple(one.shape)) for name, one in case.expected.items()}
    file = case.map.write(ours, Extras())
    assert {name: tuple(one.shape) for name, one in file.items()} == {
        name: tuple(one.shape) for name, one in case.file(torch.empty).items()
    }
    again, _ = case.map.read(file, case.expected, "a file")
    assert bits(again) == bits(ours)


@given(cases())
def test_every_element_has_one_place(case):
    size = sum(torch.Size(shape).numel() for shape in case.files)
    numbers = iter(torch.arange(float(size)).tolist())
    file = case.file(
        lambda shape: torch.tensor([next(numbers) for _ in range(torch.Size(shape).numel())]).view(
            shape
        )
    )
    ours, beside = case.map.read(file, case.expected, "a file")
    elements = torch.cat([one.reshape(-1) for one in ours.values()]).sort().values
    assert torch.equal(elements, torch.arange(float(size))) and not beside.kept


@given(cases(), st.data())
def test_a_shape_that_does_not_fit_is_refused(case, data):
    file = case.file(random_bits)
    name = data.draw(st.sampled_from(sorted(file)))
    file[name] = torch.cat([file[name], file[name][:1]])
    with pytest.raises(BadInput, match=rf"misshapen: .*{name} is \["):
        case.map.read(file, case.expected, "a file")


def read(rule: Rule, expected: dict[str, Shape], **file: Tensor) -> dict[str, Tensor]:
    """Under names in which a dot is two underscores."""
    tensors = {name.replace("__", "."): one for name, one in file.items()}
    shapes = {name: torch.empty(shape, device="meta") for name, shape in expected.items()}
    ours, beside = WeightMap((rule,)).read(tensors, shapes, "a file")
    assert bits(WeightMap((rule,)).write(ours, beside)) == bits(tensors)
    return ours


def test_gpt2_keeps_its_matrices_on_their_side():
    """x·W with W of (in, 3·out), where a linear layer has (3·out, in)."""
    rule = Rule("c_attn.*", "qkv.*", (Transpose(),))
    weight, bias = random_bits((4, 12)), random_bits((12,))
    shapes = {"qkv.weight": (12, 4), "qkv.bias": (12,)}
    ours = read(rule, shapes, c_attn__weight=weight, c_attn__bias=bias)
    assert bits({"w": ours["qkv.weight"], "b": ours["qkv.bias"]}) == bits(
        {"w": weight.T, "b": bias}
    )


def test_xlnet_keeps_heads_in_an_axis_of_their_own():
    """(width, heads, key) three times, where ours is (3·heads·key, width)."""
    moves = (Reshape((5, 2, 3), (5, 6)), Transpose(), Join((1, 1, 1)))
    parts = {name: torch.randn(5, 2, 3) for name in "qkv"}
    ours = read(Rule("{q,k,v}", "qkv", moves), {"qkv": (18, 5)}, **parts)["qkv"]
    x = torch.randn(7, 5)
    for number, part in enumerate(parts.values()):
        expected = torch.einsum("td,dhk->thk", x, part).reshape(7, 6)
        assert torch.allclose(x @ ours[6 * number : 6 * number + 6].T, expected, atol=1e-5)


def test_vit_cuts_patches_by_a_convolution():
    """A kernel (width, 3, 2, 2) with stride 2 is a linear layer over patches of (2, 2, 3)."""
    rule = Rule("projection", "patch", (Transpose((0, 2, 3, 1)), Reshape((-1, 2, 2, 3), (-1, 12))))
    kernel, image = torch.randn(5, 3, 2, 2), torch.randn(1, 3, 4, 4)
    ours = read(rule, {"patch": (5, 12)}, projection=kernel)["patch"]
    patches = image.unfold(2, 2, 2).unfold(3, 2, 2).permute(0, 2, 3, 4, 5, 1).reshape(4, 12)
    expected = torch.nn.functional.conv2d(image, kernel, stride=2).flatten(2)[0].T
    assert torch.allclose(patches @ ours.T, expected, atol=1e-5)


def test_a_tensor_is_not_split_into_unequal_parts_in_silence():
    with pytest.raises(ValueError, match=r"\[7, 2\] is not split into shares \(1, 2\)"):
        Split((1, 2)).read([torch.zeros(7, 2)])
