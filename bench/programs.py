"""Precision and recall of methods on programs whose circuit is known, as Markdown.

    python bench/programs.py [--questions 4] [--seeds 5]

Each seed draws other decoys and other inputs. The first table has the heads that methods name, the
second the words. Takes about two minutes on one core.
"""

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from circuits import PROGRAMS
from circuits.method_scores import (
    HEAD_METHODS,
    WORD_METHODS,
    StudiedProgram,
    score_heads,
    score_words,
)
from regard.metrics.classification import LabelScore

Score = Callable[[str, Iterable[StudiedProgram]], LabelScore]


def main() -> None:
    """Both tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--questions", type=int, default=4, help="inputs of each model")
    parser.add_argument("--seeds", type=int, default=5, help="models of each program")
    options = parser.parse_args()
    studied = {
        name: [
            StudiedProgram.build(program, options.questions, seed) for seed in range(options.seeds)
        ]
        for name, program in PROGRAMS.items()
    }
    print(table(studied, [*HEAD_METHODS], score_heads), end="\n\n")
    print(table(studied, [*WORD_METHODS], score_words))


def table(studied: dict[str, list[StudiedProgram]], methods: list[str], score: Score) -> str:
    """A row for each program, a column for each method: precision / recall in percent."""
    lines = [f"| program | {' | '.join(methods)} |", "|---" + "|---:" * len(methods) + "|"]
    for name, models in studied.items():
        scores = [score(method, models) for method in methods]
        cells = [f"{each.precision:.0f} / {each.recall:.0f}" for each in scores]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
