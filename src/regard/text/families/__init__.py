"""The families of tokenizers that models with one vocabulary have: a file for each kind."""

from regard.text.families.bpe import GPT2BPE, GPTBPE, ByteBPE
from regard.text.families.tokenizer_family import TokenizerFamily
from regard.text.families.unigram import Unigram, XLNetUnigram
from regard.text.families.word_level import RawWords, WordLevel
from regard.text.families.wordpiece import WordPiece, XLNetWordPiece

FAMILIES: tuple[TokenizerFamily, ...] = (
    *(WordPiece(), ByteBPE(), Unigram(), GPT2BPE(), GPTBPE()),
    *(XLNetUnigram(), XLNetWordPiece(), WordLevel(), RawWords()),
)
"""A folder whose files name no class has a tokenizer of its paper, or else of the first."""


def family_of_kind(kind: str | None, of_paper: str) -> str:
    """The family of a paper, or one of ``kind`` whose class token stands where the paper's does."""
    if kind is None:
        return of_paper
    summaries = {family.name: family.template.summary for family in FAMILIES}
    same_kind = (family.name for family in FAMILIES if family.kind == kind)
    return next((name for name in same_kind if summaries[name] == summaries[of_paper]), kind)
