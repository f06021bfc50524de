"""Pre-training an encoder on documents (Devlin et al., 2018): vocabulary, rows, blanks, judge."""

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from regard.data.datasets.dataset import Batching, TrainingData, held_out_indices
from regard.data.datasets.documents import DocumentDataset
from regard.data.documents import Documents, DocumentSource, read_documents, tokenize_documents
from regard.data.sources import DropCounts
from regard.ground.errors import BadInput
from regard.models.facts import TrunkWithHeads, change
from regard.models.paper import Paper
from regard.objectives.masked_lm import MaskedLM
from regard.objectives.next_sentence import NextSentence
from regard.objectives.sum import Sum
from regard.text.encoder_tokenizer import EncoderTokenizer, train_wordpiece
from regard.text.labels import LabelSet
from regard.training.distributed import World
from regard.training.encoding import Encoding
from regard.training.loop.events import DevResult
from regard.training.run_paths import RunPaths

DEV_SEED = 0  # development sets are masked alike for every seed
SAMPLE = 50_000_000  # characters that a vocabulary is learned from, at most


class Pretraining(Encoding):
    """The task "pretrain"."""

    follow: ClassVar = {"vocab": "text.vocab", "output_heads": "the task", "pool": "the task"}

    def facts(self, data: Path) -> tuple[Paper, TrunkWithHeads]:
        """The encoder as the recipe changes it, if it can learn what the recipe asks."""
        paper, facts = super().facts(data)
        self.members.check(facts)
        return paper, facts

    def headed(self, facts: TrunkWithHeads) -> TrunkWithHeads:
        """The heads it learns by."""
        return self.members.fit(facts)

    @cached_property
    def members(self) -> Sum:
        """What is learned."""
        asked, smoothing = self.recipe.pretrain, self.recipe.train.smoothing
        masked = MaskedLM(asked.rate, asked.whole_words, smoothing)
        pairs = [NextSentence(asked.short, smoothing)] if asked.next_sentence else []
        return Sum(masked, *pairs)

    def check_data(self, data: Path, skip_bad: bool) -> dict[str, int]:
        """Whether the documents are there, before anything is written; there are no test sets."""
        given = self.recipe.data
        for files in (given.train, given.dev):
            if files.held_out is None:
                for path in files.collection(data).paths:
                    if not Path(path).is_file():
                        raise BadInput(f"{path}: no such file or folder")
        return {}

    def prepared(self, place: RunPaths) -> tuple[EncoderTokenizer, TrainingData]:
        """The vocabulary, and all documents as ids."""
        given, dropped = self.recipe.data, DropCounts()
        text = self.text(place, partial(self._learned, place))
        train = self._documents("train", given.train.collection(place.data), text, place, dropped)
        if given.dev.held_out is None:
            dev = self._documents(
                "dev", given.dev.collection(place.data), text, place, DropCounts()
            )
        else:
            train_N, dev_N = map(np.sort, held_out_indices(len(train), given.dev.held_out))
            train, dev = train.chosen(train_N), train.chosen(dev_N)
        return text, TrainingData(
            batching=Batching.of(self.recipe),
            train=self._dataset(train, text, self.recipe.train.seed),
            dev=self._dataset(dev, text, DEV_SEED).read_all(),
            sizes={"train": len(train), "dev": len(dev)},
            dropped=dropped,
        )

    def _dataset(self, documents: Documents, text: EncoderTokenizer, seed: int) -> DocumentDataset:
        passages = self.members.rows(documents, text.template, self.recipe.batches.longest, seed)
        return DocumentDataset(passages, self.members.annotator(text), seed)

    def _documents(
        self,
        name: str,
        collection: DocumentSource,
        text: EncoderTokenizer,
        place: RunPaths,
        dropped: DropCounts,
    ) -> Documents:
        return tokenize_documents(
            place.store,
            name,
            collection,
            text.words.encode_all,
            vocab=len(text.words),
            fingerprint=text.words.fingerprint,
            dropped=dropped if place.skip_bad else None,
        )

    def _learned(self, place: RunPaths) -> EncoderTokenizer:
        asked, longest = self.recipe.text, self.facts(place.data)[1].trunk.embed.limit
        texts = self._texts_to_learn(place)
        return train_wordpiece(texts, asked.vocab, lower=asked.lower, longest=longest)

    def _texts_to_learn(self, place: RunPaths) -> list[str]:
        """The sentences to learn from, or evenly taken ones if they are too many."""
        collection = self.recipe.data.train.collection(place.data)

        def documents() -> Iterator[list[str]]:
            read = read_documents(collection, place.dropping())
            return (texts for _, texts in read if texts)

        sizes = [sum(map(len, texts)) for texts in documents()]
        to_learn = set(range(len(sizes)))
        if (wanted := self.recipe.data.dev.held_out) is not None:
            to_learn -= set(held_out_indices(len(sizes), wanted)[1].tolist())
        share = min(1.0, SAMPLE / max(1, sum(sizes[number] for number in to_learn)))
        chosen = (texts for number, texts in enumerate(documents()) if number in to_learn)
        return list(sample((text for texts in chosen for text in texts), share))

    def fitted(
        self, facts: TrunkWithHeads, text: EncoderTokenizer, labels: LabelSet | None
    ) -> TrunkWithHeads:
        """The facts with as many words as there are."""
        return facts if self.recipe.model.start else change(facts, vocab=len(text.words))

    def objective(self, text: EncoderTokenizer, examples: TrainingData) -> Sum:
        """What is learned."""
        return self.members

    def flops(self, facts: TrunkWithHeads, lengths: Sequence[tuple[int, ...]]) -> float:
        """What a step costs."""
        tokens = sum(length for (length,) in lengths)
        return facts.training_flops(lengths, {"mlm": round(self.recipe.pretrain.rate * tokens)})

    def notes(self) -> dict[str, Any]:
        """What the model must remember of its recipe."""
        return {"longest": self.recipe.batches.longest}

    def judge(
        self, text: EncoderTokenizer, examples: TrainingData, world: World, model: nn.Module
    ) -> DevResult:
        """Negative log-likelihood of what is held out, and the shares that are correct."""
        members = self.members.members
        sums = torch.zeros(len(members), 3, dtype=torch.float64, device=world.device)
        with torch.inference_mode():
            for batch in examples.dev_batches(self.members, world):
                outputs = model(batch.inputs, positions=batch.positions)
                for number, member in enumerate(members):
                    targets = batch.targets[member.head]
                    correct = outputs.by_head[member.head].argmax(-1) == targets
                    sums[number, 0] += member.loss(outputs, batch)[1]
                    sums[number, 1] += correct.sum()
                    sums[number, 2] += len(targets)
        figures = {"loss": 0.0}
        for member, (nll, correct, count) in zip(
            members, world.all_reduce(sums).tolist(), strict=True
        ):
            figures["loss"] += nll / count
            figures |= member.figures(nll / count, 100 * correct / count)
        return DevResult(-figures["loss"], figures)


def sample(texts: Iterator[str], share: float) -> Iterator[str]:
    """As many of the texts as have this share of all characters, evenly taken, and no more."""
    seen = taken = 0
    for text in texts:
        seen += len(text)
        if taken + len(text) <= seen * share:
            taken += len(text)
            yield text
