"""Readers of coreference: documents with clusters of mentions, and questions about pronouns.

Columns of CoNLL-2012 (Pradhan et al., 2012) and LitBank (Bamman et al., 2020), JSON lines, GAP
(Webster et al., 2018), Winogender (Rudinger et al., 2018) and WinoBias (Zhao et al., 2018).
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from regard.core.files import JSON
from regard.data.readers.examples import CoreferenceExample, Mention, PronounQuestion
from regard.data.readers.fields import BadExample, Dropped, field_of, filled, one_of, parsed, typed
from regard.data.readers.sentences import sentences as sentences_of
from regard.data.readers.table_files import Table, read_cells, read_objects
from regard.data.readers.text_files import numbered_lines
from regard.text.words import Span, Spans, clitic_spans

Numbered = tuple[str, str]  # where, line
Clusters = dict[str, list[Mention]]

WORD, SPEAKER, LEAST = 3, 9, 5  # columns of a word and its speaker; the fewest columns
BLANK = ("-", "_")  # cells of columns without a value
PRONOUNS = {
    **dict.fromkeys(("he", "him", "his", "himself"), "masculine"),
    **dict.fromkeys(("she", "her", "hers", "herself"), "feminine"),
    **dict.fromkeys(("they", "them", "their", "theirs", "themself", "themselves"), "other"),
}
"""Gender of each pronoun that refers to a person."""
TRUTHS = {"true": True, "false": False}
NOT_CLUSTERS = "not clusters"

_BEGIN = re.compile(r"#begin document \((?P<name>.*)\)(?:; *part (?P<part>\w+))?\s*")
_MARK = re.compile(r"(?P<opens>\(?)(?P<cluster>[^()|]+)(?P<closes>\)?)")
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")


def coreference_columns(path: Path, dropped: Dropped = None) -> Iterator[CoreferenceExample]:
    """Read documents of CoNLL-2012 or LitBank: one word per line, clusters in the last column.

    The fourth column is the word, the tenth the speaker, if there are that many; the genre is the
    first part of a document name such as bc/cctv/00/cctv_0000.
    """
    return parsed(_documents(path), _document_of_columns, dropped)


def _documents(path: Path) -> Iterator[tuple[str, list[Numbered]]]:
    """Yield (where it begins, its lines, blank ones included) of each document."""
    document: list[Numbered] = []
    for where, line in numbered_lines(path):
        if line.startswith("#begin document") and document:
            raise BadExample(where, "not CoNLL-2012", "a document begins before #end document")
        if line.startswith("#end document"):
            if not document:
                raise BadExample(where, "not CoNLL-2012", "a document ends that did not begin")
            yield document[0][0], document
            document = []
        elif document or line.startswith("#begin document"):
            document.append((where, line))
        elif line and not line.isspace():
            raise BadExample(where, "not CoNLL-2012", "a line outside #begin document")
    if document:
        raise BadExample(document[0][0], "not CoNLL-2012", "this document has no #end document")


def _document_of_columns(where: str, lines: list[Numbered]) -> CoreferenceExample:
    begin = _BEGIN.fullmatch(lines[0][1])
    if begin is None:
        raise BadExample(where, "not CoNLL-2012", "#begin document has no (name)")
    sentences: list[list[str]] = [[]]
    clusters: Clusters = {}
    open_mentions: dict[str, list[tuple[int, str]]] = {}
    speakers: list[str] = []
    for place, line in lines[1:]:
        if not line or line.isspace():
            sentences.append([])
            continue
        cells = line.split("\t") if "\t" in line else line.split()
        if len(cells) < LEAST:
            detail = f"{len(cells)} columns, fewer than {LEAST}"
            raise BadExample(place, "of too few columns", detail)
        sentences[-1].append(filled(cells[WORD], place, "an empty word"))
        _mark(cells[-1].strip(), len(speakers), open_mentions, clusters, place)
        known = len(cells) > SPEAKER + 1 and cells[SPEAKER] not in BLANK
        speakers.append(cells[SPEAKER] if known else "")
    for cluster, starts in open_mentions.items():
        if starts:
            raise BadExample(starts[0][1], NOT_CLUSTERS, f"({cluster} is not closed")
    name = f"{begin['name']}_{begin['part']}" if begin["part"] else begin["name"]
    genre = begin["name"].partition("/")[0] if "/" in begin["name"] else ""
    return _checked(where, sentences, clusters.values(), name, speakers, genre)


def _mark(
    marks: str,
    word: int,
    open_mentions: dict[str, list[tuple[int, str]]],
    clusters: Clusters,
    where: str,
) -> None:
    """Open and close mentions by the marks of a word, such as ``(3|(4)|5)``."""
    for mark in () if marks in ("", *BLANK) else marks.split("|"):
        match = _MARK.fullmatch(mark)
        if match is None or not (match["opens"] or match["closes"]):
            detail = f"{mark!r} is no mark of a cluster such as (3 or 3) or (3)"
            raise BadExample(where, NOT_CLUSTERS, detail)
        cluster = match["cluster"]
        starts = open_mentions.setdefault(cluster, [])
        if match["opens"]:
            starts.append((word, where))
        if match["closes"]:
            if not starts:
                raise BadExample(where, NOT_CLUSTERS, f"{cluster}) was not opened")
            clusters.setdefault(cluster, []).append((starts.pop()[0], word + 1))


def coreference_jsonl(path: Path, dropped: Dropped = None) -> Iterator[CoreferenceExample]:
    """Read JSON lines: "sentences" of words and "clusters" of [first word, last word].

    Words are counted from 0 in the whole document. "speakers" of each word of each sentence,
    "doc_key" and "genre" are optional.
    """

    def parse(where: str, record: dict[str, JSON]) -> CoreferenceExample:
        field_of(record, "clusters", list, where)
        return document_of(record, where)

    return parsed(read_objects(path, dropped), parse, dropped)


def document_of(record: Mapping[str, object], where: str) -> CoreferenceExample:
    """The document in a JSON object; without "clusters", they are empty."""
    sentences = _lists(field_of(record, "sentences", list, where), str, "a word", where)
    clusters = [
        [_mention(mention, where) for mention in typed(cluster, list, "a cluster", where)]
        for cluster in typed(record.get("clusters", []), list, "the value of 'clusters'", where)
    ]
    of_speakers = typed(record.get("speakers", []), list, "the value of 'speakers'", where)
    speakers = [*chain(*_lists(of_speakers, str, "a speaker", where))]
    name, genre = (
        typed(record.get(key, ""), str, f"the value of {key!r}", where)
        for key in ("doc_key", "genre")
    )
    return _checked(where, sentences, clusters, name, speakers, genre)


def _lists(values: Sequence[object], kind: type, name: str, where: str) -> list[list]:
    return [
        [typed(item, kind, name, where) for item in typed(value, list, "a sentence", where)]
        for value in values
    ]


def _mention(value: object, where: str) -> Mention:
    ends = typed(value, list, "a mention", where)
    if len(ends) != 2:
        raise BadExample(where, NOT_CLUSTERS, f"a mention is [first word, last word], not {ends}")
    first, last = (typed(end, int, "a word of a mention", where) for end in ends)
    return first, last + 1


def _checked(
    where: str,
    sentences: Sequence[Sequence[str]],
    clusters: Collection[Sequence[Mention]],
    name: str,
    speakers: Sequence[str],
    genre: str,
) -> CoreferenceExample:
    """Document of sentences and clusters; mentions outside it, or in two clusters, are errors."""
    texts = tuple(tuple(filled(word, where, "an empty word") for word in s) for s in sentences if s)
    count = sum(map(len, texts))
    if not count:
        raise BadExample(where, "empty", "a document without words")
    if speakers and len(speakers) != count:
        raise BadExample(where, "uneven speakers", f"{len(speakers)} speakers of {count} words")
    if not all(clusters):
        raise BadExample(where, NOT_CLUSTERS, "a cluster without mentions")
    seen: set[Mention] = set()
    for start, end in chain(*clusters):
        if not 0 <= start < end <= count:
            detail = f"the mention [{start}, {end - 1}] is not in a document of {count} words"
            raise BadExample(where, NOT_CLUSTERS, detail)
        if (start, end) in seen:
            detail = f"the mention [{start}, {end - 1}] is in two clusters, or twice in one"
            raise BadExample(where, NOT_CLUSTERS, detail)
        seen.add((start, end))
    ordered = sorted(tuple(sorted(cluster)) for cluster in clusters)
    named = tuple(speakers) if any(speakers) else ()
    return CoreferenceExample(where, texts, tuple(ordered), name, named, genre)


def sentence_spans(text: str, find_words: Spans = clitic_spans) -> list[list[Span]]:
    """Characters of the words of each sentence of a text; a line feed ends a sentence."""
    spans, at = [], 0
    for sentence in chain.from_iterable(map(sentences_of, text.split("\n"))):
        at = text.index(sentence, at)
        spans.append([Span(at + start, at + end) for start, end in find_words(sentence)])
        at += len(sentence)
    return [words for words in spans if words]


def gap(path: Path, dropped: Dropped = None) -> Iterator[CoreferenceExample]:
    """Read GAP: a text, a pronoun, and whether it refers to each of two names."""
    phrases = ("Pronoun", "A", "B")
    columns = (
        "ID",
        "Text",
        *phrases,
        *(f"{name}-offset" for name in phrases),
        "A-coref",
        "B-coref",
    )

    def parse(where: str, cells: tuple[str, ...]) -> CoreferenceExample:
        name, text, *texts = cells[:5]
        spans = [
            _characters(text, phrase, offset, where)
            for phrase, offset in zip(texts, cells[5:8], strict=True)
        ]
        answers = [TRUTHS[one_of([*TRUTHS], cell.lower(), where)] for cell in cells[8:]]
        return _question(where, text, spans[0], spans[1:], answers, name)

    return parsed(read_cells(Table(str(path), columns), dropped), parse, dropped)


def _characters(text: str, phrase: str, offset: str, where: str) -> Span:
    start = int(offset) if offset.isdecimal() else -1
    if start < 0 or not phrase or not text.startswith(phrase, start):
        raise BadExample(where, "not in its text", f"{phrase!r} is not at offset {offset!r}")
    return Span(start, start + len(phrase))


def winogender(path: Path, dropped: Dropped = None) -> Iterator[CoreferenceExample]:
    """Read Winogender: a sentence, and sentid "occupation.participant.answer.gender.txt".

    The names are the occupation (answer 0) and the participant (answer 1).
    """

    def parse(where: str, cells: tuple[str, ...]) -> CoreferenceExample:
        name, text = cells
        parts = name.removesuffix(".txt").split(".")
        if len(parts) != 4:
            detail = f"the sentid {name!r} is not occupation.participant.answer.gender.txt"
            raise BadExample(where, "without a sentid", detail)
        right = one_of(("0", "1"), parts[2], where)
        spans = [_found(text, rf"(?:(?:an?|the)\s+)?{re.escape(p)}", p, where) for p in parts[:2]]
        pronoun = _found(text, "|".join(PRONOUNS), "pronoun", where)
        return _question(where, text, pronoun, spans, [right == "0", right == "1"], name)

    return parsed(read_cells(Table(str(path), ("sentid", "sentence")), dropped), parse, dropped)


def _found(text: str, pattern: str, name: str, where: str) -> Span:
    match = re.search(rf"\b(?:{pattern})\b", text, re.IGNORECASE)
    if match is None:
        raise BadExample(where, "not in its text", f"no {name} in the sentence")
    return Span(*match.span())


def winobias(path: Path, dropped: Dropped = None) -> Iterator[CoreferenceExample]:
    """Read WinoBias: a number and a sentence, with brackets around a name and its pronoun."""

    def parse(where: str, line: str) -> CoreferenceExample:
        marked = re.sub(r"^\d+\s+", "", filled(line, where))
        brackets = [*_BRACKETS.finditer(marked)]
        if len(brackets) != 2:
            detail = f"{len(brackets)} phrases in brackets, not a name and a pronoun"
            raise BadExample(where, "without brackets", detail)
        text = _BRACKETS.sub(r"\1", marked)
        if {*"[]"} & {*text}:
            raise BadExample(
                where, "without brackets", "a bracket in brackets, or without its pair"
            )
        ends = [
            Span(match.start() - 2 * number, match.end() - 2 * number - 2)
            for number, match in enumerate(brackets)
        ]
        phrases = [text[start:end].strip().lower() for start, end in ends]
        if sum(phrase in PRONOUNS for phrase in phrases) != 1:
            raise BadExample(where, "without a pronoun", "one phrase in brackets must be a pronoun")
        name, pronoun = ends if phrases[1] in PRONOUNS else ends[::-1]
        return _question(where, text, pronoun, [name], [True])

    return parsed(numbered_lines(path), parse, dropped)


def _question(
    where: str,
    text: str,
    pronoun: Span,
    names: Sequence[Span],
    answers: Sequence[bool],
    name: str = "",
) -> CoreferenceExample:
    """Document of a text, with a cluster of the pronoun and the names that it refers to."""
    spans = sentence_spans(text)
    flat = [*chain(*spans)]
    mentions = []
    for span in (pronoun, *names):
        words = [
            n for n, word in enumerate(flat) if word.start < span.end and span.start < word.end
        ]
        if not words:
            raise BadExample(
                where, "not in its text", f"no word at {text[span.start : span.end]!r}"
            )
        mentions.append((words[0], words[-1] + 1))
    if len({*mentions}) < len(mentions):
        raise BadExample(where, "not in its text", "a pronoun and a name have the same words")
    pairs = [*zip(mentions[1:], answers, strict=True)]
    cluster = [mentions[0], *(mention for mention, answer in pairs if answer)]
    singletons = [(mention,) for mention, answer in pairs if not answer]
    gender = PRONOUNS.get(text[pronoun.start : pronoun.end].strip().lower(), "other")
    sentences = tuple(tuple(text[start:end] for start, end in words) for words in spans)
    clusters = sorted([tuple(sorted(cluster)), *singletons])
    question = PronounQuestion(mentions[0], tuple(mentions[1:]), tuple(answers), gender)
    return CoreferenceExample(where, sentences, tuple(clusters), name, pronoun=question)
