"""Rows that enter and leave a running batch give what a direct call gives."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from regard.generation import EAGER, cuda_graph
from regard.generation.beam import Beam
from regard.generation.greedy import Greedy
from regard.generation.sample import Sample
from regard.inference.decoder_model import Method, Request
from regard.inference.generation_session import GenerationSession
from regard.inference.generator import Ending
from regard.inference.slot_batch import SlotBatch
from regard.models.edits import EditList, LayerOff
from small_gpt import POSITIONS, small_gpt2, write_gpt2
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
    assert not small_lstm().writer().joins


def slot_session(model, slots):
    """A session with slots, whose steps are eager on a CPU."""
    return GenerationSession(slots, slot_batch=SlotBatch(model.generator, slots, POSITIONS))


def check_slots(model, slots, steps):
    """Compare rows that enter slots at these steps with direct calls."""
    arrivals, expected, step = {}, {}, iter(steps)
    searches = [*SEARCHES[:3], Sample(seed=7, top_p=0.8), Sample(seed=2, top_k=90, temperature=2.0)]
    for number, search in enumerate(searches):
        ending = Ending(5 + 2 * number, 2, ("e",) if number % 2 else ())
        writer = model.generator.writer(Method(search), ending=ending)
        requests = [Request(prompt) for prompt in PROMPTS[number % 3 :: 2]]
        for key, row in enumerate(writer.prepare(requests, range(len(requests)))):
            ticket = (number, key)
            expected[ticket] = writer.predict([requests[key]], first=key)[0]
            arrivals.setdefault(next(step), []).append((ticket, writer, row))
    session = slot_session(model, slots)
    results, pieces = run(session, arrivals)
    assert results.keys() == expected.keys()
    assert not session.cohort_batches
    assert session.slot_batch.rows == session.rows == 0
    for ticket, result in results.items():
        same(expected[ticket], result)
        if ticket[0] != 2:  # of several samples, the first is streamed, not the best
            assert pieces[ticket] == result.value.texts[0].text


def test_rows_in_slots_give_what_a_direct_call_gives(model):
    check_slots(model, 5, [0, 0, 1, 7, 2, 2, 2, 12, 3, 4, 4, 9, 0, 3, 3])


@pytest.mark.slow
@given(slots=st.integers(3, 9), steps=st.lists(st.integers(0, 12), min_size=15, max_size=15))
@settings(max_examples=30)
def test_rows_enter_and_leave_slots_at_any_step(model, slots, steps):
    check_slots(model, slots, steps)


def test_rows_whose_rules_need_the_host_run_beside_the_slots(model):
    session, arrivals, expected = slot_session(model, 8), {0: [], 2: []}, {}
    for number, writer in enumerate(writers_of(model)):
        (row,) = writer.prepare([Request("A dog")], [number])
        expected[number] = writer.predict([Request("A dog")], first=number)[0]
        arrivals[2 * (number % 2)].append((number, writer, row))
    for ticket, result in run(session, arrivals)[0].items():
        same(expected.pop(ticket), result)
    assert not expected


def test_a_row_longer_than_a_slot_and_one_with_more_samples_than_slots_run_beside_them(model):
    session = GenerationSession(4, slot_batch=SlotBatch(model.generator, 4, 8))
    long = model.generator.writer(Method(Greedy()), ending=Ending(20))
    many = model.generator.writer(Method(Sample(count=5)), ending=Ending(2))
    for ticket, writer in {"long": long, "many": many}.items():
        (row,) = writer.prepare([Request("A dog")], [0])
        results, _ = run(session, {0: [(ticket, writer, row)]})
        same(writer.predict([Request("A dog")])[0], results[ticket])


def test_a_row_cancelled_in_its_slot_leaves_the_slot_to_another(model):
    session, writer = slot_session(model, 2), model.generator.writer(ending=Ending(9))
    requests = [Request(prompt) for prompt in PROMPTS]
    rows = writer.prepare(requests, range(len(PROMPTS)))
    arrivals = {0: [(n, writer, row) for n, row in enumerate(rows)], 5: []}
    results, _ = run(session, arrivals, cancelled=[1, 5])
    assert results.keys() == {0, 2, 3, 4}
    for key, result in results.items():
        same(writer.predict([requests[key]], first=key)[0], result)
    session.add("a", writer, rows[0])
    session.step()
    session = session.emptied()
    assert len(session) == 0
    results, _ = run(session, {0: [("b", writer, rows[3])]})
    same(writer.predict([requests[3]], first=3)[0], results["b"])


def test_a_failure_while_prompts_are_read_leaves_all_slots_free(model, monkeypatch):
    session, writer = slot_session(model, 2), model.generator.writer(ending=Ending(4))
    rows = writer.prepare([Request("A dog"), Request("x")], range(2))
    session.add("a", writer, rows[0])
    session.step()
    with monkeypatch.context() as patch:
        patch.setattr(session.slot_batch.decoder, "start", lambda rows: 1 / 0)
        session.add("b", writer, rows[1])
        with pytest.raises(ZeroDivisionError):
            session.step()
    session = session.emptied()
    assert len(session) == 0
    results, _ = run(session, {0: [(n, writer, row) for n, row in enumerate(rows)]})
    for key, prompt in enumerate(["A dog", "x"]):
        same(writer.predict([Request(prompt)], first=key)[0], results[key])


class Probe:
    """Stand-in for CUDA graphs: it counts captures, and replays by calling."""

    def __init__(self):
        self.captures = 0

    def __call__(self, function, device, name, pool):
        self.captures += 1
        return SimpleNamespace(replay=function), None


def test_nothing_is_captured_after_the_warm_up(model, monkeypatch):
    probe = Probe()
    monkeypatch.setattr(cuda_graph, "capture", probe)
    made = cuda_graph.GraphedCall.__init__

    def captured(call, *args, **options):
        made(call, *args, **options)
        call.captures = True

    monkeypatch.setattr(cuda_graph.GraphedCall, "__init__", captured)
    batch = SlotBatch(model.generator, 4, POSITIONS)
    batch.decoder.warm_up()
    warmed = probe.captures
    assert warmed == batch.decoder.graphs > 3 * 5
    session, arrivals = GenerationSession(4, slot_batch=batch), {}
    for number, search in enumerate([Greedy(), Sample(), Sample(top_k=5), Sample(top_p=0.5)]):
        writer = model.generator.writer(Method(search), ending=Ending(6))
        for key, row in enumerate(writer.prepare([*map(Request, PROMPTS)], range(len(PROMPTS)))):
            arrivals.setdefault(number, []).append(((number, key), writer, row))
    results, _ = run(session, arrivals)
    assert len(results) == 4 * len(PROMPTS)
    assert probe.captures == warmed


def test_rows_of_an_edited_model_do_not_share_a_forward_pass_with_others(model):
    edited = model.edited(EditList("off", (LayerOff("trunk.blocks.0"),)))
    writers = {name: m.generator.writer() for name, m in {"plain": model, "edited": edited}.items()}
    session, arrivals = GenerationSession(8), {0: []}
    for name, writer in writers.items():
        (row,) = writer.prepare([Request("A dog")], [0])
        arrivals[0].append((name, writer, row))
    results, _ = run(session, arrivals)
    for name, writer in writers.items():
        same(writer.predict([Request("A dog")])[0], results[name])


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_captured_slots_on_a_gpu(tmp_path, monkeypatch, precision):
    captures = []
    capture = cuda_graph.capture

    def counted(function, device, name, pool):
        captures.append(name)
        return capture(function, device, name, pool)

    monkeypatch.setattr(cuda_graph, "capture", counted)
    model = regard.load(write_gpt2(tmp_path / "model"), device="cuda", precision=precision)
    session = GenerationSession.warmed(model.runner, 8)
    warmed = len(captures)
    assert warmed == session.slot_batch.decoder.graphs
    arrivals, expected = {}, {}
    for number, search in enumerate([Greedy(), Sample(seed=3), Sample(top_k=5), Sample(top_p=0.6)]):
        eager = replace(model.runner, engine=EAGER)
        writers = [m.writer(Method(search), ending=Ending(12)) for m in (model.runner, eager)]
        rows = writers[0].prepare([*map(Request, PROMPTS)], range(len(PROMPTS)))
        for key, row in enumerate(rows):
            expected[number, key] = writers[1].predict([Request(PROMPTS[key])], first=key)[0]
            arrivals.setdefault((number + 2 * key) % 9, []).append(((number, key), writers[0], row))
    results, _ = run(session, arrivals)
    assert len(captures) == warmed
    assert not session.cohort_batches
    if precision == "fp32":  # sums of bf16 depend on the size of the batch
        for ticket, result in results.items():
            same(expected[ticket], result)
    assert results.keys() == expected.keys()
