"""Decoding of roles: legal tags against all sequences, rows with a mark, inputs and records."""

import json
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from regard.core.errors import BadInput
from regard.data.readers.by_task import read
from regard.inference.role_labeller import RoleLabeller, legal_transitions, split_input
from regard.layers.crf import best_labels
from regard.models.label_heads import TokenLabelHead
from small_bert import SENTENCES
from small_roles import TAGS
from small_roles import small_labeller as model


def is_legal(tags):
    pairs = zip(["", *tags], tags, strict=False)
    return all(now[0] != "I" or before in (now, f"B-{now[2:]}") for before, now in pairs)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**9), length=st.integers(1, 4))
def test_decoding_finds_the_best_of_all_legal_sequences(seed, length):
    generator = torch.Generator().manual_seed(seed)
    logits_NV = torch.randn(length, len(TAGS), generator=generator, dtype=torch.float64)
    every = [
        one for one in product(range(len(TAGS)), repeat=length) if is_legal([TAGS[i] for i in one])
    ]
    scores = {one: sum(float(logits_NV[n, i]) for n, i in enumerate(one)) for one in every}
    (labels,) = best_labels([logits_NV], legal_transitions(TAGS))
    assert tuple(labels) == max(every, key=scores.__getitem__)


def tags_of(frame, count):
    tags = ["O"] * count
    for span in frame.arguments:
        tags[span.start : span.end] = [f"B-{span.label}"] + [f"I-{span.label}"] * (
            span.end - span.start - 1
        )
    return tags


@pytest.mark.parametrize("mark", ["segment", "pair"])
def test_frames_are_the_best_with_the_verb_at_the_predicate(mark):
    words = SENTENCES[0].split()[:4]
    labeller = model(mark).predictor
    for predicate in range(len(words)):
        (result,) = labeller.predict([(words, [predicate])])
        (frame,) = result.frames
        window = labeller.tokenizer.template.row_around(
            labeller.tokenizer.pieces(words), predicate, 24, as_pair=mark == "pair"
        )
        (logits_LV,) = labeller.head_logits(TokenLabelHead, [window.row])
        logits_NV = logits_LV[window.first_tokens].double()
        legal = [
            one
            for one in product(range(len(TAGS)), repeat=len(words))
            if is_legal([TAGS[i] for i in one])
            and [n for n, i in enumerate(one) if TAGS[i] == "B-V"] == [predicate]
        ]
        best = max(legal, key=lambda one: sum(float(logits_NV[n, i]) for n, i in enumerate(one)))
        assert tags_of(frame, len(words)) == [TAGS[i] for i in best]
        assert (frame.predicate, frame.word) == (predicate, words[predicate])
        shares = logits_NV.softmax(-1)
        for span in frame.arguments:
            own = [float(shares[n, best[n]]) for n in range(span.start, span.end)]
            assert span.probability == pytest.approx(sum(own) / len(own), abs=1e-5)


def test_frames_do_not_depend_on_other_sentences():
    inputs = [(sentence.split(), [0, 1]) for sentence in SENTENCES] + [(["owl"], [])]
    labeller = model().predictor
    together = labeller.predict(inputs)
    alone = [labeller.predict([each])[0] for each in inputs]
    assert [each.line for each in together] == [each.line for each in alone]
    assert together[-1].frames == () and together[-1].line == "owl"


def test_predicates_are_found_where_they_are_not_given():
    one = model()
    head = one.module.heads["token_label"].out
    with torch.no_grad():
        head.weight.zero_()
        head.bias.copy_(torch.tensor([0.0, 1.0, 0.0, 0.0, 0.0]))
    (result,) = one.predict(["owl dog"])
    assert [frame.predicate for frame in result.frames] == [0, 1]
    assert one.predictor.find_predicates([["owl", "dog", "cow"]]) == [[0, 1, 2]]
    with torch.no_grad():
        head.bias.copy_(torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0]))
    assert one.predict(["owl dog"])[0].frames == ()
    assert one.predict(["owl, dog"])[0].line == "owl , dog"
    (result,) = one.predict([("owl dog", [1])])
    assert result.line == "owl [V dog]"


def test_only_words_around_the_predicate_of_a_long_sentence_are_read():
    words = ["dog"] * 60
    labeller = model().predictor
    row = labeller.rows([(words, [50])], [0])[0]
    assert row.cut
    (result,) = labeller.predict([(words, [50])])
    places = [place for span in result.frames[0].arguments for place in (span.start, span.end)]
    assert min(places) >= 30 and len(result.words) == 60


def test_a_long_word_fits_its_row():
    labeller = model("pair").predictor
    (result,) = labeller.predict([(["owl", "dogcowdogcow" * 20, "cow"], [1])])
    assert result.frames[0].predicate == 1


def test_lines_and_records(tmp_path):
    labeller = model().predictor
    assert labeller.parse("The owl came", "here") == "The owl came"
    assert labeller.parse("The owl came\t1, 2", "here") == ("The owl came", [1, 2])
    record = {"tokens": ["owls", "eat"], "predicates": [{"index": 1, "args": []}]}
    assert labeller.parse(json.dumps(record), "here") == (["owls", "eat"], [1])
    assert labeller.parse('{"text": "owls eat"}', "here") == "owls eat"
    assert split_input((["owls", "eat"], [1])) == (["owls", "eat"], [1])
    assert split_input(["owls", "eat"]) == (["owls", "eat"], None)
    for line, message in [
        ("owls eat\teat", "predicates are the numbers of words from 0, not 'eat'"),
        ('{"tokens": 3}', "is not text"),
        ('{"tokens": [3]}', "is not text"),
        ('{"words": []', "not JSON"),
    ]:
        with pytest.raises(BadInput, match=message):
            labeller.parse(line, "here")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("owls eat", [2]), r"^input 2: predicate 2: the words are 0 to 1$"),
        (("owls eat", [-1]), "predicate -1: the words are 0 to 1"),
        (("owls eat", ["eat"]), "predicate 'eat'"),
        (("", [0]), "predicate 0: there are no words"),
        ((["owls", ""], [0]), "^input 2: word 1 is empty$"),
        (["", "eat"], "^input 2: word 0 is empty$"),
        (3, "neither a text nor a list of words"),
    ],
)
def test_a_bad_input_is_named(given, message):
    with pytest.raises(BadInput, match=message):
        model().predict(["owls eat", given])


def test_the_reader_of_roles_reads_what_is_predicted(tmp_path):
    inputs = [(SENTENCES[0].split(), [1, 2]), (["owl"], []), (["owl", "dog"], [0])]
    labeller = model().predictor
    predicted, path = labeller.predict(inputs), tmp_path / "frames.jsonl"
    path.write_text("".join(json.dumps(each.record) + "\n" for each in predicted))
    for example, sentence in zip(read("roles", "jsonl", path), predicted, strict=True):
        assert example.words == sentence.words
        spans = [(frame.predicate, frame.arguments) for frame in example.frames]
        assert spans == [(frame.predicate, tuple(frame.spans)) for frame in sentence.frames]
    parsed = [labeller.parse(line, "here") for line in path.read_text().splitlines()]
    assert parsed == [*inputs]


def test_a_model_that_does_not_find_predicates_needs_them():
    one = model(predicates="given")
    with pytest.raises(BadInput, match=r"input 1: has no predicates: name their words"):
        one.predict(["owls eat"])
    assert len(one.predict([("owls eat", [0])])[0].frames) == 1


def test_labels_without_roles_are_refused():
    with pytest.raises(BadInput, match="the labels of the model lack B-V: it labels no roles"):
        model(tags=("O", "B-A0", "I-A0")).predict(["owls eat"])
    with pytest.raises(BadInput, match=r"notes\.mark must be 'segment' or 'pair', not 'star'"):
        model(mark="star").predict(["owls eat"])
    with pytest.raises(BadInput, match="entities cannot be printed"):
        model().predictor.with_options(entities=True)


def test_a_folder_keeps_how_predicates_are_marked(tmp_path):
    one = model("pair", "given")
    for name, form in (("ours", "regard"), ("theirs", "hf")):
        one.save(tmp_path / name, form)
        again = regard.load(tmp_path / name, "cpu")
        assert isinstance(again.predictor, RoleLabeller)
        assert (again.predictor.mark, again.predictor.predicates) == ("pair", "given")
        given = [("owls eat", [1])]
        assert again.predict(given)[0].line == one.predict(given)[0].line
