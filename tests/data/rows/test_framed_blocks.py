"""Full rows in a frame: all documents end to end, separated, cut at every so many tokens."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from regard.data.rows.block_plans import FramedBlocks, TokenStream
from regard.data.rows.documents import Documents
from regard.text.templates import RowBuilder, Template

XLNET = RowBuilder(Template("A sep cls:2", "A sep B:1 sep:1 cls:2"), {"sep": 4, "cls": 3})
PLAIN = RowBuilder(Template("A"), {})


@given(st.lists(st.integers(1, 30), min_size=1, max_size=8), st.integers(4, 12), st.booleans())
def test_rows_are_the_text_in_order(lengths, longest, plain):
    texts = [np.arange(100 * n + 10, 100 * n + 10 + size) for n, size in enumerate(lengths)]
    template = PLAIN if plain else XLNET
    separator = None if plain else 4
    source = TokenStream(Documents.of([[text] for text in texts]), separator)
    plan = FramedBlocks(source, template.frame(1), longest)
    stream = np.concatenate([[*([] if plain else [4]), *text] for text in texts])
    room = min(longest - (0 if plain else 2), len(stream))
    assert len(plan) == len(stream) // room and (plan.lengths == plan.lengths[0]).all()
    order = np.random.default_rng(0).permutation(len(plan))
    for number, (row, follows) in zip(order, plan.read(order), strict=True):
        text = stream[number * room : (number + 1) * room].tolist()
        assert row.tokens.tolist() == [*text, *([] if plain else [4, 3])]
        assert row.segments.tolist() == [0] * len(text) + ([] if plain else [0, 2])
        assert follows is None and len(row.tokens) == plan.lengths[number]
