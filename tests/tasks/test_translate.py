"""Translation from text to text: the batch does not matter, and nothing is lost."""

from dataclasses import replace

import pytest
import torch

import regard
from regard.core.errors import BadInput
from regard.core.workers import WorkerProcesses
from regard.generation import Beam, Exact, Greedy, Sample
from regard.generation.cpp import obstacle
from regard.inference.decoder_model import Method, Request
from regard.inference.translator import Translator
from regard.models.facts import change
from regard.models.papers import luong
from regard.tasks.components import ComponentSpec


def with_generation_config(translator: Translator, settings: dict[str, object]) -> Translator:
    notes = translator.notes | {"generation": settings}
    return replace(translator, loaded=replace(translator.loaded, notes=notes))


@pytest.fixture(scope="module")
def translator(small_run) -> Translator:
    return regard.load(small_run / "run" / "model", "cpu").translator


@pytest.fixture(scope="module")
def texts(small_run):
    lines = (small_run / "train.src").read_text().splitlines()
    return [*lines[:24], "", "an unseen wörd 😀", "cow " * 40, " "]


SEARCHES = [Greedy(), Beam(4), Beam(3, best=3, length="mean"), Sample(count=2, seed=5)]


@pytest.mark.thinned
@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_the_result_does_not_depend_on_the_batch(translator, texts, search):
    found = [translator.with_limits(rows).translate(texts, search) for rows in (1, 7, 28)]
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            assert [h.text for h in one] == [h.text for h in other]
            assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-4)


def test_windows_do_not_matter_either(translator, texts, monkeypatch):
    whole = translator.translate(texts, Sample(seed=3))
    monkeypatch.setattr("regard.inference.component.WINDOW", 5)
    windows = translator.translate(texts, Sample(seed=3))
    assert [one[0].text for one in windows] == [one[0].text for one in whole]


def test_an_empty_line_stays_empty(translator):
    assert [one[0].text for one in translator.translate(["", "dog cow", ""])][::2] == ["", ""]
    assert translator.translate([]) == []


def test_prefixes_are_kept(translator):
    (found,) = translator.translate(["dog cow owl"], Beam(3, best=3), ["owl"])
    assert all(one.text.startswith("owl") for one in found)


def test_scores_agree_with_search(translator, texts):
    """What search says of its hypothesis is what scoring says of the same words."""
    chosen = [text for text in texts if text.strip()][:10]
    for source, (one, *_) in zip(chosen, translator.translate(chosen, Greedy()), strict=True):
        tokens = translator.tokenizer.target.encode(one.text)
        if one.hypothesis.finished and tuple(tokens) == one.hypothesis.tokens:
            (score,) = translator.scorer().predict([(source, one.text)])
            assert score.logprobs == pytest.approx(one.hypothesis.logprobs, abs=1e-4)


def test_finished_rows_leave_and_source_keys_are_computed_once(translator, texts):
    rows, crossed = [], []
    decode = translator.module.decode
    projections = [block.cross.kv for block in translator.module.target.blocks]
    hooks = [one.register_forward_hook(lambda *_: crossed.append(1)) for one in projections]

    def counted(tokens_T, *arguments, **more):
        rows.append(len(tokens_T))
        return decode(tokens_T, *arguments, **more)

    translator.module.decode = counted
    try:
        translator.translate([text for text in texts if text.strip()][:20], Greedy())
    finally:
        del translator.module.decode
        for hook in hooks:
            hook.remove()
    assert rows[0] == 20
    assert rows == sorted(rows, reverse=True)
    assert rows[-1] < 20
    assert len(crossed) == len(projections)


def test_coverage_needs_and_gets_attention(translator, texts):
    found = translator.translate(texts[:5], Beam(2, coverage=0.2))
    assert all(torch.isfinite(torch.tensor(one[0].score)) for one in found)


def test_rows(translator):
    with pytest.raises(BadInput, match="at least 1"):
        translator.with_limits(0)


def test_an_ensemble_of_a_model_with_itself_is_the_model(translator, texts):
    twice = replace(translator, others=(translator,))
    for search in (Greedy(), Beam(3, best=2)):
        both, alone = (one.translate(texts[:20], search) for one in (twice, translator))
        for found, expected in zip(both, alone, strict=True):
            assert [one.text for one in found] == [one.text for one in expected]
            scores = [one.score for one in expected]
            assert [one.score for one in found] == pytest.approx(scores, abs=1e-4)
    with pytest.raises(BadInput, match="use a single model"):
        twice.scorer().predict([("dog", "dog")])


def test_an_ensemble_decides_by_the_mean(translator, small_run):
    """Another model changes the scores to the mean of both, token by token."""
    other = regard.load(small_run / "run" / "model", "cpu").translator
    with torch.no_grad():
        for parameter in other.module.parameters():
            parameter.mul_(1.5)
    ((found,),) = replace(translator, others=(other,)).translate(["dog cow owl"], Greedy())
    tokens = found.hypothesis.tokens
    assert tuple(translator.tokenizer.target.encode(found.text)) == tokens
    pair = ("dog cow owl", found.text)
    scores = [one.scorer().predict([pair])[0] for one in (translator, other)]
    each = [torch.tensor(score.logprobs) for score in scores]
    mean = torch.stack(each).exp().mean(0).log()[: len(found.hypothesis.logprobs)]
    assert found.hypothesis.logprobs == pytest.approx(mean.tolist(), abs=1e-4)
    assert not torch.allclose(*each, atol=1e-2)


def test_exact_search_is_at_least_as_good_as_a_beam(translator, texts):
    some = [text for text in texts if 0 < len(text.split()) < 4][:4]
    beam = translator.translate(some, Beam(3, length="none"))
    known = {number: found[0].hypothesis for number, found in enumerate(beam)}
    for found, exact in zip(beam, translator.translate(some, Exact(known=known)), strict=True):
        assert not exact or exact[0].score >= found[0].score or not found[0].hypothesis.finished


def test_a_broken_model_is_reported(small_run):
    broken = regard.load(small_run / "run" / "model", "cpu")
    with torch.no_grad():
        broken.module.target.norm.weight.fill_(float("nan"))
    with pytest.raises(BadInput, match="the model is broken"):
        broken.score([("dog", "dog")])
    with pytest.raises(BadInput, match="the model is broken"):
        broken.translate(["dog"])


@pytest.mark.parametrize(
    "kind", ["fp32", "int8", pytest.param("bf16", marks=pytest.mark.native("bf16")), "auto"]
)
def test_precisions_say_nearly_the_same(translator, texts, kind):
    chosen = [text for text in texts if text.strip()][:20]
    swift = translator.with_precision(kind)
    pairs = zip(
        translator.translate(chosen, Greedy()), swift.translate(chosen, Greedy()), strict=True
    )
    same = [one[0].text == other[0].text for one, other in pairs]
    assert all(same) if kind in ("fp32", "auto") else sum(same) >= 15


def test_bf16_that_the_cpu_does_not_have_is_refused(translator, monkeypatch):
    monkeypatch.setenv("REGARD_HIDE", "bf16")
    with pytest.raises(BadInput, match=r"bf16: .*use fp32 or int8"):
        translator.with_precision("bf16")


def test_in_8_bits_the_batch_does_not_matter_to_the_bit(translator, texts):
    swift = translator.with_precision("int8")
    found = [swift.with_limits(rows).translate(texts, Beam(3)) for rows in (1, 5, 64)]
    scores = [[one.score for (one,) in result] for result in found]
    assert scores[0] == scores[1] == scores[2]


def test_without_a_compiler_the_module_steps(translator, texts, monkeypatch):
    monkeypatch.setattr("regard.generation.cpp.failure", lambda: "there is no C++ compiler")
    swift = translator.with_precision("int8")
    assert swift.engine.name == "torch"
    assert len(swift.translate(texts[:5], Greedy())) == 5


@pytest.mark.parametrize("kind", ["fp32", "int8"])
@pytest.mark.parametrize("table", ["cpp", "torch"])
def test_the_table_chooses_the_engine_and_a_word_overrules_it(translator, monkeypatch, kind, table):
    if obstacle(translator.module):
        pytest.skip("needs a C++ compiler")
    asked = []
    monkeypatch.setattr(
        "regard.generation.engines.engine_in_table", lambda *key: asked.append(key) or table
    )
    chosen = translator.with_limits(7).with_precision(kind)
    assert asked == [(kind, 7)]
    assert chosen.engine.name == table
    for engine in ("cpp", "torch"):
        assert translator.choice(kind, engine) == (kind, engine)
        assert translator.with_precision(kind, engine).engine.name == engine
    assert len(asked) == 1


def recurrent():
    """A model that only torch's operators step."""
    return change(luong.LAPTOP, vocab=9, width=4, embedding=4).build()


def test_engines_say_why_they_cannot_run(translator, monkeypatch):
    with pytest.raises(BadInput, match="engine cpp: precision must be fp32 or int8, not bf16"):
        translator.choice("bf16", "cpp")
    with pytest.raises(
        BadInput, match="engine must be one of auto, cpp, cuda-graph, torch, not 'rust'"
    ):
        translator.choice("fp32", "rust")
    monkeypatch.setattr("regard.generation.cpp.failure", lambda: "there is no C++ compiler")
    with pytest.raises(BadInput, match=r"engine cpp: there is no C\+\+ compiler"):
        translator.with_precision("fp32", "cpp")
    monkeypatch.setattr("regard.generation.engines.engine_in_table", lambda *_: "cpp")
    assert translator.choice() == ("fp32", "torch")
    with pytest.raises(BadInput, match="engine cuda-graph needs a GPU"):
        translator.choice("fp32", "cuda-graph")
    unknown = translator.with_module(recurrent())
    with pytest.raises(BadInput, match="does not support layers other than blocks of attention"):
        unknown.choice("fp32", "cpp")


def test_an_ensemble_has_one_engine(translator, monkeypatch):
    """Compiled steps run all of its models, or none."""
    other = replace(translator, others=(translator.with_module(recurrent()),))
    monkeypatch.setattr("regard.generation.engines.engine_in_table", lambda *_: "cpp")
    assert other.choice("int8") == ("int8", "torch")


def test_a_precision_there_is_not_is_reported(translator):
    with pytest.raises(BadInput, match="int8, fp32, bf16 or auto, not 'fp8'"):
        translator.with_precision("fp8")


@pytest.mark.slow
def test_workers_find_the_same(small_run, translator, texts):
    folder = str(small_run / "run" / "model")
    options = {"method": Method(Sample(seed=4))}
    spec = ComponentSpec((folder,), "translate", options, "cpu", "fp32", "torch", batch_size=8)
    writer = translator.with_limits(8).writer(**options)
    half = len(texts) // 2
    inputs, keys = [*map(Request, texts)], [*range(len(texts))]
    jobs = [(inputs[part], keys[part], False) for part in (slice(half), slice(half, None))]
    with spec.workers(2, None) as workers:
        shared = [result.value for block in workers.map(jobs) for result in block]
    alone = writer.predict(inputs)
    assert [one.texts[0].text for one in shared] == [one.texts[0].text for one in alone]
    with pytest.raises(BadInput, match="at least 1"):
        WorkerProcesses(0, spec.open_block_runner)


def test_sampling_follows_generation_settings(translator):
    assert translator.sampling == Sample()
    settings = {"temperature": 0.7, "top_k": 5, "top_p": None, "num_beams": 2}
    published = with_generation_config(translator, settings)
    assert published.sampling == Sample(temperature=0.7, top_k=5)
    assert published.search.size == 2
    wrong = with_generation_config(translator, {"temperature": 0.0})
    with pytest.raises(BadInput, match=r"^generation_config.json: a temperature must be positive"):
        _ = wrong.sampling
    for name in ("temperature", "top_k", "top_p", "num_return_sequences"):
        wrong = with_generation_config(translator, {name: "high"})
        with pytest.raises(BadInput, match=f"^generation_config.json: {name} must be .*'high'"):
            _ = wrong.sampling


def test_a_model_published_with_sampling_keeps_its_limits(translator, texts):
    settings = {"do_sample": True, "max_new_tokens": 3}
    published = with_generation_config(translator, settings)
    with pytest.raises(BadInput, match="do_sample"):
        published.translate(texts[:1])
    for (found,) in published.translate(texts[:4], Sample(seed=1)):
        assert len(found.hypothesis.tokens) <= 3
