"""Llama, Mistral and Qwen2: values of random shapes, keys of config.json, generation, sizes."""

import json
import random
from dataclasses import replace

import pytest
import torch

import regard
from encoder_families import FAMILIES, LLAMA3
from encoder_family import CLOSE
from regard.core.errors import BadInput
from regard.generation import Beam, Greedy, cpp
from regard.inference.generator import Ending
from regard.layers.rotary import LinearScaling
from regard.models.papers import llama, mistral, qwen2
from regard.models.positions import Rotary
from regard.weights.files import read_folder, write_tensors

transformers = pytest.importorskip("transformers")

LLAMA, MISTRAL, QWEN2 = (FAMILIES[name] for name in ("llama", "mistral", "qwen2"))
FAMILY = {kind: family for family in (LLAMA, MISTRAL, QWEN2) for kind in family.heads}
LM = [kind for kind in FAMILY if kind.endswith("CausalLM")]


def settings_drawn(seed: int) -> tuple[str, dict]:
    """A random architecture with random sizes and options."""
    draw = random.Random(seed)
    kind = draw.choice([*FAMILY])
    kv = draw.choice([1, 2, 3])
    heads = kv * draw.choice([1, 2, 4])
    size = draw.choice([4, 6, 10])
    own = FAMILY[kind] is not QWEN2  # its head_dim is no key of its configuration
    settings = {
        "hidden_size": heads * (draw.choice([4, 8]) if own else size),
        "num_attention_heads": heads,
        "num_key_value_heads": kv if FAMILY[kind] is MISTRAL else draw.choice([kv, kv, None]),
        "intermediate_size": draw.choice([8, 22, 40]),
        "num_hidden_layers": draw.choice([1, 2, 3]),
        "tie_word_embeddings": draw.choice([True, False]),
        "rms_norm_eps": draw.choice([1e-6, 1e-2]),
        "rope_theta": draw.choice([100.0, 10_000.0, 500_000.0]),
        "rope_scaling": draw.choice([None, LLAMA3, {"rope_type": "linear", "factor": 4.0}]),
        "hidden_act": draw.choice(["silu", "gelu", "gelu_pytorch_tanh"]),
    }
    if own:
        settings["head_dim"] = size
    if FAMILY[kind] is LLAMA:
        settings |= {"attention_bias": draw.random() < 0.5, "mlp_bias": draw.random() < 0.5}
    if FAMILY[kind] is MISTRAL:
        settings["sliding_window"] = draw.choice([None, 1, 5, 64])
    if FAMILY[kind] is QWEN2:
        settings |= {"use_sliding_window": True, "sliding_window": draw.choice([2, 7])}
        settings["max_window_layers"] = draw.choice([0, 1, 9])
    return kind, settings


@pytest.mark.thinned
@pytest.mark.parametrize("seed", range(100))
def test_random_shapes_agree_on_ragged_rows(seed, tmp_path):
    """In double precision: in single precision, large logits of some shapes differ by 3e-5 from
    those of the reference's own double precision, and on some processors from ours.
    """
    kind, settings = settings_drawn(seed)
    FAMILY[kind].check_values(kind, settings, tmp_path, torch.float64)


def test_older_files_have_frequencies_and_other_keys(tmp_path):
    """As published in 2023: ``rope_scaling`` with a ``type``, and a tensor of frequencies."""
    LLAMA.reference("LlamaForCausalLM").save_pretrained(tmp_path)
    path, config = tmp_path / "model.safetensors", tmp_path / "config.json"
    keys = json.loads(config.read_text())
    del keys["rope_parameters"], keys["head_dim"]
    scaling = {"type": "linear", "factor": 2.0}
    config.write_text(json.dumps({**keys, "rope_theta": 50.0, "rope_scaling": scaling}))
    name = "model.layers.0.self_attn.rotary_emb.inv_freq"
    write_tensors(path, {**read_folder(tmp_path), name: torch.ones(2)})
    model = regard.load(tmp_path, "cpu")
    assert model.facts.trunk.embed.position == Rotary(20, base=50.0, scaling=LinearScaling(2.0))
    model.save(tmp_path / "again", "hf")
    assert read_folder(tmp_path / "again").keys() == read_folder(tmp_path).keys()
    theirs = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "again").eval()
    row = LLAMA.rows()[0].tokens
    (logits_TV,) = model.logits([row])
    torch.testing.assert_close(logits_TV, theirs(torch.tensor([row])).logits[0], **CLOSE)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, "rope_type is 'yarn'; supported"),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope_type is 'dynamic'"),
        ({"rope_scaling": {"rope_type": "linear"}}, "factor must be a positive number, not None"),
        ({"rope_scaling": 3}, "rope_scaling must be a table, not 3"),
        (
            {"rope_scaling": {**LLAMA3, "low_freq_factor": 4.0}},
            "low .4.0. must be below high .4.0.",
        ),
        ({"rope_theta": -1.0}, "base must be above 0"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor is 0.5, and only 1.0"),
        ({"num_key_value_heads": 5}, "^num_key_value_heads: kv_heads must divide the 32 heads"),
        (
            {"num_attention_heads": 8, "num_key_value_heads": 5},
            "^num_key_value_heads: kv_heads must divide the 8 heads",
        ),
        ({"hidden_act": "mish"}, "hidden_act is 'mish'; supported: "),
        ({"quantization_config": {"bits": 4}}, "quantization_config is"),
    ],
)
def test_keys_that_are_not_supported_are_refused_by_name(keys, reason):
    with pytest.raises(BadInput, match=reason):
        llama.HF.facts_of(keys, ())


def test_rope_scaling_goes_before_rope_parameters_as_in_the_reference(tmp_path):
    theirs = LLAMA.reference("LlamaForCausalLM", rope_theta=50.0)
    theirs.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {"rope_scaling": {"rope_type": "linear", "factor": 4.0}, "rope_theta": 90.0}
    (tmp_path / "config.json").write_text(json.dumps(config))
    theirs, row = transformers.LlamaForCausalLM.from_pretrained(tmp_path), LLAMA.rows()[0].tokens
    (logits_TV,) = regard.load(tmp_path, "cpu").logits([row])
    torch.testing.assert_close(logits_TV, theirs.eval()(torch.tensor([row])).logits[0], **CLOSE)


def test_windows_are_refused_by_name():
    with pytest.raises(BadInput, match="sliding_window must be null or a number of tokens, not 0"):
        mistral.HF.facts_of({"sliding_window": 0}, ())
    keys = {"use_sliding_window": True, "num_hidden_layers": 2, "layer_types": ["full_attention"]}
    with pytest.raises(BadInput, match="layer_types must be 2 of 'full_attention'"):
        qwen2.HF.facts_of(keys, ())
    with pytest.raises(BadInput, match=r"the Llama format cannot express this model: .*windows"):
        llama.HF.config_of(mistral.BASE)
    with pytest.raises(BadInput, match=r"the Llama format cannot express this model: .*qkv_bias"):
        llama.HF.config_of(qwen2.BASE)


def test_sizes_are_those_of_the_published_models():
    exact = {size: llama.PAPER.parameters(facts) for size, facts in llama.SIZES.items()}
    assert exact == {
        "7b": 6_738_415_616,
        "13b": 13_015_864_320,
        "70b": 68_976_648_192,
        "3-8b": 8_030_261_248,
        "3.1-8b": 8_030_261_248,
        "3.2-1b": 1_235_814_400,
        "3.2-3b": 3_212_749_824,
        "smollm2-135m": 134_515_008,
        "smollm2-360m": 361_821_120,
        "smollm2-1.7b": 1_711_376_384,
    }
    assert mistral.PAPER.parameters(mistral.BASE) == 7_241_732_096
    exact = {size: qwen2.PAPER.parameters(facts) for size, facts in qwen2.SIZES.items()}
    assert exact == {
        "0.5b": 494_032_768,
        "1.5b": 1_543_714_304,
        "7b": 7_615_616_512,
        "72b": 72_706_203_648,
    }


@pytest.mark.thinned
@pytest.mark.parametrize("kind", LM)
@pytest.mark.parametrize("engine", ["torch", "cpp"])
@torch.no_grad()
def test_generation_is_that_of_the_reference_token_for_token(kind, engine, tmp_path):
    """Greedy and beam search after prompts of different lengths, past the window."""
    window = {"sliding_window": 4} if FAMILY[kind] is MISTRAL else {}
    ids = {"eos_token_id": 59, "bos_token_id": 1, "pad_token_id": 0}
    theirs = FAMILY[kind].reference(kind, **ids, **window)
    theirs.save_pretrained(tmp_path)
    generator = regard.load(tmp_path, "cpu").generator
    if engine == "cpp" and (reason := cpp.obstacle(generator.module)):
        pytest.skip(reason)
    generator = replace(generator.with_precision("fp32", engine), ending=Ending(9, 9))
    prompts = [[5, 6, 7], [8], [9, 10, 11, 12, 13]]
    length = {"min_new_tokens": 9, "max_new_tokens": 9}
    for beams, search in ((1, Greedy()), (3, Beam(3))):
        written = generator.generate(prompts, search)
        for prompt, (best, *_) in zip(prompts, written, strict=True):
            row = torch.tensor([prompt])
            (expected,) = theirs.generate(row, num_beams=beams, do_sample=False, **length)
            assert [*best.hypothesis.tokens] == expected[len(prompt) :].tolist()
