"""BERT folders as Hugging Face writes them: small random models, a WordPiece vocabulary."""

import warnings
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.core.batch import TokenRow, pack_rows
from regard.core.tape import Tape
from regard.data.toy_language.corpus import corpus
from regard.models.folders.loaded_model import LoadedModel
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer, train_encoder_tokenizer

SMALL = {
    "vocab_size": 40,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 20,
    "max_position_embeddings": 16,
}
# What a model is, and what its configuration says beside its shape.
HEADS: dict[str, tuple[str, dict[str, Any]]] = {
    "states": ("BertModel", {}),
    "words": ("BertForMaskedLM", {}),
    "words and pairs": ("BertForPreTraining", {}),
    "pairs": ("BertForNextSentencePrediction", {}),
    "one label": ("BertForSequenceClassification", {"num_labels": 3}),
    "several labels": (
        "BertForSequenceClassification",
        {"num_labels": 4, "problem_type": "multi_label_classification"},
    ),
    "a number": ("BertForSequenceClassification", {"num_labels": 1}),
    "tags": ("BertForTokenClassification", {"num_labels": 5}),
    "answers": ("BertForQuestionAnswering", {}),
    "choices": ("BertForMultipleChoice", {}),
}


@cache
def vocabulary(size: int = 90) -> EncoderTokenizer:
    """Pieces of the built-in language."""
    texts = [pair.source for pair in corpus(train=60, dev=1, test=1).train]
    return train_encoder_tokenizer(texts, "wordpiece", size, longest=16)


def reference(head: str = "states", *, pooler: bool = True, **changes: Any) -> Any:
    """A model of ``transformers`` in which no two tensors are alike."""
    import transformers

    name, settings = HEADS[head]
    config = transformers.BertConfig(**{**SMALL, **settings, **changes})
    kind = getattr(transformers, name)
    model = kind(config) if pooler else kind(config, add_pooling_layer=False)
    with torch.no_grad():  # zeros and ones would hide a mistake, and so would states without spread
        for place, one in model.named_parameters():
            one.normal_(1.0 if place.endswith("LayerNorm.weight") else 0.0, std=0.3)
    return model.eval()


def write_bert(
    folder: Path,
    head: str = "states",
    *,
    text: bool = False,
    dtype: torch.dtype = torch.float32,
    shard: str = "1GB",
    **changes: Any,
) -> Path:
    """A folder that ``transformers`` wrote, with the vocabulary if it is to have a ``text``."""
    if text:
        changes = {"vocab_size": len(vocabulary().words), **changes}
    save(reference(head, **changes).to(dtype), folder, shard)
    if text:
        vocabulary().save(folder)
    return folder


def save(model: Any, folder: Path, shard: str = "1GB") -> Path:
    """Let it write its folder, in parts of at most ``shard``."""
    folder.mkdir(parents=True, exist_ok=True)
    quietly(lambda: model.save_pretrained(folder, max_shard_size=shard))
    return folder


def quietly(do: Any) -> Any:
    """Without bars, and without remarks on packages it would like to have."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()
    with warnings.catch_warnings(action="ignore"):
        return do()


def read_by_reference(folder: Path) -> Any:
    """The model of a folder in full precision, by the architecture that it names."""
    import transformers

    config = transformers.AutoConfig.from_pretrained(folder)
    kind = getattr(transformers, config.architectures[0])
    return quietly(lambda: kind.from_pretrained(folder, dtype=torch.float32)).eval()


def their_values(model: Any, rows: list[TokenRow]) -> dict[str, Tensor]:
    """All that a model of ``transformers`` computes for rows in one padded batch, as ours lie."""
    lengths = [len(row.tokens) for row in rows]
    there_BL = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    inputs = {
        "input_ids": _padded([row.tokens for row in rows]),
        "token_type_ids": _padded([row.segments for row in rows]),
        "attention_mask": there_BL.long(),
    }
    trunk = getattr(model, "bert", model)
    said = trunk(**inputs, output_hidden_states=True)
    embedded, *states = (one[there_BL] for one in said.hidden_states)
    found = {"trunk.embed.output": embedded}
    found |= {f"trunk.blocks.{i}.output": one for i, one in enumerate(states)}
    if said.pooler_output is not None:
        found["pool.output"] = said.pooler_output
    return found | _their_heads(model, inputs, there_BL)


def _their_heads(model: Any, inputs: dict[str, Tensor], there_BL: Tensor) -> dict[str, Tensor]:
    match type(model).__name__:
        case "BertModel":
            return {}
        case "BertForMaskedLM":
            return {"heads.mlm.logits": model(**inputs).logits[there_BL]}
        case "BertForPreTraining":
            said = model(**inputs)
            words = said.prediction_logits[there_BL]
            return {
                "heads.mlm.logits": words,
                "heads.sentence_pair.logits": said.seq_relationship_logits,
            }
        case "BertForNextSentencePrediction":
            return {"heads.sentence_pair.logits": model(**inputs).logits}
        case "BertForTokenClassification":
            return {"heads.token_label.logits": model(**inputs).logits[there_BL]}
        case "BertForQuestionAnswering":
            said = model(**inputs)
            return {
                "heads.span.logits": torch.stack([said.start_logits, said.end_logits], -1)[there_BL]
            }
        case "BertForMultipleChoice":  # all rows are choices of one question
            said = model(**{name: one[None] for name, one in inputs.items()})
            return {"heads.choice.logits": said.logits.T}
        case _:
            return {"heads.label.logits": model(**inputs).logits}


def _padded(rows: list[Any]) -> Tensor:
    tensors = [torch.tensor(list(row)) for row in rows]
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True)


def our_values(stored: LoadedModel, rows: list[TokenRow]) -> dict[str, Tensor]:
    """The same of ours."""
    tape = Tape("trunk.embed.output", "trunk.blocks.?.output", "pool.output", "heads.*.logits")
    stored.module(pack_rows(rows), tape=tape)
    return tape.records


def agree(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    """To 1e-5, value by value; a pooled state that no head of ours reads may be absent."""
    for name, value in ours.items():
        torch.testing.assert_close(value, theirs[name], rtol=1e-5, atol=1e-5, msg=name)
    assert theirs.keys() - ours.keys() <= {"pool.output"}
