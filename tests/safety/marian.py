"""A small published translator, written without the package: SentencePiece models, random weights.

Tensors are called as Hugging Face calls those of ``MarianMTModel``.
"""

import io
import json
from pathlib import Path

from safetensors.torch import save_file

from safety.weights import value

WIDTH, INNER, HEADS, DEPTH = 16, 24, 2, 2
PIECES = 60


def write_marian(folder: Path, source: Path, target: Path, rule: str = "nmt_nfkc") -> None:
    """The folder of a translator between the languages of two files.

    ``rule`` is how SentencePiece normalises; all but "identity" store a table of 240 kB.
    """
    folder.mkdir()
    models = [_sentencepiece(text.read_text().splitlines(), rule) for text in (source, target)]
    for name, model in zip(("source.spm", "target.spm"), models, strict=True):
        (folder / name).write_bytes(model)
    vocabulary = _vocabulary(models)
    size = len(vocabulary)
    ids = {"pad_token_id": size - 1, "eos_token_id": 0, "decoder_start_token_id": size - 1}
    config = {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "vocab_size": size,
        "decoder_vocab_size": size,
        "d_model": WIDTH,
        "activation_function": "swish",
        "scale_embedding": True,
        "is_encoder_decoder": True,
        "max_position_embeddings": 64,
        **ids,
    }
    for side in ("encoder", "decoder"):
        config |= {f"{side}_layers": DEPTH, f"{side}_attention_heads": HEADS}
        config[f"{side}_ffn_dim"] = INNER
    generation = {"num_beams": 3, "max_length": 24, "bad_words_ids": [[size - 1]], **ids}
    settings = {"source_lang": "eng", "target_lang": "deu"}
    files = {
        "vocab.json": vocabulary,
        "config.json": config,
        "generation_config.json": generation,
        "tokenizer_config.json": settings,
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    tensors = {name: value(name, shape) for name, shape in _shapes(size).items()}
    tensors["final_logits_bias"][0, 0] += 2  # the end, so that there is one now and then
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def _sentencepiece(lines: list[str], rule: str) -> bytes:
    from sentencepiece import SentencePieceTrainer

    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=PIECES,
        hard_vocab_limit=False,
        model_type="unigram",
        normalization_rule_name=rule,
        num_threads=1,
        minloglevel=2,
    )
    return model.getvalue()


def _vocabulary(models: list[bytes]) -> dict[str, int]:
    from sentencepiece import SentencePieceProcessor

    found = ["</s>", "<unk>"]
    for model in models:
        processor = SentencePieceProcessor(model_proto=model)
        found += [processor.id_to_piece(i) for i in range(3, len(processor))]
    return {piece: i for i, piece in enumerate(dict.fromkeys([*found, "<pad>"]))}


def _shapes(size: int) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {
        "model.shared.weight": (size, WIDTH),
        "final_logits_bias": (1, size),
    }
    for side, attentions in (("encoder", ("self",)), ("decoder", ("self", "encoder"))):
        for layer in range(DEPTH):
            under = f"model.{side}.layers.{layer}."
            linear = {"fc1": (INNER, WIDTH), "fc2": (WIDTH, INNER)}
            norms = ["final_layer_norm"]
            for name in attentions:
                norms.append(f"{name}_attn_layer_norm")
                for part in ("q", "k", "v", "out"):
                    linear[f"{name}_attn.{part}_proj"] = (WIDTH, WIDTH)
            for name, shape in linear.items():
                shapes[f"{under}{name}.weight"] = shape
                shapes[f"{under}{name}.bias"] = shape[:1]
            for name in norms:
                shapes |= {f"{under}{name}.{part}": (WIDTH,) for part in ("weight", "bias")}
    return shapes
