"""T5 and mT5: values, folders both ways, caches, generation, the bias on the tape, and sizes."""

import json
import random

import pytest
import torch

import regard
from encoder_family import CLOSE, Family
from regard.core.batch import BatchLimits, SourceTarget, pack, pack_texts
from regard.core.errors import BadInput
from regard.core.layout import Layout
from regard.core.tape import Tape
from regard.generation import cpp
from regard.layers.attend import attend, causal, full
from regard.layers.kernels import bucketed, dense
from regard.layers.kernels.call import AttentionCall
from regard.layers.relative_bias import BiasedDot
from regard.models.facts import change
from regard.models.folders import folder as folders
from regard.models.papers import mt5, t5
from regard.weights.files import read_folder, write_tensors
from verb import run

transformers = pytest.importorskip("transformers")

SIZES = {
    "vocab_size": 60,
    "d_model": 12,
    "d_kv": 5,
    "d_ff": 20,
    "num_layers": 2,
    "num_heads": 3,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 12,
    "initializer_factor": 0.3,  # or logits are so large that 1e-5 is below their rounding
}
ENCODERS = {"EncoderModel": None, "ForTokenClassification": "token_label"}
SIDES = ("Model", "ForConditionalGeneration")
PAPERS = {"T5": t5.PAPER, "MT5": mt5.PAPER}
FAMILY = {
    name + kind: Family(paper, f"{name}Config", SIZES, {name + k: h for k, h in ENCODERS.items()})
    for name, paper in PAPERS.items()
    for kind in (*ENCODERS, *SIDES)
}
WHOLE = [name + kind for name in PAPERS for kind in SIDES]
ALONE = [name + kind for name in PAPERS for kind in ENCODERS]
PAIRS = [([5, 6, 7, 1], [0, 8]), ([9, 1], [0, 10, 11, 12, 13]), ([*range(5, 40), 1], [0])]


def settings_drawn(seed: int) -> dict:
    draw = random.Random(seed)
    return {
        "d_model": draw.choice([8, 12, 20]),
        "d_kv": draw.choice([2, 4, 7]),
        "d_ff": draw.choice([8, 24]),
        "num_heads": draw.choice([1, 2, 5]),
        "num_layers": draw.choice([1, 2, 3]),
        "num_decoder_layers": draw.choice([None, 1, 2]),
        "feed_forward_proj": draw.choice(["relu", "gated-gelu", "gated-silu", "gelu_new"]),
        "relative_attention_num_buckets": draw.choice([4, 8, 32]),
        "relative_attention_max_distance": draw.choice([20, 128]),
        "layer_norm_epsilon": draw.choice([1e-6, 1e-2]),
        "tie_word_embeddings": draw.choice([True, False]),
    }


@torch.no_grad()
def check_pairs(kind, folder, theirs):
    """States of both sides and logits of ragged pairs agree with the reference, pair by pair."""
    module = folders.read(folder).module
    sources, targets = (pack_texts(list(side)) for side in zip(*PAIRS, strict=True))
    tape = Tape("source.output", "target.output", "logits")
    module(SourceTarget(sources, targets), tape=tape)
    places = ("source.output", sources), ("target.output", targets), ("logits", targets)
    ours = {name: batch.layout.split(tape.records[name]) for name, batch in places}
    for number, (source, target) in enumerate(PAIRS):
        expected = theirs(
            input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([target])
        )
        found = {name: values[number] for name, values in ours.items()}
        encoded = expected.encoder_last_hidden_state[0]
        torch.testing.assert_close(found["source.output"], encoded, **CLOSE)
        if kind.endswith("Generation"):
            torch.testing.assert_close(found["logits"], expected.logits[0], **CLOSE)
        else:
            decoded = expected.last_hidden_state[0]
            torch.testing.assert_close(found["target.output"], decoded, **CLOSE)


@pytest.mark.thinned
@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("kind", WHOLE)
def test_random_shapes_agree_on_ragged_pairs(kind, seed, tmp_path):
    theirs = FAMILY[kind].reference(kind, **settings_drawn(seed))
    theirs.save_pretrained(tmp_path)
    check_pairs(kind, tmp_path, theirs)


@pytest.mark.thinned
@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("kind", ALONE)
def test_random_encoders_agree_on_ragged_rows(kind, seed, tmp_path):
    FAMILY[kind].check_values(kind, settings_drawn(seed), tmp_path)


@pytest.mark.parametrize("buckets", [4, 7, 8])
@pytest.mark.parametrize("kind", ["T5EncoderModel", "T5Model"])
def test_the_least_distance_of_the_buckets_of_a_side(kind, buckets, tmp_path):
    least = buckets // (4 if kind == "T5EncoderModel" else 2) + 1
    distance = {"relative_attention_max_distance": least, "num_layers": 1}
    settings = {"relative_attention_num_buckets": buckets, **distance}
    if kind == "T5EncoderModel":
        FAMILY["T5EncoderModel"].check_values(kind, settings, tmp_path)
        return
    theirs = FAMILY[kind].reference(kind, **settings)
    theirs.save_pretrained(tmp_path)
    check_pairs(kind, tmp_path, theirs)


@pytest.mark.thinned
@pytest.mark.parametrize("form", ["relu", "gated-gelu"])
@pytest.mark.parametrize("kind", [*WHOLE, *ALONE])
def test_a_folder_comes_back_bit_for_bit(kind, form, tmp_path):
    FAMILY[kind].check_folder(kind, tmp_path, feed_forward_proj=form)


@pytest.mark.thinned
@pytest.mark.parametrize(
    "kind", [*ALONE, "T5ForConditionalGeneration", "MT5ForConditionalGeneration"]
)
def test_a_new_folder_is_read_whole_by_the_reference(kind, tmp_path):
    FAMILY[kind].check_new_folder(kind, tmp_path)


def test_a_folder_of_version_1_1_has_an_output_layer_of_its_own(tmp_path):
    """As published in 2020: nothing is tied, and all names of the token vectors are stored."""
    kind = "T5ForConditionalGeneration"
    theirs = FAMILY[kind].reference(kind, feed_forward_proj="gated-gelu", tie_word_embeddings=False)
    theirs.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["scale_decoder_outputs"]
    config["tie_word_embeddings"] = False
    (tmp_path / "config.json").write_text(json.dumps(config))
    tensors = read_folder(tmp_path)
    names = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
    tensors |= {name: tensors["shared.weight"].clone() for name in names}
    write_tensors(
        tmp_path / "model.safetensors", {**tensors, "lm_head.weight": torch.randn(60, 12)}
    )
    model = folders.read(tmp_path)
    assert model.facts.tie == "sides" and not model.facts.scaled_output
    assert not torch.equal(model.module.head.weight, model.module.source.embed.token.weight)
    (tmp_path / "again").mkdir()
    folders.write(tmp_path / "again", model, "hf")
    again = read_folder(tmp_path / "again")
    assert all(torch.equal(again[name], tensor) for name, tensor in read_folder(tmp_path).items())
    theirs = transformers.T5ForConditionalGeneration.from_pretrained(tmp_path).eval()
    check_pairs(kind, tmp_path, theirs)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"feed_forward_proj": "gated-mish"}, "feed_forward_proj is 'gated-mish'; supported: gelu"),
        ({"is_decoder": True}, "is_decoder is True, and only False"),
        ({"relative_attention_max_distance": 8}, "farthest must be above 8, a quarter"),
        ({"relative_attention_max_distance": 16}, "farthest must be above 16, half"),
        (
            {"relative_attention_max_distance": 8, "architectures": ["T5EncoderModel"]},
            "farthest must be above 8, a quarter",
        ),
        ({"architectures": ["T5ForQuestionAnswering"]}, "a head on the decoder, is not supported"),
    ],
)
def test_keys_that_are_not_supported_are_refused_by_name(keys, reason):
    with pytest.raises(BadInput, match=reason):
        t5.HF.facts_of(keys, ())


@pytest.mark.thinned
@pytest.mark.parametrize("kind", ["T5ForConditionalGeneration", "MT5ForConditionalGeneration"])
@pytest.mark.parametrize("engine", ["torch", "cpp"])
@torch.no_grad()
def test_search_writes_what_the_reference_writes_token_for_token(kind, engine, tmp_path):
    theirs, sources = FAMILY[kind].reference(kind), [source for source, _ in PAIRS]
    for beams in (1, 3):
        theirs.generation_config.update(
            num_beams=beams, max_new_tokens=12, decoder_start_token_id=0
        )
        theirs.save_pretrained(tmp_path)
        translator = regard.load(tmp_path, "cpu").translator
        if engine == "cpp" and (reason := cpp.obstacle(translator.module)):
            pytest.skip(reason)
        written = translator.with_precision("fp32", engine).translate(sources)
        for source, (best, *_) in zip(sources, written, strict=True):
            (expected,) = theirs.generate(torch.tensor([source]), do_sample=False)
            tokens = [token for token in expected[1:].tolist() if token != 1]
            assert [*best.hypothesis.tokens] == tokens and tokens


def test_the_bias_is_on_the_tape_and_can_be_edited(tmp_path):
    kind = "T5ForConditionalGeneration"
    FAMILY[kind].reference(kind).save_pretrained(tmp_path)
    module = folders.read(tmp_path).module
    inputs = SourceTarget(pack([[5, 6, 7, 8]]), pack([[0, 9, 10]]))
    paths = [f"{side}.blocks.1.attention.bias" for side in ("source", "target")]
    tape = Tape(*paths, "source.blocks.1.attention.scores")
    whole = module(inputs, tape=tape).by_head["next_token"]
    assert [tuple(tape.records[path].shape) for path in paths] == [(1, 3, 4, 4), (1, 3, 3, 3)]
    score = module.source.blocks[0].attention.score
    assert score is module.source.blocks[1].attention.score  # layers share it
    assert torch.equal(tape.records[paths[0]][0, :, 2, 0], score.bias_at(torch.tensor(-2)))
    edits = dict.fromkeys(paths, lambda path, bias: torch.zeros_like(bias))
    edited = module(inputs, tape=Tape(edits=edits))
    assert not torch.allclose(edited.by_head["next_token"], whole)


@pytest.mark.parametrize("mask", [full, causal], ids=["full", "causal"])
@pytest.mark.parametrize("lengths", [[4, 4], [3, 0, 7, 1], [30]])
@pytest.mark.parametrize("rows", ["even", "ragged", "fixed"])
def test_kernels_agree_with_the_definition_forward_and_backward(mask, lengths, rows):
    score = BiasedDot(2, 8, 12, causal=mask == causal)
    torch.nn.init.normal_(score.bias.weight)
    kernel = bucketed if rows == "ragged" else dense
    layout = {
        "even": Layout.rectangle(2, lengths[0]),
        "ragged": Layout.ragged(lengths),
        "fixed": pack([[1] * length for length in lengths], BatchLimits(40, 6, 35)).layout,
    }[rows]
    q, k, v = (torch.randn(layout.tokens, 2, 3, requires_grad=True) for _ in range(3))
    call = AttentionCall(score, layout, layout, mask, 0.0)
    results = []
    for out in (
        attend(score, q, k, v, queries=layout, keys=layout, mask=mask),
        kernel.run(call, q, k, v),
    ):
        gradients = torch.autograd.grad(out.square().sum(), [q, k, v, score.bias.weight])
        results.append([out, *gradients])
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    alone = kernel.run(call, *(x.detach() for x in (q, k, v)))
    (of_bias,) = torch.autograd.grad(alone.square().sum(), [score.bias.weight])
    torch.testing.assert_close(of_bias, results[0][-1], rtol=1e-4, atol=1e-5)


def test_sizes_are_those_of_the_published_models():
    exact = {size: t5.PAPER.parameters(facts) for size, facts in t5.SIZES.items()}
    assert exact == {
        "small": 60_506_624,
        "base": 222_903_552,
        "large": 737_668_096,
        "3b": 2_851_598_336,
        "11b": 11_307_321_344,
        "v1.1-small": 76_961_152,
        "v1.1-base": 247_577_856,
        "v1.1-large": 783_150_080,
        "v1.1-3b": 2_849_757_184,
        "v1.1-11b": 11_135_332_352,
    }
    assert mt5.PAPER.parameters(mt5.SMALL) == 300_176_768


def test_an_empty_config_is_the_published_model():
    assert t5.HF.facts_of({}, ()) == t5.SMALL


@pytest.mark.parametrize("kind", ["T5ForConditionalGeneration", "MT5ForConditionalGeneration"])
def test_convert_compares_both_sides_with_the_reference(kind, tmp_path):
    FAMILY[kind].reference(kind).save_pretrained(tmp_path / "theirs")
    order = ("convert", tmp_path / "theirs", tmp_path / "ours", "--to", "regard", "--check")
    records = [json.loads(line) for line in run(*order, "--json").stdout.splitlines()]
    found = {record["layer"]: record["transformers"] for record in records}
    names = ("encoder block 1", "encoder final norm", "decoder final norm", "next_token logits")
    assert all(found[name] is not None and found[name] <= 1e-5 for name in names)


def test_a_decoder_with_windows_has_causal_buckets():
    facts = change(t5.SMALL, width=8, depth=2, heads=2, key=4, inner=8, vocab=20, windows=(4,))
    module = facts.build()
    assert module.target.blocks[0].attention.score.causal
    assert not module.source.blocks[0].attention.score.causal


def test_scores_of_positions_are_scaled_or_not():
    with pytest.raises(BadInput, match="scaled_scores must be false"):
        change(t5.SMALL, width=8, depth=1, heads=2, inner=8, vocab=9, scaled_scores=True).build()
