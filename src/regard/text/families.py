"""The families of tokenizers that encoders have."""

from regard.text.byte_bpe import ByteBPE
from regard.text.tokenizer_family import TokenizerFamily
from regard.text.unigram import Unigram
from regard.text.wordpiece import WordPiece

FAMILIES: tuple[TokenizerFamily, ...] = (WordPiece(), ByteBPE(), Unigram())
"""A folder whose files name no class has a tokenizer of the first."""
