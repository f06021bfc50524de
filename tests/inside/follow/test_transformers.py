"""Values of steps against hidden states and attentions of transformers, where both have them."""

import numpy as np
import pytest
import torch

import regard

transformers = pytest.importorskip("transformers")
IDS, TARGET = [3, 7, 1, 12, 5], [4, 9, 2]
SMALL = {"vocab_size": 23, "num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 2}
BERT = transformers.BertConfig(**SMALL, intermediate_size=24)
LLAMA = transformers.LlamaConfig(**SMALL, intermediate_size=24, num_key_value_heads=1)
GPT2 = transformers.GPT2Config(vocab_size=23, n_layer=2, n_embd=16, n_head=2)
T5 = transformers.T5Config(
    vocab_size=23, num_layers=2, d_model=16, num_heads=2, d_kv=8, d_ff=24, decoder_start_token_id=0
)
VIT = transformers.ViTConfig(
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=24,
    image_size=8,
    patch_size=4,
)


def saved(folder, kind: str, config) -> torch.nn.Module:
    """Random model of transformers, saved to a folder."""
    torch.manual_seed(0)
    config._attn_implementation = "eager"
    model = getattr(transformers, kind)(config).eval()
    model.save_pretrained(folder)
    return model


def near(step: np.ndarray, theirs: torch.Tensor) -> None:
    np.testing.assert_allclose(step, theirs[0].detach().numpy(), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize(
    ("kind", "config"),
    [("BertModel", BERT), ("GPT2LMHeadModel", GPT2), ("LlamaForCausalLM", LLAMA)],
)
def test_encoders_and_language_models(kind, config, tmp_path):
    theirs = saved(tmp_path, kind, config)
    ours = regard.load(tmp_path, "cpu").follow(IDS)
    found = theirs(torch.tensor([IDS]), output_attentions=True, output_hidden_states=True)
    near(ours["embed/output"], found.hidden_states[0])
    near(ours["layer 0/output"], found.hidden_states[1])
    near(ours["states"], found.hidden_states[2])
    for layer in range(2):
        near(ours[f"layer {layer}/attention/weights"], found.attentions[layer])


def test_an_encoder_decoder(tmp_path):
    theirs = saved(tmp_path, "T5ForConditionalGeneration", T5)
    ours = regard.load(tmp_path, "cpu").follow((IDS, TARGET))
    source, target = (torch.tensor([ours.recorded[f"{s}.ids"].tolist()]) for s in ours.tokens)
    more = {"output_attentions": True, "output_hidden_states": True}
    found = theirs(input_ids=source, decoder_input_ids=target, **more)
    near(ours["encoder states"], found.encoder_hidden_states[2])
    near(ours["decoder states"], found.decoder_hidden_states[2])
    near(ours["logits"], found.logits)
    for layer in range(2):
        name = f"layer {layer}/attention/weights"
        near(ours[f"encoder {name}"], found.encoder_attentions[layer])
        near(ours[f"decoder {name}"], found.decoder_attentions[layer])
        near(ours[f"decoder layer {layer}/cross/weights"], found.cross_attentions[layer])


def test_a_vision_model(tmp_path):
    theirs = saved(tmp_path, "ViTModel", VIT)
    model = regard.load(tmp_path, "cpu")
    pixels = np.random.default_rng(0).normal(size=(3, 8, 8)).astype(np.float32)
    ours = model.follow(pixels)
    image = torch.tensor(ours.recorded["trunk.ids"], dtype=torch.float32)[None]
    found = theirs(image, output_attentions=True, output_hidden_states=True)
    near(ours["embed/output"], found.hidden_states[0])
    near(ours["layer 1/output"], found.hidden_states[2])
    near(ours["states"], found.last_hidden_state)
    near(ours["layer 1/attention/weights"], found.attentions[1])
