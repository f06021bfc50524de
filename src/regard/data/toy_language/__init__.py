"""The toy language: a synthetic parallel corpus of simple English and German, with word links.

A sentence is sampled as a tree (``sampling``, over the words of ``lexicon``), which ``grammar``
realises in both languages; words that realise the same part of the tree are linked.
"""

from regard.data.toy_language.baseline import dictionary, word_by_word
from regard.data.toy_language.corpus import Corpus, SentencePair, corpus, sample, write

__all__ = ["Corpus", "SentencePair", "corpus", "dictionary", "sample", "word_by_word", "write"]
