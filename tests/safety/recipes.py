"""The runs that are recorded: for each a recipe, and what differs from it, as ``--set`` says it.

Keys of recipes that get another name get it here too.
"""

from typing import NamedTuple

END = """
[train]
steps = 30
smoothing = 0.0
precision = "fp32"
evaluate_every = 15
checkpoint_every = 1000
report_every = 1
"""

TRANSLATE = """
[data]
train = { source = "pairs/train.src", target = "pairs/train.tgt" }
dev = { source = "pairs/dev.src", target = "pairs/dev.tgt" }
test = { source = "pairs/test.src", target = "pairs/test.tgt" }

[text]
kind = "wordpiece"
vocab = 60

[model]
size = "laptop"
change = { width = 16, dropout = 0.1 }

[batches]
tokens = 192
rows = 24
longest = 32

[optimiser]
rate = 0.01
warmup = 10

[decode]
beam = 3
"""

LADDER = (
    TRANSLATE.replace(
        "[text]", 'links = { dev = "pairs/dev.links", test = "pairs/test.links" }\n[text]'
    )
    + END.replace("30", "4")
    + """
[[rung]]
name = "attention"
model = { paper = "luong", size = "laptop", change = { width = 12, embedding = 12, depth = 1 } }

[[rung]]
name = "Transformer"
model = { size = "laptop", change = { width = 16, inner = 16, heads = 2, depth = 1 } }
train = { smoothing = 0.1 }
"""
)

CLASSIFY = """
task = "classify"

[data]
train = { table = "one/train.tsv", columns = ["text", "label"] }
dev = { table = "one/dev.tsv", columns = ["text", "label"] }
test = { table = "one/test.tsv", columns = ["text", "label"] }

[text]
vocab = 300

[labels]
names = { 0 = "no", 1 = "owl" }

[model]
paper = "lin"
size = "laptop"
change = { width = 12, embedding = 12, dropout = 0.1 }

[batches]
tokens = 192
rows = 24
longest = 32

[optimiser]
rate = 0.02
warmup = 5
schedule = "constant"
"""

PRETRAIN = """
task = "pretrain"

[data]
train = { documents = "documents/train.txt" }
dev = { documents = "documents/dev.txt" }

[text]
kind = "wordpiece"
vocab = 120
lower = true

[model]
paper = "bert"
size = "tiny"
change = { width = 16, inner = 32, depth = 2, heads = 2, longest = 48, dropout = 0.1 }

[batches]
tokens = 256
rows = 16
longest = 40
mixed = true

[optimiser]
kind = "adamw"
rate = 0.005
schedule = "constant"
warmup = 5
decay = 0.01
"""

TUNE = """
[text]
vocab = 120
lower = true

[model]
paper = "bert"
size = "tiny"

[batches]
tokens = 256
rows = 12
longest = 40
mixed = true

[optimiser]
kind = "adamw"
rate = 0.005
schedule = "linear"
warmup = 3
betas = [0.9, 0.999]
eps = 1e-8
decay = 0.01
"""

OPTIONS = {
    "tsv": 'reader = "tsv", options = { texts = ["text"], label = "label" }, ',
    "pairs": 'reader = "csv", options = { texts = ["text", "other"], label = "label" }, ',
    "several": 'reader = "tsv", options = { texts = ["text"], label = "label", separator = "," }, ',
    "CoNLL": 'reader = "CoNLL", ',
    "jsonl": 'reader = "jsonl", ',
    "SQuAD": 'reader = "SQuAD", ',
    "SWAG": 'reader = "SWAG", ',
}


def tune(task: str, reader: str, folder: str, ending: str, tables: str = "") -> str:
    """A recipe that tunes an encoder by files of one kind."""
    files = [
        f'{part} = {{ {OPTIONS[reader]}file = "{folder}/{part}.{ending}" }}'
        for part in ("train", "dev", "test")
    ]
    return "\n".join([f'task = "{task}"', tables, "[data]", *files, TUNE])


ONE = tune("classify", "tsv", "one", "tsv")
TWO = tune("classify", "pairs", "two", "csv")
SEVERAL = tune("classify", "several", "several", "tsv", '[labels]\nkind = "several"')
NUMBER = tune("classify", "tsv", "number", "tsv", '[labels]\nkind = "number"')
TAGS = tune("tag", "CoNLL", "tags", "conll", '[labels]\nscheme = "BIOES"')
HEIGHTS = tune("tag", "jsonl", "heights", "jsonl", '[labels]\nkind = "number"')
WINDOWS = "[answers]\nstride = 6\nquestion = 8\nlongest = 3"
ANSWER = tune("answer", "SQuAD", "questions", "json", WINDOWS)
CHOOSE = tune("choose", "SWAG", "choices", "csv")


class Entry(NamedTuple):
    """A run to record; where gradients are clipped, numbers agree to a tolerance only."""

    recipe: str
    settings: tuple[str, ...] = ()
    clipped: bool = False


START = "pretrain-next-sentence"  # where the tuned ones begin; written as {start}


def _recurrent(paper: str, *settings: str) -> Entry:
    paper = f"model.paper={paper}"
    return Entry(TRANSLATE, (paper, "model.change.embedding=12", *settings))


def _transformer(*settings: str, clipped: bool = False) -> Entry:
    sizes = ("model.change.inner=32", "model.change.depth=2", "model.change.heads=2")
    return Entry(TRANSLATE, (*sizes, *settings), clipped)


def _mixed(*settings: str) -> Entry:
    return Entry(TRANSLATE, settings)


def _tuned(recipe: str, *settings: str, clipped: bool = False) -> Entry:
    start = ("model.start={start}", "model.size=", "text=false")
    return Entry(recipe, (*start, *settings), clipped)


CLIP = "optimiser.clip=0.05"
BIAS = "model.change.head_bias=true"
MAXOUT = "model.change.maxout=16"
SMALL_SIDES = (
    "model.change.embedding=12",
    "model.change.inner=32",
    "model.change.heads=2",
    "model.change.source.depth=2",
    "model.change.target.depth=2",
)

RUNS: dict[str, Entry] = {
    "translate-cho": _recurrent("cho", MAXOUT),
    "translate-sutskever": _recurrent("sutskever", "model.change.depth=2"),
    "translate-bahdanau": _recurrent("bahdanau", MAXOUT, BIAS),
    "translate-luong": _recurrent("luong", BIAS),
    "translate-luong-dot": _recurrent(
        "luong",
        "model.change.score=dot",
        "model.change.input_feeding=false",
        "model.change.depth=1",
    ),
    "translate-luong-concat": _recurrent("luong", "model.change.score=concat"),
    "translate-luong-location": _recurrent("luong", "model.change.score=location"),
    "translate-gehring": _recurrent("gehring"),
    "translate-transformer": _transformer(),
    "translate-post-norm": _transformer("model.size=base"),
    "translate-relative": _transformer("model.change.position=relative"),
    "translate-learned": _transformer("model.change.position=learned"),
    "translate-untied": _transformer("model.change.tie=none", BIAS),
    "translate-unigram": _transformer(
        "model.change.tie=target", "text.joint=false", "text.kind=unigram", "text.vocab=300"
    ),
    "translate-recurrent-transformer": _mixed(
        "model.paper=bahdanau", 'model.target="transformer:laptop"', *SMALL_SIDES
    ),
    "translate-transformer-recurrent": _mixed(
        "model.paper=luong", 'model.source="transformer:laptop"', *SMALL_SIDES
    ),
    "translate-smoothed": _transformer("train.smoothing=0.1"),
    "translate-accumulate": _transformer("batches.accumulate=3"),
    "translate-bpe-dropout-ema": _transformer(
        "text.kind=bpe", "text.vocab=300", "text.dropout=0.1", "train.ema=0.9"
    ),
    "translate-mixed-bleu": _transformer("batches.mixed=true", "train.metric=bleu"),
    "translate-byte-bpe": _transformer("text.kind=byte-bpe", "text.vocab=300", "text.lower=true"),
    "translate-csv": _transformer(
        'data.train={csv = "two/train.csv", columns = ["text", "other"]}'
    ),
    "translate-clipped": _transformer(CLIP, clipped=True),
    "classify-pooled": Entry(CLASSIFY),
    "classify-last": Entry(CLASSIFY, ("model.size=last",)),
    "classify-transformer": Entry(
        CLASSIFY,
        (
            'model.source="transformer:laptop"',
            'model.change={width=16, inner=32, depth=1, heads=2, "label.dropout"=0.5}',
        ),
    ),
    "classify-weighted": Entry(CLASSIFY, ("labels.weights=balanced", "train.smoothing=0.1")),
    "classify-zeros": Entry(CLASSIFY, ("model.size=base", "model.change.inner=10")),
    "classify-dot-mean": Entry(CLASSIFY, ("model.change.score=dot", "model.change.query=mean")),
    "classify-held-out": Entry(
        CLASSIFY, ("data.dev={held_out = 20}", "train.metric=accuracy", "model.change.cell=gru")
    ),
    "pretrain-next-sentence": Entry(PRETRAIN),
    "pretrain-masked": Entry(
        PRETRAIN, ("objective.next-sentence=false", "objective.masked-lm.whole_words=true")
    ),
    "pretrain-accumulate": Entry(PRETRAIN, ("batches.accumulate=2", "train.smoothing=0.1")),
    "pretrain-held-out": Entry(
        PRETRAIN,
        (
            "data.dev={held_out = 5}",
            "objective.masked-lm.rate=0.3",
            "objective.next-sentence.short=0.5",
        ),
    ),
    "pretrain-start": Entry(
        PRETRAIN, ("model.start={start}", "model.change={}", "model.size=", "text=false")
    ),
    "tune-one": _tuned(ONE),
    "tune-two": _tuned(TWO, "labels.positive=yes"),
    "tune-several": _tuned(SEVERAL),
    "tune-number": _tuned(NUMBER),
    "tune-tags": _tuned(TAGS),
    "tune-heights": _tuned(HEIGHTS),
    "tune-answer": _tuned(ANSWER),
    "tune-choose": _tuned(CHOOSE),
    "tune-layer-decay-frozen": _tuned(
        TWO, "optimiser.layer_decay=0.7", 'optimiser.freeze=["embed"]'
    ),
    "tune-unfreezing": _tuned(ONE, "optimiser.unfreeze_every=8"),
    "tune-weighted": _tuned(ONE, "labels.weights={1 = 3.0}", "train.smoothing=0.1"),
    "tune-held-out": _tuned(TWO, "data.dev={held_out = 20}", "train.metric=Matthews"),
    "tune-scratch-relative": Entry(
        TAGS, ("model.change={width = 16, inner = 32}", "model.change.position=relative")
    ),
    "tune-clipped": _tuned(TAGS, CLIP, clipped=True),
}
