"""What tasks have in common whose examples are pairs: a text and its translation, or its label."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.datasets.dataset import Batching
from regard.data.datasets.pairs import PairData, PairStore, load_pairs
from regard.data.sources import STDIN, DropCounts, Source, read_lines, read_pairs
from regard.ground.errors import BadInput
from regard.ground.files import write_text
from regard.text.labels import LabelSet, load_labels
from regard.training.run_paths import RunPaths


@dataclass(frozen=True)
class Paired:
    """A task of pairs; each says how its vocabularies are learned."""

    recipe: Any

    def learn_text(self, pairs: Sequence[tuple[str, str]]) -> Any:
        """The tokenizer of the training data."""
        raise NotImplementedError

    def load_text(self, folder: Path) -> Any:
        """That of an earlier run."""
        raise NotImplementedError

    def labels(self, pairs: Sequence[tuple[str, str]]) -> LabelSet | None:
        """The labels of the training data, where the second of a pair is a label."""
        return None

    def sides(self, tokenizer: Any, labels: LabelSet | None) -> tuple[Any, Any]:
        """What encodes the first and the second of a pair."""
        raise NotImplementedError

    def check(self, labels: LabelSet | None, pairs: Iterable[tuple[str, str, str]]) -> None:
        """Whether these pairs can be written in ids."""

    def check_data(self, data: Path, skip_bad: bool) -> dict[str, int]:
        """The size of each test set; what is wrong with them is said before anything is written."""
        sizes = {}
        for name, files in self.recipe.data.tests.items():
            source = files.under(data)
            sizes[name] = sum(1 for _ in self._pairs(source, skip_bad))  # to the last line
            if not sizes[name]:
                raise BadInput(f"{', '.join(source.paths)}: no pairs to test on")
        return sizes

    def prepared(self, place: RunPaths) -> tuple[Any, PairData]:
        """Vocabularies and examples; the leader writes them, all read them."""
        given, again = self.recipe.data, place.resume or not place.world.is_leader
        train = _kept_input(given.train.under(place.data), place.out, again=again)
        tokenizer, labels = self._text(train, place)
        for files in (given.dev, given.test, *given.more_tests.values()):
            if files is not None and not files.held_out:
                self.check(labels, self._pairs(files.under(place.data), place.skip_bad))
        sides, longest = self.sides(tokenizer, labels), given.longest_characters
        store = PairStore(sides, place.store, longest, place.skip_bad)
        dev = given.dev.held_out or given.dev.under(place.data)
        batching, dropout = Batching.of(self.recipe), self.recipe.text.dropout
        return tokenizer, load_pairs(store, batching, train, dev, dropout)

    def begin(self, model: Any, data: Path, labels: LabelSet | None) -> None:
        """Weights are those that were drawn."""

    def notes(self) -> dict[str, Any]:
        """Nothing of the recipe is needed later."""
        return {}

    def _text(self, train: Source, place: RunPaths) -> tuple[Any, LabelSet | None]:
        if not place.fresh and any(place.text.glob("*tokenizer.json")):
            return self.load_text(place.text), load_labels(place.text)
        pairs = [(one, two) for _, one, two in self._pairs(train, place.skip_bad)]
        labels = self.labels(pairs)
        tokenizer = self.learn_text(pairs)
        place.keep_text(tokenizer, labels)
        return tokenizer, labels

    def _pairs(self, source: Source, skip_bad: bool) -> Iterator[tuple[str, str, str]]:
        longest = self.recipe.data.longest_characters
        return read_pairs(source, longest, DropCounts() if skip_bad else None)


def _kept_input(source: Source, out: Path, *, again: bool) -> Source:
    """Standard input can be read once, training reads twice and may resume: keep a copy."""
    if STDIN not in source.paths:
        return source
    copy = out / "stdin.txt"
    if not (again and copy.exists()):
        write_text(copy, "".join(f"{line}\n" for line in read_lines(STDIN)))
    return source.with_input(str(copy))
