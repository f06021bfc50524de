"""context2vec (Melamud et al., 2016, CoNLL): words, and the gaps they fit into, in one space.

c = L2(relu(L1([→h_{i-1}; ←h_{i+1}]))): one LSTM layer reads the words before a gap, another those
after it from the end, and two dense layers give the vector of the gap. It is trained against the
vectors of words by negative sampling, so that the words with the largest products fit the gap best.
"""

from regard.models.facts import change
from regard.models.heads import ContextHead
from regard.models.paper import Paper
from regard.models.rnn import RNNEncoderFacts
from regard.models.tokens import Tokens
from regard.models.trunk import Trunk
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.text.tokenizers.word_tokenizer import WordTokenizer

BASE = TrunkWithHeads(
    trunk=Trunk(
        Tokens(vocab=180_000, position=None),
        RNNEncoderFacts(width=600, embedding=300, direction="both"),
    )
)
LAPTOP = change(BASE, vocab=40_000, width=256, embedding=128)

PAPER = Paper(
    name="context2vec",
    year=2016,
    title="context2vec: Learning Generic Context Embedding with Bidirectional LSTM",
    arxiv=None,
    report="CoNLL 2016",
    after="Zaremba",
    sizes={"base": BASE, "laptop": LAPTOP},
    tokenizer=WordTokenizer.name,
    pretraining={"negative-sampling": {}},
    kinds=(ContextHead,),
)
