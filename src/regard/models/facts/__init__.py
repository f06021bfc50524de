"""Facts: models as values. A paper is a value, and a change of it says how another differs."""

from regard.models.facts.bilm import BiLMStack
from regard.models.facts.change import POSITIONS, change, difference, paths, values_named
from regard.models.facts.conv import ConvEncoderFacts
from regard.models.facts.embedding import AnyEmbedding, Characters, Patches, Tokens
from regard.models.facts.heads import (
    AnyHead,
    BiLMHead,
    ChoiceHead,
    ContextHead,
    DropoutSpanHead,
    LabelHead,
    MLMHead,
    NextTokenHead,
    PermutationLMHead,
    ReplacedTokenHead,
    SentenceOrderHead,
    SentencePairHead,
    SpanBoundaryHead,
    SpanHead,
    TokenLabelHead,
    TransitionHead,
)
from regard.models.facts.joint import Joint
from regard.models.facts.json import from_json, to_json
from regard.models.facts.label_heads import DistilledLabelHead, NormedLabelHead
from regard.models.facts.pools import (
    POOLS,
    AnyPool,
    AttentionPool,
    ConcatPool,
    FirstToken,
    FirstTokens,
    LastToken,
    MeanPool,
)
from regard.models.facts.rnn import (
    CausalRNNFacts,
    CrossAttentionFacts,
    RNNDecoderFacts,
    RNNEncoderFacts,
)
from regard.models.facts.shapes import EncoderDecoder, ModelFacts, TrunkWithHeads
from regard.models.facts.stack import AnyStack, Stack
from regard.models.facts.trunk import Features, Trunk
from regard.models.facts.two_stream import TwoStreamStack

__all__ = [
    "POOLS",
    "POSITIONS",
    "AnyEmbedding",
    "AnyHead",
    "AnyPool",
    "AnyStack",
    "AttentionPool",
    "BiLMHead",
    "BiLMStack",
    "CausalRNNFacts",
    "Characters",
    "ChoiceHead",
    "ConcatPool",
    "ContextHead",
    "ConvEncoderFacts",
    "CrossAttentionFacts",
    "DistilledLabelHead",
    "DropoutSpanHead",
    "EncoderDecoder",
    "Features",
    "FirstToken",
    "FirstTokens",
    "Joint",
    "LabelHead",
    "LastToken",
    "MLMHead",
    "MeanPool",
    "ModelFacts",
    "NextTokenHead",
    "NormedLabelHead",
    "Patches",
    "PermutationLMHead",
    "RNNDecoderFacts",
    "RNNEncoderFacts",
    "ReplacedTokenHead",
    "SentenceOrderHead",
    "SentencePairHead",
    "SpanBoundaryHead",
    "SpanHead",
    "Stack",
    "TokenLabelHead",
    "Tokens",
    "TransitionHead",
    "Trunk",
    "TrunkWithHeads",
    "TwoStreamStack",
    "change",
    "difference",
    "from_json",
    "paths",
    "to_json",
    "values_named",
]
