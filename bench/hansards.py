"""Word alignment on the Hansards: attention of two translators beside the statistical eflomal.

    python bench/hansards.py EN-FR FR-EN --data DIR [--pairs 60000] [--without-eflomal]

EN-FR and FR-EN are folders trained by ``europarl-en-fr-align`` and ``europarl-fr-en-align``; either
may be left out to see eflomal alone. DIR holds ``alignment/hansards.en-fr.{txt,gold}.gz`` and
``translation/europarl/train200k.fr-en.tsv.gz``. Readings are chosen by agreement of the two
directions, without gold; the table also shows what the gold would have chosen, for scale. eflomal
(``pip install eflomal``) learns from ``--pairs`` of the same Europarl pairs, spaced and lower-cased
in the same way, and from the Hansards text itself.
"""

import argparse
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table as Shown

import regard
from regard.data.readers.aligned_pairs import read_fast_align
from regard.data.readers.sources import read_pairs
from regard.data.readers.table_files import Table
from regard.data.readers.text_files import read_lines
from regard.inside.align import (
    AgreeingMethods,
    AlignmentMethod,
    PairAttention,
    choose_agreeing_methods,
    choose_method,
    extract_links,
    multiply_directions,
    record,
)
from regard.metrics.links import (
    HOW,
    GoldLinks,
    Links,
    alignment_error_rate,
    flipped,
    parse_gold,
    symmetrised,
)
from regard.text.words import spaced_spans

Pairs = list[tuple[str, str]]


def main() -> None:
    """One table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="*", help="EN-FR and FR-EN, or neither")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=60_000, help="for eflomal")
    parser.add_argument("--without-eflomal", action="store_true")
    asked = parser.parse_args()
    pairs = read_fast_align(asked.data / "alignment" / "hansards.en-fr.txt.gz")
    golds = read_golds(asked.data / "alignment" / "hansards.en-fr.gold.gz", pairs)
    rows: list[tuple[str, list[Links]]] = []
    if asked.models:
        rows += attention_rows(*asked.models, pairs, golds)
    if not asked.without_eflomal:
        table = asked.data / "translation" / "europarl" / "train200k.fr-en.tsv.gz"
        rows += eflomal_rows(europarl(table, asked.pairs), pairs)
    show(rows, golds)


def read_golds(path: Path, pairs: Pairs) -> list[GoldLinks]:
    """Hansards' gold, which counts from 1."""
    return [
        parse_gold(line, 1, f"{path}:{number}", (len(english.split()), len(french.split())))
        for number, (line, (english, french)) in enumerate(
            zip(read_lines(path), pairs, strict=True), 1
        )
    ]


def europarl(path: Path, count: int) -> Pairs:
    """Pairs as the recipes read them."""
    table = Table(str(path), (2, 3), ("english", "french"))
    return [(one, other) for _, one, other in islice(read_pairs(table), count)]


def attention_rows(
    forward: str, backward: str, pairs: Pairs, golds: Sequence[GoldLinks]
) -> list[tuple[str, list[Links]]]:
    """Each direction read in several ways, and both together."""
    ours = record_attention(forward, pairs)
    theirs = record_attention(backward, [(french, english) for english, french in pairs])
    agreed = choose_agreeing_methods(ours, theirs)
    turned = [GoldLinks(flipped(one.sure), flipped(one.possible)) for one in golds]
    by_gold = (
        choose_method(ours, golds, shares=(1.0,))[0],
        choose_method(theirs, turned, shares=(1.0,))[0],
    )
    last = AlignmentMethod(len(ours[0].layers) - 1)
    rows = [
        ("en-fr, last layer, plain", read(ours, last)),
        (f"en-fr, {describe(agreed.forward)}, by agreement", read(ours, agreed.forward)),
        (f"fr-en, {describe(agreed.backward)}, by agreement", turn(read(theirs, agreed.backward))),
        *both("both", read(ours, agreed.forward), turn(read(theirs, agreed.backward))),
        *both("multiplied", *product(ours, theirs, agreed)),
        (f"en-fr, {describe(by_gold[0])}, by gold", read(ours, by_gold[0])),
        (f"fr-en, {describe(by_gold[1])}, by gold", turn(read(theirs, by_gold[1]))),
    ]
    print(f"the two directions agree on {agreed.share:.4f} of their links")
    return rows


def record_attention(folder: str, pairs: Pairs) -> list[PairAttention]:
    """The cross-attention of a model on all pairs."""
    translator = regard.load(folder).translator
    return [one.attention(spaced_spans) for one in record(translator, pairs)]


def describe(method: AlignmentMethod) -> str:
    """A method in short."""
    spurious = ", spurious words" if method.spurious else ""
    return f"layer {method.layer} {'shifted' if method.shifted else 'plain'}{spurious}"


def read(pairs: Sequence[PairAttention], method: AlignmentMethod) -> list[Links]:
    """The links of every pair."""
    return [extract_links(one, method) for one in pairs]


def product(
    ours: Sequence[PairAttention], theirs: Sequence[PairAttention], agreed: AgreeingMethods
) -> tuple[list[Links], list[Links]]:
    """Both directions read from the product of their weights."""
    pairs = [
        multiply_directions(*one, agreed.forward, agreed.backward)
        for one in zip(ours, theirs, strict=True)
    ]
    return [one for one, _ in pairs], [other for _, other in pairs]


def turn(found: Sequence[Links]) -> list[Links]:
    """Links seen from the other side."""
    return [flipped(one) for one in found]


def both(name: str, ours: list[Links], theirs: list[Links]) -> list[tuple[str, list[Links]]]:
    """Two directions made one in every way."""
    return [
        (f"{name}, {how}", [symmetrised(*one, how) for one in zip(ours, theirs, strict=True)])
        for how in HOW
    ]


def eflomal_rows(learned: Pairs, pairs: Pairs) -> list[tuple[str, list[Links]]]:
    """eflomal with its own defaults, in both directions."""
    import eflomal

    english, french = ([one[side].lower() + "\n" for one in [*learned, *pairs]] for side in (0, 1))
    with TemporaryDirectory() as folder:
        places = [str(Path(folder) / name) for name in ("forward", "backward")]
        eflomal.Aligner().align(english, french, *places)
        ours, theirs = (
            [parse_gold(line, 0, path).sure for line in read_lines(path)][len(learned) :]
            for path in places
        )
    name = f"eflomal, {len(learned):,} pairs"
    return [(f"{name}, forward", ours), (f"{name}, backward", theirs), *both(name, ours, theirs)]


def show(rows: Sequence[tuple[str, list[Links]]], golds: Sequence[GoldLinks]) -> None:
    """One row a system."""
    shown = Shown("alignment of the Hansards", "AER", "precision", "recall", "links")
    for name, found in rows:
        score = alignment_error_rate(found, golds)
        figures = (f"{one:.4f}" for one in (score.aer, score.precision, score.recall))
        shown.add_row(name, *figures, f"{score.links:,}")
    Console().print(shown)


if __name__ == "__main__":
    main()
