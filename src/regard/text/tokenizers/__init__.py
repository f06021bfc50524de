"""Tokenizers, from texts to rows of ids: a file for each kind.

A family (``family``) is a kind of vocabulary with its special tokens, as published models
have it: it builds the tokenizer of the library, and reads, writes and learns its files. A tokenizer
(``row_tokenizer``, ``translation_tokenizer``) is a vocabulary, or two, with the rows of a model.
``list`` has all tokenizers by name.
"""

from regard.text.tokenizers.bpe import GPT2BPE, GPTBPE, ByteBPE, DecoderBPE, EncoderBPE
from regard.text.tokenizers.family import TokenizerFamily
from regard.text.tokenizers.unigram import T5Unigram, Unigram, XLNetUnigram
from regard.text.tokenizers.word_level import RawWords, WordLevel
from regard.text.tokenizers.wordpiece import WordPiece, XLNetWordPiece

FAMILIES: tuple[TokenizerFamily, ...] = (
    *(WordPiece(), ByteBPE(), Unigram(), GPT2BPE(), GPTBPE()),
    *(XLNetUnigram(), XLNetWordPiece(), WordLevel(), RawWords(), T5Unigram()),
    *(EncoderBPE(), DecoderBPE()),
)
"""Default of a folder whose files name no class: the family of its paper, else the first."""


def family_of_kind(kind: str | None, of_paper: str) -> str:
    """Family of ``kind`` with the class token where the paper has it; default: the paper's."""
    if not kind:
        return of_paper
    summaries = {family.name: family.template.summary for family in FAMILIES}
    same_kind = [family.name for family in FAMILIES if family.kind == kind]
    same_kind.sort(key=of_paper.__ne__)  # the paper's first
    return next((name for name in same_kind if summaries[name] == summaries[of_paper]), kind)
