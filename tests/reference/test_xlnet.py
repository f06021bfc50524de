"""XLNet: both streams with memory, orders and segments, forms that are refused, its objective."""

from dataclasses import replace

import pytest
import torch

from encoder_families import FAMILIES
from encoder_family import CLOSE, SENTENCES
from regard.core.batch import TokenRow, pack_rows
from regard.core.errors import BadInput
from regard.core.layout import Layout
from regard.models.facts import change
from regard.models.folders import folder as folders
from regard.models.papers import xlnet
from regard.text.tokenizers.encoder_tokenizer import train_encoder_tokenizer
from verb import run

transformers = pytest.importorskip("transformers")

FAMILY = FAMILIES["xlnet"]
ROWS, LENGTH, MEMORY, PREDICTED = 3, 7, 5, 2


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    theirs = FAMILY.reference("XLNetLMHeadModel", mem_len=MEMORY)
    folder = tmp_path_factory.mktemp("xlnet")
    theirs.save_pretrained(folder)
    return folders.read(folder).module, theirs


def inputs(lengths, *, orders: bool = True, segments: bool = True):
    """Rows with random orders; the second segment begins in the middle."""
    draw = torch.Generator().manual_seed(2)
    rows = [
        TokenRow(
            torch.randint(1, 60, (length,), generator=draw).tolist(),
            [int(segments and 2 * at >= length) for at in range(length)],
        )
        for length in lengths
    ]
    packed = pack_rows(rows)
    if len(set(lengths)) == 1:
        even = Layout.rectangle(len(lengths), lengths[0])
        packed = replace(packed, layout=replace(even, segments_T=packed.layout.segments_T))
    if orders:
        orders_T = torch.cat([torch.randperm(length, generator=draw) for length in lengths])
        packed = replace(packed, layout=replace(packed.layout, orders_T=orders_T))
    return packed


def as_reference(packed, predicted_N=None, memory=None):
    """The same for ``transformers``: padded on the right, with masks in place of orders."""
    layout = packed.layout
    given = {
        "input_ids": layout.pad(packed.tokens_T),
        "token_type_ids": layout.pad(layout.segments_T),
        "attention_mask": layout.real_BL.float(),
    }
    if layout.orders_T is not None:
        order_BL = layout.pad(layout.orders_T)
        given["perm_mask"] = (order_BL[:, :, None] <= order_BL[:, None, :]).float()
    if predicted_N is not None:
        at_BN = (predicted_N.view(layout.rows, -1) - layout.offsets[:-1, None]).long()
        given["target_mapping"] = torch.nn.functional.one_hot(at_BN, layout.longest).float()
    if memory is not None:
        given["mems"] = [one.transpose(0, 1) for one in memory]
    return given


def last_in_order(layout):
    """The last tokens of each order. Where a query sees no key, the reference lets it see all."""
    orders_T = layout.positions_T if layout.orders_T is None else layout.orders_T
    last = [row.topk(PREDICTED).indices for row in layout.split(orders_T)]
    return torch.cat([at + start for at, start in zip(last, layout.offsets.tolist(), strict=False)])


CASES = {
    "plain": ([LENGTH] * ROWS, {"orders": False, "segments": False}),
    "segments": ([LENGTH] * ROWS, {"orders": False}),
    "orders": ([LENGTH] * ROWS, {}),
    "ragged": ([LENGTH, 3, 5], {"orders": False}),
    "ragged orders": ([LENGTH, 3, 5], {}),
}


@torch.no_grad()
@pytest.mark.parametrize("with_memory", [False, True])
@pytest.mark.parametrize("predicts", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_both_streams_agree_with_the_reference(both, case, predicts, with_memory):
    ours, theirs = both
    lengths, options = CASES[case]
    packed = inputs(lengths, **options)
    predicted_N = last_in_order(packed.layout)
    positions = {"permutation_lm": predicted_N} if predicts else {}
    torch.manual_seed(3)
    memory = tuple(torch.randn(2, ROWS, MEMORY, 12)) if with_memory else None
    outputs = ours(packed, positions=positions, state=memory)
    given = as_reference(packed, predicted_N if predicts else None, memory)
    expected = theirs(**given, use_mems=True, output_hidden_states=True)
    states_BLD = expected.hidden_states[-2 if predicts else -1]
    torch.testing.assert_close(outputs.encoded.states_TD, packed.layout.pack(states_BLD), **CLOSE)
    logits = outputs.by_head["permutation_lm"]
    wanted = expected.logits.flatten(0, 1) if predicts else packed.layout.pack(expected.logits)
    torch.testing.assert_close(logits, wanted, **CLOSE)
    if with_memory and packed.layout.full:
        for found, one in zip(outputs.encoded.state, expected.mems, strict=True):
            torch.testing.assert_close(found, one.transpose(0, 1), **CLOSE)


@torch.no_grad()
def test_a_segment_with_the_memory_of_the_one_before(both):
    """Two calls with memory are the two calls of the reference."""
    ours, theirs = both
    memory, mems = ours.trunk.new_memory(ROWS, MEMORY), None
    for one in (inputs([LENGTH] * ROWS), inputs([4] * ROWS, segments=False)):
        outputs = ours(one, state=memory)
        given = as_reference(one, memory=memory if mems is None else None)
        expected = theirs(**given | ({} if mems is None else {"mems": mems}), use_mems=True)
        memory, mems = outputs.encoded.state, expected.mems
        logits = outputs.by_head["permutation_lm"].view_as(expected.logits)
        torch.testing.assert_close(logits, expected.logits, **CLOSE)


@torch.no_grad()
def test_ragged_rows_remember_their_own_last_states(both):
    ours, _ = both
    ragged, memory = inputs([LENGTH, 3, 5]), ours.trunk.new_memory(ROWS, MEMORY)
    together = ours(ragged, state=memory).encoded.state
    tokens, segments = (ragged.layout.split(x) for x in (ragged.tokens_T, ragged.layout.segments_T))
    orders = ragged.layout.split(ragged.layout.orders_T)
    for row in range(ROWS):
        alone = pack_rows([TokenRow(tokens[row].tolist(), segments[row].tolist())])
        alone = replace(alone, layout=replace(alone.layout, orders_T=orders[row]))
        own = ours(alone, state=tuple(one[row : row + 1] for one in memory)).encoded.state
        for several, one in zip(together, own, strict=True):
            torch.testing.assert_close(several[row : row + 1], one, **CLOSE)


def test_dropout_of_attention_may_differ():
    for rates in ({"dropout": 0.2, "attention_dropout": 0.0}, {"attention_dropout": 0.1}):
        facts = change(xlnet.BASE, **rates)
        config = xlnet.HF.config_of(facts)
        assert ("attention_dropout" in config) == (len(rates) == 2)
        read = xlnet.HF.facts_of({**config, "architectures": ["XLNetModel"]}, ())
        assert read.trunk.stack == facts.trunk.stack


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"attn_type": "uni"}, "attn_type is 'uni', and only 'bi' is supported"),
        ({"clamp_len": 4}, "clamp_len is 4, and only -1 is supported"),
        ({"summary_type": "mean"}, "summary_type is 'mean', and only 'last' is supported"),
    ],
)
def test_other_forms_are_refused(settings, said, tmp_path):
    FAMILY.reference("XLNetForSequenceClassification", **settings).save_pretrained(tmp_path)
    with pytest.raises(BadInput, match=said):
        folders.read(tmp_path)


def test_a_conversion_is_checked_with_segments(tmp_path):
    words = train_encoder_tokenizer(SENTENCES * 3, "xlnet-unigram", 120, lower=False)
    theirs = FAMILY.reference("XLNetLMHeadModel", vocab_size=len(words.words))
    theirs.save_pretrained(tmp_path / "theirs")
    words.save(tmp_path / "theirs")
    run("convert", tmp_path / "theirs", tmp_path / "ours", "--to", "regard", "--check")


def test_heads_of_another_size_are_refused(tmp_path):
    FAMILY.reference("XLNetModel").save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(path.read_text().replace('"d_head": 4', '"d_head": 5'))
    with pytest.raises(BadInput, match=r"d_head must be d_model / n_head \(12 / 3\), not 5"):
        folders.read(tmp_path)


@pytest.mark.parametrize("memory", [0, 6])
def test_it_is_pretrained_by_its_objective(memory, tmp_path):
    model = FAMILY.pretrain(tmp_path, f"permutation-lm = {{ memory = {memory} }}")
    assert model.facts.head_names == ("permutation_lm",)
    model.save(tmp_path / "hf", "hf")
    theirs, info = transformers.XLNetLMHeadModel.from_pretrained(
        tmp_path / "hf", output_loading_info=True, local_files_only=True
    )
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    text = "The old sailor mended his nets."
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf", local_files_only=True)
    given = tokenizer(text, return_tensors="pt", return_token_type_ids=True)
    with torch.no_grad():
        expected = theirs.eval()(**given).logits[0]
    torch.testing.assert_close(torch.as_tensor(model.logits([text])[0]), expected, **CLOSE)


COUNTS = {"base": 116_718_336, "large": 360_268_800}


@pytest.mark.parametrize("size", COUNTS)
def test_sizes_are_those_of_the_reference(size):
    facts = xlnet.PAPER.sizes[size]
    assert xlnet.PAPER.parameters(facts) == COUNTS[size]
    config = transformers.XLNetConfig(**xlnet.HF.config_of(facts))
    with torch.device("meta"):
        theirs = transformers.XLNetModel(config)
    assert theirs.num_parameters() == COUNTS[size]
