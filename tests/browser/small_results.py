"""One small result of every kind of view, and its record; words may hold any text."""

import numpy as np

from regard.experiments.paper_records import lineage, section
from regard.generation import Beam
from regard.generation.hypothesis import Hypothesis
from regard.inside.align import alignment_record
from regard.inside.attention.attention_map import AttentionMap
from regard.inside.attention.attention_view import AttentionView
from regard.inside.attribution.attributions import Attributions
from regard.inside.attribution.faithfulness import DeletionCurves
from regard.inside.forward_path import PathStep, forward_path_record
from regard.inside.heads.head_formation import Formation
from regard.inside.heads.head_report import HeadFigures, HeadReport
from regard.inside.logit_target import LogitTarget
from regard.inside.neighbours import neighbours_record
from regard.inside.probes.probe_report import LayerScore, ModelScores, ProbeReport, ProbeScore
from regard.inside.stream.contributions import Contributions, StreamComponent
from regard.inside.stream.grid_view import Grid
from regard.inside.stream.lens import LogitLens
from regard.inside.stream.patching import PatchEffects
from regard.inside.trees.beam_tree import BeamTree, LengthRuleChoice
from regard.inside.trees.token_tree import TokenTree
from regard.inside.trees.tree_nodes import BeamNode, TreeHypothesis
from regard.metrics.intervals import Interval
from regard.metrics.links import GoldLinks
from regard.views.papers_view import papers_record
from regard.views.run_curves import Curves
from regard.views.view_record import ViewRecord
from small_images import small_vit

TEXT = ["The", "old", "man", "reads", "a", "book", "in", "the", "garden", "."]
DRAWS = np.random.default_rng(5)


def attention(words=TEXT, layers=3, heads=4, causal=False) -> AttentionView:
    """Attention over words between [CLS] and [SEP]; [CLS] is a sink of the last head."""
    labels = ("[CLS]", *words, "[SEP]")
    length = len(labels)
    weights = np.exp(1.5 * DRAWS.normal(size=(layers, heads, length, length)))
    weights[:, -1, :, 0] += 20
    if causal:
        weights *= np.tri(length)
    weights /= weights.sum(-1, keepdims=True)
    ends = (0, length - 1)
    allowed = np.tri(length, dtype=bool) if causal else None
    shown = AttentionMap("encoder", labels, labels, weights, allowed, ends, ends)
    return AttentionView(" ".join(words), (shown,))


def beam_tree(words=TEXT) -> BeamTree:
    nodes, parent = [BeamNode(None, 0, 0, "⟨begin⟩", 0.0, 0.0, 0.0, 1, "kept")], 0
    for step, word in enumerate(words[:6], 1):
        fates = ("kept", "kept", "outranked") if step < 6 else ("finished", "beaten", "outranked")
        before, total = parent, nodes[parent].total
        for rank, fate in enumerate(fates, 1):
            cost = total - 0.4 * rank
            piece = f"▁{word}" + "x" * (rank - 1)
            nodes.append(
                BeamNode(before, step, rank, piece, -0.4 * rank, cost, cost / step, rank, fate)
            )
            parent = len(nodes) - 3 if rank == 3 else parent
    best = Hypothesis((1,) * 6, nodes[parent].total, nodes[parent].score, (-0.4,) * 6, True)
    ended = TreeHypothesis(best, parent, " ".join(words[:6]))
    choice = LengthRuleChoice("log p / n", 0, -0.4)
    return BeamTree("Der alte Mann liest ein Buch.", Beam(2), tuple(nodes), (ended,), (choice,))


def token_tree(words=TEXT) -> TokenTree:
    nodes = [BeamNode(None, 0, 0, "⟨begin⟩", 0.0, 0.0, 0.0, 1, "kept")]
    sampling, parent = [1.0], 0
    for step, word in enumerate(words, 1):
        before, last = parent, step == len(words)
        for rank, chance in enumerate((0.6, 0.25, 0.1), 1):
            fate = "passed" if rank > 1 else "unfinished" if last else "kept"
            total = nodes[before].total + float(np.log(chance))
            piece = f" {word}" if rank == 1 else f" {word}{rank}"
            node = BeamNode(
                before, step, rank, piece, float(np.log(chance)), total, total, rank, fate
            )
            nodes.append(node)
            sampling.append(chance)
            parent = len(nodes) - 1 if rank == 1 else parent
    best = Hypothesis((1,) * len(words), -3.0, -3.0, (-0.5,) * len(words), False)
    ended = (TreeHypothesis(best, parent, " ".join(words)),)
    return TokenTree("Once", "greedy", tuple(nodes), tuple(sampling), ended, "length")


def attributions(words=TEXT) -> Attributions:
    values = {name: DRAWS.normal(size=(2, len(words))) for name in ("gradient", "integrated")}
    shares = (0.0, 0.5, 1.0)
    curves = DeletionCurves(shares, {"gradient": (0.9, 0.4, 0.1), "random": (0.9, 0.6, 0.1)})
    targets = ("positive", "negative")
    return Attributions(
        " ".join(words), targets, tuple(words), values, (0.9, 0.1), (0.5, 0.5), "[MASK]", curves
    )


def lens(words=TEXT) -> LogitLens:
    names, tokens = ("embedding", "layer 0", "layer 1"), tuple(words)
    tops = tuple(tuple(words[::-1]) for _ in names)
    p = DRAWS.random((3, len(words)))
    return LogitLens(" ".join(words), names, tokens, tops, p, p**2, (1 + 9 * p).astype(int))


def contributions(words=TEXT) -> Contributions:
    parts = [
        StreamComponent("head", layer, head, float(DRAWS.normal()))
        for layer in range(4)
        for head in range(6)
    ]
    parts += [StreamComponent("mlp", layer, None, float(DRAWS.normal())) for layer in range(4)]
    ends = StreamComponent("embedding", None, None, 0.5), StreamComponent("biases", None, None, 0.1)
    total = sum(each.value for each in (*parts, *ends))
    target = LogitTarget("lm", 3, 7, words[-2])
    return Contributions(" ".join(words), target, total, (ends[0], *parts, ends[1]))


def patching(words=TEXT) -> PatchEffects:
    rows = ["embedding", "layer 0", "layer 1"]
    grid = Grid("trunk", rows, list(words), DRAWS.normal(size=(3, len(words))))
    target = LogitTarget("lm", 3, 7, words[-2])
    return PatchEffects(" ".join(words), "states", target, 2.0, -1.0, (grid,))


def heads(words=TEXT) -> HeadReport:
    figures = [
        HeadFigures(
            "encoder",
            layer,
            head,
            {
                "entropy": float(DRAWS.random() * 4),
                "offset": head - 2,
                "at offset": 0.95 if head == 1 else 0.3,
                "special": 0.8 if head == 3 else 0.1,
            },
            (words[0],) if (layer, head) == (1, 2) else (),
        )
        for layer in range(4)
        for head in range(6)
    ]
    return HeadReport("a model", tuple(figures), (), ("on 100 sentences",))


def formation(words=TEXT) -> Formation:
    records = [
        {
            "step": 20 * step,
            "loss": 4 - step / 5,
            "seconds": 0.5,
            "heads": [
                {
                    "site": "decoder",
                    "layer": n // 4,
                    "head": n % 4,
                    "roles": [],
                    "induction": (step / 10) ** 2 if n == 6 else 0.02 * n,
                    "entropy": 2.0,
                }
                for n in range(8)
            ],
        }
        for step in range(10)
    ]
    return Formation.of_records(" ".join(words), records, "heads.jsonl")


def probes(words=TEXT) -> ProbeReport:
    def score(accuracy: float) -> ProbeScore:
        return ProbeScore(accuracy, Interval(accuracy - 0.02, accuracy + 0.02), accuracy, 1.0)

    layers = tuple(
        LayerScore(n, score(0.7 + 0.05 * n - 0.01 * n * n), score(0.6), score(0.4))
        for n in range(7)
    )
    model = ModelScores(words[0], layers, None, None, score(0.5), (100, 20, 20))
    return ProbeReport("part of speech", (model,))


def curves(words=TEXT) -> Curves:
    runs = {
        name: [
            {
                "event": "train",
                "step": 10 * n,
                "loss": 5 / (n + 1) + 0.1 * i,
                "rate": 1e-3 / (n + 1),
            }
            for n in range(30)
        ]
        for i, name in enumerate(("run " + words[0], "other run"))
    }
    return Curves(runs)


def image(words=TEXT):
    pixels = (DRAWS.random((8, 8, 3)) * 255).astype(np.uint8)
    return small_vit().look(pixels)


def alignment(words=TEXT) -> ViewRecord:
    weights = DRAWS.random((len(words) - 1, len(words))) ** 4
    weights /= weights.sum(-1, keepdims=True)
    gold = GoldLinks(frozenset({(0, 0), (1, 1)}), frozenset({(2, 2), (3, 2)}))
    return alignment_record(
        "A pair", words, words[1:], weights, frozenset({(0, 0), (2, 3), (4, 4)}), gold
    )


def queries_keys(words=TEXT) -> ViewRecord:
    q, k = DRAWS.normal(size=(2, len(words), 32))
    weights = np.exp(q @ k.T / 32**0.5)
    weights /= weights.sum(-1, keepdims=True)
    labels = {"queries": words, "keys": words, "scores": None, "layer": 1, "head": 2}
    return ViewRecord.of(
        "queries_keys", title="layer 1, head 2", q=q, k=k, weights=weights, scale=32**-0.5, **labels
    )


def neighbours(words=TEXT) -> ViewRecord:
    rows = [(word, 0.9 - 0.1 * rank) for rank, word in enumerate(words)]
    return neighbours_record("Neighbours", {words[0]: rows, words[1]: rows[:2]})


def papers(words=TEXT) -> ViewRecord:
    return papers_record([*map(section, lineage().values())])


def path(words=TEXT) -> ViewRecord:
    files = ("models/papers/gpt2.py", "models/facts.py", "layers/attend.py", "layers/attend.py")
    steps = [PathStep(file, 10 * n + 1, f"step_{n}") for n, file in enumerate(files)]
    return forward_path_record(f"GPT-2 {words[0]}", steps)


RESULTS = {
    "attention": attention,
    "image_patches": image,
    "beam_tree": beam_tree,
    "token_tree": token_tree,
    "attribution": attributions,
    "contributions": contributions,
    "logit_lens": lens,
    "patching": patching,
    "heads": heads,
    "formation": formation,
    "probes": probes,
    "curves": curves,
}
RECORDS = {
    "alignment": alignment,
    "queries_keys": queries_keys,
    "neighbours": neighbours,
    "papers": papers,
    "forward_path": path,
}


def record_of(kind: str, words=TEXT) -> ViewRecord:
    """Record of a kind of view."""
    if kind in ("attention_lines", "attention_grid", "matrix"):
        record = attention(words).view_record()
        return ViewRecord(kind, record.json, record.buffers)
    if kind == "grids":
        record = patching(words).view_record()
        return ViewRecord(kind, record.json, record.buffers)
    if kind in RECORDS:
        return RECORDS[kind](words)
    return RESULTS[kind](words).view_record()
