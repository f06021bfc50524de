"""BERT as Hugging Face keeps it: what config.json says of the facts, in either direction."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from regard.ground.errors import BadInput
from regard.models.bert import BASE, HEADS, PAPER, names
from regard.models.facts import EncoderFacts, Head, change
from regard.models.form import (
    Config,
    Form,
    Origin,
    Text,
    chosen,
    refuse_loss,
    refuse_others,
)
from regard.parts.position import Learned
from regard.text.encoder_tokenizer import EncoderTokenizer
from regard.text.tuned import TunedText, labels_in, labels_said

TASKS = {
    "BertForSequenceClassification": "classify",
    "BertForTokenClassification": "tag",
    "BertForQuestionAnswering": "answer",
    "BertForMultipleChoice": "choose",
}
LABELLED = ("classify", "tag")  # tasks whose outputs have names
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


def facts_of(config: Config, tensors: Collection[str]) -> EncoderFacts:
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
        spread=given["initializer_range"],
        eps=given["layer_norm_eps"],
        pooled=_has(tensors, "pooler.dense"),
        fills=_has(tensors, "cls.predictions"),
        tied=given["tie_word_embeddings"],
        follows=_has(tensors, "cls.seq_relationship"),
        head=_head(given, tensors),
    )


def _head(given: Config, tensors: Collection[str]) -> Head | None:
    """The task a folder was tuned for: tensors say that there is one, the architecture which."""
    if _has(tensors, "qa_outputs"):
        return Head("answer", outputs=2, dropout=0.0)
    if not _has(tensors, "classifier"):
        return None
    task = _task_said(given) or ("classify" if _has(tensors, "pooler.dense") else "tag")
    outputs = 1 if task == "choose" else len(labels_in(given))
    dropout = given["classifier_dropout"]
    dropout = given["hidden_dropout_prob"] if dropout is None else dropout
    return change(Head(task, outputs), dropout=dropout)


def _task_said(config: Config) -> str | None:
    said = config.get("architectures")
    first = said[0] if isinstance(said, list) and said else None
    return TASKS.get(first) if isinstance(first, str) else None


def _has(tensors: Collection[str], part: str) -> bool:
    return any(name.removeprefix("bert.").startswith(part + ".") for name in tensors)


def config_of(facts: EncoderFacts) -> dict[str, Any]:
    """What a config.json says of these facts; those it has no word for are an error."""
    stack, position = facts.stack, facts.embed.position
    if not isinstance(position, Learned):
        raise BadInput("a BERT folder cannot express this model: its positions are learned")
    words = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
    config: dict[str, Any] = {
        "vocab_size": facts.embed.vocab,
        "hidden_size": stack.width,
        "num_hidden_layers": stack.depth,
        "num_attention_heads": stack.heads,
        "intermediate_size": stack.inner,
        "hidden_act": words[stack.activation],
        "hidden_dropout_prob": stack.dropout,
        "attention_probs_dropout_prob": stack.attention_dropout,
        "max_position_embeddings": position.longest,
        "type_vocab_size": facts.embed.segments,
        "initializer_range": facts.spread,
        "layer_norm_eps": stack.eps,
        "tie_word_embeddings": facts.tied,
        "classifier_dropout": None,
    }
    said = {**config, "architectures": [architecture(facts)]}
    head = facts.head
    if head is not None and head.task != "answer":
        said["num_labels"] = head.outputs
        if head.dropout != stack.dropout:
            config["classifier_dropout"] = said["classifier_dropout"] = head.dropout
    refuse_loss("BERT", facts, facts_of(said, _parts(facts)))
    return config


def _parts(facts: EncoderFacts) -> list[str]:
    """A tensor of each head, by which they are known."""
    return [
        *["pooler.dense.weight"] * facts.pooled,
        *["cls.predictions.bias"] * facts.fills,
        *["cls.seq_relationship.bias"] * facts.follows,
        *[f"{HEADS[head.task]}.bias" for head in [facts.head] if head is not None],
    ]


def architecture(facts: EncoderFacts) -> str:
    """What ``transformers`` calls such a model."""
    if facts.head is not None:
        return next(name for name, task in TASKS.items() if task == facts.head.task)
    if facts.fills:
        return "BertForPreTraining" if facts.follows else "BertForMaskedLM"
    return "BertForNextSentencePrediction" if facts.follows else "BertModel"


def text_of(folder: Path, config: Config) -> EncoderTokenizer | TunedText | None:
    """The vocabulary of a folder, if it has one, and its labels if it has a task with labels."""
    text = EncoderTokenizer.load(folder)
    labelled = _task_said(config) in LABELLED
    return TunedText(text, labels_in(config)) if text is not None and labelled else text


def fresh(facts: EncoderFacts, text: Text | None) -> Origin:
    """What belongs to a folder beside facts and weights, for a model that never was in one."""
    config: dict[str, Any] = {"architectures": [architecture(facts)], "model_type": "bert"}
    if facts.head is not None and facts.head.task in LABELLED:
        unnamed = labels_in({"num_labels": facts.head.outputs})
        config |= labels_said(text.labels if isinstance(text, TunedText) else unnamed)
    encoder = text.encoder if isinstance(text, TunedText) else text
    if isinstance(encoder, EncoderTokenizer):
        config["pad_token_id"] = encoder.pad
    return Origin(config)


HF = Form(
    model_type="bert",
    paper=PAPER,
    facts=facts_of,
    config=config_of,
    names=names,
    text=text_of,
    fresh=fresh,
)
