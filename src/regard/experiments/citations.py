"""BibTeX entries of papers, of models and of regard."""

import re
from collections.abc import Sequence
from pathlib import Path

from regard import __version__
from regard.core.files import read_json
from regard.experiments.paper_records import PaperRecord, find_size, lineage

Entry = dict[str, str]
"""Fields of a BibTeX entry; ``key`` is its citation key, ``type`` its type."""

OWN = {
    "type": "software",
    "key": "regard",
    "title": "regard: train, run, measure and inspect attention models",
    "author": "{The regard authors}",
    "version": __version__,
}
SPECIAL = re.compile(r"([&%$#_])")  # in TeX


def citations(names: Sequence[str] = ()) -> list[Entry]:
    """Entries of papers, models and regard by their names, each once; by default of regard."""
    return [*{entry["key"]: entry for entry in map(_entry_of, names or [OWN["key"]])}.values()]


def paper_entry(paper: PaperRecord) -> Entry:
    """The entry of a paper: an arXiv number, or who published it."""
    first, *_ = paper.authors.split(", ")
    word = re.findall(r"[^\W_]+", paper.title.lower())[0]
    entry = {
        "type": "misc",
        "key": re.sub(r"\W", "", f"{first.split()[-1].lower()}{paper.year}{word}"),
        "title": paper.title,
        "author": " and ".join(paper.authors.split(", ")),
        "year": str(paper.year),
    }
    if paper.arxiv is None:
        return entry | {"howpublished": paper.reference}
    url = f"https://arxiv.org/abs/{paper.arxiv}"
    return entry | {"eprint": paper.arxiv, "archivePrefix": "arXiv", "url": url}


def bibtex(entry: Entry) -> str:
    """Text of an entry; braces keep the capitals of its title."""
    fields = {name: value for name, value in entry.items() if name not in ("type", "key")}
    title = SPECIAL.sub(r"\\\1", fields["title"])
    fields["title"] = f"{{{title}}}"
    lines = (f"  {name} = {{{value}}},\n" for name, value in fields.items())
    return f"@{entry['type']}{{{entry['key']},\n{''.join(lines)}}}"


def _entry_of(name: str) -> Entry:
    return OWN if name == OWN["key"] else paper_entry(_paper_of(name))


def _paper_of(name: str) -> PaperRecord:
    """The paper of this name, or of a model."""
    folder = Path(name)
    if not folder.is_dir() and (name.partition(":")[0].lower() in lineage() or "/" not in name):
        return find_size(name)[0]
    config = folder / "config.json"
    stored = read_json(config).get("paper") if config.is_file() else None
    if str(stored) in lineage():
        return lineage()[str(stored)]
    from regard.api import load

    return lineage()[load(name, "cpu").paper.key]
