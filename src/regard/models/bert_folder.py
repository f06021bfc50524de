"""BERT as Hugging Face keeps it: what config.json says of the facts, in either direction."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, cast

from regard.ground.errors import BadInput
from regard.models.facts import (
    AnyHead,
    ChoiceHead,
    FirstToken,
    LabelHead,
    MLMHead,
    SentencePairHead,
    SpanHead,
    Stack,
    TokenLabelHead,
    TrunkWithHeads,
    change,
)
from regard.models.facts.positions import Learned
from regard.models.form import (
    Config,
    Form,
    Origin,
    chosen,
    refuse_loss,
    refuse_others,
)
from regard.models.papers.bert import BASE, HEADS, PAPER, names
from regard.text.encoder_tokenizer import EncoderTokenizer
from regard.text.labels import LabelSet, labels_from_config
from regard.text.tokenizers import Tokenizer

TASKS = {
    "BertForSequenceClassification": LabelHead.name,
    "BertForTokenClassification": TokenLabelHead.name,
    "BertForQuestionAnswering": SpanHead.name,
    "BertForMultipleChoice": ChoiceHead.name,
}
LABELLED = {LabelHead.name: LabelHead, TokenLabelHead.name: TokenLabelHead}  # with named outputs
# What a configuration means where it is silent.
DEFAULTS = {
    "vocab_size": 30_522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3_072,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "initializer_range": 0.02,
    "layer_norm_eps": 1e-12,
    "classifier_dropout": None,
    "tie_word_embeddings": True,
}
# What these models do not do; another value means another model.
ONLY = {
    "is_encoder_decoder": False,
    "is_decoder": False,
    "add_cross_attention": False,
    "position_embedding_type": "absolute",
    "pruned_heads": {},
    "quantization_config": None,
}
ACTIVATIONS = {
    "gelu": "gelu",
    "relu": "relu",
    "silu": "swish",
    "swish": "swish",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
}


def facts_of(config: Config, tensors: Collection[str]) -> TrunkWithHeads:
    """The facts behind a config.json and the names of the tensors beside it."""
    refuse_others(config, ONLY)
    given = {**DEFAULTS, **config}
    return change(
        BASE,
        vocab=given["vocab_size"],
        width=given["hidden_size"],
        depth=given["num_hidden_layers"],
        heads=given["num_attention_heads"],
        inner=given["intermediate_size"],
        activation=chosen(ACTIVATIONS, given, "hidden_act"),
        **{"stack.dropout": given["hidden_dropout_prob"]},  # a head has its own
        attention_dropout=given["attention_probs_dropout_prob"],
        longest=given["max_position_embeddings"],
        segments=given["type_vocab_size"],
        init_std=given["initializer_range"],
        eps=given["layer_norm_eps"],
        pool=FirstToken() if _has(tensors, "pooler.dense") else None,
        output_heads=tuple(_heads(given, tensors)),
    )


def _heads(given: Config, tensors: Collection[str]) -> Iterator[AnyHead]:
    """Those whose tensors are there; which task a classifier is for, the architecture says."""
    if _has(tensors, "cls.predictions"):
        yield change(MLMHead(), tied=given["tie_word_embeddings"])
    if _has(tensors, "cls.seq_relationship"):
        yield SentencePairHead()
    if _has(tensors, "qa_outputs"):
        yield SpanHead()
    elif _has(tensors, "classifier"):
        pooled = _has(tensors, "pooler.dense")
        name = _head_said(given) or (LabelHead.name if pooled else TokenLabelHead.name)
        head = LABELLED[name](len(labels_from_config(given))) if name in LABELLED else ChoiceHead()
        dropout = given["classifier_dropout"]
        yield change(head, dropout=given["hidden_dropout_prob"] if dropout is None else dropout)


def _head_said(config: Config) -> str | None:
    said = config.get("architectures")
    first = said[0] if isinstance(said, list) and said else None
    return TASKS.get(first) if isinstance(first, str) else None


def _has(tensors: Collection[str], part: str) -> bool:
    return any(name.removeprefix("bert.").startswith(part + ".") for name in tensors)


def config_of(facts: TrunkWithHeads) -> dict[str, Any]:
    """What a config.json says of these facts; those it has no word for are an error."""
    embed, stack = facts.trunk.embed, cast(Stack, facts.trunk.stack)
    position, mlm = embed.position, facts.head(MLMHead.name)
    if not isinstance(position, Learned):
        raise BadInput("a BERT folder cannot express this model: its positions are learned")
    words = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
    config: dict[str, Any] = {
        "vocab_size": embed.vocab,
        "hidden_size": stack.width,
        "num_hidden_layers": stack.depth,
        "num_attention_heads": stack.heads,
        "intermediate_size": stack.inner,
        "hidden_act": words[stack.activation],
        "hidden_dropout_prob": stack.dropout,
        "attention_probs_dropout_prob": stack.attention_dropout,
        "max_position_embeddings": position.longest,
        "type_vocab_size": embed.segments,
        "initializer_range": facts.init_std,
        "layer_norm_eps": stack.eps,
        "tie_word_embeddings": mlm is None or mlm.tied,
        "classifier_dropout": None,
    }
    said = {**config, "architectures": [architecture(facts)]}
    for head in (facts.head(name) for name in (*LABELLED, ChoiceHead.name)):
        if head is not None:
            said["num_labels"] = head.outputs
            if head.dropout != stack.dropout:
                config["classifier_dropout"] = said["classifier_dropout"] = head.dropout
    refuse_loss("BERT", facts, facts_of(said, _parts(facts)))
    return config


def _parts(facts: TrunkWithHeads) -> list[str]:
    """A tensor of each head, by which they are known."""
    tensors = {
        MLMHead.name: "cls.predictions",
        SentencePairHead.name: "cls.seq_relationship",
        **HEADS,
    }
    pool = [] if facts.pool is None else ["pooler.dense.weight"]
    names = (head.name for head in facts.output_heads)
    return pool + [f"{tensors[name]}.bias" for name in names if name in tensors]


def architecture(facts: TrunkWithHeads) -> str:
    """What ``transformers`` calls such a model."""
    for name, head in TASKS.items():
        if facts.head(head) is not None:
            return name
    fills, follows = (facts.head(one.name) is not None for one in (MLMHead, SentencePairHead))
    if fills:
        return "BertForPreTraining" if follows else "BertForMaskedLM"
    return "BertForNextSentencePrediction" if follows else "BertModel"


def tokenizer_of(folder: Path, config: Config) -> EncoderTokenizer | None:
    """The tokenizer of a folder, if it has one."""
    return EncoderTokenizer.load(folder)


def labels_of(config: Config) -> LabelSet | None:
    """The labels of a folder whose head has named outputs."""
    return labels_from_config(config) if _head_said(config) in LABELLED else None


def fresh(facts: TrunkWithHeads, tokenizer: Tokenizer | None, labels: LabelSet | None) -> Origin:
    """What belongs to a folder beside facts and weights, for a model that never was in one."""
    config: dict[str, Any] = {"architectures": [architecture(facts)], "model_type": "bert"}
    for head in (head for head in facts.output_heads if head.name in LABELLED):
        config |= (labels or labels_from_config({"num_labels": head.outputs})).config()
    if tokenizer is not None:
        config["pad_token_id"] = tokenizer.pad
    return Origin(config)


HF = Form(
    model_type="bert",
    paper=PAPER,
    facts=facts_of,
    config=config_of,
    names=names,
    tokenizer=tokenizer_of,
    labels=labels_of,
    fresh=fresh,
)
