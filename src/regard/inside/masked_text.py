"""Texts with masks: a masked LM reads the mask token in a text as a mask."""

from typing import cast

from regard.inference.encoder_model import EncoderModel
from regard.inference.fill_mask import MaskFiller
from regard.inference.model_runner import ModelRunner
from regard.models.label_heads import MLMHead
from regard.text.segmentation import LabelledRow, LabelledRows, TokenLabels
from regard.text.tokenizers.row_tokenizer import require_tokenizer


def mask_filler(model: ModelRunner) -> MaskFiller | None:
    """Component that reads masks; None if the model or its tokenizer has none."""
    if model.tokenizer is None or MLMHead.name not in model.facts.head_names:
        return None
    return cast(EncoderModel, model).filler()


def read_with_masks(model: ModelRunner, first: object, second: str | None = None) -> LabelledRows:
    """Rows of a text, of two texts or of an image; a masked LM reads masks in a single text."""
    filler = mask_filler(model)
    if filler is None or not isinstance(first, str) or second or filler.mask not in first:
        return model.read(first, second)
    return {"trunk": _masked_row(model, first, filler.mask)}


def _masked_row(model: ModelRunner, text: str, mask: str) -> LabelledRow:
    """Row of a text with masks, with the words between them."""
    tokenizer = require_tokenizer(model.tokenizer)
    ids = tokenizer.masked(text)
    words, parts = tokenizer.words, text.split(mask)
    cuts = [(part, words.segment(part)) for part in parts]
    labels = [TokenLabels.of_text(part, cut, words.pieces(cut.ids)) for part, cut in cuts]
    blanks = [TokenLabels.special(mask)] * (len(labels) - 1)
    inner = [one for pair in zip(labels, blanks, strict=False) for one in pair]
    special = tokenizer.template.special.items()
    of_part = {role: TokenLabels.special(*words.pieces([number])) for role, number in special}
    of_part["A"] = TokenLabels.join(*inner, labels[-1])
    joined = TokenLabels.join(*(of_part[p.name] for p in tokenizer.template.template.parts(1)))
    row = tokenizer.row(ids)
    if len(joined.subwords) != len(row.tokens):  # spaces around masks are tokens
        fixed = {tokenizer.mask, *tokenizer.template.special.values()}
        tokens = [int(token) for token in row.tokens]
        named = zip(tokens, words.pieces(tokens), strict=True)
        pieces = [(TokenLabels.single, TokenLabels.special)[t in fixed](p) for t, p in named]
        joined = TokenLabels.join(*pieces)
    return LabelledRow(row, joined, joined)
