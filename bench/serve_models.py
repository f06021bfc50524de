"""Model folders for the load tests, in the format of Hugging Face: random weights from a seed.

Sizes are those of BERT-base, GPT-2 small and Transformer-base, or small ones for a trial on a CPU.
Vocabularies have the published sizes; most of their entries are fillers that no text contains.
"""

import io
import json
from pathlib import Path

import torch
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    MarianConfig,
    MarianMTModel,
    PreTrainedModel,
)

END = "<|endoftext|>"
MARKS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def write_bert(folder: Path, words: list[str], small: bool) -> None:
    """BERT-base without a head, with a WordPiece vocabulary of whole words and letters."""
    size = 400 if small else 30_522
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    pieces = [*MARKS, *letters, *(f"##{letter}" for letter in letters), *sorted({*words})]
    pieces = filled(list(dict.fromkeys(pieces)), size)
    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": 512}
    write_json(folder / "tokenizer_config.json", settings)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    shape = shape | {"intermediate_size": 64} if small else {}
    save(BertModel(BertConfig(vocab_size=size, **shape)), folder)


def write_gpt2(folder: Path, words: list[str], small: bool) -> None:
    """GPT-2 small, with byte-level BPE."""
    size = 600 if small else 50_257
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([f"a {word} {word}" for word in words], trainer)
    content = json.loads(tokenizer.to_str())["model"]
    pieces = filled(sorted(content["vocab"], key=content["vocab"].get), size - 1)
    vocabulary = {piece: number for number, piece in enumerate([*pieces, END])}
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in content["merges"]]
    folder.mkdir(parents=True)
    write_json(folder / "vocab.json", vocabulary)
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n")
    whole = Tokenizer(models.BPE(vocabulary, [tuple(merge.split()) for merge in merges]))
    whole.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    whole.decoder, whole.post_processor = decoders.ByteLevel(), processors.ByteLevel()
    whole.add_special_tokens([END])
    whole.save(str(folder / "tokenizer.json"))
    marks = {f"{name}_token": END for name in ("bos", "eos", "unk")}
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "GPT2Tokenizer", **marks})
    shape = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 256} if small else {}
    ids = {"bos_token_id": size - 1, "eos_token_id": size - 1}
    model = GPT2LMHeadModel(GPT2Config(vocab_size=size, **shape, **ids))
    with torch.no_grad():
        model.transformer.ln_f.weight.mul_(8)  # distributions that are not flat
    save(model, folder)


def write_marian(folder: Path, words: list[str], small: bool, new_tokens: int) -> None:
    """Transformer-base with SentencePiece, which searches with a beam of 4."""
    size, model_file = 400 if small else 32_000, io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter([" ".join(words[at:] + words[:at]) for at in range(len(words))]),
        model_writer=model_file,
        vocab_size=120,
        hard_vocab_limit=False,
        model_type="unigram",
        minloglevel=2,
    )
    pieces = SentencePieceProcessor(model_proto=model_file.getvalue())
    known = [pieces.id_to_piece(number) for number in range(3, len(pieces))]
    vocabulary = [*filled(["</s>", "<unk>", *known], size - 1), "<pad>"]
    folder.mkdir(parents=True)
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes(model_file.getvalue())
    write_json(folder / "vocab.json", {piece: i for i, piece in enumerate(vocabulary)})
    languages = {"source_lang": "en", "target_lang": "de", "tokenizer_class": "MarianTokenizer"}
    write_json(folder / "tokenizer_config.json", languages)
    heads = {f"{side}_attention_heads": 2 if small else 8 for side in ("encoder", "decoder")}
    inner = {f"{side}_ffn_dim": 64 if small else 2_048 for side in ("encoder", "decoder")}
    depth = {f"{side}_layers": 2 if small else 6 for side in ("encoder", "decoder")}
    ids = {"pad_token_id": size - 1, "decoder_start_token_id": size - 1, "eos_token_id": 0}
    config = MarianConfig(
        vocab_size=size,
        d_model=32 if small else 512,
        max_position_embeddings=512,
        activation_function="relu",
        scale_embedding=True,
        **(heads | inner | depth | ids | {"forced_eos_token_id": 0, "bos_token_id": 0}),
    )
    model = MarianMTModel(config)
    settings = {"num_beams": 4, "max_length": new_tokens + 1, "bad_words_ids": [[size - 1]], **ids}
    save(model, folder)
    write_json(folder / "generation_config.json", settings | {"forced_eos_token_id": 0})


def filled(pieces: list[str], size: int) -> list[str]:
    """A vocabulary of that size, with fillers at its end."""
    return pieces + [f"filler{number}" for number in range(size - len(pieces))]


def save(model: PreTrainedModel, folder: Path) -> None:
    """Write weights in bf16."""
    model.eval().to(torch.bfloat16).save_pretrained(folder)


def write_json(path: Path, content: dict[str, object]) -> None:
    """Write a JSON object."""
    path.write_text(json.dumps(content))
