"""Frames as SVG: one arc for each argument, in the place of its words."""

import re
from xml.etree import ElementTree

from regard.inference.role_labeller import PredictedFrame, RoleArgument, SentenceFrames
from regard.views.role_arcs import draw_frames
from small_roles import SENTENCES

SVG = "{http://www.w3.org/2000/svg}"


def sentence(number):
    words, frames = SENTENCES[number]
    return SentenceFrames(
        tuple(words),
        tuple(
            PredictedFrame(
                place,
                words[place],
                tuple(
                    RoleArgument(label, first, last + 1, " ".join(words[first : last + 1]), 0.5)
                    for first, last, label in arguments
                ),
            )
            for place, _, arguments in frames
        ),
    )


def test_brackets_and_records():
    given = sentence(0)
    assert given.line.split("\t") == [
        "[A0 The owl] [R-A0 that] [V sleeps] , said Ada , eats mice .",
        "[A1 The owl that sleeps] , [V said] [A0 Ada] , [C-A1 eats mice] .",
        "[A0 The owl that sleeps] , said Ada , [V eats] [A1 mice] .",
    ]
    said = given.record["predicates"][1]
    assert said["args"][3] == [8, 9, "C-A1"] and said["probabilities"][3] == 0.5


def test_every_argument_has_an_arc_from_its_predicate():
    given = sentence(0)
    root = ElementTree.fromstring(draw_frames(given, "owls & <mice>"))
    strips = root.findall(f"{SVG}g")
    assert len(strips) == len(given.frames)
    for strip, frame in zip(strips, given.frames, strict=True):
        texts = strip.findall(f"{SVG}text")
        words, labels = texts[: len(given.words)], texts[len(given.words) :]
        assert [text.text for text in words] == [*given.words]
        bold = [text.text for text in words if text.get("font-weight") == "bold"]
        assert bold == [frame.word]
        others = {argument.label for argument in frame.arguments} - {"V"}
        assert {label.find(f"{SVG}title").tail for label in labels} == others
        paths = [path.get("d") for path in strip.findall(f"{SVG}path")]
        assert len(paths) == len(others)
        assert len({re.match(r"M (\S+)", path)[1] for path in paths}) == 1
        heights = [float(re.search(r"C \S+ (\S+)", path)[1]) for path in paths]
        assert min(heights) >= 0 and len({*heights}) == len(heights)


def test_a_label_has_room_above_a_short_word():
    words = ("I", "am")
    arguments = (RoleArgument("ARGM-LONGEST", 0, 1, "I", 1.0), RoleArgument("V", 1, 2, "am", 1.0))
    drawn = draw_frames(SentenceFrames(words, (PredictedFrame(1, "am", arguments),)), "I am")
    strip = ElementTree.fromstring(drawn).find(f"{SVG}g")
    first, second = (float(text.get("x")) for text in strip.findall(f"{SVG}text")[:2])
    assert second - first > 60


def test_a_sentence_without_predicates_is_drawn():
    root = ElementTree.fromstring(draw_frames(sentence(1), "nothing"))
    assert root.findall(f"{SVG}g") == [] and "no predicate" in ElementTree.tostring(root, "unicode")
