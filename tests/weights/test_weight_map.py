"""Weight maps: what was read is written again bit for bit, and nothing is left over in silence."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from regard.core.errors import BadInput
from regard.weights.lines import Alias, Derived, Passthrough, Rule
from regard.weights.moves import Join, Reshape, Transpose
from regard.weights.weight_map import Extras, WeightMap

WIDTH, DEPTH = 4, 3


def ramp(shape: torch.Size) -> Tensor:
    return torch.linspace(0, 1, shape.numel() // WIDTH)[:, None].expand(-1, WIDTH)


MAP = WeightMap(
    (
        Rule("shared.weight", "embed.token.weight"),
        Rule("layers.{i}.{q,k,v}_proj.*", "blocks.{i}.qkv.*", (Join((1, 1, 1)),)),
        Rule("layers.{i}.c_fc.*", "blocks.{i}.up.*", (Transpose(),)),
        Rule("layers.{i}.c_attn.*", "blocks.{i}.attention.*", (Transpose(),)),
        Alias("embed.weight", "embed.token.weight"),
        Derived("positions.weight", ramp),
        Passthrough("unused"),
    ),
    prefix="net.",
    unprefixed=(
        Rule("logits_bias", "head.bias", (Reshape((1, -1), (-1,)),)),
        Alias("head.weight", "embed.token.weight"),
    ),
)
WANTED = {
    "embed.token.weight": torch.empty(7, WIDTH),
    "head.bias": torch.empty(7),
    **{
        f"blocks.{i}.{name}": torch.empty(shape)
        for i in range(DEPTH)
        for name, shape in {
            "qkv.weight": (3 * WIDTH, WIDTH),
            "qkv.bias": (3 * WIDTH,),
            "up.weight": (5, WIDTH),
            "up.bias": (5,),
            "attention.weight": (3 * WIDTH, WIDTH),
        }.items()
    },
}
TIED = ("net.shared.weight", "head.weight", "net.embed.weight")


def draw_file(dtype: torch.dtype, tied=TIED[:1], extra=(), bare=False) -> dict[str, Tensor]:
    """A file as others write it, of random bits: NaN and infinity are numbers like any other."""
    shapes = {
        "logits_bias": (1, 7),
        **{
            f"net.layers.{i}.{name}": shape
            for i in range(DEPTH)
            for name, shape in {
                **{f"{part}_proj.weight": (WIDTH, WIDTH) for part in "qkv"},
                **{f"{part}_proj.bias": (WIDTH,) for part in "qkv"},
                "c_fc.weight": (WIDTH, 5),
                "c_fc.bias": (5,),
                "c_attn.weight": (WIDTH, 3 * WIDTH),
            }.items()
        },
    }
    file = {name: random_bits(shape, dtype) for name, shape in shapes.items()}
    shared = random_bits((7, WIDTH), dtype)
    file |= {name: shared.clone() for name in tied}
    if "net.positions.weight" in extra:
        file["net.positions.weight"] = ramp(torch.Size((6, WIDTH))).to(dtype)
    if "net.unused" in extra:
        file["net.unused"] = torch.arange(3)
    return {name.removeprefix("net.") if bare else name: one for name, one in file.items()}


def random_bits(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    size = torch.empty(0, dtype=dtype).element_size()
    whole = torch.int32 if size == 4 else torch.int16
    limit = 2 ** (8 * size - 1)
    return torch.randint(-limit, limit, shape, dtype=whole).view(dtype)


def bits(file: dict[str, Tensor]) -> dict[str, tuple]:
    return {
        name: (
            one.dtype,
            tuple(one.shape),
            one.reshape(-1).contiguous().view(torch.uint8).numpy().tobytes(),
        )
        for name, one in file.items()
    }


dtypes = st.sampled_from([torch.float32, torch.float16, torch.bfloat16])
names_used = st.lists(st.sampled_from(TIED), min_size=1, unique=True)
extras = st.lists(st.sampled_from(["net.positions.weight", "net.unused"]), unique=True)


@given(dtypes, names_used, extras, st.booleans())
def test_what_is_read_is_written_bit_for_bit(dtype, tied, extra, bare):
    file = draw_file(dtype, tied, extra, bare)
    ours, beside = MAP.read(file, WANTED, "a file")
    assert ours.keys() == WANTED.keys()
    assert all(ours[name].shape == WANTED[name].shape for name in WANTED)
    assert bits(MAP.write(ours, beside)) == bits(file)


@given(dtypes)
def test_half_precision_survives_a_model_of_full_precision(dtype):
    file = {name: one.nan_to_num(1.0) for name, one in draw_file(dtype).items()}
    ours, beside = MAP.read(file, WANTED, "a file")
    full = {name: tensor.float() for name, tensor in ours.items()}
    assert bits(MAP.write(full, beside)) == bits(file)


def test_what_never_was_in_a_file_is_written_as_the_lines_say():
    ours = {name: torch.randn(one.shape) for name, one in WANTED.items()}
    file = MAP.write(ours, Extras())
    assert file.keys() == draw_file(torch.float32).keys()
    again, _ = MAP.read(file, WANTED, "a file")
    assert all(torch.equal(again[name], ours[name]) for name in ours)


def test_parts_lie_one_below_the_other():
    file = draw_file(torch.float32)
    ours, _ = MAP.read(file, WANTED, "a file")
    for number, part in enumerate("qkv"):
        held = ours["blocks.1.qkv.weight"][number * WIDTH : (number + 1) * WIDTH]
        assert torch.equal(held.nan_to_num(), file[f"net.layers.1.{part}_proj.weight"].nan_to_num())
    turned = file["net.layers.2.c_fc.weight"].T
    assert torch.equal(ours["blocks.2.up.weight"].nan_to_num(), turned.nan_to_num())


def without(name):
    return lambda file: file.pop(name)


def with_(**tensors):
    return lambda file: file.update(tensors)


def put(name, tensor):
    return lambda file: file.update({name: tensor})


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (without("net.layers.1.k_proj.bias"), "missing: net.layers.1.k_proj.bias"),
        (without("net.shared.weight"), "missing: net.shared.weight"),
        (with_(stray=torch.zeros(1)), "unknown: stray"),
        (put("net.layers.3.q_proj.bias", torch.zeros(4)), "unknown: net.layers.3.q_proj.bias"),
        (put("net.layers.0.c_fc.weight", torch.zeros(5, 4)), r"c_fc.weight is \[5, 4\], not"),
        (put("logits_bias", torch.zeros(7)), r"logits_bias is \[7\], not \[1, 7\]"),
        (put("logits_bias", torch.zeros(())), r"logits_bias is \[\], not \[1, 7\]"),
        (put("logits_bias", torch.zeros(1, 7, dtype=torch.int64)), "is int64, not float32"),
        (put("logits_bias", torch.zeros(1, 7, dtype=torch.float64)), "is float64, not float32"),
        (put("net.layers.0.k_proj.bias", torch.zeros(4).half()), "k_proj.bias is float16, not"),
        (put("head.weight", torch.zeros(7, 4)), "head.weight is not net.shared.weight, to which"),
        (put("head.weight", torch.zeros(())), "head.weight is not net.shared.weight, to which"),
        (put("net.positions.weight", torch.zeros(6, 4)), "positions.weight does not follow"),
        (put("net.positions.weight", torch.zeros(())), "positions.weight does not follow"),
    ],
)
def test_what_does_not_fit_is_listed(damage, said):
    file = draw_file(torch.float32)
    damage(file)
    with pytest.raises(BadInput, match=f"a file: tensors do not fit the model; .*{said}"):
        MAP.read(file, WANTED, "a file")


@pytest.mark.parametrize(
    ("dtype", "near"), [(torch.float32, 1e-4), (torch.float16, 2**-9), (torch.bfloat16, 2**-6)]
)
def test_a_table_follows_its_formula_as_closely_as_its_precision_allows(dtype, near):
    table = ramp(torch.Size((6, WIDTH))).to(dtype)
    for share in (0.9, -0.9, 1.5, -1.5, 20, -20):
        off = table.clone()
        off[0, 3] = share * near
        file = {**draw_file(torch.float32), "net.positions.weight": off}
        if abs(share) < 1:
            ours, beside = MAP.read(file, WANTED, "a file")
            assert bits(MAP.write(ours, beside)) == bits(file)
            continue
        with pytest.raises(BadInput, match=r"positions\.weight does not follow its formula"):
            MAP.read(file, WANTED, "a file")


KEPT_NAMES = st.lists(
    st.sampled_from(["stray", "net.stray.weight", "species.gamma"]), min_size=1, unique=True
)


@given(dtypes | st.just(torch.int64), KEPT_NAMES, st.booleans())
def test_unknown_tensors_are_kept_on_request(dtype, names, bare):
    file = draw_file(torch.float32, bare=bare)
    file |= {
        name.removeprefix("net." if bare else ""): torch.ones(3, dtype=dtype) for name in names
    }
    with pytest.raises(BadInput, match=r"unknown: .*keep_unknown"):
        MAP.read(file, WANTED, "a file")
    ours, beside = MAP.read(file, WANTED, "a file", keep_unknown=True)
    assert len(beside.kept) == len(names)
    assert bits(MAP.write(ours, beside)) == bits(file)


def test_tied_tensors_have_the_same_shape_and_not_only_the_same_bits():
    file = draw_file(torch.float32)
    file["head.weight"] = file["net.shared.weight"].reshape(WIDTH, 7)
    with pytest.raises(BadInput, match=r"head\.weight is not net\.shared\.weight, to which"):
        MAP.read(file, WANTED, "a file")


def test_a_short_list_is_whole():
    strays = {f"stray{i}": torch.zeros(1) for i in range(8)}
    with pytest.raises(BadInput, match=r"unknown: stray0.*stray7; they can"):
        MAP.read({**draw_file(torch.float32), **strays}, WANTED, "a file")


def test_a_long_list_is_cut():
    with pytest.raises(BadInput, match=r"missing: .* and 21 more"):
        MAP.read({}, WANTED, "a file")


def test_a_tensor_of_ours_without_a_line_is_listed():
    strange = {**WANTED, "blocks.0.gate.weight": torch.empty(1)}
    for place in (
        lambda: MAP.read(draw_file(torch.float32), strange, "a file"),
        lambda: MAP.write(strange, Extras()),
    ):
        with pytest.raises(BadInput, match=r"unnamed: blocks\.0\.gate\.weight"):
            place()


OLDER = WeightMap(
    (Rule("{i}.norm.*", "blocks.{i}.norm.*"), Rule("out.*", "head.*")),
    prefix="net.",
    old=(("norm.gamma", "norm.weight"), ("norm.beta", "norm.bias")),
)
NORMS = {f"blocks.{i}.norm.{name}": torch.empty(4) for i in range(2) for name in ("weight", "bias")}
NORMS["head.bias"] = torch.empty(3)


def old_file(*last: str, bare: bool = False, dtype=torch.float32) -> dict[str, Tensor]:
    file = {f"net.{i}.norm.{name}": random_bits((4,), dtype) for i in range(2) for name in last}
    file["net.out.bias"] = random_bits((3,), dtype)
    return {name.removeprefix("net.") if bare else name: one for name, one in file.items()}


@given(dtypes, st.booleans(), st.booleans())
def test_old_spellings_are_read_and_written_back(dtype, old, bare):
    spelling = ("gamma", "beta") if old else ("weight", "bias")
    file = old_file(*spelling, bare=bare, dtype=dtype)
    ours, beside = OLDER.read(file, NORMS, "a file")
    assert beside.old is old and beside.bare is bare
    name = f"{'' if bare else 'net.'}1.norm.{spelling[1]}"
    assert bits({"x": ours["blocks.1.norm.bias"]}) == bits({"x": file[name]})
    assert bits(OLDER.write(ours, beside)) == bits(file)


@given(st.lists(st.booleans(), min_size=4, max_size=4), st.booleans())
def test_every_tensor_may_have_its_own_spelling(today, bare):
    file = old_file("gamma", "beta", bare=bare)
    names = [name for name in file if "norm" in name]
    now = {name: name.replace("gamma", "weight").replace("beta", "bias") for name in names}
    mixed = {name for name, is_new in zip(names, today, strict=True) if is_new}
    file = {now[name] if name in mixed else name: tensor for name, tensor in file.items()}
    ours, beside = OLDER.read(file, NORMS, "a file")
    assert ours.keys() == NORMS.keys()
    assert bits(OLDER.write(ours, beside)) == bits(file)


@pytest.mark.parametrize("extra", ["net.0.norm.weight", "net.1.norm.bias"])
def test_a_tensor_has_one_spelling(extra):
    """Of two spellings of one tensor neither may win in silence."""
    file = {**old_file("gamma", "beta"), extra: torch.zeros(4)}
    before = extra.replace("weight", "gamma").replace("bias", "beta")
    with pytest.raises(BadInput, match=f"; doubled: {extra} is also {before}$"):
        OLDER.read(file, NORMS, "a file")


def test_a_loose_name_need_not_be_equal():
    alias = Alias("bias", "head.bias")
    loose = WeightMap((Rule("out.bias", "head.bias"), alias, Passthrough("bias")))
    wanted = {"head.bias": torch.empty(3)}
    used, spare = random_bits((3,), torch.float32), random_bits((3,), torch.float32)
    for file in (
        {"out.bias": used, "bias": spare},
        {"out.bias": used, "bias": used.clone()},
        {"out.bias": used},
        {"bias": used},
    ):
        ours, beside = loose.read(file, wanted, "a file")
        assert bits({"x": ours["head.bias"]}) == bits({"x": used})
        assert bits(loose.write(ours, beside)) == bits(file)


TIED_OR_NOT = WeightMap(
    (Rule("embed.weight", "embed.weight"),),
    unprefixed=(
        Rule("decoder.{weight,bias}", "out.{weight,bias}"),
        Rule("bias", "out.bias"),
        Alias("decoder.weight", "embed.weight"),
        Alias("decoder.bias", "out.bias"),
    ),
)


def test_a_rule_counts_where_the_model_has_all_of_its_tensors():
    """One map for models whose output is tied to the embedding, and for those where it is not."""
    matrix, bias = random_bits((5, 3), torch.float32), random_bits((5,), torch.float32)
    tied = {"embed.weight": torch.empty(5, 3), "out.bias": torch.empty(5)}
    for file in (
        {"embed.weight": matrix, "bias": bias},
        {"embed.weight": matrix, "decoder.weight": matrix.clone(), "decoder.bias": bias},
    ):
        ours, beside = TIED_OR_NOT.read(file, tied, "a file")
        assert ours.keys() == tied.keys()
        assert bits(TIED_OR_NOT.write(ours, beside)) == bits(file)
    other = random_bits((5, 3), torch.float32)
    file = {"embed.weight": matrix, "decoder.weight": other, "decoder.bias": bias}
    with pytest.raises(BadInput, match=r"decoder\.weight is not embed\.weight, to which"):
        TIED_OR_NOT.read(file, tied, "a file")
    ours, beside = TIED_OR_NOT.read(file, {**tied, "out.weight": torch.empty(5, 3)}, "a file")
    assert bits({"x": ours["out.weight"]}) == bits({"x": other}) and not beside.tied
    assert bits(TIED_OR_NOT.write(ours, beside)) == bits(file)


def test_tensors_that_nothing_needs_may_be_in_every_layer():
    """As GPT-2's masks: a table that follows from its shape, and a number."""
    masked = WeightMap(
        (
            Rule("h.{i}.*", "blocks.{i}.*"),
            Derived("h.{i}.attn.bias", lambda shape: torch.ones(shape).tril()),
            Passthrough("h.{i}.attn.masked_bias"),
        )
    )
    expected = {f"blocks.{i}.weight": torch.empty(3) for i in range(2)}
    file = {f"h.{i}.weight": random_bits((3,), torch.float32) for i in range(2)}
    file |= {f"h.{i}.attn.bias": torch.ones(4, 4).tril() for i in range(2)}
    file |= {f"h.{i}.attn.masked_bias": torch.tensor(-1e4) for i in range(2)}
    ours, beside = masked.read(file, expected, "a file")
    assert bits(masked.write(ours, beside)) == bits(file)
    file["h.1.attn.bias"] = torch.ones(4, 4)
    with pytest.raises(BadInput, match=r"unequal: h\.1\.attn\.bias does not follow its formula$"):
        masked.read(file, expected, "a file")
