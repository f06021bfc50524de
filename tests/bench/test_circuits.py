"""Compiled programs: exact outputs, known attention, and a circuit that ablation finds."""

from itertools import product

import numpy as np
import pytest
import torch

import regard
from circuits import PROGRAMS, START
from circuits.compiler import LookupTable
from regard import BadInput, Tape, without_head
from regard.core.tape import NULL_TAPE

INPUTS = 150
SITE = "trunk.blocks.{}.attention"


@pytest.fixture(scope="module", params=PROGRAMS)
def program(request):
    return PROGRAMS[request.param]


@pytest.fixture(scope="module")
def model(program):
    return program.inspected()


@pytest.fixture(scope="module")
def examples(program):
    rng = np.random.default_rng(5)
    return [program.draw(rng) for _ in range(INPUTS)]


def logits(program, model, examples, tape=NULL_TAPE):
    """Logits of each example, from one forward pass over all of them."""
    with torch.inference_mode():
        outputs = model.run([program.read(model, tokens) for tokens in examples], tape)
    together = outputs.by_head[program.head.name].numpy()
    return np.split(together, np.cumsum([1 + len(tokens) for tokens in examples])[:-1])


def is_right(program, logits_TV, tokens):
    outputs, expected = program.decode(logits_TV), [*program.run(tokens)]
    if isinstance(expected[0], float):
        return outputs == pytest.approx(expected, abs=1e-6)
    return outputs == expected


def test_a_model_computes_its_program(program, model, examples):
    assert len({*map(len, examples)}) > 8  # many lengths
    for logits_TV, tokens in zip(logits(program, model, examples), examples, strict=True):
        assert is_right(program, logits_TV, tokens), tokens


def test_heads_attend_to_what_the_circuit_states(program, model, examples):
    tape = Tape("*.weights")
    logits(program, model, examples, tape)
    for (layer, head), pattern in program.circuit.heads.items():
        weights = tape.records[SITE.format(layer) + ".weights"][:, head].numpy()
        for row, tokens in zip(weights, examples, strict=True):
            size = 1 + len(tokens)
            expected = pattern([START, *tokens])
            np.testing.assert_allclose(row[:size, :size], expected, atol=1e-6)


def ablated(program, model, examples):
    """Heads whose ablation changes any logit at all, and those that make outputs wrong."""
    whole = logits(program, model, examples)
    changed, wrong = set(), set()
    stack = program.facts.trunk.stack
    for place in product(range(stack.depth), range(stack.heads)):
        layer, head = place
        tape = Tape(edits={SITE.format(layer) + ".head_outputs": without_head(head)})
        without = logits(program, model, examples, tape)
        if any((one != other).any() for one, other in zip(whole, without, strict=True)):
            changed.add(place)
        if not all(map(is_right, [program] * INPUTS, without, examples)):
            wrong.add(place)
    return changed, wrong


@pytest.mark.thinned
def test_ablation_finds_the_heads_of_the_circuit(program, model, examples):
    changed, wrong = ablated(program, model, examples)
    assert changed == wrong  # decoys change no bit
    score = program.circuit.score(wrong)
    assert (score.precision, score.recall, score.count) == (100, 100, len(program.circuit.heads))


def test_only_tables_of_the_circuit_matter(program, model, examples):
    whole = logits(program, model, examples)
    for layer in range(program.facts.trunk.stack.depth):
        tape = Tape(edits={f"trunk.blocks.{layer}.mlp.output": lambda name, value: 0 * value})
        without = logits(program, model, examples, tape)
        same = all((one == other).all() for one, other in zip(whole, without, strict=True))
        assert same == (layer not in program.circuit.tables)


def test_decoys_attend_otherwise_with_another_seed(program, model, examples):
    other, tapes = program.inspected(seed=1), (Tape("*.weights"), Tape("*.weights"))
    pair = [
        logits(program, *args)
        for args in ((model, examples, tapes[0]), (other, examples, tapes[1]))
    ]
    assert all((one == two).all() for one, two in zip(*pair, strict=True))
    name = SITE.format(0) + ".weights"
    one, two = (tape.records[name] for tape in tapes)
    (circuit,) = (head for layer, head in program.circuit.heads if layer == 0)
    for head in range(program.heads_per_layer):
        assert torch.equal(one[:, head], two[:, head]) == (head == circuit)


def test_a_circuit_scores_what_a_method_names():
    circuit = PROGRAMS["induction"].circuit
    assert [*circuit.heads] == [(0, 1), (1, 3)] and not circuit.tables
    half = circuit.score([(0, 1), (0, 0)])
    assert (half.precision, half.recall) == (50, 50)
    assert circuit.score([]).recall == 0
    assert circuit.score([(0, 1), (1, 3), (1, 0), (1, 1)]).precision == 50


def test_a_program_is_a_model_like_any_other(program, examples, tmp_path):

    model = regard.Model(program.build())
    model.save(tmp_path / "model")
    again = regard.load(tmp_path / "model", "cpu")
    texts = [program.text(tokens) for tokens in examples[:5]]
    for one, other in zip(model.logits(texts), again.logits(texts), strict=True):
        assert torch.equal(one, other)
    assert again.look(texts[0]).map(again.facts.attention_sites[0].name).layers


def test_induction_heads_are_those_of_the_induction_score():
    model = regard.Model(PROGRAMS["induction"].build())
    scores = model.induction("^ a b c d e x a b c d e x")
    assert scores.highest(1)[0][:2] == (1, 3)


def test_a_table_goes_through_its_points():
    points = {0.5: (1.0, -1.0), 2.0: (3.0, 0.0), 2.5: (0.0, 4.0)}
    thresholds, outputs = LookupTable("a", "b", points).weights()
    for x, expected in {**points, 0.0: (1.0, -1.0), 1.25: (2.0, -0.5)}.items():
        units = [*np.maximum(0, x - thresholds), 1.0]
        np.testing.assert_allclose(units @ outputs, expected)


def test_bad_tokens_are_refused():
    program = PROGRAMS["sort"]
    with pytest.raises(BadInput, match="sort: 'ten' is not one of 0, 1, 2"):
        program.text(["1", "ten"])
    with pytest.raises(BadInput, match="sort: 16 tokens, but at most 15 are read"):
        program.text(["1"] * 16)
