"""Rows that enter and leave a running batch give what a direct call gives."""

import numpy as np
import pytest

from regard.inference.decoder_model import Method, Request
from regard.inference.generation_session import GenerationSession
from regard.inference.generator import Ending
from regard.search.beam import Beam
from regard.search.greedy import Greedy
from regard.search.sample import Sample
from small_gpt import small_gpt2
from small_rnn_lm import small_lstm

PROMPTS = ["The old man", "A dog", "x", "The girl sees the dog near the", "", "man, and the man"]
SEARCHES = [
    Greedy(),
    Sample(seed=4, temperature=0.7),
    Sample(count=3, seed=1, top_k=5),
    Greedy(no_repeat=2, repetition_penalty=1.3),
]


@pytest.fixture(scope="module")
def model():
    return small_gpt2()


def writers_of(model):
    return [
        model.generator.writer(Method(search), ending=Ending(4 + 3 * number, 0, ("e",)))
        for number, search in enumerate(SEARCHES)
    ]


def run(session, arrivals, cancelled=()):
    """Results by ticket, and pieces of text; ``arrivals`` has the rows of each step."""
    results, pieces = {}, {}
    for step in range(200):
        for ticket, writer, row in arrivals.get(step, ()):
            session.add(ticket, writer, row, streams=True)
        for ticket in cancelled if step == 3 else ():
            session.cancel(ticket)
        for output in session.step():
            assert output.error is None
            pieces[output.ticket] = pieces.get(output.ticket, "") + output.piece
            if output.result is not None:
                results[output.ticket] = output.result
        if not len(session) and step > max(arrivals):
            return results, pieces
    raise AssertionError("the session does not end")


def same(direct, result):
    ours, theirs = (written.texts for written in (direct, result.value))
    assert [text.text for text in ours] == [text.text for text in theirs]
    assert [text.ended for text in ours] == [text.ended for text in theirs]
    for one, other in zip(ours, theirs, strict=True):
        assert one.hypothesis.tokens == other.hypothesis.tokens
        np.testing.assert_allclose(
            one.hypothesis.logprobs, other.hypothesis.logprobs, rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("slots", [3, 64])
def test_rows_that_come_at_any_step_give_what_a_direct_call_gives(model, slots):
    arrivals, expected, order = {}, {}, np.random.default_rng(0)
    for number, writer in enumerate(writers_of(model)):
        requests = [Request(prompt) for prompt in PROMPTS]
        rows = writer.prepare(requests, range(len(PROMPTS)))
        for key, row in enumerate(rows):
            ticket = (number, key)
            expected[ticket] = writer.predict([requests[key]], first=key)[0]
            arrivals.setdefault(int(order.integers(0, 12)), []).append((ticket, writer, row))
    results, pieces = run(GenerationSession(slots), arrivals)
    assert results.keys() == expected.keys()
    for ticket, result in results.items():
        same(expected[ticket], result)
        if ticket[0] != 2:  # of several samples, the first is streamed, not the best
            assert pieces[ticket] == result.value.texts[0].text


def test_a_cancelled_row_leaves_the_others_as_they_are(model):
    writer = model.generator.writer(Method(Greedy()), ending=Ending(9))
    requests = [Request(prompt) for prompt in PROMPTS]
    rows = writer.prepare(requests, range(len(PROMPTS)))
    arrivals = {0: [(n, writer, row) for n, row in enumerate(rows)], 5: []}
    results, _ = run(GenerationSession(4), arrivals, cancelled=[1, 5])
    assert results.keys() == {0, 2, 3, 4}
    for key, result in results.items():
        same(writer.predict([requests[key]], first=key)[0], result)


def test_a_step_is_one_forward_pass_for_all_rows(model):
    session = GenerationSession(64)
    for number, writer in enumerate(writers_of(model)):
        (row,) = writer.prepare([Request("The old man")], [0])
        session.add(number, writer, row)
    session.step()
    passes = []
    with model.module.register_forward_hook(lambda *_: passes.append("whole")):
        decoder = model.module.decoder
        with decoder.register_forward_hook(lambda *_: passes.append("decoder")):
            session.step()
    assert passes == ["decoder"]


def test_writers_that_cannot_share_a_batch_are_told(model):
    generator = model.generator
    assert generator.writer().joins
    assert not generator.writer(Method(Beam(2))).joins
    assert not generator.embedder().joins
    assert not small_lstm().runner.writer().joins
