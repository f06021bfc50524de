"""Steps of each class of facts, which are imported when a model has it."""

from collections.abc import Mapping

from regard.core.catalogue import Catalogue, Entry
from regard.inside.follow.plan import StepMaker

MAKERS: Mapping[str, tuple[str, ...]] = {
    "attention:bias_steps": ("RelativeBias",),
    "attention:relative_steps": ("Relative",),
    "attention:rotary_steps": ("Rotary",),
    "characters:characters_steps": ("Characters",),
    "elmo:bilm_head_steps": ("BiLMHead",),
    "elmo:bilm_steps": ("BiLMStack",),
    "embedding:learned_steps": ("Learned",),
    "embedding:predicate_steps": ("PredicateTokens",),
    "embedding:sinusoid_steps": ("Sinusoid",),
    "embedding:task_tokens_steps": ("TaskTokens",),
    "embedding:tokens_steps": ("Tokens",),
    "heads:distilled_steps": ("DistilledLabelHead",),
    "heads:linear_steps": (
        *("ChoiceHead", "DropoutSpanHead", "LabelHead", "ReplacedTokenHead", "SentenceOrderHead"),
        *("SentencePairHead", "SpanHead", "TokenLabelHead"),
    ),
    "heads:mlm_steps": ("MLMHead",),
    "heads:next_token_steps": ("NextTokenHead", "PermutationLMHead"),
    "heads:transition_steps": ("TransitionHead",),
    "heads:unread_steps": ("ContextHead", "SpanBoundaryHead"),
    "images:patches_steps": ("Patches",),
    "models:encoder_decoder_steps": ("EncoderDecoder",),
    "models:trunk_steps": ("Trunk",),
    "models:trunk_with_heads_steps": ("TrunkWithHeads",),
    "other_stacks:convolution_steps": ("ConvEncoderFacts",),
    "other_stacks:highway_steps": ("HighwayStack",),
    "pools:attention_steps": ("AttentionPool",),
    "pools:concat_steps": ("ConcatPool",),
    "pools:first_steps": ("FirstToken",),
    "pools:first_tokens_steps": ("FirstTokens",),
    "pools:last_steps": ("LastToken",),
    "pools:mean_steps": ("MeanPool",),
    "recurrent:causal_steps": ("CausalRNNFacts",),
    "recurrent:encoder_steps": ("RNNEncoderFacts",),
    "rnn_decoder:decoder_steps": ("RNNDecoderFacts",),
    "transformer:stack_steps": ("Stack",),
    "two_stream:two_stream_steps": ("TwoStreamStack",),
}
STEPS = Catalogue[StepMaker](
    {name: Entry(f"{__name__}.{place}") for place, names in MAKERS.items() for name in names}
)
"""Functions that add the steps of a value of facts to a plan, by the name of its class."""
SETTINGS = {
    "CrossAttentionFacts",
    "DenseLayer",
    "LinearScaling",
    "Llama3Scaling",
    "PermutationMask",
    "WindowMask",
}
"""Classes of facts without steps of their own: steps of other classes read them."""
