"""A few sentences with their frames, in every format of semantic roles."""

import json
from dataclasses import replace
from pathlib import Path

import torch

from regard.api import Model
from regard.models.label_heads import TokenLabelHead
from regard.text.label_sets import SingleLabelSet
from small_bert import small_bert

# words, and (predicate, lemma, [(first word, last word, label)])
SENTENCES = [
    (
        ["The", "owl", "that", "sleeps", ",", "said", "Ada", ",", "eats", "mice", "."],
        [
            (3, "sleep", [(0, 1, "A0"), (2, 2, "R-A0"), (3, 3, "V")]),
            (5, "say", [(0, 3, "A1"), (5, 5, "V"), (6, 6, "A0"), (8, 9, "C-A1")]),
            (8, "eat", [(0, 3, "A0"), (8, 8, "V"), (9, 9, "A1")]),
        ],
    ),
    (["No", "frame", "here", "."], []),
    (
        ["Ada", "looked", "the", "old", "word", "up", "yesterday", "."],
        [(1, "look", [(0, 0, "A0"), (1, 1, "V"), (2, 4, "A1"), (5, 5, "C-V"), (6, 6, "AM-TMP")])],
    ),
]


def brackets(words: list[str], arguments: list[tuple[int, int, str]]) -> list[str]:
    cells = ["*"] * len(words)
    for first, last, label in arguments:
        cells[first] = f"({label}" + cells[first]
        cells[last] += ")"
    return cells


def columns(sentence, before: list[list[str]], after: list[list[str]]) -> str:
    words, frames = sentence
    rows = [*before, *(brackets(words, arguments) for *_, arguments in frames), *after]
    return "".join("  ".join(cells) + "\n" for cells in zip(*rows, strict=True)) + "\n"


def lemmas(sentence) -> list[str]:
    words, frames = sentence
    by_place = {place: lemma for place, lemma, _ in frames}
    return [by_place.get(place, "-") for place in range(len(words))]


def conll2005(sentence) -> str:
    words, _ = sentence
    entities = ["*"] * len(words)
    return columns(sentence, [words, ["XX"] * len(words), entities, lemmas(sentence)], [])


def conll2012(sentence) -> str:
    words, _ = sentence
    count, named = len(words), lemmas(sentence)
    senses = ["01" if lemma != "-" else "-" for lemma in named]
    numbers = [str(place) for place in range(count)]
    before = [["doc"] * count, ["0"] * count, numbers, words, ["XX"] * count, ["*"] * count]
    before += [named, senses, ["-"] * count, ["Ada"] * count, ["*"] * count]
    return columns(sentence, before, [["-"] * count])


def conllu(sentence, spans: bool) -> str:
    """Universal Propositions, with spans in the row of a predicate or a column of tags for each."""
    words, frames = sentence
    by_place = {place: (lemma, arguments) for place, lemma, arguments in frames}
    lines = ["1-2\t" + "\t".join(["_"] * (12 if spans else 10 + len(frames)))]
    for place, word in enumerate(words):
        lemma, arguments = by_place.get(place, ("_", []))
        own = [str(place + 1), word, *["_"] * 8, lemma if lemma == "_" else f"{lemma}.01"]
        if spans:
            listed = "|".join(f"{label}:{first + 1}-{last + 1}" for first, last, label in arguments)
            lines.append("\t".join([*own, "_", listed or "_"]))
        else:
            tags = [bio(words, arguments)[place] for *_, arguments in frames]
            lines.append("\t".join([*own, *tags]))
    return "\n".join(lines) + "\n\n"


def bio(words: list[str], arguments: list[tuple[int, int, str]]) -> list[str]:
    tags = ["O"] * len(words)
    for first, last, label in arguments:
        tags[first : last + 1] = [f"B-{label}"] + [f"I-{label}"] * (last - first)
    return tags


def jsonl(sentence) -> str:
    words, frames = sentence
    predicates = [
        {"index": place, "roleset": f"{lemma}.01", "args": arguments}
        for place, lemma, arguments in frames
    ]
    return json.dumps({"tokens": words, "predicates": predicates}) + "\n"


GLOBAL = "# global.columns = ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC UP:PRED"


def write_roles(path: Path, form: str, sentences=SENTENCES) -> Path:
    """A file of these sentences in a format."""
    content = {
        "CoNLL-2005": lambda: "".join(map(conll2005, sentences)),
        "CoNLL-2012": lambda: (
            "#begin document (doc); part 000\n"
            + "".join(map(conll2012, sentences))
            + "#end document\n"
        ),
        "CoNLL-U": lambda: "".join(conllu(one, False) for one in sentences),
        "spans": lambda: (
            f"{GLOBAL} UP:ARGHEADS UP:ARGSPANS\n" + "".join(conllu(one, True) for one in sentences)
        ),
        "jsonl": lambda: "".join(map(jsonl, sentences)),
    }
    path.write_text(content[form]())
    return path


TAGS = ("O", "B-V", "I-V", "B-A0", "I-A0")


def small_labeller(mark="segment", predicates="found", tags=TAGS, seed=0):
    """A small BERT that labels roles, of random weights."""
    loaded = small_bert("states", seed)
    facts = replace(loaded.facts, output_heads=(TokenLabelHead(len(tags)),))
    torch.manual_seed(seed)
    module, labels = facts.build().eval(), SingleLabelSet(tags)
    notes = {"mark": mark, "predicates": predicates, "longest": 24}
    return Model(replace(loaded, facts=facts, module=module, labels=labels, notes=notes))
