"""The legend of axis letters used as name suffixes throughout the package, as in ``q_THK``.

| letter | axis                                              |
|--------|---------------------------------------------------|
| B      | rows (sequences) of a batch                       |
| T      | packed tokens, all rows laid end to end           |
| L      | padded length on the query side                   |
| S      | padded length on the key side                     |
| H      | heads, or rows of pixels                          |
| K      | size of a head                                    |
| D      | width of the model                                |
| F      | inner width of a feed-forward layer               |
| V      | vocabulary                                        |
| N      | selected positions (those with a target)          |
| R      | active rows of a search                           |
| W      | slots of a beam, columns of pixels, or words      |
| P      | positions of a table, or distances between two    |
| M      | memory: states of the tokens before each row; or  |
|        | targets of an attribution                         |
| C      | characters of a word, or channels of an image; or |
|        | columns of a table                                |
| A      | antecedents of a mention                          |
"""

LEGEND = frozenset("BTLSHKDFVNRWPMCA")
