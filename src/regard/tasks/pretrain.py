"""Pre-training on documents (Devlin et al., 2018): a trunk learns the objectives of its recipe."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import ClassVar, cast

import numpy as np
import torch
from torch import nn

from regard.core.config import UnusableKey
from regard.core.device import seed_generators
from regard.core.errors import BadInput
from regard.core.reading import Reading
from regard.data.batches.document_dataset import DocumentDataset
from regard.data.batches.mixed_dataset import mixed_dataset
from regard.data.batches.training_data import TrainingData, held_out_indices
from regard.data.data_tables import FilesConfig
from regard.data.readers.document_files import DocumentSource
from regard.data.readers.examples import ExampleContent
from regard.data.readers.fields import DropCounts
from regard.data.readers.memory import MemoryExamples
from regard.data.readers.sources import sample_texts
from regard.data.rows.documents import Documents, tokenize_documents
from regard.inference.score_text import TextScore, perplexity
from regard.metrics.intervals import ExampleStatistics
from regard.metrics.translation import MetricScore
from regard.models.encoder_decoder import EncoderDecoder, ModelFacts
from regard.models.facts import change
from regard.models.folders.loaded_model import LoadedModel
from regard.models.macs import RowLengths
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.objectives.by_name import ObjectiveTables, objectives_config, paper_with_objectives
from regard.objectives.sum import Sum
from regard.tasks.plan import Plan, resolve_encoder_decoder, resolve_trunk
from regard.tasks.run_paths import RunPaths
from regard.tasks.task import DevScores, Prepared, Processes, Task, TaskScores, TrainedModel
from regard.text.field_template import FieldTemplate
from regard.text.templates import FIELD_MARK
from regard.text.text_tables import EncoderTextConfig
from regard.text.tokenizers.list import PLAIN
from regard.text.tokenizers.row_tokenizer import RowTokenizer

TEACHER = "objective.distillation.teacher"
DEV_SEED = 0  # the targets of development sets are the same for every seed
PERPLEXITY, DEV = "perplexity", "dev"
SAMPLE = 50_000_000  # characters that a vocabulary is learned from, at most


class Pretrain(Task[str, Reading]):
    """The task "pretrain"."""

    name, unit, mixes_corpora = "pretrain", "documents", True
    test_metrics = (PERPLEXITY,)
    own_tables: ClassVar = {"text": EncoderTextConfig, "objective": objectives_config()}

    @property
    def listed(self) -> ObjectiveTables:
        """The table ``objective``."""
        return self.tables[ObjectiveTables]

    @cached_property
    def objectives(self) -> Sum:
        """The objectives of the recipe, or of its paper."""
        with self._naming_paper():
            return self.listed.sum(self.tables.smoothing)

    @property
    def fields(self) -> FieldTemplate | None:
        """The fields of documents that are records; None: documents are texts."""
        return self.objectives.row_maker.fields

    def _collection(self, files: FilesConfig, data: Path) -> DocumentSource | MemoryExamples:
        return files.collection(data, () if self.fields is None else self.fields.names)

    @contextmanager
    def _naming_paper(self) -> Iterator[None]:
        """Add the paper to messages about objectives that the recipe does not list."""
        try:
            yield
        except BadInput as error:
            if "objective" not in self.tables.by_default:
                raise
            paper = paper_with_objectives(self.tables.model.paper)
            own = f"{paper.name}'s own objectives ({', '.join(paper.pretraining)})"
            raise BadInput(f"{error}; {own} are used where a recipe has no [objective]") from None

    def resolve(self, data: Path) -> Plan:
        if self.listed.sides == EncoderDecoder.sides:
            return resolve_encoder_decoder(self.tables, data, joint=True)
        because = "the objectives"
        decided = {"vocab": "text.vocab", "output_heads": because, "pool": because}
        plan = resolve_trunk(
            self.tables, data, lambda facts: self.objectives.heads, decided=decided
        )
        if (teacher := self.objectives.open(data, self.tables.batches.longest)) is not None:
            plan = self._with_teacher(plan, teacher)
        if self.fields is not None:
            plan = plan.with_special_tokens(self.fields.special_tokens)
        paper, facts = plan.paper, plan.trunk
        if paper.tokenizer == PLAIN:
            raise BadInput(f"model: the tokenizer of {paper.name} has no mask token")
        words = None if plan.tokenizer is None else plan.tokenizer.training_words
        with self._naming_paper():
            self.objectives.check(facts)
            size = self.tables[EncoderTextConfig].vocab if words is None else len(words)
            self.objectives.check_vocabulary(size)
            if self.tables.batches.mixed and self.objectives.row_maker.carries_state:
                raise BadInput("batches.mixed cannot be used: this model reads rows in order")
        return replace(plan, facts=self.objectives.extend(facts, paper.fit_heads))

    def _with_teacher(self, plan: Plan, teacher: LoadedModel) -> Plan:
        """The plan of a distillation: the model has the tokenizer of its teacher."""
        tokenizer, paper, facts = cast(RowTokenizer, teacher.tokenizer), plan.paper, plan.facts
        start = plan.tokenizer
        if start is not None and start.words.fingerprint != tokenizer.words.fingerprint:
            raise BadInput(f"{TEACHER}: its vocabulary differs from that of model.start")
        if teacher.paper.tokenizer != paper.tokenizer:
            kinds = f"{teacher.paper.tokenizer}, but {paper.name} needs {paper.tokenizer}"
            raise BadInput(f"{TEACHER}: its tokenizer is {kinds}")
        if not self.tables.model.starts_whole:
            facts = change(facts, vocab=teacher.facts.sizes["tokens"])
        return replace(plan, facts=facts, tokenizer=start or tokenizer)

    @property
    def allows_smoothing(self) -> bool:
        return self.listed.smooth

    @property
    def metrics(self) -> Collection[str]:
        return self.test_metrics if self.listed.score_texts else ()

    def unread_keys(self) -> Iterator[UnusableKey]:
        key = self.tables.tokenizer_key or (TEACHER if self.listed.distils else None)
        yield from self.tables.unread_text_keys(key, sides=self.listed.sides)
        data = self.tables.data
        tests = () if self.listed.score_texts else ("test", "more_tests")
        yield from (UnusableKey(f"data.{key}") for key in tests if getattr(data, key))
        if data.mix and self.objectives.row_maker.carries_state:
            why = "where each row of a batch continues one of the batch before"
            yield UnusableKey("data.mix", why)

    def check_data(self, data: Path, skip_bad: bool) -> dict[str, int]:
        files_of, dropped = self.tables.data, DropCounts() if skip_bad else None
        files_of.check_folders(data)
        folders = files_of.corpora(data).values()
        sets = [(files_of.train, folder) for folder in folders]
        sets += [(files, data) for files in (files_of.dev, *files_of.tests.values())]
        for files, folder in sets:
            if files.held_out is None:
                for path in self._collection(files, folder).paths:
                    if not Path(path).is_file():
                        raise BadInput(f"{path}: no such file or folder")
        for name, files in files_of.tests.items():
            files.require([*islice(self._texts(files, data, dropped), 1)], name, self.unit)
        return {}

    def prepare(self, plan: Plan, paths: RunPaths) -> Prepared[Reading]:
        data, dropped = self.tables.data, DropCounts()
        tokenizer = plan.read_texts(paths, lambda: self._sentences(paths))
        folders = data.corpora(paths.data).items()
        train = [
            self._tokenize(name, data.train, folder, tokenizer, paths, dropped)
            for name, folder in folders
        ]
        if data.dev.held_out is None:
            dev = self._tokenize(DEV, data.dev, paths.data, tokenizer, paths, DropCounts())
            data.dev.require(dev, "dev", self.unit)
        else:
            (whole,) = train
            train_N, dev_N = map(np.sort, held_out_indices(len(whole), data.dev.held_out))
            held_out = f"data.dev.held_out ({len(dev_N):,} of {whole.name})"
            train, dev = [whole.chosen(train_N)], whole.chosen(dev_N, held_out)
        self.objectives.to(paths.device)
        batching = self.tables.batching
        objectives = self.objectives.count_words(train, len(tokenizer.training_words))
        rows = [
            self._rows(objectives, documents, tokenizer, self.tables.seed) for documents in train
        ]
        dev_rows = self._rows(objectives, dev, tokenizer, DEV_SEED)
        train_set, dev_streams = mixed_dataset(rows, data.mix, self.tables.seed), None
        if (row_maker := objectives.row_maker).carries_state:
            train_set = row_maker.train_streams(rows[0], batching.limits)
            dev_streams = row_maker.dev_streams(dev_rows, batching.limits)
        dataset = TrainingData(
            batching=batching,
            train=train_set,
            dev=(dev_streams or dev_rows).read_all(),
            sizes={"train": sum(map(len, train)), "dev": len(dev)},
            dropped=dropped,
            dev_streams=0 if dev_streams is None else dev_streams.rows,
        )
        return Prepared(plan.reading(tokenizer), dataset)

    def _rows(
        self, objectives: Sum, documents: Documents, tokenizer: RowTokenizer, seed: int
    ) -> DocumentDataset:
        longest = self.tables.batches.longest
        plan = objectives.row_maker.rows(documents, tokenizer.template, longest, seed)
        return DocumentDataset(documents, plan, objectives.annotator(tokenizer), seed)

    def _sentences(self, paths: RunPaths) -> Iterator[str]:
        """Sentences to learn a vocabulary from; an even sample if there are too many."""
        data = self.tables.data
        sizes: list[int] = []
        for number, sentences in self._train_documents(paths):
            sizes += [0] * (number == len(sizes))
            sizes[number] += sum(map(len, sentences))
        chosen = np.ones(len(sizes), dtype=bool)
        if data.dev.held_out is not None:
            chosen[held_out_indices(len(sizes), data.dev.held_out)[1]] = False
        share = min(1.0, SAMPLE / max(1, sum(np.array(sizes)[chosen].tolist())))
        documents = self._train_documents(paths)
        to_learn = (sentences for number, sentences in documents if chosen[number])
        return sample_texts((sentence for sentences in to_learn for sentence in sentences), share)

    def _train_documents(self, paths: RunPaths) -> Iterator[tuple[int, list[str]]]:
        """Sentences of each training document, numbered through all corpora."""
        data, number = self.tables.data, -1
        for name, folder in data.corpora(paths.data).items():
            first = number + 1
            for within, sentences in self._documents(data.train, folder, paths):
                number = first + within
                yield number, sentences
            data.train.require(range(first, number + 1), name, self.unit)

    def _documents(
        self, files: FilesConfig, folder: Path, paths: RunPaths
    ) -> Iterator[tuple[int, list[str]]]:
        """Sentences of each document, in parts, with the number of the document."""
        source, whole = self._collection(files, folder), self.objectives.row_maker.whole_texts
        number = 0
        for part in source.parts(paths.dropping(), whole=whole):
            if part.texts:
                yield number, [text.rpartition(FIELD_MARK)[2] for text in part.texts]
                number += part.is_last

    def dev_inputs(
        self, prepared: Prepared[Reading], paths: RunPaths, count: int
    ) -> list[tuple[object, ...]]:
        files, held_out = self.tables.data.dev, self.tables.data.dev.held_out
        files = files if held_out is None else self.tables.data.train
        documents = self._documents(files, paths.data, paths)
        if held_out is not None:
            every = sum(prepared.dataset.sizes[name] for name in ("train", "dev"))
            chosen = {*held_out_indices(every, held_out)[1].tolist()}
            documents = ((number, texts) for number, texts in documents if number in chosen)
        texts = (" ".join(texts) for _, texts in documents)
        return [(text,) for text in islice(filter(str.strip, texts), count)]

    def notes(self) -> dict[str, object]:
        fields = {} if self.fields is None else {"fields": [*self.fields.names]}
        return {"longest": self.tables.batches.longest, **fields}

    def objective(self, prepared: Prepared[Reading]) -> Sum:
        return self.objectives

    def flops(self, facts: ModelFacts, lengths: RowLengths) -> float:
        return self.objectives.flops(cast(TrunkWithHeads, facts), lengths)

    def evaluate_dev(
        self, prepared: Prepared[Reading], processes: Processes, model: nn.Module
    ) -> DevScores:
        members, device = self.objectives.members, processes.device
        sums = [torch.zeros(part.dev_size, dtype=torch.float64, device=device) for part in members]
        seed_generators(DEV_SEED)  # of samples of a generator; steps of training have their own
        dataset, tokenizer, state = prepared.dataset, cast(RowTokenizer, prepared.reading), None
        with torch.inference_mode():
            if dataset.dev_streams:
                state = self.objectives.initial_state(model, len(dataset.own_streams(processes)))
            for batch in dataset.dev_batches(self.objectives, processes):
                batch = self.objectives.with_teachers(replace(batch, state=state))
                outputs = self.objectives.outputs(model, batch)
                state = outputs.encoded.state
                for total, member in zip(sums, members, strict=True):
                    for number, part in enumerate(member.dev_sums(outputs, batch)):
                        total[number] += part
        metrics = {"loss": 0.0}
        for total, member in zip(sums, members, strict=True):
            loss, count, *more = processes.all_reduce(total).tolist()
            if not count:  # a part without targets adds 0, and has no metrics
                continue
            metrics["loss"] += member.loss_weight * loss / count
            metrics |= member.dev_metrics(loss / count, count, *more)
            metrics |= member.text_metrics(loss / count, tokenizer, dataset.dev)
        return DevScores(metrics)

    def read(self, files: FilesConfig, data: Path, dropped: DropCounts | None = None) -> list[str]:
        return [*self._texts(files, data, dropped)]

    def read_held_out(self, count: int, data: Path, dropped: DropCounts | None = None) -> list[str]:
        raise BadInput(
            "data.dev.held_out: held-out documents have no file of their own; name a test set "
            "(data.test)"
        )

    def content(self, example: str) -> ExampleContent:
        return ExampleContent((example,))

    def contents(
        self, files: FilesConfig, data: Path, dropped: DropCounts | None = None
    ) -> Iterator[ExampleContent]:
        parts = self._collection(files, data).parts(dropped, whole=True)
        return (self.content(text) for part in parts for text in part.texts if text.strip())

    def _texts(self, files: FilesConfig, data: Path, dropped: DropCounts | None) -> Iterator[str]:
        return (text for text in self._collection(files, data).texts(dropped) if text.strip())

    def test_scores(
        self, model: TrainedModel, examples: Sequence[str], with_interval: bool = False
    ) -> TaskScores:
        if with_interval:
            raise BadInput("perplexity has no confidence interval")
        runner = model.encoder
        words, scorer = runner.text.words, runner.scorer()
        separated = runner.text.template.separated
        rows = [separated(ids) for ids in words.encode_all(examples) if ids]
        if self.objectives.row_maker.joins_documents:
            rows = [[token for row in rows for token in row]]
        of_rows = [*scorer.predict(rows)]
        score = TextScore.total(of_rows)
        signature = f"tokens:{len(score.logprobs)}|{scorer.signature}"
        sums = np.array([(it.logprob, len(it.logprobs)) for it in of_rows], dtype=np.float64)
        texts = ExampleStatistics.of_sums(sums, lambda total: perplexity(*total))
        statistics = texts if len(rows) > 1 else None  # joined documents are one example
        return TaskScores([MetricScore(PERPLEXITY, score.perplexity, signature, None, statistics)])

    def _tokenize(
        self,
        name: str,
        files: FilesConfig,
        folder: Path,
        tokenizer: RowTokenizer,
        paths: RunPaths,
        dropped: DropCounts,
    ) -> Documents:
        words = tokenizer.training_words
        return tokenize_documents(
            paths.store,
            name,
            self._collection(files, folder),
            words.encode_all if self.fields is None else self.fields.encoder(tokenizer.words),
            vocab=len(words),
            fingerprint=words.fingerprint,
            dropped=dropped if paths.skip_bad else None,
            whole=self.objectives.row_maker.whole_texts,
            start_workers=paths.start_workers,
            read_only=paths.prepared is not None,
            deduplicate=paths.deduplicate and name != DEV,
        )
