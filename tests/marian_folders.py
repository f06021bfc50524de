"""Marian folders as Hugging Face writes them: real SentencePiece models, random weights."""

import io
import json
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import torch

from regard.data.toy_language.corpus import corpus

SMALL = {
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 20,
    "activation_function": "swish",
    "scale_embedding": True,
    "max_position_embeddings": 64,
}
CODES = (">>deu<<", ">>fra<<")


@cache
def sentences() -> tuple[tuple[str, str], ...]:
    """Pairs of the built-in language."""
    return tuple((pair.source, pair.target) for pair in corpus(train=300, dev=1, test=1).train)


@cache
def pieces(side: int, size: int = 160) -> bytes:
    """A unigram model of one side; what it never saw is unknown to it."""
    from sentencepiece import SentencePieceTrainer

    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter([pair[side] for pair in sentences()]),
        model_writer=model,
        vocab_size=size + 20 * side,
        model_type="unigram",
        minloglevel=2,
    )
    return model.getvalue()


def vocabulary(*models: bytes) -> dict[str, int]:
    """The ids of Marian: the end, the unknown, all pieces, and last the pad."""
    from sentencepiece import SentencePieceProcessor

    found = ["</s>", "<unk>", *CODES]
    for model in models:
        processor = SentencePieceProcessor(model_proto=model)
        found += [processor.id_to_piece(i) for i in range(3, len(processor))]
    return {piece: i for i, piece in enumerate(dict.fromkeys([*found, "<pad>"]))}


def write_text(folder: Path, separate: bool = False) -> tuple[int, int]:
    """The files of a tokenizer; the sizes of both vocabularies."""
    source, target = pieces(0), pieces(1)
    (folder / "source.spm").write_bytes(source)
    (folder / "target.spm").write_bytes(target)
    vocabularies = [vocabulary(source, target)] * 2
    settings: dict[str, Any] = {"source_lang": "eng", "target_lang": "deu"}
    if separate:
        vocabularies = [vocabulary(source), vocabulary(target)]
        (folder / "target_vocab.json").write_text(json.dumps(vocabularies[1]))
        settings["separate_vocabs"] = True
    (folder / "vocab.json").write_text(json.dumps(vocabularies[0]))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return len(vocabularies[0]), len(vocabularies[1])


def write_marian(
    folder: Path, *, separate: bool = False, dtype: torch.dtype = torch.float32, **changes: Any
) -> Path:
    """A folder that ``MarianMTModel`` and ``MarianTokenizer`` wrote."""
    from transformers import MarianConfig, MarianMTModel

    folder.mkdir(parents=True, exist_ok=True)
    vocab, written = write_text(folder, separate)
    if separate:
        changes = {"share_encoder_decoder_embeddings": False, **changes}
    config = MarianConfig(
        **{
            "vocab_size": vocab,
            "decoder_vocab_size": written,
            "pad_token_id": vocab - 1,
            "decoder_start_token_id": vocab - 1,
            **SMALL,
            **changes,
        }
    )
    model = MarianMTModel(config)
    with torch.no_grad():  # zeros and ones would hide a mistake, and so would states without spread
        for name, one in [*model.named_parameters(), *model.named_buffers()]:
            if "embed_positions" not in name:
                one.normal_(1.0 if name.endswith("norm.weight") else 0.0, std=0.25)
    quietly(lambda: model.to(dtype).save_pretrained(folder))
    return folder


def quietly(do) -> Any:
    """Without the reference's remarks on packages it would like to have."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return do()


@cache
def reference_model(folder: Path) -> Any:
    """The reference's model, in full precision."""
    from transformers import MarianMTModel

    return quietly(lambda: MarianMTModel.from_pretrained(folder, dtype=torch.float32)).eval()


@cache
def reference_tokenizer(folder: Path) -> Any:
    """The reference's tokenizer."""
    from transformers import MarianTokenizer

    return quietly(lambda: MarianTokenizer.from_pretrained(folder))
