"""Recurrent translators against the equations of their papers, written out word by word."""

import json
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from closeness import VALUES
from regard import generation
from regard.core.batch import BatchLimits, RectangleLimits, SourceTarget, pack
from regard.core.errors import BadInput
from regard.core.tape import NULL_TAPE, Tape
from regard.models.conv import ConvEncoderFacts
from regard.models.edits import forced_row
from regard.models.embedding import Learned
from regard.models.encoder_decoder import EncoderDecoder, EncoderDecoderModule
from regard.models.facts import change, difference, from_json, to_json
from regard.models.papers import KINDS, bahdanau, cho, luong, sutskever, transformer
from regard.models.rnn import RNNEncoderFacts
from regard.models.rnn_decoder import CrossAttentionFacts, RNNDecoderFacts
from regard.models.trunk import Trunk
from regard.objectives.seq2seq import Seq2Seq

VOCAB = 13
SIZES = {"vocab": VOCAB, "width": 6, "embedding": 5, "dropout": 0.0}
CHO = change(cho.BASE, **SIZES, maxout=3)
SUTSKEVER = change(sutskever.BASE, **SIZES, depth=2)
BAHDANAU = change(bahdanau.BASE, **SIZES, maxout=3)
LUONG = change(luong.BASE, **SIZES, depth=2)
TRUNKS = change(transformer.BASE, vocab=VOCAB, width=6, heads=2, inner=8, depth=2, dropout=0.0)
CONVOLVED = Trunk(
    replace(TRUNKS.source.embed, position=Learned(32)), ConvEncoderFacts(6, 2, dropout=0.0)
)
SCORES = ["additive", "concat", "dot", "scaled-dot", "general", "cosine", "location", "relative"]
SOURCES, TARGETS = [[1, 2, 3, 4], [5], [6, 7]], [[1, 2], [3, 4, 5], [6]]
SENTENCE = st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=6)
PAIRS = st.lists(st.tuples(SENTENCE, SENTENCE), min_size=1, max_size=4)


def looking(score: str, timing: str, feeding: bool = False) -> EncoderDecoder:
    """A small translator with this attention; some scores compare only what is of one size."""
    source = RNNEncoderFacts(width=6, embedding=5, depth=2)
    target = RNNDecoderFacts(
        width=6,
        embedding=5,
        depth=2,
        attention=CrossAttentionFacts(score, timing, feeding, positions=7),
    )
    embed = SUTSKEVER.source.embed
    return EncoderDecoder(Trunk(embed, source), Trunk(embed, target), tie="none")


EVERY = {
    "cho": CHO,
    "sutskever": SUTSKEVER,
    "bahdanau": BAHDANAU,
    "luong": LUONG,
    "luong without feeding": change(LUONG, input_feeding=False),
    "luong with maxout": change(LUONG, maxout=4),
    "lstm in bahdanau": change(BAHDANAU, cell="lstm", depth=2, residual=True),
    "mean": change(BAHDANAU, bridge="mean"),
    "last of both": change(BAHDANAU, bridge="last", maxout=None),
    "rnn": change(SUTSKEVER, cell="rnn"),
    "gru to lstm": change(SUTSKEVER, **{"source.cell": "gru"}),
    "tied": change(SUTSKEVER, embedding=6, tie="all"),
    "recurrent to trunk": replace(BAHDANAU, target=TRUNKS.target),
    "trunk to recurrent": change(replace(BAHDANAU, source=TRUNKS.source), bridge="last"),
    "trunk to luong": replace(LUONG, source=TRUNKS.source),
    "convolved to recurrent": change(replace(BAHDANAU, source=CONVOLVED), bridge="mean"),
    "convolved to trunk": replace(TRUNKS, source=CONVOLVED, tie="target"),
    **{
        f"{score} {timing}{' fed' if feeding else ''}": looking(score, timing, feeding)
        for score in SCORES
        for timing, feeding in (("previous", False), ("current", False), ("current", True))
    },
}
every = pytest.mark.parametrize("facts", list(EVERY.values()), ids=list(EVERY))


def run(model: nn.Module, sources, targets, tape=NULL_TAPE) -> Tensor:
    source, target = pack(sources), pack(targets)
    return model(SourceTarget(source, target), tape=tape).by_head["next_token"]


def gru(kernel: nn.GRU, x: Tensor, h: Tensor, way: int = 0) -> Tensor:
    """Cho et al., 2014, eq. 5-8, with the reset gate where torch has it."""
    w, u, b, d = kernel.all_weights[way]
    (xr, xz, xn), (hr, hz, hn) = (w @ x + b).chunk(3), (u @ h + d).chunk(3)
    r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
    return (1 - z) * torch.tanh(xn + r * hn) + z * h


def lstm(kernel: nn.LSTM, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    w, u, b, d = kernel.all_weights[0]
    i, f, g, o = (w @ x + b + u @ h + d).chunk(4)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def by_hand_bahdanau(model: EncoderDecoderModule, source: list[int], target: list[int]) -> Tensor:
    """Section 3 and appendix A of the paper, one word after the other."""
    kernel = model.source.layers.layers[0].kernel
    words = model.source.embed.token.weight[source]
    width = model.source.layers.layers[0].width
    forward, backward = [], []
    state = torch.zeros(width)
    for x in words:
        forward.append(state := gru(kernel, x, state, 0))
    state = torch.zeros(width)
    for x in words.flip(0):
        backward.append(state := gru(kernel, x, state, 1))
    annotations = [torch.cat(pair) for pair in zip(forward, backward[::-1], strict=True)]
    writer, score = model.target, model.target.cross.score
    first = writer.bridge.begin
    s = torch.tanh(first.weight @ backward[-1] + first.bias)  # of the first word, read last
    logits = []
    for y in writer.embed.token.weight[target]:
        energies = [
            score.v[0] @ torch.tanh(s @ score.query[0] + h @ score.key[0]) for h in annotations
        ]
        weights = torch.stack(energies).exp() / torch.stack(energies).exp().sum()
        c = sum(weight * h for weight, h in zip(weights, annotations, strict=True))
        s = gru(writer.layers.layers[0].kernel, torch.cat([y, c]), s)
        deep = writer.maxout.linear.weight @ torch.cat([s, y, c]) + writer.maxout.linear.bias
        logits.append(model.head.weight @ torch.stack([max(pair) for pair in deep.view(-1, 2)]))
    return torch.stack(logits)


def by_hand_luong(
    model: EncoderDecoderModule, source: list[int], target: list[int], feeding: bool
) -> Tensor:
    """Section 3 of the paper: stacked LSTMs, "general" scores, h̃, input feeding."""
    depth = len(model.source.layers.layers)
    states = [(torch.zeros(6), torch.zeros(6)) for _ in range(depth)]

    def up(layers, x):
        for number, layer in enumerate(layers):
            states[number] = lstm(layer.kernel, x, *states[number])
            x = states[number][0]
        return x

    words = model.source.embed.token.weight[source].flip(0)  # read from the end
    tops = [up(model.source.layers.layers, x) for x in words]
    writer, fed, logits = model.target, torch.zeros(6), []
    for y in writer.embed.token.weight[target]:
        h = up(writer.layers.layers, torch.cat([y, fed]) if feeding else y)
        energies = torch.stack([h @ writer.cross.score.weight[0] @ top for top in tops])
        weights = energies.exp() / energies.exp().sum()
        c = sum(weight * top for weight, top in zip(weights, tops, strict=True))
        fed = torch.tanh(writer.combine.linear.weight @ torch.cat([c, h]))
        logits.append(model.head.weight @ fed)
    return torch.stack(logits)


@torch.no_grad()
def test_bahdanaus_equations():
    model = BAHDANAU.build().eval()
    wanted = [by_hand_bahdanau(model, *pair) for pair in zip(SOURCES, TARGETS, strict=True)]
    torch.testing.assert_close(run(model, SOURCES, TARGETS), torch.cat(wanted))


@pytest.mark.parametrize("feeding", [False, True])
@torch.no_grad()
def test_luongs_equations(feeding):
    model = change(LUONG, input_feeding=feeding).build().eval()
    pairs = zip(SOURCES, TARGETS, strict=True)
    wanted = [by_hand_luong(model, *pair, feeding) for pair in pairs]
    torch.testing.assert_close(run(model, SOURCES, TARGETS), torch.cat(wanted))


@torch.no_grad()
def test_without_attention_a_decoder_goes_on_where_the_encoder_ended():
    model = SUTSKEVER.build().eval()
    states = [(torch.zeros(6), torch.zeros(6)) for _ in range(2)]
    sides = ((model.source, SOURCES[0][::-1]), (model.target, TARGETS[0]))
    tops = []
    for side, ids in sides:
        for x in side.embed.token.weight[ids]:
            for number, layer in enumerate(side.layers.layers):
                states[number] = lstm(layer.kernel, x, *states[number])
                x = states[number][0]
            tops.append(x)
    wanted = torch.stack(tops[len(SOURCES[0]) :]) @ model.head.weight.T
    torch.testing.assert_close(run(model, SOURCES[:1], TARGETS[:1]), wanted)


@torch.no_grad()
def test_chos_decoder_reads_one_vector_at_every_step():
    model = CHO.build().eval()
    h = torch.zeros(6)
    for x in model.source.embed.token.weight[SOURCES[0]]:
        h = gru(model.source.layers.layers[0].kernel, x, h)
    writer, logits = model.target, []
    c = torch.tanh(writer.bridge.summary(h))
    h = torch.tanh(writer.bridge.begin(c))
    for y in writer.embed.token.weight[TARGETS[0]]:
        h = gru(writer.layers.layers[0].kernel, torch.cat([y, c]), h)
        deep = writer.maxout.linear(torch.cat([h, y, c]))
        logits.append(model.head(deep.view(-1, 2).max(-1).values))
    torch.testing.assert_close(run(model, SOURCES[:1], TARGETS[:1]), torch.stack(logits))


@pytest.mark.thinned
@every
def test_it_learns_from_every_weight(facts):
    model, objective = facts.build(), Seq2Seq(bos=1, eos=2, smoothing=0.0)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = objective.collate(list(zip(SOURCES, TARGETS, strict=True)))
    losses = []
    for _ in range(2):
        loss, _ = objective(model, batch)
        optimiser.zero_grad()
        loss.backward()
        idle = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
        assert not idle
        optimiser.step()
        losses.append(loss.item())
    assert losses[1] < losses[0]


@pytest.mark.thinned
@every
@torch.inference_mode()
def test_steps_and_picks_equal_the_whole(facts):
    model = facts.build().eval()
    packed = pack(SOURCES)
    state = generation.open_state(model, packed, capacity=8)
    sources, written = list(SOURCES), [[] for _ in SOURCES]
    for picked in ([2, 0, 0, 1], None, None, [1, 0, 3, 2], None, [3, 3], None):
        if picked is not None:
            state.select_rows(torch.tensor(picked))
            sources, written = [sources[i] for i in picked], [written[i] for i in picked]
            continue
        tokens_R = torch.randint(0, VOCAB, (state.rows,))
        found = state.step(tokens_R)
        written = [[*row, int(token)] for row, token in zip(written, tokens_R, strict=True)]
        target = pack(written)
        whole = target.layout.split(run(model, sources, written))
        wanted = torch.stack([row[-1] for row in whole]).log_softmax(-1)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.thinned
@pytest.mark.parametrize("facts", [BAHDANAU, LUONG, SUTSKEVER, CHO, EVERY["trunk to recurrent"]])
@settings(max_examples=8)
@given(pairs=PAIRS)
@torch.no_grad()
def test_a_row_does_not_depend_on_its_batch(facts, pairs):
    model = facts.build().eval()
    sources, targets = zip(*pairs, strict=True)
    together = pack(targets).layout.split(run(model, sources, targets))
    for row, source, target in zip(together, sources, targets, strict=True):
        torch.testing.assert_close(row, run(model, [source], [target]), rtol=1e-4, atol=1e-5)


@pytest.mark.thinned
@every
def test_the_recorded_path_is_the_fast_path(facts):
    model = facts.build()
    fast, tape = run(model, SOURCES, TARGETS), Tape("target.*cross.*s")
    recorded = run(model, SOURCES, TARGETS, tape)
    torch.testing.assert_close(recorded, fast, rtol=1e-5, atol=1e-5)
    found = {name for name in tape.records if name.endswith("weights")}
    site = facts.cross_attention
    assert found == set(() if site is None else site.weights)
    for name in found:
        heads, weights_BHLS = site.heads[0], tape.records[name]
        assert weights_BHLS.shape == (3, heads, 3, 4)
        for row, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
            real = weights_BHLS[row, :, : len(target)]
            assert (real[:, :, len(source) :] == 0).all()
            torch.testing.assert_close(real.sum(-1), torch.ones(heads, len(target)))
    towards, parameters = torch.randn_like(fast), list(model.parameters())
    wanted = torch.autograd.grad((fast * towards).sum(), parameters)
    found = torch.autograd.grad((recorded * towards).sum(), parameters)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("facts", [BAHDANAU, LUONG, change(LUONG, input_feeding=False)])
def test_one_look_can_be_forced(facts):
    """An edit of one step is heard from that step on, and changes nothing before it."""
    model, name = facts.build().eval(), "target.cross.weights"
    tape = Tape(name, edits={name: forced_row(0, 1, 3)})
    targets = [[1, 2, 3]] * 3
    whole, edited = run(model, SOURCES, targets), run(model, SOURCES, targets, tape)
    assert tape.records[name][0, 0, 1].tolist() == [0, 0, 0, 1]
    torch.testing.assert_close(edited[0], whole[0])
    assert not torch.allclose(edited[1], whole[1])
    recurs = facts != change(LUONG, input_feeding=False)
    assert torch.allclose(edited[2], whole[2]) != recurs
    doubled = Tape(name, edits={name: lambda _, weights_BHLS: weights_BHLS * 2})
    run(model, SOURCES, targets, doubled)
    torch.testing.assert_close(doubled.records[name][0].sum(-1), torch.full((1, 3), 2.0))


@torch.inference_mode()
def test_a_watched_state_says_where_it_looked():
    packed = pack(SOURCES)
    for facts in (BAHDANAU, LUONG, change(LUONG, input_feeding=False)):
        model = facts.build().eval()
        state = generation.open_state(model, packed, capacity=8, attention=True)
        state.step(torch.tensor([1, 1, 1]))
        state.select_rows(torch.tensor([2, 1]))
        state.step(torch.tensor([2, 2]))
        weights_RS = state.attention()
        assert weights_RS.shape == (2, 4)
        assert weights_RS.isnan().sum(-1).tolist() == [2, 3]
        torch.testing.assert_close(weights_RS.nansum(-1), torch.ones(2))
    with pytest.raises(BadInput, match="has no attention"):
        generation.open_state(SUTSKEVER.build(), packed, capacity=8, attention=True)


@pytest.mark.parametrize("name", ["sutskever", "cho", "bahdanau", "luong", "convolved to trunk"])
def test_nothing_to_do_still_has_gradients(name):
    """A rank without rows must still meet the others."""
    model, objective = EVERY[name].build(), Seq2Seq(1, 2)
    loss, _ = objective(model, objective.collate([]))
    loss.backward()
    assert loss == 0
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.thinned
@every
def test_fixed_shapes_mean_the_same(facts):
    """A batch as on CUDA; recurrence asks it for its lengths."""
    model, objective = change(facts, dropout=0.0).build(), Seq2Seq(1, 2)
    pairs = list(zip(SOURCES, TARGETS, strict=True))
    free, fixed = (objective.collate(pairs, limits) for limits in (None, BatchLimits(20, 4, 7)))
    wanted, found = (objective(model, batch)[0] for batch in (free, fixed))
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.thinned
@every
@pytest.mark.parametrize("multiples", [(4, 3), (1, 1)])
def test_padded_rectangles_mean_the_same(facts, multiples):
    """Losses and gradients of a batch as it is captured; padding is of no token."""
    model, objective = change(facts, dropout=0.0).build().double(), Seq2Seq(1, 2)
    pairs = list(zip(SOURCES, TARGETS, strict=True))
    free, padded = (
        objective.collate(pairs, limits) for limits in (None, RectangleLimits(64, 5, 8, *multiples))
    )
    assert padded.weight == free.weight and padded.tokens == free.tokens
    results = []
    for batch in (free, padded):
        model.zero_grad()
        loss, _ = objective(model, batch)
        loss.backward()
        results.append([loss, *(parameter.grad for parameter in model.parameters())])
    for wanted, found in zip(*results, strict=True):  # the softmax of losses is in single precision
        torch.testing.assert_close(found, wanted, **VALUES)


def test_cells_that_cannot_wait_at_padding_stay_eager():
    plain = change(SUTSKEVER, cell="rnn")
    assert plain.eager and not plain.in_rectangles
    assert SUTSKEVER.in_rectangles and not SUTSKEVER.eager
    assert not TRUNKS.in_rectangles and not TRUNKS.eager


@pytest.mark.thinned
@every
def test_half_precision_is_close_and_has_gradients(facts):
    model, objective = facts.build(), Seq2Seq(1, 2)
    batch = objective.collate(list(zip(SOURCES, TARGETS, strict=True)))
    wanted, _ = objective(model, batch)
    with torch.autocast("cpu", torch.bfloat16):
        found, _ = objective(model, batch)
    found.backward()
    torch.testing.assert_close(found, wanted, rtol=0.01, atol=0.01)
    assert all(one.grad is not None for one in model.parameters())
    source = pack(SOURCES)
    with torch.autocast("cpu", torch.bfloat16), torch.inference_mode():
        step = generation.open_state(model.eval(), source, capacity=8).step(torch.tensor([1, 1, 1]))
        whole = run(model, SOURCES, [[1]] * 3).float().log_softmax(-1)
    torch.testing.assert_close(step, whole, rtol=0, atol=0.03)


@every
def test_facts_survive_json_and_can_be_changed(facts):
    assert from_json(json.loads(json.dumps(to_json(facts))), KINDS, "config.json") == facts
    assert change(facts, dropout=0.3) != facts


def test_papers_differ_by_what_was_new():
    feeding = difference(luong.BASE, change(luong.BASE, score="dot", input_feeding=False))
    assert feeding == {
        "target.stack.attention.score": ("general", "dot"),
        "target.stack.attention.input_feeding": (True, False),
    }
    assert "target.stack.attention.score" in difference(sutskever.BASE, luong.BASE)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (change(BAHDANAU, score="dot"), "queries and keys of the same size, not 6 and 12"),
        (change(SUTSKEVER, **{"source.depth": 1}), "same depth, not 1 and 2"),
        (change(BAHDANAU, bridge="copy"), "same size, not 12 and 6"),
        (change(SUTSKEVER, bridge="backward"), "needs a bidirectional encoder"),
        (change(BAHDANAU, tie="target"), "tie: the output and target embeddings have other shapes"),
        (
            replace(TRUNKS, source=BAHDANAU.source),
            "tie: .* share embeddings only if their shapes agree",
        ),
    ],
)
def test_what_does_not_fit_together_is_reported(facts, message):
    with pytest.raises(ValueError, match=message):
        facts.build()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cell": "gruu"}, "no cell is called 'gruu'; did you mean 'gru'"),
        ({"score": "dott"}, "did you mean 'dot'"),
        ({"timing": "later"}, "no timing is called 'later'"),
        ({"input_feeding": True}, "timing 'previous'"),
        ({"bridge": "golden"}, "no bridge is called 'golden'"),
        ({"direction": "sideways"}, "no direction is called 'sideways'"),
        ({"width": 0}, "width must be at least 1"),
        ({"dropout": 1.0}, "dropout must be at least 0"),
        ({"summary": True}, "summary and attention cannot be used together"),
    ],
)
def test_facts_that_mean_nothing_are_refused(changes, message):
    with pytest.raises(BadInput, match=message):
        change(BAHDANAU, **changes)
    with pytest.raises(BadInput, match="kernel must be odd, to be centred on a token, not 4"):
        ConvEncoderFacts(6, 2, kernel=4)


@pytest.mark.gpu
@every
def test_cuda_agrees_with_the_cpu(facts):
    model, objective = facts.build(), Seq2Seq(1, 2)
    pairs = list(zip(SOURCES, TARGETS, strict=True))
    found = []
    for device in ("cpu", "cuda"):
        model.to(device).zero_grad()
        batch = objective.collate(pairs).to(device)
        loss, _ = objective(model, batch)
        loss.backward()
        source = pack(SOURCES).to(device)
        with torch.inference_mode():
            state = generation.open_state(model, source, capacity=8)
            state.step(torch.tensor([1, 2, 3], device=device))
            state.select_rows(torch.tensor([2, 0], device=device))
            step = state.step(torch.tensor([4, 5], device=device))
        gradients = [one.grad.cpu().clone() for one in model.parameters()]
        found.append([loss.detach().cpu(), step.cpu(), *gradients])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-2, atol=1e-3)
    with torch.autocast("cuda", torch.bfloat16):
        half, _ = objective(model, batch)
    half.backward()
    torch.testing.assert_close(half.cpu(), found[0][0], rtol=0.02, atol=0.02)


def by_formula(facts: EncoderDecoder) -> int:
    """Weights and biases of a recurrent translator, counted with pencil and paper."""
    gates = {"rnn": 1, "gru": 3, "lstm": 4}
    reads, writes = facts.source.stack, facts.target.stack
    ways, d, e = 2 if reads.direction == "both" else 1, reads.width, reads.embedding
    looks, s, w = writes.attention, ways * d, writes.width

    def layers(stack, first, ways=1):
        inputs = [first, *[ways * stack.width] * (stack.depth - 1)]
        each = (gates[stack.cell] * stack.width * (n + stack.width + 2) for n in inputs)
        return ways * sum(each)

    before = looks is not None and looks.timing == "previous"
    told = w if writes.summary or (looks is not None and looks.input_feeding) else 0
    total = layers(reads, e, ways) + layers(writes, writes.embedding + told + s * before)
    given = s // 2 if writes.bridge == "backward" else s
    if writes.summary:
        total, given = total + given * w + w, w
    if writes.bridge != "copy":
        begun = w * writes.depth * (2 if writes.cell == "lstm" else 1)
        total += given * begun + begun
    if looks is not None:
        inner = looks.inner or w
        total += (w + s + 1) * inner if looks.score == "additive" else w * s
        total += 0 if before else (s + w) * w
    if writes.maxout is not None:
        seen = s * before + w * writes.summary
        total += (w + writes.embedding + seen + 1) * 2 * writes.maxout
    words = facts.source.embed.vocab * e + facts.target.embed.vocab * writes.embedding
    return total + words + writes.output_width * facts.target.embed.vocab


@pytest.mark.parametrize(
    ("paper", "parameters"),
    [
        (cho.PAPER, 24_215_000),
        (sutskever.PAPER, 384_064_000),
        (bahdanau.PAPER, 80_421_000),
        (luong.PAPER, 221_064_000),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_published_sizes_have_exactly_so_many_parameters(paper, parameters):
    for facts in paper.sizes.values():
        assert paper.parameters(facts) == by_formula(facts)
    assert paper.parameters(paper.sizes["base"]) == parameters
    published = paper.published.get("base", parameters)
    assert parameters == pytest.approx(published, rel=0.001)
