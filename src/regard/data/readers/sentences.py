"""Rule-based sentence splitting, for languages that end sentences with . ! ? and a space.

A full stop after an abbreviation or an initial does not end a sentence, nor does anything before
a lower-case letter.
"""

import re
from collections.abc import Iterator

CLOSING = "\"'”’»)]」』）"
OPENING = "\"'“‘„«(["
STOP = re.compile(rf"[.!?…。！？]++[{re.escape(CLOSING)}]*+")
NEXT = re.compile(rf"\s++[{re.escape(OPENING)}]*(\S)")
UNSPACED = "。！？"  # end a sentence without a space
ABBREVIATION = re.compile(
    r"""mr|mrs|ms|messrs|mme|mlle|dr|prof|st|ste|rev|hon|capt|col|gen|lt|maj|sgt|sr|jr|gov|sen|rep
       |pres|mt|ft|vs|cf|viz|ca|approx|bros|dept|e\.g|i\.e""",
    re.VERBOSE | re.IGNORECASE,
)
BEFORE_NUMBER = re.compile(  # "No. 7" and "Jan. 5", but "He said no. They left."
    r"""nos?|vols?|pp?|ch|chap|figs?|sec|art|par|vv?|ll?
       |jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec""",
    re.VERBOSE | re.IGNORECASE,
)
INITIALS = re.compile(r"(?!(?:I|[ap]\.m)\Z)(?:[^\W\d_]\.)*[^\W\d_]")  # "J", "U.S"
UNOPENING = ".!?…,;:)]-"  # as in ". . ."
LONGEST = 16  # characters in any of these, and more


def sentences(text: str) -> Iterator[str]:
    """The sentences of one paragraph, stripped."""
    start = 0
    for match in STOP.finditer(text):
        end = match.end()
        if text[match.start()] not in UNSPACED:
            before = text[max(start, match.start() - LONGEST) : match.start()]
            word = before.rpartition(" ")[2].lstrip(OPENING)
            following = NEXT.match(text, end)
            if following is None or not ends(word, match[0], following[1]):
                continue
        if sentence := text[start:end].strip():
            yield sentence
        start = end
    if sentence := text[start:].strip():
        yield sentence


def ends(word: str, stop: str, following: str) -> bool:
    """Whether `stop` after `word` and before `following` ends a sentence."""
    if following.islower() or following in UNOPENING:
        return False
    if stop != ".":
        return True
    if following.isdigit() and BEFORE_NUMBER.fullmatch(word):
        return False
    return not (ABBREVIATION.fullmatch(word) or INITIALS.fullmatch(word))
