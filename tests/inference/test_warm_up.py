"""The batches of a writer are captured before its first request, and none after it."""

from dataclasses import replace

import pytest

from regard.api import Model
from regard.generation.beam import Beam
from regard.generation.cuda_graph import WARM_UP, CudaGraphEngine
from regard.inference import decoder_model
from regard.inference.decoder_model import Method, Request
from small_mistakes import TRANSLATORS, small_translator

TEXTS = ["the owl sees the cow", "the cow", "owl", "the owl"]


@pytest.fixture(scope="module")
def translator():
    return Model(small_translator(next(iter(TRANSLATORS)))).translator


@pytest.mark.slow
def test_batches_of_all_sizes_run_before_requests(translator, monkeypatch):
    monkeypatch.setattr(decoder_model, "WARM_COUNTS", (2, 1))
    monkeypatch.setattr(decoder_model, "WARM_LENGTHS", (3, 17))
    engine = CudaGraphEngine()
    writer = replace(translator, engine=engine).writer(Method(Beam(2)))
    writer.warm_up()
    sizes = [(key[1][0], key[1][3]) for key in engine.decoders]
    assert sizes == [(2, 16), (2, 32), (1, 16), (1, 32)]
    assert all(decoder.step.calls > WARM_UP for decoder in engine.decoders.values())
    assert all(decoder.encode.calls > WARM_UP for decoder in engine.decoders.values())
    for texts in (1, 2, 4):  # four texts are more than were captured
        requests = [Request(text) for text in TEXTS[:texts]]
        eager = translator.writer(Method(Beam(2))).predict(requests)
        for ours, wanted in zip(writer.predict(requests), eager, strict=True):
            assert ours.texts[0].hypothesis.tokens == wanted.texts[0].hypothesis.tokens
    assert len(engine.decoders) == 4


def test_an_engine_without_graphs_is_not_warmed_up(translator, monkeypatch):
    monkeypatch.setattr(decoder_model.Writer, "run", lambda *_: pytest.fail("it ran"))
    translator.writer().warm_up()
