"""Texts of an HTML document, to be replaced by others: all else stays, letter by letter."""

import html
import re
from html.parser import HTMLParser
from itertools import pairwise

KEPT = frozenset({"script", "style", "code", "pre", "textarea"})  # their text is not replaced
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source"}
VOID |= {"track", "wbr"}  # elements without an end
EDGES = re.compile(r"(\s*)(.*?)(\s*)", re.DOTALL)


class HTMLTexts(HTMLParser):
    """Parts of a document; those with an odd index are ``texts``, without markup.

    The content of an element with translate="no" is no text.
    """

    def __init__(self, document: str):
        super().__init__(convert_charrefs=True)
        self.open: list[tuple[str, bool]] = []  # elements, and whether their texts are kept
        self.lines = [0, *(match.end() for match in re.finditer("\n", document))]
        self.pieces: list[tuple[int, str | None]] = [(0, None)]  # where each begins, and its text
        self.feed(document)
        self.close()
        self.parts = self._parts(document)

    @property
    def texts(self) -> list[str]:
        """Texts between tags, in order."""
        return self.parts[1::2]

    def replaced(self, texts: list[str]) -> str:
        """The document with other texts."""
        parts = [*self.parts]
        parts[1::2] = [html.escape(text, quote=False) for text in texts]
        return "".join(parts)

    def _parts(self, document: str) -> list[str]:
        parts, markup = list[str](), list[str]()
        for (begin, data), (end, _) in pairwise([*self.pieces, (len(document), None)]):
            match = EDGES.fullmatch(data or "")
            assert match is not None
            before, text, after = match.groups()
            if any(map(str.isalnum, text)):
                parts += ["".join([*markup, before]), text]
                markup = [after]
            else:
                markup.append(document[begin:end])
        return [*parts, "".join(markup)]

    def _add(self, text: str | None = None) -> None:
        """Note where a tag, a comment or a text begins; it ends where the next one does."""
        line, column = self.getpos()
        self.pieces.append((self.lines[line - 1] + column, text))

    @property
    def _keeps(self) -> bool:
        return bool(self.open) and self.open[-1][1]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add()
        if tag not in VOID:
            own = tag in KEPT or ("translate", "no") in attrs
            self.open.append((tag, self._keeps or own))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add()

    def handle_endtag(self, tag: str) -> None:
        self._add()
        names = [name for name, _ in self.open]
        if tag in names:
            del self.open[len(names) - 1 - names[::-1].index(tag) :]

    def handle_data(self, data: str) -> None:
        self._add(None if self._keeps else data)

    def handle_comment(self, data: str) -> None:
        self._add()

    def handle_decl(self, decl: str) -> None:
        self._add()

    def unknown_decl(self, data: str) -> None:
        self._add()

    def handle_pi(self, data: str) -> None:
        self._add()
