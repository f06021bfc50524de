"""A reader, attention over its states, a class (Lin et al., 2017, arXiv:1703.03130).

h_i = [→h_i; ←h_i]; α = softmax of v·tanh(W h_i + U q) over i; m = Σ_i α_i h_i; the class is read
from m. "base" has the paper's reader (300 numbers each way) and the inner size of its score (350,
no query: U q = 0). It differs in three things: the paper puts 30 such m side by side (r = 30; here
there is one), keeps them apart by a penalty, and reads the class from them by a layer of 2,000 or
3,000 hidden units, by task (here by a linear map). Here the query may also be learned, and the
score may be any other.
"""

from torch import Tensor, nn

from regard.ground.layout import Layout
from regard.ground.tape import NULL_TAPE, NullTape
from regard.models.facts import ClassifierFacts, Embed, Facts, Pooling, change
from regard.models.paper import Paper
from regard.models.readers import reader
from regard.models.sides import Reader
from regard.parts.attention import EncoderOutput
from regard.parts.bridge import last_state
from regard.parts.dropout import Dropout
from regard.parts.pooling import AttentionPoolModule

READER = Reader(width=300, embedding=100, reads="both", dropout=0.5)

BASE = ClassifierFacts(
    reader=Facts(Embed(vocab=30_000, position=None), READER),
    classes=5,
    pooling=Pooling(score="additive", query="zeros", inner=350),
    dropout=0.5,
)
LAPTOP = change(BASE, width=128, embedding=128, scaled=True, query="learned", inner=None)
LAST = change(LAPTOP, pooling=None)


class Pooled(nn.Module):
    """``eager`` models are neither compiled nor captured, as recurrent ones cannot be."""

    def __init__(self, facts: ClassifierFacts):
        super().__init__()
        self.eager = isinstance(facts.reader.stack, Reader)
        self.reader = reader(facts.reader)
        states, how = facts.reader.stack.states, facts.pooling
        self.pool: AttentionPoolModule | None = None
        if how is not None:
            sizes = {"inner": how.inner or states, "positions": how.positions}
            self.pool = AttentionPoolModule(states, how.score, how.query, **sizes)
        self.dropout = Dropout(facts.dropout)
        self.head = nn.Linear(states, facts.classes)

    def forward(self, tokens_T: Tensor, layout: Layout, *, tape: NullTape = NULL_TAPE) -> Tensor:
        """Logits over the classes, (B, V): one row of them for each text."""
        source = self.encode(tokens_T, layout, tape=tape)
        if self.pool is None:
            pooled_BD = last_state(source)
        else:
            pooled_BD = self.pool(source, tape=tape.under("pool"))
        pooled_BD = tape("pooled", pooled_BD)
        return tape("logits", self.head(self.dropout(pooled_BD)))

    def encode(
        self, tokens_T: Tensor, layout: Layout, *, tape: NullTape = NULL_TAPE
    ) -> EncoderOutput:
        """A state for every token."""
        return self.reader(tokens_T, layout, tape=tape.under("reader"))


PAPER = Paper(
    name="Lin",
    year=2017,
    title="A Structured Self-attentive Sentence Embedding",
    arxiv="1703.03130",
    after="Bahdanau",
    sizes={"base": BASE, "laptop": LAPTOP, "last": LAST},
    build=Pooled,
)
