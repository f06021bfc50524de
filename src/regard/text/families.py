"""The families of tokenizers that models with one vocabulary have."""

from regard.text.byte_bpe import GPT2BPE, ByteBPE
from regard.text.gpt_bpe import GPTBPE
from regard.text.tokenizer_family import TokenizerFamily
from regard.text.unigram import Unigram, XLNetUnigram
from regard.text.wordpiece import WordPiece

FAMILIES: tuple[TokenizerFamily, ...] = (
    WordPiece(),
    ByteBPE(),
    Unigram(),
    GPT2BPE(),
    GPTBPE(),
    XLNetUnigram(),
)
"""A folder whose files name no class has a tokenizer of its paper, or else of the first."""
