"""Facts as JSON and back: each value under the name of its class."""

from dataclasses import fields, is_dataclass
from typing import Any

from regard.ground.errors import BadInput
from regard.models.facts.bilm import BiLMStack
from regard.models.facts.checks import check_type
from regard.models.facts.conv import ConvEncoderFacts
from regard.models.facts.embedding import Characters, Patches, Tokens
from regard.models.facts.heads import (
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
from regard.models.facts.label_heads import DistilledLabelHead, NormedLabelHead
from regard.models.facts.pools import (
    AttentionPool,
    ConcatPool,
    FirstToken,
    FirstTokens,
    LastToken,
    MeanPool,
)
from regard.models.facts.positions import Learned, Relative, Sinusoid
from regard.models.facts.rnn import (
    CausalRNNFacts,
    CrossAttentionFacts,
    RNNDecoderFacts,
    RNNEncoderFacts,
)
from regard.models.facts.shapes import EncoderDecoder, TrunkWithHeads
from regard.models.facts.stack import Stack
from regard.models.facts.trunk import Features, Trunk
from regard.models.facts.two_stream import TwoStreamStack
from regard.parts.attend import PermutationMask, WindowMask

VALUES = {
    kind.__name__: kind
    for kind in (
        *(TrunkWithHeads, EncoderDecoder, Trunk, Features, Tokens, Characters, Patches),
        *(
            Stack,
            TwoStreamStack,
            BiLMStack,
            RNNEncoderFacts,
            CausalRNNFacts,
            RNNDecoderFacts,
            CrossAttentionFacts,
            ConvEncoderFacts,
        ),
        *(FirstToken, FirstTokens, LastToken, MeanPool, AttentionPool, ConcatPool),
        *(
            MLMHead,
            BiLMHead,
            ContextHead,
            NextTokenHead,
            PermutationLMHead,
            ReplacedTokenHead,
            SentencePairHead,
            LabelHead,
            NormedLabelHead,
        ),
        *(
            SentenceOrderHead,
            DistilledLabelHead,
            TokenLabelHead,
            TransitionHead,
            SpanHead,
            DropoutSpanHead,
            SpanBoundaryHead,
            ChoiceHead,
        ),
        *(Sinusoid, Learned, Relative, WindowMask, PermutationMask),
    )
}


def to_json(value: Any) -> Any:
    """Facts as plain JSON."""
    if isinstance(value, tuple):
        return [to_json(member) for member in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {
            "is": type(value).__name__,
            **{field.name: to_json(getattr(value, field.name)) for field in fields(value)},
        }
    return value


def from_json(data: Any, where: str) -> Any:
    """The facts that ``to_json`` wrote; anything else is an error that names ``where``."""
    if not isinstance(data, dict):
        raise BadInput(f"{where}: {data!r} is not a set of facts")
    kind = VALUES.get(str(data.get("is")))
    if kind is None:
        raise BadInput(f"{where}: facts of unknown kind {data.get('is')!r}")
    given = {name: _value(value, where) for name, value in data.items() if name != "is"}
    try:
        for field in fields(kind):
            if field.name in given:
                check_type(kind, field.name, given[field.name])
        return kind(**given)
    except (TypeError, BadInput) as error:
        raise BadInput(f"{where}: {error}") from None


def _value(data: Any, where: str) -> Any:
    if isinstance(data, list):
        return tuple(_value(member, where) for member in data)
    return from_json(data, where) if isinstance(data, dict) else data
