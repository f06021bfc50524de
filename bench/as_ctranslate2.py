"""regard's Transformers in the format of CTranslate2, with ids as their own words."""

from pathlib import Path
from typing import Any

import torch

from regard.models.encoder_decoder import EncoderDecoder
from regard.models.papers.marian import sinusoids

POSITIONS = 512


def write_ctranslate2(model: Any, facts: EncoderDecoder, marks: Any, folder: str) -> None:
    """Write the weights of a translator as CTranslate2 keeps them."""
    import ctranslate2

    Path(folder).mkdir()
    specs, source = ctranslate2.specs, facts.source.stack
    activations = {"relu": specs.Activation.RELU, "swish": specs.Activation.SWISH}
    spec = specs.TransformerSpec.from_config(
        (source.depth, facts.target.stack.depth),
        source.heads,
        pre_norm=source.norm == "pre",
        activation=activations[source.activation],
    )
    positions = sinusoids(torch.Size((POSITIONS, source.width)))
    for side, trunk in ((spec.encoder, model.source), (spec.decoder, model.target)):
        embeddings = side.embeddings
        embeddings = embeddings[0] if isinstance(embeddings, list) else embeddings
        embeddings.weight = trunk.embed.token.weight.detach().numpy()
        side.scale_embeddings = trunk.embed.scale != 1
        side.position_encodings.encodings = positions.numpy()
        for layer, block in zip(side.layer, trunk.blocks, strict=True):
            _put_linear(layer.self_attention.linear[0], block.attention.qkv)
            _put_linear(layer.self_attention.linear[1], block.attention.o)
            _put_norm(layer.self_attention.layer_norm, block.attention_residual.norm)
            if block.decodes:
                _put_linear(layer.attention.linear[0], block.cross.q)
                _put_linear(layer.attention.linear[1], block.cross.kv)
                _put_linear(layer.attention.linear[2], block.cross.o)
                _put_norm(layer.attention.layer_norm, block.cross_residual.norm)
            _put_linear(layer.ffn.linear_0, block.mlp.up)
            _put_linear(layer.ffn.linear_1, block.mlp.down)
            _put_norm(layer.ffn.layer_norm, block.mlp_residual.norm)
    _put_linear(spec.decoder.projection, model.head)
    words = [str(token) for token in range(facts.source.embed.vocab)]
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    spec.config.bos_token = spec.config.decoder_start_token = str(marks.bos)
    spec.config.eos_token, spec.config.unk_token = str(marks.eos), str(marks.unk)
    spec.config.add_source_eos = False
    spec.validate()
    spec.optimize()
    spec.save(folder)


def _put_linear(layer: Any, linear: Any) -> None:
    layer.weight = linear.weight.detach().numpy()
    if linear.bias is not None:
        layer.bias = linear.bias.detach().numpy()


def _put_norm(layer: Any, norm: Any) -> None:
    layer.gamma, layer.beta = norm.weight.detach().numpy(), norm.bias.detach().numpy()
