"""Scores of texts: windows, causal models and masked LMs against plain loops, and the verb."""

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import regard
from closeness import SCALARS
from regard.core.errors import BadInput
from regard.inference.component import Result
from regard.inference.encoder_model import EncoderModel
from regard.inference.score_text import TextScore, TextScorer, windows
from regard.models.facts import change
from regard.models.folders.loaded_model import LoadedModel
from regard.models.heads import NextTokenHead
from regard.models.label_heads import MLMHead
from regard.models.papers import bert, gpt, gpt2
from regard.text.tokenizers.encoder_tokenizer import train_encoder_tokenizer
from verb import run

TEXTS = (
    "The old sailor mended his nets before the storm came in.",
    "Nobody believed it.",
    "naïve café, 東京",
)
SIZES = {"width": 12, "depth": 2, "heads": 2, "inner": 16, "longest": 16, "init_std": 0.4}


def small(paper, facts, head, kind, **changes):
    torch.manual_seed(3)
    tokenizer = train_encoder_tokenizer(TEXTS, kind, 300, lower=kind == "gpt-bpe", longest=None)
    facts = change(facts, **SIZES, vocab=len(tokenizer.words), **changes).with_heads(head)
    return regard.Model(LoadedModel(paper, facts, facts.build().eval(), tokenizer))


@pytest.fixture(scope="module")
def causal():
    return small(gpt2.PAPER, gpt2.SMALL, NextTokenHead(), "gpt2-bpe")


@pytest.fixture(scope="module")
def masked():
    return small(bert.PAPER, bert.TINY, MLMHead(), "wordpiece", pool=None)


@given(st.integers(1, 60), st.integers(2, 20), st.data())
def test_in_windows_every_token_counts_once(count, longest, data):
    stride = data.draw(st.integers(1, longest - 1))
    before = data.draw(st.integers(0, longest - 2))
    after = data.draw(st.integers(0, min(longest - stride, longest - before - 1)))
    found = list(windows(count, longest, stride, before=before, after=after))
    assert [at for one in found for at in range(one.first, one.last)] == [*range(count)]
    for number, (begin, end, first, last) in enumerate(found):
        assert 0 < end - begin <= longest - (before if number == 0 else 0)
        assert (number == 0) == (first == 0 == begin)
        assert end == (last + after if last + after < count else count)
        assert number == 0 or end - begin == min(longest, end)


def logprobs(model, ids):
    """For each position the log-probabilities of the next token."""
    return torch.log_softmax(model.logits([ids])[0].double(), -1)


def test_a_causal_model_predicts_each_token_from_those_before_it(causal):
    words = causal.tokenizer.words
    for text, found in zip(TEXTS[1:], causal.score(TEXTS[1:]), strict=True):
        ids = words.encode(text)[:15]
        table = logprobs(causal, [words.eos, *ids])
        expected = [table[at, token].item() for at, token in enumerate(ids)]
        assert found[:15] == pytest.approx(expected, **SCALARS)
        assert len(found) == len(words.encode(text))


def test_long_texts_are_read_in_windows(causal):
    """Of 16 positions, the first window has the separator and 15 tokens, others have 16 tokens."""
    words = causal.tokenizer.words
    ids = words.encode(TEXTS[0])
    first = logprobs(causal, [words.eos, *ids[:15]])
    expected, done = [first[at, ids[at]].item() for at in range(15)], 15
    while done < len(ids):
        before, done = done, min(done + 4, len(ids))
        table = logprobs(causal, ids[done - 16 : done])
        expected += [table[at - done + 15, ids[at]].item() for at in range(before, done)]
    (found,) = causal.score(TEXTS[:1], stride=4)
    assert len(found) == len(ids) > 20 and found == pytest.approx(expected, **SCALARS)
    (other,) = causal.score(TEXTS[:1], stride=15)
    assert other[:15] == pytest.approx(found[:15], **SCALARS) and other[15:] != found[15:]


def test_ids_are_used_as_given_and_need_no_tokenizer(causal):
    ids = causal.tokenizer.words.encode(TEXTS[1])[:12]
    bare = regard.Model(LoadedModel(causal.paper, causal.facts, causal.module))
    (found,) = bare.score([ids])
    table = logprobs(causal, ids)
    assert found == pytest.approx(
        [table[at, token].item() for at, token in enumerate(ids[1:])], **SCALARS
    )
    with pytest.raises(BadInput, match=r"only token ids can be used \(from Python\)"):
        bare.score(["a text"])


def test_the_most_probable_tokens_in_place_of_each(causal):
    ids = causal.tokenizer.words.encode(TEXTS[0])[:12]
    scorer = causal.component("score", top=3)
    (score,) = scorer.predict([ids])
    (logits_TV,) = causal.logits([ids])
    for best, logits_V, token, logprob in zip(
        score.top, logits_TV, ids[1:], score.logprobs, strict=False
    ):
        expected = logits_V.log_softmax(-1).topk(3)
        assert [*best] == expected.indices.tolist()
        assert [*best.values()] == pytest.approx(expected.values.tolist(), abs=1e-5)
        assert best.get(token, logprob) == logprob  # the same number
    (record,) = scorer.records(Result(0, scorer.predict([TEXTS[0]])[0]))
    assert len(record["top"]) == len(record["tokens"]) and len(record["top"][0]) == 3
    assert causal.component("score").predict([ids])[0].top == ()


def test_a_masked_model_predicts_each_token_from_all_others(masked):
    tokenizer = masked.tokenizer
    ids = tokenizer.words.encode(TEXTS[1])[:10]
    text = tokenizer.decode(ids)
    assert tokenizer.words.encode(text) == ids
    row = tokenizer.row(ids).tokens
    expected = []
    for at in range(1, len(row) - 1):
        hidden = np.array(row)
        hidden[at] = tokenizer.mask
        expected.append(logprobs(masked, hidden.tolist())[at, row[at]].item())
    assert masked.score([text])[0] == pytest.approx(expected, **SCALARS)
    assert masked.score([row])[0] == pytest.approx(expected, **SCALARS)  # special ones are none
    assert len(masked.score(TEXTS[:1])[0]) == len(tokenizer.words.encode(TEXTS[0])) > 14


def test_tokens_of_long_texts_are_masked_in_the_middle_of_windows(masked):
    """14 of 16 positions are tokens; but at the ends of a text, at least 4 follow those scored."""
    tokenizer = masked.tokenizer
    ids = tokenizer.words.encode(TEXTS[0])
    (found,) = masked.score(TEXTS[:1], stride=6)
    expected = []
    for begin, first, last in [
        (0, 0, 10),
        *((6 + 6 * i, 10 + 6 * i, 16 + 6 * i) for i in range(9)),
    ]:
        if last + 4 >= len(ids):
            begin, last = max(0, len(ids) - 14), len(ids)
        for at in range(first, last):
            row = np.array(tokenizer.row(ids[begin : begin + 14]).tokens)
            row[at - begin + 1] = tokenizer.mask
            expected.append(logprobs(masked, row.tolist())[at - begin + 1, ids[at]].item())
        if last == len(ids):
            break
    assert len(ids) > 20 and found == pytest.approx(expected, **SCALARS)


def test_scores_do_not_depend_on_the_batch(causal, masked):
    for model in (causal, masked):
        together = model.score(TEXTS)
        for text, scores in zip(TEXTS, together, strict=True):
            (alone,) = model.score([text], batch_size=1)
            assert alone == pytest.approx(scores, **SCALARS)


def test_perplexity_and_bits_per_byte():
    score = TextScore(("a", "b"), (-math.log(2), -math.log(8)), 8)
    assert score.perplexity == pytest.approx(4) and score.bits_per_byte == pytest.approx(0.5)
    both = TextScore.total([score, TextScore(("c",), (-math.log(4),), 2)])
    assert both.perplexity == pytest.approx(4) and both.bits_per_byte == pytest.approx(0.6)
    assert TextScore((), ()).bits_per_byte is None


def test_a_text_of_gpt_begins_without_a_separator():
    model = small(gpt.PAPER, gpt.BASE, NextTokenHead(), "gpt-bpe")
    ids = model.tokenizer.words.encode(TEXTS[1])
    assert len(model.score(TEXTS[1:2])[0]) == len(ids) - 1


def test_what_cannot_be_scored_is_refused(causal, masked):
    with pytest.raises(BadInput, match="stride is 16: it must be from 1 to 15 with windows"):
        causal.score(TEXTS, stride=16)
    with pytest.raises(BadInput, match="a window of 17 tokens: the model reads at most 16"):
        causal.score(TEXTS, window=17)
    with pytest.raises(BadInput, match=r"stride must be a whole number, not 2\.5"):
        causal.score(TEXTS, stride=2.5)
    with pytest.raises(BadInput, match="input 2: has no tokens"):
        causal.score([TEXTS[0], ""])
    with pytest.raises(BadInput, match="give a list of texts, not one text"):
        causal.score(TEXTS[0])
    facts = causal.facts.with_heads()
    with pytest.raises(BadInput, match="neither a causal nor a masked language model"):
        TextScorer(EncoderModel(LoadedModel(causal.paper, facts, facts.build())))
    facts = change(masked.facts, output_heads=(NextTokenHead(),))
    with pytest.raises(BadInput, match="sees the tokens that it predicts"):
        regard.Model(LoadedModel(masked.paper, facts, facts.build())).score([[1, 2]])


def test_the_verb_scores_lines_and_whole_files(causal, masked, tmp_path):
    (tmp_path / "a.txt").write_text("\n".join(TEXTS) + "\n")
    for name, model in {"causal": causal, "masked": masked}.items():
        model.save(tmp_path / name)
        plain = run("score", tmp_path / name, tmp_path / "a.txt")
        expected = [sum(scores) for scores in model.score(TEXTS)]
        assert [float(line) for line in plain.stdout.split()] == pytest.approx(expected, abs=1e-3)
        assert "bits per byte" in plain.stderr and "perplexity" in plain.stderr
        lines = run("score", tmp_path / name, tmp_path / "a.txt", "--json").stdout.splitlines()
        records = [json.loads(line) for line in lines]
        for record, text, total in zip(records, TEXTS, expected, strict=True):
            assert record["text"] == text and record["logprob"] == pytest.approx(total, abs=1e-4)
            bits = -total / math.log(2) / len(text.encode())
            assert record["bits_per_byte"] == pytest.approx(bits, abs=1e-4)
            assert len(record["tokens"]) == len(record["logprobs"])
    whole = run("score", tmp_path / "causal", tmp_path / "a.txt", "--whole", "--json")
    (record,) = [json.loads(line) for line in whole.stdout.splitlines()]
    assert record["text"] == "\n".join(TEXTS) + "\n"
    options = ("--whole", "--window", "12", "--stride", "3")
    other = run("score", tmp_path / "causal", tmp_path / "a.txt", *options)
    (same,) = causal.score(["\n".join(TEXTS) + "\n"], window=12, stride=3)
    assert float(other.stdout) == pytest.approx(sum(same), abs=1e-3)
    assert float(other.stdout) != pytest.approx(record["logprob"], abs=1e-3)
    refused = run("score", tmp_path / "causal", tmp_path / "a.txt", "--max-length", "9", code=2)
    assert "tokens, more than 9" in refused.output
