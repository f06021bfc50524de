"""The toy language: a synthetic parallel corpus of simple English and German, with word links.

A sentence is sampled as a tree (``clauses``, over the words of ``lexicon``), which ``english`` and
``german`` realise; words that realise the same part of the tree are linked.
"""
