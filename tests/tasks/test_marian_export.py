"""A translator in Marian's shape, trained here: transformers and CTranslate2 give its strings."""

import json
from pathlib import Path

import pytest
import torch

import regard
from marian_folders import quietly, reference_model, reference_tokenizer
from regard.data.toy_language import corpus as toy
from regard.generation import Beam, Greedy
from regard.text.tokenizers.marian_spm import MarianTokenizer
from regard.training.loop import train
from regard.training.loop.events import SaveEvent
from regard.training.recipe import read
from regard.training.recipe_files import find
from regard.training.run import prepare
from regard.weights.files import read_tensors
from small_runs import ALONE
from verb import run

pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")

BEAM = 4
KEYS = {
    "text.vocab": "220",
    "model.change": "{ width = 48, inner = 96, depth = 1, heads = 2, dropout = 0.0 }",
    "batches.tokens": "512",
    "optimiser.rate": "0.01",
    "optimiser.warmup": "20",
    "train.steps": "150",
    "train.evaluate_every": "150",
    "train.checkpoint_every": "150",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The texts, ``run`` trained by the recipe marian-tour with less of everything, and ``hf``."""
    folder = tmp_path_factory.mktemp("marian")
    toy.write(toy.corpus(train=400, dev=20, test=20), folder)
    keys = [word for key, value in KEYS.items() for word in ("--set", f"{key}={value}")]
    run("train", "marian-tour", "--data", folder, "--out", folder / "run", *keys)
    run("convert", folder / "run" / "model", folder / "hf", "--to", "hf", "--check")
    return folder


@pytest.fixture(scope="module")
def texts(folder) -> list[str]:
    return (folder / "test.en").read_text().splitlines()


def strings(folder: Path, texts: list[str], search) -> list[str]:
    model = regard.load(folder, "cpu")
    return [best.text for best, *_ in model.translate(texts, search)]


def reference_strings(folder: Path, texts: list[str], **options) -> list[str]:
    tokenizer = reference_tokenizer(folder)
    rows = tokenizer(texts, return_tensors="pt", padding=True)
    out = quietly(lambda: reference_model(folder).generate(**rows, **options))
    return tokenizer.batch_decode(out, skip_special_tokens=True)


def test_transformers_gives_the_same_strings(folder, texts):
    ours, theirs = folder / "run" / "model", folder / "hf"
    greedy = reference_strings(theirs, texts, num_beams=1)
    assert strings(ours, texts, Greedy()) == greedy == strings(theirs, texts, Greedy())
    assert len({*greedy}) > 1
    beam = reference_strings(theirs, texts)
    assert strings(ours, texts, None) == beam == strings(theirs, texts, None) != greedy
    longer = reference_strings(theirs, texts, early_stopping=False)
    search = Beam(BEAM, length="power", alpha=1.0, stop="transformers")
    assert strings(ours, texts, search) == longer


def test_the_search_of_the_recipe_is_that_of_the_folder(folder):
    settings = json.loads((folder / "hf" / "generation_config.json").read_text())
    assert settings["num_beams"] == BEAM and settings["early_stopping"]
    assert settings["length_penalty"] == 1.0


@pytest.mark.parametrize("beam", [1, BEAM])
def test_ctranslate2_gives_the_same_strings(folder, texts, tmp_path, beam):
    ctranslate2 = pytest.importorskip("ctranslate2")
    from ctranslate2.converters import TransformersConverter

    quietly(lambda: TransformersConverter(str(folder / "hf")).convert(str(tmp_path / "ct2")))
    translator = ctranslate2.Translator(str(tmp_path / "ct2"), intra_threads=1)
    tokenizer = reference_tokenizer(folder / "hf")
    rows = [tokenizer.convert_ids_to_tokens(tokenizer(text).input_ids) for text in texts]
    results = translator.translate_batch(rows, beam_size=beam, length_penalty=1.0)
    pieces = [tokenizer.convert_tokens_to_ids(result.hypotheses[0]) for result in results]
    expected = reference_strings(folder / "hf", texts, num_beams=beam)
    assert tokenizer.batch_decode(pieces, skip_special_tokens=True) == expected


def test_sentencepiece_reads_the_same_pieces_and_ids(folder, texts):
    from sentencepiece import SentencePieceProcessor

    words = MarianTokenizer.load(folder / "hf").source
    for name in ("source.spm", "target.spm"):
        processor = SentencePieceProcessor(model_file=str(folder / "hf" / name))
        ids = range(len(processor))
        assert [*map(processor.id_to_piece, ids)] == words.pieces(ids)
        assert processor.encode(texts) == words.encode_all(texts)
        assert words.pieces([len(processor)]) == ["<pad>"]
    assert (words.eos, words.unk, words.pad, words.bos) == (0, 1, len(words) - 1, len(words) - 1)
    assert len(words) <= int(KEYS["text.vocab"])


def test_the_first_vector_of_the_decoder_stays_zero(folder):
    """CTranslate2 begins with a zero vector whatever the folder has."""
    tensors = read_tensors(folder / "run" / "model" / "model.safetensors")
    vectors, pad = tensors["source.embed.token.weight"], MarianTokenizer.load(folder / "hf").pad
    zero = vectors.abs().amax(1) == 0
    assert zero.nonzero().flatten().tolist() == [pad]
    assert torch.isfinite(tensors["head.bias"][pad]) and tensors["head.bias"][pad] < 0


def test_a_resumed_run_reads_its_tokenizer(folder, tmp_path):
    keys = [f"{key}={value}" for key, value in KEYS.items()]
    recipe = read(find("marian-tour"), [*keys, "train.steps=4", "train.checkpoint_every=2"])

    def prepared(resume: bool):
        return prepare(recipe, tmp_path / "run", ALONE, data=folder, resume=resume)

    first = prepared(resume=False)
    for event in train(first.job):
        if isinstance(event, SaveEvent):
            break
    first.lock.release()
    again = prepared(resume=True)
    assert again.tokenizer.files == first.tokenizer.files and again.tokenizer.joint
    *_, ended = train(again.job)
    again.finish(ended.progress)
    vectors = read_tensors(again.model_folder / "model.safetensors")["source.embed.token.weight"]
    assert not vectors[again.tokenizer.pad].any()
