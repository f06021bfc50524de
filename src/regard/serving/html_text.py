"""Texts of an HTML document, to be replaced by others: tags, comments and code stay as they are."""

import html
import re
from html.parser import HTMLParser

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
        self.parts = [""]
        self.open: list[tuple[str, bool]] = []  # elements, and whether their texts are kept
        self.feed(document)
        self.close()

    @property
    def texts(self) -> list[str]:
        """Texts between tags, in order."""
        return self.parts[1::2]

    def replaced(self, texts: list[str]) -> str:
        """The document with other texts."""
        parts = [*self.parts]
        parts[1::2] = [html.escape(text, quote=False) for text in texts]
        return "".join(parts)

    @property
    def _keeps(self) -> bool:
        return bool(self.open) and self.open[-1][1]

    def _markup(self, text: str) -> None:
        self.parts[-1] += text

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._markup(self.get_starttag_text() or "")
        if tag not in VOID:
            own = tag in KEPT or ("translate", "no") in attrs
            self.open.append((tag, self._keeps or own))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._markup(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        self._markup(f"</{tag}>")
        names = [name for name, _ in self.open]
        if tag in names:
            del self.open[len(names) - 1 - names[::-1].index(tag) :]

    def handle_data(self, data: str) -> None:
        match = EDGES.fullmatch(data)
        assert match is not None
        before, text, after = match.groups()
        if self._keeps or not any(map(str.isalnum, text)):
            raw = self.open and self.open[-1][0] in ("script", "style")
            self._markup(data if raw else html.escape(data, quote=False))
            return
        self._markup(before)
        self.parts += [text, after]

    def handle_comment(self, data: str) -> None:
        self._markup(f"<!--{data}-->")

    def handle_decl(self, decl: str) -> None:
        self._markup(f"<!{decl}>")

    def unknown_decl(self, data: str) -> None:
        self._markup(f"<![{data}]>")

    def handle_pi(self, data: str) -> None:
        self._markup(f"<?{data}>")
