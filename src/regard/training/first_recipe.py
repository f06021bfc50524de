"""A first recipe for a data set: commented TOML whose values follow from facts about the data.

Nothing that runs a model is imported here, so that a recipe can be written quickly.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from regard.core.errors import BadInput, shown
from regard.data.data_facts import TOKENS_OF_WORD, DataFacts
from regard.data.data_files import IMAGES, DataFiles

HELD_OUT, MOST_HELD_OUT = 10, 2_000  # one in so many training examples, and the most of them
STEP_OF_LENGTH, LONGEST_ROW = 64, 512
ANSWER_ROW = 384  # a question and a window of its context
VOCABULARY = ((50_000, 1_000), (500_000, 4_000), (5_000_000, 8_000))  # by words
LARGEST_VOCABULARY = 16_000
EPOCHS = ((1_000, 20), (10_000, 10), (100_000, 5))  # by examples, from scratch
FEWEST_EPOCHS, TUNING_EPOCHS, TUNING_RATE = 3, 3, 3e-5
PAIRS = "pairs"  # of texts, with a label
EVALUATIONS = 10  # of the development set in a run, about
REPORTS, DEFAULT_REPORT = 20, 50  # of the loss in a run, at least; default of report_every
ROWS, TOKENS = 32, 4_096  # of a batch
SKEWED = 0.9  # share of a label from which others are hard to learn
MOST_LABELS, FEWEST_OF_LABEL = 20, 2  # labels, and from so many on examples of each, on average
ENTITIES = ("B-", "I-", "S-", "E-")

Row = tuple[str, object, str]  # key, value, comment


@dataclass(frozen=True)
class FirstRecipe:
    """A recipe for data, by facts about them.

    ``command`` trains it; ``start`` is the model to fine-tune, if any, and ``limit`` the most
    tokens of a row that it reads.
    """

    data: DataFiles
    facts: DataFacts
    command: str
    start: str | None = None
    limit: int | None = None

    def text(self) -> str:
        """The recipe as TOML."""
        train = self.facts.sets["train"]
        dropped = self.data.dropped
        cause = f" (malformed: {dropped}; the first: {dropped.first})" if dropped else ""
        if train.size < 2 and "dev" not in self.data.keys:
            fault = f"{train.size} {self.data.unit}; training needs two"
            raise BadInput(f"{self._named}: {fault}{cause}")
        if train.labels and len(train.labels) < 2:
            (label,) = train.labels
            fault = f"all labels are {label!r}; training needs two labels"
            raise BadInput(f"{self._named}: {fault}{cause}")
        self._check_label_number()
        tables = {"data": self._data(), **self._reading(), "model": self._model()}
        tables |= {"batches": self._batches(), "optimiser": self._optimiser()}
        lines = [
            f"# A first recipe for {self._named}, written by `regard new`.",
            f"# {self.data.unit}: {self.facts.sizes}",
            f"# Train it in the same folder: {self.command}",
            "# No expected score: nobody has run it yet. Every key: docs/recipes.md",
            f'task = "{self.data.task}"',
        ]
        for name, rows in {**tables, "train": self._train()}.items():
            lines += ["", f"[{name}]", *map(_line, rows)]
        return "\n".join(lines) + "\n"

    def _check_label_number(self) -> None:
        """Refuse labels of which most occur once, as ids and texts do."""
        labels = self.facts.sets["train"].labels
        total, size = labels.total(), len(labels)
        are_names = self._defaults.whole_labels and self._label_kind != "number"
        if are_names and size > MOST_LABELS and total < size * FEWEST_OF_LABEL:
            fault = f"{size:,} labels in {total:,} examples are too many to learn"
            remedy = "does it hold ids or texts? name the columns of text and label"
            raise BadInput(f"{self._named}: {fault}: {remedy}")

    @property
    def _named(self) -> str:
        return " and ".join(map(str, self.data.sets["train"]))

    @property
    def _defaults(self) -> "TaskDefaults":
        name = self.data.task
        task = PAIRS if DEFAULTS[name].whole_labels and self._texts > 1 else name
        return DEFAULTS[IMAGES if self._is_images else task]

    @property
    def _is_images(self) -> bool:
        return self.data.keys["train"].get("reader") == IMAGES

    @property
    def _texts(self) -> int:
        """Number of texts that a row has."""
        options = self.data.keys["train"].get("options")
        number = len(options.get("texts", "1")) if isinstance(options, dict) else 1
        return max(number, DEFAULTS[self.data.task].texts)

    def _data(self) -> list[Row]:
        size = self.facts.sets["train"].size
        rows: list[Row] = [(name, keys, "") for name, keys in self.data.keys.items()]
        if "dev" not in self.data.keys:
            count = max(1, min(MOST_HELD_OUT, size // HELD_OUT))
            comment = f"{self.data.unit} of train; or name a file, as for train"
            rows.insert(1, ("dev", {"held_out": count}, comment))
        return rows

    def _reading(self) -> dict[str, list[Row]]:
        """The tables that say how texts, labels and images are read."""
        tables: dict[str, list[Row]] = {}
        if self.start is None and not self._is_images:
            tables["text"] = [("vocab", self._vocabulary(), "more for more text")]
        if self._has_windows:
            comment = f'several rows of {self._longest} tokens for a longer text; or "cut"'
            tables.setdefault("text", []).append(("long", "windows", comment))
        if self._defaults.context and self.start is None:
            comment = '"documents": one document, or a part of it, in each row'
            tables["objective.causal-lm"] = [("rows", "blocks", comment)]
        if self._defaults.whole_labels and self._label_kind != "one":
            tables["labels"] = [("kind", self._label_kind, 'or "one", "several"')]
        if usual := self._usual_label:
            label, share = usual
            comment = f"without weights, always saying {shown(label)} is {share:.1%} right"
            tables["labels"] = [("weights", "balanced", comment)]
        return tables

    @property
    def _usual_label(self) -> tuple[str, float] | None:
        """The label of nearly all examples and its share, if there is one."""
        labels = self.facts.sets["train"].labels
        if not self._defaults.whole_labels or self._label_kind != "one":
            return None
        ((label, count),) = labels.most_common(1)
        share = count / labels.total()
        return (label, share) if share >= SKEWED else None

    @property
    def _most_tokens(self) -> int:
        """Tokens of the longest row, about."""
        known = [facts.lengths.tokens for facts in self.facts.sets.values() if facts.lengths]
        return max(known, default=0) * self._texts

    @property
    def _longest(self) -> int:
        """The most tokens of a row: of the longest text, within the limit of the model."""
        most = max(self._most_tokens, self._defaults.least)
        rounded = -(-most // STEP_OF_LENGTH) * STEP_OF_LENGTH
        return min(LONGEST_ROW, rounded, self.limit or rounded)

    @property
    def _has_windows(self) -> bool:
        """Whether some texts of a classifier are longer than a row."""
        is_text = self._defaults.whole_labels and not self._is_images
        return is_text and self._most_tokens > self._longest

    @property
    def _label_kind(self) -> str:
        """Kind of the labels of a classifier."""
        train = self.facts.sets["train"]
        if train.labels.total() != train.size:
            return "several"
        return "number" if train.has_numbers else "one"

    @property
    def _rows(self) -> int:
        """Rows of the training set, about: its examples, or the blocks of its documents."""
        train, context = self.facts.sets["train"], self._defaults.context
        if train.lengths is not None and self._has_windows:
            return train.size + int(train.lengths.words * TOKENS_OF_WORD) // self._longest
        if not context or train.lengths is None:
            return train.size
        return 1 + int(train.lengths.words * TOKENS_OF_WORD) // context

    def _vocabulary(self) -> int:
        train = self.facts.sets["train"]
        words = 0 if train.lengths is None else train.lengths.words
        return _by_size(VOCABULARY, words, LARGEST_VOCABULARY)

    def _model(self) -> list[Row]:
        if self.start is not None:
            return [("start", self.start, "its weights and tokenizer")]
        return [*self._defaults.model]

    def _batches(self) -> list[Row]:
        if self._is_images:
            return [
                ("rows", ROWS, "images"),
                ("tokens", ROWS, "each counts as one"),
                ("longest", 1, ""),
            ]
        rows: list[Row] = [("rows", ROWS, ""), ("tokens", TOKENS, "")]
        if context := self._defaults.context:
            return [*rows, ("longest", context, "tokens of a row"), ("mixed", True, "")]
        comment = f"tokens of a row at most; about {self._most_tokens:,} in the longest text"
        if self.limit is not None and self._longest == self.limit < LONGEST_ROW:
            comment += ", the most that the model reads"
        return [*rows, ("longest", self._longest, comment)]

    def _optimiser(self) -> list[Row]:
        rate = TUNING_RATE if self.start is not None else self._defaults.rate
        return [
            ("kind", "adamw", ""),
            ("rate", rate, "the first thing to try others of: `regard tune`"),
            ("schedule", "linear", ""),
            ("warmup", 0.1, "share of all steps"),
            ("decay", 0.01, ""),
            ("clip", 1.0, ""),
        ]

    def _train(self) -> list[Row]:
        size = self._rows
        scratch = _by_size(EPOCHS, size, FEWEST_EPOCHS)
        epochs = scratch if self.start is None else TUNING_EPOCHS
        steps = size * epochs // self._rows_of_batch
        every = max(1, steps // EVALUATIONS)
        rows: list[Row] = [
            ("epochs", epochs, "passes over the training data; or steps = 1000"),
            ("evaluate_every", every, "steps between two scores of the development set"),
            ("checkpoint_every", every, ""),
        ]
        if (reports := max(1, steps // REPORTS)) < DEFAULT_REPORT:
            rows.append(("report_every", reports, "steps between two reports of the loss"))
        metric = self._metric()
        return rows + ([("metric", metric, "chooses the best weights")] if metric else [])

    @property
    def _rows_of_batch(self) -> int:
        """Rows of a batch, about: fewer where rows are long."""
        lengths = self.facts.sets["train"].lengths
        if not self._has_windows or lengths is None:
            return ROWS
        tokens = int(lengths.median * TOKENS_OF_WORD)
        return max(1, min(ROWS, TOKENS // max(1, min(tokens, self._longest))))

    def _metric(self) -> str:
        if self._usual_label:
            return "macro-F1"
        if self._defaults.metric:
            return self._defaults.metric
        labels = self.facts.sets["train"].labels
        if self._defaults.whole_labels:
            return METRICS[self._label_kind]
        entities = all(label == "O" or label.startswith(ENTITIES) for label in labels)
        return "" if not labels else "F1" if entities else "accuracy"


@dataclass(frozen=True)
class TaskDefaults:
    """Model and learning rate of a task from scratch.

    ``context`` is the number of tokens of every row of a language model. ``whole_labels`` are those
    of a whole text or image, not of its words. A row has ``texts``, and may have ``least`` tokens.
    The ``metric`` is "" if it depends on the labels.
    """

    rate: float
    model: Sequence[Row]
    context: int = 0
    whole_labels: bool = False
    texts: int = 1
    least: int = 0
    metric: str = ""


METRICS = {"one": "accuracy", "several": "micro-F1", "number": "Pearson"}
CONTEXT = 128
SMALL_GPT = {"width": 192, "depth": 4, "heads": 4, "inner": 768, "longest": CONTEXT}
SMALL_VIT = {
    **{"image_size": 32, "patch_size": 4},
    **{"width": 96, "depth": 4, "heads": 4, "inner": 192},
}
SMALL_BERT: list[Row] = [
    ("paper", "bert", "from scratch; can be converted to Hugging Face's format and ONNX"),
    ("size", "tiny", 'better: start = "FOLDER", fine-tune BERT or its family'),
    ("change", {"width": 128, "depth": 2, "heads": 2, "inner": 256}, ""),
]
DEFAULTS = {
    "classify": TaskDefaults(1e-3, SMALL_BERT, whole_labels=True),
    PAIRS: TaskDefaults(1e-3, SMALL_BERT, whole_labels=True),
    IMAGES: TaskDefaults(
        1e-3,
        [
            ("paper", "vit", ""),
            ("size", "tiny", ""),
            ("change", SMALL_VIT, "images are resized to image_size"),
        ],
        whole_labels=True,
    ),
    "answer": TaskDefaults(1e-3, SMALL_BERT, texts=2, least=ANSWER_ROW, metric="F1"),
    "tag": TaskDefaults(2e-3, SMALL_BERT),
    "translate": TaskDefaults(
        1e-3,
        [
            ("paper", "transformer", ""),
            ("size", "laptop", "base, for hundreds of thousands of pairs and a GPU"),
        ],
    ),
    "pretrain": TaskDefaults(
        1e-3,
        [
            ("paper", "gpt-2", ""),
            ("size", "small", ""),
            ("change", SMALL_GPT, "a small GPT-2; without this line 124 million weights"),
        ],
        context=CONTEXT,
    ),
}


def _by_size(steps: Sequence[tuple[int, int]], size: int, largest: int) -> int:
    """The value of the first step that ``size`` stays below, else ``largest``."""
    return next((value for below, value in steps if size < below), largest)


def _line(row: Row) -> str:
    key, value, comment = row
    written = f"{key} = {_toml(value)}"
    return f"{written:<27} # {comment}" if comment else written


def _toml(value: object) -> str:
    """A value as TOML on one line."""
    if isinstance(value, Mapping):
        pairs = (f"{_key(str(key))} = {_toml(part)}" for key, part in value.items())
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


def _key(key: str) -> str:
    return key if key.replace("_", "").isalnum() and key.isascii() else _toml(key)
