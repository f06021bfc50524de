"""Pre-training an encoder on documents (Devlin et al., 2018): vocabulary, rows, blanks, judge."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import exp
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.data.documents import Documents, DocumentSource, read_documents, tokenize_documents
from regard.data.sources import DropCounts
from regard.ground.errors import BadInput
from regard.ground.tape import Tape
from regard.models.cost import encoder_flops
from regard.models.facts import EncoderFacts, change
from regard.objectives.masked import Masked
from regard.parts.position import Learned
from regard.text.encoder_tokenizer import EncoderTokenizer, train_wordpiece
from regard.training.encoding import Encoding
from regard.training.events import Verdict
from regard.training.passages import DEV, Reading, drawn, held_out, sample
from regard.training.place import Place
from regard.training.ranks import Ranks

SAMPLE = 50_000_000  # characters that a vocabulary is learned from, at most


class Pretraining(Encoding):
    """The task "pretrain"."""

    follow = ("vocab", "fills", "follows")

    def headed(self, facts: EncoderFacts) -> EncoderFacts:
        """The layers it learns by."""
        follows, kind = self.recipe.pretrain.next_sentence, self.recipe.text.kind
        if self.recipe.model.start is None and kind != "wordpiece":
            raise BadInput(f"text.kind: encoders learn wordpiece, not {kind!r}")
        return replace(facts, head=None, fills=True, follows=follows, pooled=follows)

    def check_facts(self, facts: EncoderFacts) -> None:
        """Two passages are told apart by their segments."""
        if facts.follows and facts.embed.segments < 2:
            raise BadInput("pretrain.next_sentence: the encoder does not tell two passages apart")

    def check_data(self, data: Path, skip_bad: bool) -> dict[str, int]:
        """Whether the documents are there, before anything is written; there are no test sets."""
        given = self.recipe.data
        for files in (given.train, given.dev):
            if files.held_out is None:
                for path in files.collection(data).paths:
                    if not Path(path).is_file():
                        raise BadInput(f"{path}: no such file or folder")
        return {}

    def prepared(self, place: Place) -> tuple[EncoderTokenizer, Reading]:
        """The vocabulary, and all documents as ids."""
        given, dropped = self.recipe.data, DropCounts()
        text = self.text(place, partial(self._learned, place))
        train = self._documents("train", given.train.collection(place.data), text, place, dropped)
        if given.dev.held_out is None:
            dev = self._documents(
                "dev", given.dev.collection(place.data), text, place, DropCounts()
            )
        else:
            to_choose_by, to_learn = held_out(len(train), given.dev.held_out)
            train, dev = train.chosen(to_learn), train.chosen(to_choose_by)
        to_read = drawn(self.recipe, text, train, self.recipe.train.seed)
        dev_rows = drawn(self.recipe, text, dev, DEV).all()
        sizes = {"train": len(train), "dev": len(dev)}
        return text, Reading(self.recipe, train, to_read, dev_rows, dropped, sizes)

    def _documents(
        self,
        name: str,
        collection: DocumentSource,
        text: EncoderTokenizer,
        place: Place,
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

    def _learned(self, place: Place) -> EncoderTokenizer:
        position, asked = self.facts(place.data)[1].embed.position, self.recipe.text
        longest = position.longest if isinstance(position, Learned) else None
        texts = self._texts_to_learn(place)
        return train_wordpiece(texts, asked.vocab, lower=asked.lower, longest=longest)

    def _texts_to_learn(self, place: Place) -> list[str]:
        """The sentences to learn from, or evenly taken ones if they are too many."""
        collection = self.recipe.data.train.collection(place.data)

        def documents() -> Iterator[list[str]]:
            read = read_documents(collection, place.dropping())
            return (texts for _, texts in read if texts)

        sizes = [sum(map(len, texts)) for texts in documents()]
        to_learn = set(range(len(sizes)))
        if (wanted := self.recipe.data.dev.held_out) is not None:
            to_learn -= set(held_out(len(sizes), wanted)[0].tolist())
        share = min(1.0, SAMPLE / max(1, sum(sizes[number] for number in to_learn)))
        chosen = (texts for number, texts in enumerate(documents()) if number in to_learn)
        return list(sample((text for texts in chosen for text in texts), share))

    def fitted(self, facts: EncoderFacts, text: EncoderTokenizer) -> EncoderFacts:
        """The facts with as many words as there are."""
        return facts if self.recipe.model.start else change(facts, vocab=len(text.words))

    def objective(self, text: EncoderTokenizer, examples: Reading) -> Masked:
        """What is learned."""
        asked = self.recipe.pretrain
        return Masked(asked.next_sentence, asked.rate, self.recipe.train.smoothing)

    def flops(self, facts: EncoderFacts, lengths: Sequence[tuple[int, ...]]) -> float:
        """What a step costs."""
        tokens = [length for (length,) in lengths]
        return encoder_flops(facts, tokens, round(self.recipe.pretrain.rate * sum(tokens)))

    def notes(self) -> dict[str, Any]:
        """What the model must remember of its recipe."""
        return {"longest": self.recipe.batches.longest}

    def judge(
        self, text: EncoderTokenizer, examples: Reading, ranks: Ranks, model: nn.Module
    ) -> Verdict:
        """Negative log-likelihood of what is held out, and the shares that are right."""
        objective = replace(self.objective(text, examples), smoothing=0.0)
        sums = torch.zeros(2, 3, dtype=torch.float64, device=ranks.device)  # words, rows
        with torch.inference_mode():
            for batch in examples.dev_batches(objective, ranks):
                tape = Tape("words", "follows")
                sums[:, 0] += objective(model, batch, tape)[1]
                goals = {"words": batch.goals_T, "follows": batch.follows_B}
                for number, (name, right) in enumerate(goals.items()):
                    if right is not None:
                        sums[number, 1] += (tape.kept[name].argmax(-1) == right).sum()
                        sums[number, 2] += len(right)
        (words, named, blanks), (follows, told, rows) = ranks.total(sums).tolist()
        loss = words / blanks
        figures = {"loss": loss, "perplexity": exp(min(loss, 700.0))}
        figures["accuracy"] = 100 * named / blanks
        if objective.follows:
            figures["loss"] += follows / rows
            figures["follows"] = 100 * told / rows
        return Verdict(-figures["loss"], figures)
