"""Texts of an HTML document, to be replaced by others: all else stays, letter by letter.

The time to read a document is proportional to its length, whatever is in it: no pattern steps back,
and markup without an end, such as a tag, a comment or a quoted value, goes on to the end of the
document.
"""

import html
import re
from collections.abc import Iterator

MARKUP = re.compile(
    r"""
      <!--  (?: -?> | .*? (?: --!?> | \Z ) )
    | <(?P<slash>/?) (?P<name> [a-z][^\s/>]*+ )
      (?P<attributes> (?: [^=>]++ | =\s*+ (?: "[^"]*+(?:"|\Z) | '[^']*+(?:'|\Z) | [^\s>]++ )?+ )*+ )
      (?: > | \Z )
    | <[!?/] [^>]++ (?: > | \Z )
    | </>
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE | re.ASCII,
)
ATTRIBUTE = re.compile(
    r"""([^\s/=>]++) (?: \s*+ = \s*+ (?: "([^"]*+) | '([^']*+) | ([^\s>]*+) ) )?+""",
    re.VERBOSE | re.ASCII,
)
LONG_REFERENCE = re.compile(r"&#[0-9]{100,}+;?")  # of no character
RAW = {"iframe", "noembed", "noframes", "script", "style", "textarea", "title", "xmp"}  # no markup
KEPT = (RAW - {"title"}) | {"code", "pre"}  # their text is not replaced
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param"}
VOID |= {"source", "track", "wbr"}  # elements without an end
BLOCKS = (
    "address article aside blockquote center details dialog dir div dl fieldset figcaption figure "
    "footer form h1 h2 h3 h4 h5 h6 header hgroup hr main menu nav ol p pre search section summary "
    "table ul xmp"
)
ENDED: dict[str, tuple[str, ...]] = dict.fromkeys(BLOCKS.split(" "), ("p",))
"""Open elements that end, without an end tag, where an element begins."""
ENDED |= {"li": ("li", "p"), "dd": ("dd", "dt", "p"), "dt": ("dd", "dt", "p")}
ENDED |= {"td": ("td", "th"), "th": ("td", "th"), "tr": ("tr", "td", "th")}
ENDED |= dict.fromkeys(("tbody", "tfoot", "thead"), ("tbody", "tfoot", "thead", "tr", "td", "th"))
ENDED |= {"option": ("option",), "optgroup": ("optgroup", "option")}
LIMITS = ["button", "caption", "dl", "menu", "object", "ol", "select", "table", "td", "template"]
LIMITS += ["th", "ul"]  # what begins inside of these ends nothing outside


class OpenElements:
    """Elements around a place of a document, and whether their texts are kept."""

    def __init__(self) -> None:
        self._open: list[tuple[str, bool]] = []
        self._places: dict[str, list[int]] = {}  # of open elements, by name

    @property
    def keep(self) -> bool:
        """Whether texts are kept."""
        return bool(self._open) and self._open[-1][1]

    def begin(self, name: str, attributes: str) -> None:
        """Add an element after the ends of those that it ends."""
        if (ended := ENDED.get(name)) is not None:
            limits = (self._last(limit) for limit in LIMITS if limit not in ended)
            limit = max(limits)
            self._end_at(min((at for at in map(self._last, ended) if at > limit), default=None))
        if name not in VOID:
            self._places.setdefault(name, []).append(len(self._open))
            self._open.append((name, self._keeps(name, attributes)))

    def end(self, name: str) -> None:
        """End the last element of a name, and all inside of it."""
        if (place := self._last(name)) >= 0:
            self._end_at(place)

    def _keeps(self, name: str, attributes: str) -> bool:
        """Whether the texts of an element are kept: by its translate, class or name."""
        own: dict[str, str] = {}
        if "translate" in attributes.lower():
            for key, *values in ATTRIBUTE.findall(attributes):
                own.setdefault(key.lower(), "".join(values).strip().lower())
        if name not in RAW and (translate := own.get("translate")) in ("yes", "no", ""):
            return translate == "no"
        return self.keep or name in KEPT or "notranslate" in own.get("class", "").split()

    def _last(self, name: str) -> int:
        return self._places[name][-1] if self._places.get(name) else -1

    def _end_at(self, place: int | None) -> None:
        while place is not None and len(self._open) > place:
            self._places[self._open.pop()[0]].pop()


class HTMLTexts:
    """Parts of a document; those with an odd index are ``texts``, without markup.

    The content of an element with translate="no" or class="notranslate" is no text.
    """

    def __init__(self, document: str):
        self.parts = list[str]()
        markup = list[str]()
        for part, is_text in _markup_and_texts(document):
            before, text, after = edges(_unescaped(part)) if is_text else ("", "", "")
            if any(map(str.isalnum, text)):
                self.parts += ["".join([*markup, before]), text]
                markup = [after]
            else:
                markup.append(part)
        self.parts.append("".join(markup))

    @property
    def texts(self) -> list[str]:
        """Texts between tags, in order."""
        return self.parts[1::2]

    def replaced(self, texts: list[str]) -> str:
        """The document with other texts."""
        parts = [*self.parts]
        parts[1::2] = [html.escape(text, quote=False) for text in texts]
        return "".join(parts)


def _markup_and_texts(document: str) -> Iterator[tuple[str, bool]]:
    """All parts of a document, and whether each is a text to replace."""
    elements, at = OpenElements(), 0
    while (markup := MARKUP.search(document, at)) is not None:
        yield document[at : markup.start()], not elements.keep
        yield markup[0], False
        at, name = markup.end(), (markup["name"] or "").lower()
        if markup["slash"]:
            elements.end(name)
        elif name and not markup["attributes"].endswith("/"):
            elements.begin(name, markup["attributes"])
            if name in RAW:
                end = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(document, at)
                begin, at = at, len(document) if end is None else end.start()
                yield document[begin:at], not elements.keep
    yield document[at:], not elements.keep


def _unescaped(text: str) -> str:
    return html.unescape(LONG_REFERENCE.sub("\ufffd", text))


def edges(text: str) -> tuple[str, str, str]:
    """The white space before a text, the text, and the white space after it."""
    begin, end = len(text) - len(text.lstrip()), len(text.rstrip())
    return (text[:begin], text[begin:end], text[end:]) if begin < end else (text, "", "")
