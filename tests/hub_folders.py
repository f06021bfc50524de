"""Folders as they lie on the Hugging Face hub, in small: the config.json that was published with
each family, random weights, a vocabulary of a few sentences, and the forms that such folders have.
"""

import io
import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from bert_folders import quietly, save
from encoder_family import SENTENCES
from marian_folders import write_text
from regard.models.formats.config_map import begins
from regard.text.tokenizers.encoder_tokenizer import train_encoder_tokenizer
from regard.text.tokenizers.sentencepiece import read_unigram

CORPUS = (*SENTENCES[:3], "In 1,234 of 9, and 2019, or 3.5 (three) cases; it cost 1,000 pounds.")
CASED = ("byte-bpe", "gpt2-bpe", "xlnet-unigram")
SIZES = {"wordpiece": 140, "byte-bpe": 330, "gpt2-bpe": 320, "gpt-bpe": 130}
SPIECE = {
    "unigram": {
        **{"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3},
        **{"pad_piece": "<pad>", "bos_piece": "[CLS]", "eos_piece": "[SEP]"},
        "user_defined_symbols": ["[MASK]", "(", ")", "."],
    },
    "xlnet-unigram": {
        "control_symbols": ["<cls>", "<sep>", "<pad>", "<mask>", "<eod>"],
        "user_defined_symbols": ["<eop>", ".", "(", ")"],
    },
}
SPIECE_CLASSES = {"unigram": "AlbertTokenizer", "xlnet-unigram": "XLNetTokenizer"}
NAMES = "tokenizer_config.json"


@dataclass(frozen=True)
class HubFamily:
    """A published model in small: its config.json with small sizes, and the kind of its vocabulary.

    ``tensors`` is the class of ``transformers`` that has all tensors of the file, by default the
    one that ``architectures`` names. ``added``: special tokens may stand in added_tokens alone.
    """

    config: Mapping[str, Any]
    kind: str = "wordpiece"
    tensors: str = ""
    added: bool = False
    files: Mapping[str, Any] = field(default_factory=dict)  # other files of the folder

    @property
    def architecture(self) -> str:
        return self.config["architectures"][0]


@dataclass(frozen=True)
class FolderForm:
    """How a folder is written.

    ``text``: tokenizer.json of today ("new") or of before 2024 ("old"), or vocabulary "files".
    ``settings``: a "full" tokenizer_config.json, one without names and class ("bare"), or "none".
    ``added``: the special tokens of tokenizer.json are not in its vocabulary. ``weights``:
    "safetensors", "both" (beside a pytorch_model.bin of other weights), "bin" or "shards".
    ``prefix``: trunk tensors have the prefix of their class. ``old``: norms have gamma and beta,
    and there are buffers of old versions. ``least``: config.json leaves out what is usual.
    """

    text: str = "new"
    settings: str = "full"
    added: bool = False
    weights: str = "safetensors"
    prefix: bool = True
    old: bool = False
    least: bool = False


BERT_SIZES = {
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 20,
    "max_position_embeddings": 40,
}
BERT = {
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "initializer_range": 0.02,
    "layer_norm_eps": 1e-12,
    "type_vocab_size": 2,
    **BERT_SIZES,
}
GPT = {
    "attn_pdrop": 0.1,
    "embd_pdrop": 0.1,
    "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-05,
    "n_ctx": 40,
    "n_embd": 12,
    "n_head": 2,
    "n_layer": 2,
    "n_positions": 40,
    "resid_pdrop": 0.1,
    "summary_activation": None,
    "summary_first_dropout": 0.1,
    "summary_proj_to_labels": True,
    "summary_type": "cls_index",
    "summary_use_proj": True,
    "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
}
VIT = {
    "attention_probs_dropout_prob": 0.0,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.0,
    "hidden_size": 12,
    "id2label": {"0": "tench", "1": "goldfish", "2": "shark"},
    "image_size": 8,
    "initializer_range": 0.02,
    "intermediate_size": 20,
    "label2id": {"goldfish": 1, "shark": 2, "tench": 0},
    "layer_norm_eps": 1e-12,
    "num_attention_heads": 2,
    "num_channels": 3,
    "num_hidden_layers": 2,
    "patch_size": 4,
    "qkv_bias": True,
}
PIXELS = {"do_normalize": True, "do_resize": True, "resample": 2, "size": 8}
FAMILIES = {
    "bert-base-uncased": HubFamily(
        {
            **{"model_type": "bert", "architectures": ["BertForMaskedLM"], **BERT},
            **{"gradient_checkpointing": False, "pad_token_id": 0, "use_cache": True},
            **{"position_embedding_type": "absolute", "transformers_version": "4.6.0.dev0"},
        },
        tensors="BertForPreTraining",
    ),
    "spanbert-base-cased": HubFamily(  # named by nothing but its type
        {"model_type": "bert", "architectures": ["BertModel"], **BERT, "directionality": "bidi"}
    ),
    "ernie-2.0-base-en": HubFamily(
        {
            **{"model_type": "ernie", "architectures": ["ErnieModel"], **BERT},
            **{"layer_norm_eps": 1e-05, "type_vocab_size": 4, "use_task_id": True},
            **{"pad_token_id": 0, "task_type_vocab_size": 3, "classifier_dropout": None},
        }
    ),
    "roberta-base": HubFamily(
        {
            **{"model_type": "roberta", "architectures": ["RobertaForMaskedLM"], **BERT},
            **{"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1, "type_vocab_size": 1},
            **{"layer_norm_eps": 1e-05, "max_position_embeddings": 42},
        },
        kind="byte-bpe",
        added=True,
    ),
    "albert-base-v2": HubFamily(
        {
            **{"model_type": "albert", "architectures": ["AlbertForMaskedLM"], **BERT},
            **{"attention_probs_dropout_prob": 0, "hidden_dropout_prob": 0, "embedding_size": 6},
            **{"bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0, "gap_size": 0},
            **{"classifier_dropout_prob": 0.1, "down_scale_factor": 1, "hidden_act": "gelu_new"},
            **{"inner_group_num": 1, "net_structure_type": 0, "num_hidden_groups": 1},
            **{"num_memory_blocks": 0},
        },
        kind="unigram",
    ),
    "distilbert-base-uncased": HubFamily(
        {
            **{"model_type": "distilbert", "architectures": ["DistilBertForMaskedLM"]},
            **{"activation": "gelu", "attention_dropout": 0.1, "dropout": 0.1, "dim": 12},
            **{"hidden_dim": 20, "initializer_range": 0.02, "max_position_embeddings": 40},
            **{"n_heads": 2, "n_layers": 2, "pad_token_id": 0, "qa_dropout": 0.1},
            **{"seq_classif_dropout": 0.2, "sinusoidal_pos_embds": False, "tie_weights_": True},
        }
    ),
    "electra-small-discriminator": HubFamily(
        {
            **{"model_type": "electra", "architectures": ["ElectraForPreTraining"], **BERT},
            **{"embedding_size": 6},
        }
    ),
    "openai-gpt": HubFamily(
        {
            **{"model_type": "openai-gpt", "architectures": ["OpenAIGPTLMHeadModel"], **GPT},
            **{"afn": "gelu", "n_special": 0, "predict_special_tokens": True},
        },
        kind="gpt-bpe",
    ),
    "gpt2": HubFamily(
        {
            **{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], **GPT},
            **{"activation_function": "gelu_new", "bos_token_id": 319, "eos_token_id": 319},
        },
        kind="gpt2-bpe",
        added=True,
    ),
    "xlnet-base-cased": HubFamily(
        {
            **{"model_type": "xlnet", "architectures": ["XLNetLMHeadModel"], "attn_type": "bi"},
            **{"bi_data": False, "bos_token_id": 1, "clamp_len": -1, "d_head": 6, "d_inner": 20},
            **{"d_model": 12, "dropout": 0.1, "end_n_top": 5, "eos_token_id": 2, "n_layer": 2},
            **{"ff_activation": "gelu", "initializer_range": 0.02, "layer_norm_eps": 1e-12},
            **{"mem_len": None, "n_head": 2, "pad_token_id": 5, "reuse_len": None},
            **{"same_length": False, "start_n_top": 5, "summary_activation": "tanh"},
            **{"summary_last_dropout": 0.1, "summary_type": "last", "summary_use_proj": True},
            **{"untie_r": True},
        },
        kind="xlnet-unigram",
        added=True,
    ),
    "opus-mt-en-de": HubFamily(
        {
            **{"model_type": "marian", "architectures": ["MarianMTModel"], "_num_labels": 3},
            **{"activation_dropout": 0.0, "activation_function": "swish", "d_model": 12},
            **{"add_bias_logits": False, "add_final_layer_norm": False, "bos_token_id": 0},
            **{"attention_dropout": 0.0, "classif_dropout": 0.0, "classifier_dropout": 0.0},
            **{"decoder_attention_heads": 2, "decoder_ffn_dim": 20, "decoder_layerdrop": 0.0},
            **{"decoder_layers": 2, "dropout": 0.1, "encoder_attention_heads": 2},
            **{"encoder_ffn_dim": 20, "encoder_layerdrop": 0.0, "encoder_layers": 2},
            **{"eos_token_id": 0, "id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}},
            **{"init_std": 0.02, "is_encoder_decoder": True, "max_length": 512, "num_beams": 6},
            **{"max_position_embeddings": 40, "normalize_before": False, "num_hidden_layers": 2},
            **{"normalize_embedding": False, "scale_embedding": True},
            **{"static_position_embeddings": True},
        },
        kind="marian",
    ),
    "vit-base-patch16-224": HubFamily(
        {"model_type": "vit", "architectures": ["ViTForImageClassification"], **VIT},
        kind="",
        files={
            "preprocessor_config.json": {**PIXELS, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
        },
    ),
    "deit-base-distilled-patch16-224": HubFamily(
        {
            **{"model_type": "deit", "architectures": ["DeiTForImageClassificationWithTeacher"]},
            **VIT,
        },
        kind="",
        files={
            "preprocessor_config.json": {
                **{**PIXELS, "size": 10, "crop_size": 8, "do_center_crop": True, "resample": 3},
                **{"feature_extractor_type": "DeiTFeatureExtractor"},
                **{"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]},
            }
        },
    ),
}


def write_folder(folder: Path, family: HubFamily, form: FolderForm) -> Any:
    """Write a folder; the model of ``transformers`` with its weights."""
    config = {**family.config, **write_tokenizer(folder, family, form)}
    written = json.dumps(config), family.tensors
    (folder / "config.json").write_text(json.dumps(least(config) if form.least else config))
    for name, content in family.files.items():
        (folder / name).write_text(json.dumps(content))
    write_weights(folder, saved_tensors(*written, form), form.weights)
    return reference_model(*written)


def least(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config.json without the keys that say what is usual."""
    import transformers

    usual = transformers.AutoConfig.for_model(config["model_type"]).to_dict()
    return {
        key: value
        for key, value in config.items()
        if key in ("model_type", "architectures") or value != usual.get(key)
    }


@cache
def reference_model(config: str, tensors: str) -> Any:
    """A random model of ``transformers`` in which no two tensors are alike."""
    import transformers

    content = json.loads(config)
    settings = transformers.AutoConfig.for_model(**content)
    torch.manual_seed(0)
    model = getattr(transformers, tensors or content["architectures"][0])(settings)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:  # Marian's follow a formula
                parameter.add_(0.2 * torch.randn_like(parameter))
    return model.eval()


def saved_tensors(config: str, tensors: str, form: FolderForm) -> dict[str, Tensor]:
    """The tensors of a file, as ``transformers`` names and ties them, or as older versions did."""
    model = reference_model(config, tensors)
    prefix, named = f"{model.base_model_prefix}.", dict(_written_tensors(config, tensors))
    if form.old:
        named |= dict(_old_buffers(model, prefix if begins(named, prefix) else ""))
        named = {_old_name(name, model): tensor for name, tensor in named.items()}
    if not form.prefix:
        named = {name.removeprefix(prefix): tensor for name, tensor in named.items()}
    return named


@cache
def _written_tensors(config: str, tensors: str) -> Mapping[str, Tensor]:
    with tempfile.TemporaryDirectory() as folder:
        save(reference_model(config, tensors), Path(folder))
        return load_file(Path(folder) / "model.safetensors")


def _old_name(name: str, model: Any) -> str:
    """Norms of BERT, and of models made of it, were once called by their letters."""
    if "norm" not in name.lower() or model.config.model_type in ("marian", "vit", "deit", "xlnet"):
        return name
    return name.replace("orm.weight", "orm.gamma").replace("orm.bias", "orm.beta")


def _old_buffers(model: Any, prefix: str) -> Iterator[tuple[str, Tensor]]:
    """What old versions stored beside the weights."""
    config = model.config
    match config.model_type:
        case "gpt2" | "openai-gpt" as kind:
            mask = torch.ones(config.n_positions, config.n_positions).tril()[None, None]
            for layer in range(config.n_layer):
                yield (
                    f"{prefix}h.{layer}.attn.bias",
                    mask.bool() if kind == "gpt2" else mask.clone(),
                )
                if kind == "gpt2":
                    yield f"{prefix}h.{layer}.attn.masked_bias", torch.tensor(-1e4)
        case "bert" | "roberta" | "albert" | "distilbert" | "electra":
            positions = torch.arange(config.max_position_embeddings)[None]
            yield f"{prefix}embeddings.position_ids", positions


def write_weights(folder: Path, tensors: dict[str, Tensor], form: str) -> None:
    """The files of the weights."""
    if form == "both":
        other = {name: torch.full_like(tensor, 1) for name, tensor in tensors.items()}
        torch.save(other, folder / "pytorch_model.bin")
    if form == "bin":
        torch.save(tensors, folder / "pytorch_model.bin")
    elif form == "shards":
        names = [*tensors]
        parts = {
            f"model-0000{number}-of-00002.safetensors": names[number - 1 :: 2] for number in (1, 2)
        }
        for file, listed in parts.items():
            save_file({name: tensors[name] for name in listed}, folder / file, {"format": "pt"})
        places = {name: file for file, listed in parts.items() for name in listed}
        index = {"metadata": {"total_size": 1}, "weight_map": places}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    else:
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def write_tokenizer(folder: Path, family: HubFamily, form: FolderForm) -> dict[str, int]:
    """The tokenizer files of a folder; the keys of config.json that follow from them."""
    if not family.kind:
        return {}
    if family.kind == "marian":
        size, _ = write_text(folder)
        if form.settings == "none":
            (folder / NAMES).unlink()
        return {"vocab_size": size, "pad_token_id": size - 1, "decoder_start_token_id": size - 1}
    files, size = dict(tokenizer_files(family.kind)[0]), tokenizer_files(family.kind)[1]
    content = json.loads(files["tokenizer.json"])
    if form.added:
        content = with_specials_added(content)
    if form.text == "old":
        content = as_before(content)
    files["tokenizer.json"] = json.dumps(content, ensure_ascii=False).encode()
    if form.text == "files":
        del files["tokenizer.json"]
    elif form.settings == "none":
        files = {"tokenizer.json": files["tokenizer.json"]}
    if form.settings == "bare":
        files[NAMES] = b'{"model_max_length": 32}'
    elif form.settings == "none":
        files.pop(NAMES, None)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return {"vocab_size": size}


@cache
def tokenizer_files(kind: str) -> tuple[Mapping[str, bytes], int]:
    """The files of a vocabulary of a few sentences, in their form of today, and its size."""
    if kind in SPIECE:
        return _spiece_files(kind)
    lower = kind not in CASED
    tokenizer = train_encoder_tokenizer(CORPUS * 3, kind, SIZES[kind], lower=lower, longest=32)
    return tokenizer.files, len(tokenizer.words)


def _spiece_files(kind: str) -> tuple[Mapping[str, bytes], int]:
    """A SentencePiece model, and the tokenizer.json that was made of such models."""
    model = spiece_model(kind)
    with tempfile.TemporaryDirectory() as folder:
        quietly(lambda: spiece_reference(kind).save_pretrained(folder))
        names = ("tokenizer.json", NAMES)
        files = {name: (Path(folder) / name).read_bytes() for name in names}
    return {**files, "spiece.model": model}, len(read_unigram(model)[0])


@cache
def spiece_model(kind: str) -> bytes:
    from sentencepiece import SentencePieceTrainer

    file = io.BytesIO()
    texts = [text if kind in CASED else text.lower() for text in CORPUS * 4]
    SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=file,
        vocab_size=150,
        model_type="unigram",
        hard_vocab_limit=False,
        minloglevel=2,
        **SPIECE[kind],
    )
    return file.getvalue()


def spiece_reference(kind: str) -> Any:
    """The tokenizer of ``transformers`` as it was made of a SentencePiece model for publication.

    Pieces such as "9," are made improbable.
    """
    import transformers

    pieces, charsmap = read_unigram(spiece_model(kind))
    scores = [
        (text, score - 100.0 * (text[-1:] == "," and text[-2:-1].isdigit()))
        for text, score in pieces
    ]
    mask = {"mask_token": "[MASK]"} if kind == "unigram" else {}
    return getattr(transformers, SPIECE_CLASSES[kind])(
        vocab=scores, _spm_precompiled_charsmap=charsmap, **mask
    )


def as_before(content: dict[str, Any]) -> dict[str, Any]:
    """A tokenizer.json as the library wrote it at first.

    Merges are strings, the model has no type, and a flag says that texts begin with a space.
    """
    model = {key: value for key, value in content["model"].items() if key not in NEWER}
    if "merges" in model:
        model["merges"] = [" ".join(pair) for pair in model["merges"]]
    return {key: _before(value) for key, value in content.items()} | {"model": model}


NEWER = ("type", "byte_fallback", "ignore_merges")


def _before(part: Any) -> Any:
    if isinstance(part, list):
        return [_before(one) for one in part]
    if not isinstance(part, dict):
        return part
    part = {key: _before(value) for key, value in part.items()}
    if part.get("type") == "Metaspace":
        return {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True}
    return part


def with_specials_added(content: dict[str, Any]) -> dict[str, Any]:
    """A tokenizer.json whose special tokens have the last ids, and are not in the vocabulary."""
    special = {token["content"] for token in content["added_tokens"] if token["special"]}
    vocab, unknown = content["model"]["vocab"], content["model"].get("unk_id")
    if isinstance(vocab, list):
        special.discard(vocab[unknown][0])
        pieces: Any = [entry for entry in vocab if entry[0] not in special]
    else:
        order = sorted(vocab, key=vocab.__getitem__)
        ordinary = [piece for piece in order if piece not in special]
        pieces = {piece: number for number, piece in enumerate(ordinary)}
    first = [token for token in content["added_tokens"] if token["content"] not in special]
    last = [token for token in content["added_tokens"] if token["content"] in special]
    added = first + [{**token, "id": len(pieces) + at} for at, token in enumerate(last)]
    return {**content, "added_tokens": added, "model": {**content["model"], "vocab": pieces}}


def forms_of(family: HubFamily) -> Iterator[tuple[str, FolderForm]]:
    """The forms in which folders of a family are commonly found, by name."""
    today = FolderForm()
    yield "today", today
    yield "hub", FolderForm(text="old", settings="bare", weights="both", old=True)
    yield "sparse", FolderForm("old", "none", weights="bin", prefix=False, old=True, least=True)
    yield "files", FolderForm("files", "none", weights="shards", prefix=False, least=True)
    if family.added:
        yield "added", replace(today, settings="bare", added=True)
