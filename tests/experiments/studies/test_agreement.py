"""Agreement: the odds of two verb forms by other ways to ask a model, and how they are counted."""

import re
from html import escape
from math import isnan

import pytest
import torch

import regard
from regard import (
    AgreementPrefix,
    AgreementScores,
    AgreementSentence,
    AgreementTable,
    VerbChoice,
    score_agreement,
)
from small_agreement import TESTS, language_model
from small_bert import model as small_bert
from small_gpt import write_gpt2

KEYS = AgreementSentence(AgreementPrefix("The key to the cabinets", (0, 1)), ("is", "are"), "old .")


@pytest.mark.thinned
@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm", "gpt"])
def test_a_causal_model_chooses_after_the_words_before(kind, tmp_path):
    model = regard.load(write_gpt2(tmp_path), "cpu") if kind == "gpt" else language_model(kind)
    short = [one for one in TESTS if one.distance <= 3]
    scores = score_agreement(model, short)
    assert (len(scores.choices), scores.skipped, scores.remark) == (len(short), 0, "")
    for one, verb, whole in scores.choices:
        verbs = sorted(one.verb_forms, key=lambda form: f" {form} " not in one.right)
        begun = model.score([f"{one.prefix.text} {form}" for form in verbs])
        assert verb == pytest.approx(sum(begun[0]) - sum(begun[1]), abs=1e-4)
        right, wrong = model.score([one.right, one.wrong])
        assert whole == pytest.approx(sum(right) - sum(wrong), abs=1e-4)
    assert any(choice.verb > 0 for choice in scores.choices)
    assert any(choice.verb < 0 for choice in scores.choices)


def test_the_odds_are_those_of_transformers(tmp_path):
    from transformers import GPT2LMHeadModel

    model = regard.load(write_gpt2(tmp_path), "cpu")
    peer, words = GPT2LMHeadModel.from_pretrained(tmp_path).eval(), model.tokenizer.words
    short = [one for one in TESTS if one.distance == 0]
    for one, _, whole in score_agreement(model, short).choices:
        totals = []
        for text in (one.right, one.wrong):
            ids = torch.tensor([[words.eos, *words.encode(text)]])
            with torch.no_grad():
                logp_LV = peer(ids).logits[0, :-1].log_softmax(-1)
            totals.append(logp_LV.gather(1, ids[0, 1:, None]).sum().item())
        assert whole == pytest.approx(totals[0] - totals[1], abs=1e-4)


def test_a_masked_lm_chooses_between_all_other_words():
    model, forms = small_bert("words"), ("sing", "read")
    prefixes = (
        AgreementPrefix("The sailor", (0,)),
        AgreementPrefix("The sailors in the storm", (1, 0)),
    )
    given = [AgreementSentence(prefix, forms, "in the storm") for prefix in prefixes]
    ids = [model.tokenizer.words.number(form) for form in forms]
    for one, verb, _ in score_agreement(model, given).choices:
        text = f"{one.prefix.text} [MASK] {one.rest}"
        (logits_TV,) = model.logits([text])
        row = model.tokenizer.row(model.tokenizer.masked(text))
        odds_V = logits_TV[list(row.tokens).index(model.tokenizer.mask), ids]
        number = one.prefix.numbers[0]
        assert verb == pytest.approx((odds_V[number] - odds_V[1 - number]).item(), abs=1e-4)


def test_sentences_with_unknown_words_are_skipped_and_counted():
    scores = score_agreement(language_model(missing=("dirty", "were")), TESTS)
    known = [
        one for one in TESTS if not {"dirty", "were"} & {*one.right.split(), *one.wrong.split()}
    ]
    assert [choice.sentence for choice in scores.choices] == known
    assert scores.unknown == ("dirty", "were")
    assert scores.skipped == len(TESTS) - len(known) > 0
    assert scores.remark == (
        f"{scores.skipped} of {len(TESTS)} sentences are skipped, with words that are unknown to "
        "the model: dirty, were"
    )
    with pytest.raises(regard.BadInput, match=r"no sentence .* \(unknown: The\)"):
        score_agreement(language_model(missing=("The",)), TESTS)


def test_models_that_do_not_predict_words_are_refused(small_run):
    with pytest.raises(regard.BadInput, match="neither a causal nor a masked"):
        score_agreement(small_bert("states"), [KEYS])
    with pytest.raises(regard.BadInput, match="is an encoder-decoder"):
        score_agreement(regard.load(small_run / "run" / "model", "cpu"), [KEYS])
    with pytest.raises(regard.BadInput, match="not one text"):
        score_agreement(language_model(), "The key is old .")
    with pytest.raises(regard.BadInput, match="is not an AgreementSentence"):
        score_agreement(language_model(), ["The key is old ."])
    with pytest.raises(regard.BadInput, match="no sentence"):
        score_agreement(language_model(), [])


def choices(odds, whole=0.0):
    """A model whose odds of the right verb are a function of the sentence."""
    return AgreementScores(tuple(VerbChoice(one, odds(one), whole) for one in TESTS))


NEAREST = choices(lambda one: 1.0 if one.nearest_agrees else -1.0, whole=1.0)
SUBJECT = choices(lambda one: 0.5)


def test_accuracies_by_distance_and_attractors():
    assert SUBJECT.accuracy == 100 and SUBJECT.whole_accuracy == 0
    assert NEAREST.accuracy == NEAREST.baseline == SUBJECT.baseline < 100
    assert NEAREST.whole_accuracy == 100
    assert NEAREST.at(24, 8).accuracy == NEAREST.at(3, 1).accuracy == 0
    assert NEAREST.at(24, 0).accuracy == NEAREST.at(0).accuracy == 100
    assert NEAREST.at(3).accuracy == 50 and len(NEAREST.at(3).choices) == 4
    assert choices(lambda one: 0.0).accuracy == 0  # both forms are as probable
    assert isnan(NEAREST.at(5).accuracy)
    record = NEAREST.to_json()
    assert record["accuracy"] == record["nearest noun"] and record["sentences"] == 40
    expected = {"sentences": 2, "accuracy": 0, "whole sentence": 100, "nearest noun": 0}
    assert record["kinds"][2] == {"distance": 3, "attractors": 1, **expected}


def test_a_table_of_models_and_seeds():
    table = AgreementTable.of({"<b>": [NEAREST], "LSTM": [SUBJECT, NEAREST]})
    assert table.columns == [
        "words between",
        "attractors",
        "sentences",
        "<b>",
        "LSTM",
        "nearest noun",
    ]
    assert table.rows[0] == ["0", "0", "2", "100.0", "100.0 ± 0.0", "100.0"]
    assert table.rows[2] == ["3", "1", "2", "0.0", "50.0 ± 70.7", "0.0"]
    assert [row[0] for row in table.rows[-2:]] == ["all", "whole sentences"]
    assert table.rows[-1][3:5] == ["100.0", "50.0 ± 70.7"]
    assert [one.get("seed") for one in table.records()] == [None, 1, 2]
    assert "2 seeds" in table.notes[0]
    for chart, ticks in (
        ("distance", ["0", "3", "6", "12", "24"]),
        ("attractors", map(str, range(9))),
    ):
        drawing = table.svg(chart)
        assert drawing.count("<polyline") == 3 and "<b>" not in drawing
        assert all(f">{tick}</text>" in drawing for tick in ticks)
    page = table.html()
    assert page.count("<svg") == 2 and "<td>50.0 ± 70.7</td>" in page
    assert not re.search(r"(src|href)=", page)
    assert escape(page) in table._repr_html_()


def test_models_are_compared_on_what_all_of_them_know():
    some = SUBJECT.where(lambda one: one.distance <= 3)
    table = AgreementTable.of({"one": [SUBJECT], "other": [some]})
    assert [row[0] for row in table.rows] == ["0", "3", "3", "all", "whole sentences"]
    none = SUBJECT.where(lambda one: one.distance > 3)
    with pytest.raises(regard.BadInput, match="no sentence"):
        AgreementTable.of({"one": [some], "other": [none]})
