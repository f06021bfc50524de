"""The built-in language: everyday English and its German, from one grammar that says both at once.

A sentence is drawn as a tree (``telling``, over the words of ``lexicon``) and read twice
(``grammar``), in the order and the forms of each language; gold word links come with it.
"""

from regard.data.toy_language.baseline import dictionary, word_by_word
from regard.data.toy_language.corpus import Corpus, SentencePair, corpus, sample, write

__all__ = ["Corpus", "SentencePair", "corpus", "dictionary", "sample", "word_by_word", "write"]
