"""What encoders are used for: each task by itself, whatever else is in the batch."""

from dataclasses import replace
from math import isfinite

import pytest
import torch

from closeness import SCALARS
from regard.core.errors import BadInput
from regard.inference import predictor as rows_module
from regard.inference.classifier import MultiLabelPrediction, NumberPrediction
from regard.inference.fill_mask import MaskFiller
from regard.tasks.question_answering import AnswerPrediction
from regard.text.words import spaced_spans
from small_bert import LABELS, SENTENCES, TAGS, model, vocabulary

LONG = " ".join(SENTENCES)
TEXTS = [*SENTENCES, "", LONG, "storm"]
PAIRS = [("The storm came in.", LONG), ("", "cat"), ("whale", "")]
QUESTIONS = [
    ("Who mended the nets?", SENTENCES[0]),
    ("What came in?", LONG),
    ("Who?", "cat"),
    ("Which cat could read the very old nets of the lighthouse keeper?" * 3, LONG),
]
CHOICES = [
    ("The storm", ["came in.", "had a cat.", LONG]),
    ("She counted", ["gulls", "boats"]),
    ("Nobody", ["believed"]),
]
ASKED = {
    "one": [*TEXTS, *PAIRS],
    "several": [*TEXTS, *PAIRS],
    "number": [*TEXTS, *PAIRS],
    "tags": [*TEXTS, ["Ada", "Lovelace", "met"], []],
    "numbers": [*TEXTS, ["Ada", "Lovelace", "met"]],
    "answer": QUESTIONS,
    "choose": CHOICES,
}


def close(one, other) -> bool:
    """The same but for rounding."""
    if isinstance(one, float):
        return one == pytest.approx(other, abs=1e-5)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(close(one[key], other[key]) for key in one)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(close, one, other))
    if hasattr(one, "__dataclass_fields__"):
        return close(vars(one), vars(other))
    return one == other


@pytest.mark.thinned
@pytest.mark.parametrize("kind", ASKED)
def test_results_do_not_depend_on_the_batch(kind, monkeypatch):
    predictor, asked = model(kind).predictor, ASKED[kind]
    together = predictor.predict(asked)
    assert len(together) == len(asked)
    assert close(list(replace(predictor, batch_size=1).predict(asked)), together)
    assert close([predictor.predict([one])[0] for one in asked], together)
    monkeypatch.setattr(rows_module, "WINDOW", 2)
    assert close([one.value for one in predictor.stream(iter(asked))], together)
    assert predictor.predict([]) == []
    with pytest.raises(BadInput, match=r"^input 4: "):
        predictor.predict([*asked[:1] * 3, None])
    *good, bad = predictor.stream([*asked[:1] * 3, None])
    assert close([one.value for one in good], together[:1] * 3) and bad.number == 4


@pytest.mark.parametrize("kind", ASKED)
def test_a_broken_model_is_reported(kind):
    broken = model(kind)
    (head,) = broken.module.heads.values()
    head.out.bias.data.fill_(float("nan"))
    with pytest.raises(BadInput, match="the model is broken"):
        broken.predict(ASKED[kind][:1])


def test_one_label():
    one = model("one")
    for said, logits in zip(one.predict(TEXTS), one.logits(TEXTS), strict=True):
        assert list(said.probabilities.values()) == pytest.approx(
            logits.double().softmax(0).tolist(), **SCALARS
        )
        assert said.label == LABELS["one"].names[int(logits.argmax())]
    both, first = one.predict([("The storm", "came in"), "The storm"])
    assert both != first


def test_several_labels_and_numbers():
    several = model("several")
    for said, logits in zip(several.predict(TEXTS), several.logits(TEXTS), strict=True):
        assert isinstance(said, MultiLabelPrediction)
        assert list(said.probabilities.values()) == pytest.approx(
            logits.sigmoid().tolist(), **SCALARS
        )
        assert said.labels == tuple(n for n, p in said.probabilities.items() if p > 0.5)
    assert len({said.labels for said in several.predict(TEXTS)}) > 1
    number = model("number")
    for said, logits in zip(number.predict(TEXTS), number.logits(TEXTS), strict=True):
        assert isinstance(said, NumberPrediction)
        assert said.value == pytest.approx(float(logits[0]), **SCALARS)
        assert list(said.values) == ["likeness"]


def test_tags_of_words_by_their_first_pieces():
    tagger = model("tags")
    text = SENTENCES[4]
    (said,) = tagger.predict([text])
    ids, spans = vocabulary().words.cut(text)
    (logits,) = tagger.logits([text])
    assert [word.text for word in said.words] == [*text[:-1].split(), "."]
    for word in said.words:
        assert text[word.start : word.end] == word.text
        piece = next(i for i, span in enumerate(spans, start=1) if span.start == word.start)
        probable = logits[piece].softmax(0)
        assert word.tag == TAGS[int(probable.argmax())]
        assert word.probability == pytest.approx(float(probable.max()), **SCALARS)
    assert len(ids) > len(said.words)  # some are cut
    (given,) = tagger.predict([[word.text for word in said.words]])
    assert given.tags == said.tags
    assert given.text == text[:-1] + " ." and given.words[-1].start == len(text)


def test_words_are_found_by_the_given_function():
    tagger = model("tags").predictor
    (said,) = replace(tagger, find_words=spaced_spans).predict(["in  London."])
    assert [(word.text, word.start, word.end) for word in said.words] == [
        ("in", 0, 2),
        ("London.", 4, 11),
    ]


@pytest.mark.parametrize(
    "wrong", [("a", "b", "c"), ("a",), ["a"], (), 1, None, b"x", ("a", None), [["a", "b"]]]
)
def test_what_is_no_text_is_refused(wrong):
    with pytest.raises(BadInput, match=r"input 2: .* is neither a text nor a pair of texts"):
        model("one").predict(["Ada", wrong, "sing"])


def test_lists_of_two_are_pairs():
    classifier = model("one")
    assert classifier.predict([["Ada", "sing"]]) == classifier.predict([("Ada", "sing")])


def test_a_word_without_pieces_is_unknown():
    """It is tagged as any other: a made-up tag would be scored as one of the model's."""
    tagger = model("tags").predictor
    (said,) = tagger.predict([["Ada", "\u200b", "sing"]])
    assert {word.tag for word in said.words} <= {*tagger.labels.names}
    assert all(0 < word.probability <= 1 for word in said.words)
    assert tagger.tokenizer.pieces(["\u200b"]) == [[tagger.tokenizer.unk]]
    (numbered,) = model("numbers").predict([["Ada", "\u200b"]])
    assert all(isfinite(word.value) for word in numbered.words)


def test_long_sentences_are_tagged_to_the_end():
    (said,) = model("tags").predict([LONG])
    assert all(word.tag is not None for word in said.words)
    assert said.words[-1].end == len(LONG)


def test_entities_have_characters():
    from regard.inference.tagger import TaggedText, TaggedWord

    text = "Ada Lovelace met London"
    tags = ["B-PER", "I-PER", "O", "B-LOC"]
    places = [(0, 3), (4, 12), (13, 16), (17, 23)]
    words = tuple(
        TaggedWord(text[i:j], i, j, tag, probability)
        for (i, j), tag, probability in zip(places, tags, (0.5, 0.7, 0.9, 0.4), strict=True)
    )
    person, place = TaggedText(text, words).entities
    assert (person.label, person.start, person.end) == ("PER", 0, 12)
    assert person.text == "Ada Lovelace" and person.probability == pytest.approx(0.6)
    assert (place.label, place.text) == ("LOC", "London")


def test_not_all_tags_mean_entities():
    assert model("tags").predictor.finds_entities
    assert not model("parts").predictor.finds_entities
    assert not model("numbers").predictor.finds_entities


def test_a_word_has_one_tag():
    tagger = model("tags").predictor
    with pytest.raises(BadInput, match="one tag"):
        replace(tagger, labels=LABELS["several"])


def test_answers_stand_where_they_say():
    for (_, context), said in zip(QUESTIONS, model("answer").predict(QUESTIONS), strict=True):
        assert said.best
        scores = [one.score for one in said.best]
        assert scores == sorted(scores, reverse=True)
        for one in said.best:
            assert context[one.start : one.end] == one.text and one.text.strip()
        total = sum(one.probability for one in said.best) + said.no_answer_probability
        assert total == pytest.approx(1)


def test_no_answer_is_a_matter_of_the_threshold():
    answerer = model("answer").predictor
    (said,) = answerer.predict(QUESTIONS[:1])
    above, below = said.no_answer - 0.1, said.no_answer + 0.1
    assert replace(answerer, threshold=above).predict(QUESTIONS[:1])[0].answer is None
    assert replace(answerer, threshold=above).predict(QUESTIONS[:1])[0].text == ""
    assert replace(answerer, threshold=below).predict(QUESTIONS[:1])[0].text == said.best[0].text
    (always,) = replace(answerer, threshold=None).predict(QUESTIONS[:1])
    assert always.answer == always.best[0] and always.no_answer_probability == 0
    assert sum(one.probability for one in always.best) == pytest.approx(1)


def test_an_empty_context_has_no_answer():
    (said,) = model("answer").predict([("Who?", "")])
    assert said == AnswerPrediction((), said.no_answer, 0.0, None) and said.text == ""


def test_answers_are_no_longer_than_allowed():
    answerer = replace(model("answer").predictor, longest_answer=1)
    for said in answerer.predict(QUESTIONS):
        assert all(" " not in one.text for one in said.best)


def test_one_choice_is_made():
    chooser = model("choose")
    for (first, choices), said in zip(CHOICES, chooser.predict(CHOICES), strict=True):
        logits = torch.cat(chooser.logits([(first, one) for one in choices]))
        assert said.probabilities == pytest.approx(logits.double().softmax(0).tolist(), **SCALARS)
        assert said.text == choices[said.index] and said.probability == max(said.probabilities)
    for wrong in ([], "text"):
        with pytest.raises(BadInput, match="input 2: the list of choices is empty"):
            chooser.predict([("a", ["b"]), ("a", wrong)])


def test_blanks_are_filled():
    filler = model("words")
    texts = ["The [MASK] came in.", "storm", "[MASK] sailors [MASK] ; the storm"]
    with pytest.raises(BadInput, match=r"input 2: the text has no mask token \[MASK\]"):
        filler.fill(texts)
    texts.pop(1)
    together = filler.fill(texts, top=3)
    assert [len(one.blanks) for one in together] == [1, 2]
    for text, said, logits in zip(texts, together, filler.logits(texts), strict=True):
        ids = vocabulary().masked(text)
        places = [i for i, one in enumerate(ids, start=1) if one == vocabulary().mask]
        for place, blank in zip(places, said.blanks, strict=True):
            probable, best = logits[place].double().softmax(0).topk(3)
            assert [one.word for one in blank] == vocabulary().words.pieces(best.tolist())
            assert [one.probability for one in blank] == pytest.approx(probable.tolist(), **SCALARS)
        assert "[MASK]" not in said.text
    assert close(filler.fill(texts[1:], top=3), together[1:])


def test_pieces_are_joined_to_what_they_continue():
    from regard.inference.fill_mask import TokenFill

    filler = model("words").encoder.filler()
    blanks = ((TokenFill("##ing", 0.5),), (TokenFill("storm", 0.5),))
    assert filler._filled("read [MASK] a [MASK].", blanks).text == "reading a storm."


def test_masks_that_are_not_read_are_reported():
    with pytest.raises(
        BadInput, match=r"input 1: a \[MASK\] is truncated: only 48 tokens are read"
    ):
        model("words").fill([LONG + " [MASK]"])
    with pytest.raises(BadInput, match="cannot fill masks: it has no masked-LM head"):
        model("states").fill(["[MASK]"])
    with pytest.raises(BadInput, match="top: "):
        MaskFiller(model("words").module, vocabulary(), top=0)


def test_what_was_not_tuned_predicts_nothing():
    with pytest.raises(BadInput, match="this model has no head of a task"):
        model("states").predict(["storm"])
