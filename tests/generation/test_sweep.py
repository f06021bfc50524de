"""Sums of stored statistics are what scoring each choice from scratch gives."""

import json

import numpy as np
import pytest
from sacrebleu.metrics import BLEU

from regard.core.errors import BadInput
from regard.generation import Hypothesis, rescore
from regard.generation.nbest import read_nbest
from regard.generation.sweep import Setting, Sweep, settings
from regard.metrics.translation import bleu, bleu_metric

WORDS = ["ein", "Hund", "lief", "über", "die", "Straße", "."]


def lists(seed: int, sentences: int = 12, with_coverage: bool = True):
    """For each sentence hypotheses and their texts, some unfinished, some equal; references."""
    draw = np.random.default_rng(seed)
    found, references = [], [[], []]
    for _ in range(sentences):
        truth = draw.choice(WORDS, size=draw.integers(3, 12)).tolist()
        for stream in references:
            changed = [word if draw.random() < 0.9 else "und" for word in truth]
            stream.append(" ".join(changed))
        nbest = []
        for _ in range(draw.integers(1, 6)):
            kept = [word for word in truth if draw.random() < 0.8] + ["auch"] * draw.integers(0, 2)
            logprob = -float(draw.integers(1, 9))
            one = Hypothesis(
                tokens=tuple(range(len(kept))),
                logprob=logprob,
                score=0.0,
                logprobs=(logprob / (len(kept) + 1),) * (len(kept) + 1),
                finished=bool(draw.random() < 0.8),
                coverage=-float(draw.integers(0, 5)) if with_coverage else None,
            )
            nbest.append((one, " ".join(kept)))
        found.append(nbest)
    return found, references


def write(path, found):
    records = [
        {
            "line": number,
            "text": text,
            "logprob": one.logprob,
            "n": len(one.logprobs),
            "finished": one.finished,
            **({} if one.coverage is None else {"coverage": one.coverage}),
        }
        for number, nbest in enumerate(found, start=1)
        for one, text in nbest
    ]
    path.write_text("".join(json.dumps(one) + "\n" for one in records))
    return path


def first_choice(nbest, setting):
    """The text that ``rescore`` puts first; hypotheses are told apart by identity."""
    texts = {id(one): text for one, text in nbest}
    scored = [(rescore([one], **vars(setting))[0].score, one) for one, _ in nbest]
    best = min(scored, key=lambda pair: (not pair[1].finished, -pair[0]))[1]
    return texts[id(best)]


@pytest.mark.parametrize("seed", range(3))
def test_every_setting_is_scored_as_from_scratch(tmp_path, seed):
    found, references = lists(seed)
    swept = Sweep.of(read_nbest(write(tmp_path / "n", found)), references, bleu_metric())
    wanted = settings([0.0, 0.6, 1.0, 2.0, -1.0], [0.0, 0.3, 1.0])
    outcomes = swept.tried(wanted)
    assert len(outcomes) == len(wanted) == 36
    assert [one.score.value for one in outcomes] == sorted(
        (one.score.value for one in outcomes), reverse=True
    )
    for one in outcomes:
        texts = [first_choice(nbest, one.setting) for nbest in found]
        assert [swept.stored.texts[i] for i in one.chosen] == texts
        expected = bleu(texts, references)
        assert one.score.signature == expected.signature
        assert one.score.value == pytest.approx(expected.value)
        assert one.brevity == pytest.approx(BLEU().corpus_score(texts, references).bp)
    assert len({one.score.value for one in outcomes}) > 3
    with_interval = swept.with_interval(outcomes[0])
    texts = [swept.stored.texts[i] for i in outcomes[0].chosen]
    assert with_interval.score == bleu(texts, references, with_interval=True)


def test_the_oracle_chooses_by_sentence_bleu(tmp_path):
    found, references = lists(7)
    swept = Sweep.of(read_nbest(write(tmp_path / "n", found)), references, bleu_metric())
    alone = BLEU(effective_order=True)
    texts = [
        max(
            (text for _, text in nbest),
            key=lambda text, refs=refs: alone.sentence_score(text, list(refs)).score,
        )
        for nbest, refs in zip(found, zip(*references, strict=True), strict=True)
    ]
    oracle = swept.oracle()
    assert [swept.stored.texts[i] for i in oracle.chosen] == texts
    assert oracle.score.value == pytest.approx(bleu(texts, references).value)
    assert oracle.score.value >= swept.tried(settings([0, 1], [0.0]))[0].score.value
    firsts = [nbest[0][1] for nbest in found]
    assert [swept.stored.texts[i] for i in swept.as_stored().chosen] == firsts


def test_of_equal_settings_the_plainer_comes_first(tmp_path):
    found, references = lists(3)
    swept = Sweep.of(read_nbest(write(tmp_path / "n", found)), references, bleu_metric())
    equal = swept.tried([Setting("none", 0, 0), Setting("power", 0, 0), Setting("gnmt", 0, 0)])
    assert [one.setting.length for one in equal] == ["none", "power", "gnmt"]
    assert equal[0].name == "log p"
    assert Setting("power", 1, 0.2).formula == "log p / n^1 + 0.2 Σ_i log min(Σ_j a_ij, 1)"


def test_lists_stored_without_coverage(tmp_path):
    found, _ = lists(4, with_coverage=False)
    stored = read_nbest(write(tmp_path / "n", found))
    assert stored.coverage is None
    assert len(stored.ranked_first("mean", 1.0)) == len(found)
    with pytest.raises(BadInput, match="with a coverage term"):
        stored.ranked_first("mean", 1.0, coverage=0.1)


GOOD = {"line": 1, "text": "a", "logprob": -1.0, "n": 2, "finished": True}


def test_an_empty_translation_needs_no_coverage(tmp_path):
    empty = {"line": 2, "text": "", "logprob": 0.0, "n": 0, "finished": True}
    path = tmp_path / "n"
    path.write_text("".join(json.dumps(one) + "\n" for one in (GOOD | {"coverage": -2}, empty)))
    assert read_nbest(path).coverage.tolist() == [-2, 0]
    assert read_nbest(path).ranked_first("mean", 1.0, 0.5).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["no"], ":1: not JSON"),
        (["[" * 100_000], ":1: not JSON"),
        (["[1]"], ":1: not a JSON object"),
        ([GOOD, GOOD | {"line": 3}], ":2: 'line' is 3 after 1"),
        ([GOOD | {"line": 2}], ":1: 'line' is 2 after 0"),
        ([GOOD | {"line": 0}], ":1: 'line' is 0 after 0"),
        ([GOOD, GOOD | {"line": 2}, GOOD], ":3: 'line' is 1 after 2"),
        ([GOOD | {"line": True}], ":1: 'line' cannot be true"),
        ([GOOD | {"logprob": "-1"}], ":1: 'logprob' cannot be \"-1\""),
        ([GOOD | {"logprob": float("nan")}], ":1: 'logprob' cannot be NaN"),
        ([GOOD | {"logprob": 10**400}], ":1: 'logprob' cannot be 1000"),
        ([GOOD | {"n": -1}], ":1: 'n' cannot be -1"),
        ([GOOD | {"n": 1.5}], ":1: 'n' cannot be 1.5"),
        ([GOOD | {"finished": 1}], ":1: 'finished' cannot be 1"),
        ([GOOD | {"text": None}], ":1: 'text' cannot be null"),
        ([GOOD | {"text": "\ud800"}], ":1: 'text' cannot be"),
        ([GOOD, {"line": 1, "text": "b"}], ":2: 'n' is missing"),
        ([GOOD | {"coverage": None}], ":1: 'coverage' cannot be null"),
        ([GOOD | {"coverage": -1}, GOOD], ":2: 'coverage' is missing"),
        ([], ": no hypotheses"),
    ],
)
def test_what_cannot_be_ranked_is_named_with_its_line(tmp_path, lines, said):
    path = tmp_path / "nbest"
    path.write_text("".join((x if isinstance(x, str) else json.dumps(x)) + "\n" for x in lines))
    with pytest.raises(BadInput) as error:
        read_nbest(path)
    assert str(error.value).startswith(f"{path}{said}")
    assert "\n" not in str(error.value)
