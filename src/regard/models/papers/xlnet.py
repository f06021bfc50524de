"""XLNet (Yang et al., 2019, arXiv:1906.08237): a bidirectional encoder that learns to predict the
tokens of a row in random orders, by two streams of states, with the relative positions and the
memory of Transformer-XL. Its class token stands last.
"""

from functools import partial

from regard.models.facts import change
from regard.models.formats import Architectures, Constant, HFHead, Key
from regard.models.formats.config_map import ACTIVATIONS
from regard.models.formats.xlnet import CONFIG, XLNetFormat, weights
from regard.models.heads import ChoiceHead, LabelHead, PermutationLMHead, TokenLabelHead
from regard.models.paper import Paper
from regard.models.papers import bert
from regard.models.pools import LastToken
from regard.models.tokens import Tokens
from regard.models.trunk import Trunk
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.models.two_stream import TwoStreamStack
from regard.text.families.unigram import XLNetUnigram
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer

BASE = TrunkWithHeads(
    trunk=Trunk(
        Tokens(vocab=32_000, position=None),
        TwoStreamStack(width=768, depth=12, heads=12, inner=3_072),
    ),
    init_std=0.02,
)
LARGE = change(BASE, width=1_024, depth=24, heads=16, inner=4_096)

# The heads of Hugging Face. An empty config.json is "large".
SUMMARY = (
    Key("summary_last_dropout", "dropout"),
    Key("summary_activation", "dense", {**ACTIVATIONS, "tanh": "tanh"}),
    Constant("summary_type", "last"),
    Constant("summary_use_proj", True),
)
LM = HFHead(PermutationLMHead(), "lm_loss.", (Key("tie_word_embeddings", "tied"),))
LABEL = HFHead(
    LabelHead(2, dropout=0.1, dense="tanh", last_only=True),
    tensors="logits_proj.",
    config_map=(*SUMMARY, bert.LABELS),
    pool=LastToken(),
)
CHOICE = HFHead(
    ChoiceHead(dropout=0.1, dense="tanh", last_only=True),
    tensors="logits_proj.",
    config_map=SUMMARY,
    pool=LastToken(),
)
TOKEN_LABEL = HFHead(TokenLabelHead(2), "classifier.", (bert.LABELS,))
ARCHITECTURES = Architectures(
    {
        "XLNetModel": (),
        "XLNetLMHeadModel": (LM,),
        "XLNetForQuestionAnsweringSimple": (bert.SPAN,),
        "XLNetForSequenceClassification": (LABEL,),
        "XLNetForTokenClassification": (TOKEN_LABEL,),
        "XLNetForMultipleChoice": (CHOICE,),
    }
)
HF = XLNetFormat(
    name="XLNet",
    model_type="xlnet",
    defaults=LARGE,
    config_map=(*CONFIG, ARCHITECTURES),
    weights=weights(1_024, 16),
    tokenizer=partial(EncoderTokenizer.load, family=XLNetUnigram()),
)

PAPER = Paper(
    name="XLNet",
    year=2019,
    title="XLNet: Generalized Autoregressive Pretraining for Language Understanding",
    arxiv="1906.08237",
    after="BERT",
    tokenizer=XLNetUnigram.name,
    pretraining={"permutation-lm": {}},
    sizes={"base": BASE, "large": LARGE},
    formats={"hf": HF},
    kinds=(TwoStreamStack, PermutationLMHead),
)
