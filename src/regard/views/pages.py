"""Pages of views: ES modules of ``modules``, the style and records in one file that works offline.

In a page each module is a function that runs once, in the order of imports: ``import`` and
``export`` stand at the beginning of lines, and name what they take or give.
"""

import re
import zlib
from abc import abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from importlib.resources import files

from regard.views.markup import HTMLPage, escape_line
from regard.views.view_record import ViewRecord

MODULES = {
    "attention": "attention",
    "attention_lines": "attention_lines",
    "attention_grid": "attention_grid",
    "matrix": "matrix",
    "image_patches": "image_patches",
    "alignment": "alignment",
    "beam_tree": "search_tree",
    "token_tree": "search_tree",
    "attribution": "attribution",
    "contributions": "contributions",
    "logit_lens": "logit_lens",
    "patching": "grids",
    "grids": "grids",
    "heads": "heads",
    "probes": "charts",
    "curves": "charts",
    "neighbours": "neighbours",
    "formation": "formation",
    "papers": "papers",
    "forward_path": "forward_path",
    "queries_keys": "queries_keys",
}
"""Module of each kind of record."""

POLICY = (
    "default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
)
_IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./(\w+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:function|const) (\w+))", re.MULTILINE)
_COMMENT = re.compile(r"/\*\*[\s\S]*?\*/ ?|^ *//.*\n", re.MULTILINE)
_HEAD = """<!doctype html>
<html lang="en" class="regard-page">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<main>
<h1 dir="auto">{title}</h1>
<p class="summary" dir="auto">{summary}</p>
"""
_TAIL = """</main>
<noscript><p>This page needs JavaScript, which is switched off.</p></noscript>
<script type="module">
{script}
await page.open({{{views}}});
</script>
</body>
</html>
"""


class RecordPage(HTMLPage):
    """Base class of results whose page is a view of their record."""

    @abstractmethod
    def view_record(self) -> ViewRecord:
        """Record for the view in a page, in the studio or in a notebook."""

    def html(self) -> str:
        return page(self.view_record())


def asset_names() -> list[str]:
    """File names of all modules and of the style."""
    folder = files("regard.views") / "modules"
    return sorted(each.name for each in folder.iterdir() if each.name.endswith((".js", ".css")))


@cache
def asset(name: str) -> str:
    """Content of a module or of the style."""
    return (files("regard.views") / "modules" / name).read_text(encoding="utf-8")


def style() -> str:
    """Colours and style of all views."""
    return asset("palette.css") + asset("theme.css")


def page(*records: ViewRecord, title: str | None = None, summary: str | None = None) -> str:
    """HTML page of one record or several, without external resources.

    Default title and summary: the title and the caption of the first record.
    """
    first = records[0].json
    names = dict.fromkeys(MODULES[each.kind] for each in records)
    heading = escape(escape_line(str(first.get("title", "") if title is None else title)))
    under = str(first.get("caption", "") if summary is None else summary)
    head = _HEAD.format(
        policy=POLICY, title=heading, summary=escape(escape_line(under)), style=style()
    )
    blocks = "".join(
        f'<section><script type="text/plain" data-record="{each.kind}">'
        f"{packed(each)}</script></section>\n"
        for each in records
    )
    views = ", ".join(f'"{each.kind}": {MODULES[each.kind]}.render' for each in records)
    return head + blocks + _TAIL.format(script=bundle([*names, "page"]), views=views)


def records_in(html: str) -> list[ViewRecord]:
    """Records of a page that ``page`` has written."""
    texts = re.findall(r'<script type="text/plain" data-record="\w+">([^<]*)</script>', html)
    return [ViewRecord.from_bytes(zlib.decompress(b64decode(text), -15)) for text in texts]


def packed(record: ViewRecord) -> str:
    """Record as base64 of raw deflate (RFC 1951)."""
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
    return b64encode(deflate.compress(record.to_bytes()) + deflate.flush()).decode()


def bundle(names: Sequence[str]) -> str:
    """One script that defines a constant for each of these modules and for all that they import."""
    return "\n".join(map(_as_constant, dict.fromkeys(_in_order(names))))


def _in_order(names: Sequence[str]) -> Iterator[str]:
    """Modules, each after those that it imports."""
    for name in names:
        yield from _in_order([match[2] for match in _IMPORT.finditer(asset(f"{name}.js"))])
        yield name


def _as_constant(name: str) -> str:
    source = _COMMENT.sub("", asset(f"{name}.js"))
    exported = ", ".join(match[2] for match in _EXPORT.finditer(source))
    body = _EXPORT.sub(r"\1", _IMPORT.sub(_as_destructuring, source))
    return f"const {name} = (() => {{\n{body}return {{ {exported} }};\n}})();"


def _as_destructuring(match: re.Match[str]) -> str:
    return f"const {match[1].replace(' as ', ': ')} = {match[2]};\n"
