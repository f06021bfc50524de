"""The families of encoders, and of decoders that are read alone, in small.

What is the same of all is tested in ``tests/reference/test_encoder_families.py``.
"""

from dataclasses import dataclass
from typing import Any

import torch

from encoder_family import Family
from regard.core.batch import TokenRow
from regard.models.paper import Paper
from regard.models.papers import (
    albert,
    distilbert,
    electra,
    ernie,
    gpt,
    gpt2,
    llama,
    mistral,
    modernbert,
    qwen2,
    roberta,
    spanbert,
    xlnet,
)

WIDTHS = {"hidden_size": 12, "num_attention_heads": 3, "intermediate_size": 20}
SIZES = {**WIDTHS, "vocab_size": 60, "num_hidden_layers": 2, "max_position_embeddings": 20}
GPT_SIZES = {"vocab_size": 60, "n_embd": 12, "n_layer": 2, "n_head": 3, "n_positions": 20}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8,
}
UNTIED = {"tie_word_embeddings": False}
MODERNBERT_IDS = {f"{role}_token_id": 0 for role in ("pad", "bos", "eos", "cls", "sep")}


@dataclass(frozen=True)
class MaskedFamily(Family):
    """A family whose reference gets an attention mask: without one it cannot compute a mean."""

    def _inputs(self, kind: str, row: TokenRow) -> dict[str, torch.Tensor]:
        inputs = super()._inputs(kind, row)
        return {**inputs, "attention_mask": torch.ones_like(inputs["input_ids"])}


def heads(prefix: str, **others: str) -> dict[str, str | None]:
    """The architectures that all families have, and others, with their heads."""
    usual = {
        "Model": None,
        "ForMaskedLM": "mlm",
        "ForSequenceClassification": "label",
        "ForTokenClassification": "token_label",
        "ForQuestionAnswering": "span",
        "ForMultipleChoice": "choice",
    }
    return {prefix + kind: head for kind, head in (usual | others).items()}


def _distilled(facts: Any) -> bool:
    """Heads of rows have a dense layer with its own dropout."""
    rows = [head for head in facts.output_heads if head.name in ("label", "choice")]
    return all((head.dropout, head.dense, head.last_only) == (0.2, "relu", True) for head in rows)


def _with_gelu(facts: Any) -> bool:
    """Heads of rows have a dense layer with GELU, and no other head has one."""
    return all(
        getattr(head, "dense", None) == ("gelu" if head.name in ("label", "choice") else None)
        for head in facts.output_heads
    )


def llama_like(paper: Paper, prefix: str) -> Family:
    """A family of decoders whose keys have fewer heads than queries."""
    heads = {
        "Model": None,
        "ForCausalLM": "next_token",
        "ForSequenceClassification": "label",
        "ForTokenClassification": "token_label",
        "ForQuestionAnswering": "span",
    }
    return Family(
        paper,
        f"{prefix}Config",
        {**SIZES, "num_key_value_heads": 1},
        {prefix + kind: head for kind, head in heads.items()},
        stored=({"rope_scaling": LLAMA3},),
    )


FAMILIES = {
    "albert": Family(
        albert.PAPER,
        "AlbertConfig",
        {**SIZES, "embedding_size": 5, "num_hidden_layers": 3},
        heads("Albert", ForPreTraining="mlm sentence_pair"),
        segments=2,
        pooled=frozenset({"AlbertModel"}),
        settings=(
            {},
            UNTIED,
            {"hidden_act": "relu", "layer_norm_eps": 1e-3},
            {"num_hidden_groups": 2},
            {"num_hidden_groups": 3, "embedding_size": 12},
            {"num_hidden_groups": 2, "inner_group_num": 2},
        ),
        stored=(
            {"num_hidden_groups": 2, "classifier_dropout_prob": 0.3},
            {"num_hidden_groups": 2, "inner_group_num": 2},
        ),
        trained=lambda facts: facts.trunk.embed.embedding_size == 128,
    ),
    "distilbert": Family(
        distilbert.PAPER,
        "DistilBertConfig",
        {
            "vocab_size": 60,
            "dim": 12,
            "n_layers": 2,
            "n_heads": 3,
            "hidden_dim": 20,
            "max_position_embeddings": 20,
        },
        heads("DistilBert"),
        settings=(
            {},
            UNTIED,
            {"activation": "relu"},
            {"sinusoidal_pos_embds": True, "n_layers": 1, "n_heads": 1},
        ),
        stored=({"seq_classif_dropout": 0.3, "qa_dropout": 0.4, "sinusoidal_pos_embds": True},),
        trained=_distilled,
    ),
    "electra": Family(
        electra.PAPER,
        "ElectraConfig",
        {**SIZES, "embedding_size": 8},
        heads("Electra", ForPreTraining="replaced_token"),
        segments=2,
        settings=(
            {},
            UNTIED,
            {"hidden_act": "relu"},
            {"embedding_size": 12, "num_hidden_layers": 1},  # no projection
        ),
        stored=({"classifier_dropout": 0.3, "summary_last_dropout": 0.4},),
        trained=_with_gelu,
    ),
    "ernie": Family(
        ernie.PAPER,
        "ErnieConfig",
        {**SIZES, "use_task_id": True},
        heads(
            "Ernie",
            ForCausalLM="mlm",
            ForPreTraining="mlm sentence_pair",
            ForNextSentencePrediction="sentence_pair",
        ),
        segments=2,
        pooled=frozenset({"ErnieModel"}),
        stored=tuple({"use_task_id": use, "task_type_vocab_size": 5} for use in (True, False)),
    ),
    "gpt": Family(
        gpt.PAPER,
        "OpenAIGPTConfig",
        GPT_SIZES,
        {
            "OpenAIGPTModel": None,
            "OpenAIGPTLMHeadModel": "next_token",
            "OpenAIGPTDoubleHeadsModel": "next_token choice",
            "OpenAIGPTForSequenceClassification": "label",
        },
        settings=(
            {},
            UNTIED,
            {"afn": "relu", "n_head": 1},
            {"embd_pdrop": 0.3, "layer_norm_epsilon": 1e-3},
        ),
        stored=({}, {"embd_pdrop": 0.3}),
    ),
    "gpt-2": Family(
        gpt2.PAPER,
        "GPT2Config",
        GPT_SIZES,
        {
            "GPT2Model": None,
            "GPT2LMHeadModel": "next_token",
            "GPT2DoubleHeadsModel": "next_token choice",
            "GPT2ForSequenceClassification": "label",
            "GPT2ForTokenClassification": "token_label",
            "GPT2ForQuestionAnswering": "span",
        },
        settings=(
            {},
            UNTIED,
            {"activation_function": "relu", "n_inner": 20, "n_head": 1},
            {"embd_pdrop": 0.3, "layer_norm_epsilon": 1e-3},
        ),
        stored=({}, {"embd_pdrop": 0.3}),
    ),
    "llama": llama_like(llama.PAPER, "Llama"),
    "mistral": llama_like(mistral.PAPER, "Mistral"),
    "modernbert": MaskedFamily(
        modernbert.PAPER,
        "ModernBertConfig",
        {**SIZES, "num_hidden_layers": 4, "local_attention": 6, **MODERNBERT_IDS},
        heads("ModernBert"),
        changes="width = 12, depth = 4, heads = 2, inner = 16, longest = 48, windows = [0, 3, 3]",
        stored=({"classifier_pooling": "mean"},),
    ),
    "qwen2": llama_like(qwen2.PAPER, "Qwen2"),
    "roberta": Family(
        roberta.PAPER,
        "RobertaConfig",
        {**SIZES, "max_position_embeddings": 22, "type_vocab_size": 1, "layer_norm_eps": 1e-5},
        heads("Roberta"),
        first_id=2,
        pooled=frozenset({"RobertaModel"}),
        settings=({}, UNTIED, {"hidden_act": "relu"}),
    ),
    "spanbert": Family(
        spanbert.PAPER, "BertConfig", {**SIZES, "num_hidden_layers": 1}, {}, segments=2
    ),
    "xlnet": Family(
        xlnet.PAPER,
        "XLNetConfig",
        {"vocab_size": 60, "d_model": 12, "n_layer": 2, "n_head": 3, "d_inner": 20},
        {
            "XLNetModel": None,
            "XLNetLMHeadModel": "permutation_lm",
            "XLNetForSequenceClassification": "label",
            "XLNetForTokenClassification": "token_label",
            "XLNetForQuestionAnsweringSimple": "span",
            "XLNetForMultipleChoice": "choice",
        },
        segments=2,
        changes="width = 12, depth = 1, heads = 2, inner = 16",
        settings=({}, UNTIED, {"ff_activation": "relu", "n_layer": 1}),
        stored=({"summary_last_dropout": 0.4, "mem_len": 9},),
    ),
}
