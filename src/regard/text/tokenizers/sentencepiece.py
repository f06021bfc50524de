"""SentencePiece models, the files of Marian and ALBERT folders (Kudo and Richardson, 2018).

Files are parsed here: the library gives no table of characters, and its protobuf module needs the
package protobuf.
"""

import io
import re
import struct
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from regard.core.errors import BadInput, reason_of
from regard.text.tokenizers.subwords import too_small

KIND = "sentencepiece"
NOT_ONE = "not a SentencePiece model"
# Numbers of fields and values in sentencepiece_model.proto.
PIECES, TRAINER, NORMALIZER = 1, 2, 3
TEXT, SCORE = 1, 2  # of a piece
MODEL_TYPE, UNIGRAM = 3, 1  # of the trainer
CHARSMAP = 2  # of the normalizer
VARINT, LENGTH_DELIMITED, FIXED = 0, 2, {1: 8, 5: 4}  # wire types; of fixed ones, their bytes
END, UNKNOWN = 0, 1  # ids of the special pieces of a model that is learned here
RULES = {  # the library's normalisation by ``text.normalise`` and ``text.lower``
    ("nfkc", False): "nmt_nfkc",
    ("nfkc", True): "nmt_nfkc_cf",
    ("none", False): "identity",
}

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor


Piece = tuple[str, float]  # a text, and its score (a log-probability)


def load_processor(model: bytes) -> "SentencePieceProcessor":
    """Load a serialised model into the library ``sentencepiece``."""
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError:
        raise BadInput(
            "this model needs the library sentencepiece: pip install sentencepiece"
        ) from None
    processor = SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except (RuntimeError, ValueError):
        raise BadInput(NOT_ONE) from None
    return processor


def train_unigram(
    texts: Iterable[str], vocab: int, normalise: str, lower: bool, reserved: int = 0
) -> bytes:
    """Learn a serialised model with the library ``sentencepiece``.

    The vocabulary has at most ``vocab`` pieces, of which ``reserved`` are not in the model.

    Pieces are "</s>" (0), "<unk>" (1), and pieces that cover every character of the texts, the
    most probable first. The same texts give the same model, in any order.
    """
    from sentencepiece import SentencePieceTrainer

    model = io.BytesIO()
    try:
        SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=model,
            model_type="unigram",
            vocab_size=max(UNKNOWN + 1, vocab - reserved),
            hard_vocab_limit=False,
            character_coverage=1.0,
            normalization_rule_name=RULES[normalise, lower],
            eos_id=END,
            unk_id=UNKNOWN,
            bos_id=-1,
            pad_id=-1,
            minloglevel=3,
        )
    except RuntimeError as error:
        if "smaller than required" in str(error):
            numbers = re.findall(r"\d+", str(error).partition("smaller than required")[2])
            least = int(numbers[-1]) + reserved if numbers else None
            raise too_small(vocab, least) from None
        raise BadInput(f"data.train: SentencePiece learned no model ({reason_of(error)})") from None
    return model.getvalue()


def read_unigram(model: bytes) -> tuple[list[Piece], bytes]:
    """The pieces of a unigram model by their ids, and its compiled table of characters, if any.

    Other models are an error.
    """
    try:
        fields = [*_fields(model)]
        pieces = [_piece(value) for number, value in fields if number == PIECES]
        parts = {number: dict(_fields(value)) for number, value in fields if number in (2, 3)}
    except (ValueError, LookupError, TypeError, struct.error):
        raise BadInput(NOT_ONE) from None
    if not pieces:
        raise BadInput(NOT_ONE)
    if parts.get(TRAINER, {}).get(MODEL_TYPE, UNIGRAM) != UNIGRAM:
        raise BadInput("this SentencePiece model is not a unigram model")
    return pieces, parts.get(NORMALIZER, {}).get(CHARSMAP, b"")


def _piece(message: bytes) -> Piece:
    fields = dict(_fields(message))
    (score,) = struct.unpack("<f", fields.get(SCORE, bytes(4)))
    return fields.get(TEXT, b"").decode(), score


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a protocol buffer: their numbers, and integers or bytes."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        if wire_type == LENGTH_DELIMITED:
            size, at = _varint(message, at)
        else:
            size = FIXED[wire_type]
        if at + size > len(message):
            raise ValueError("it ends too early")
        yield number, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
