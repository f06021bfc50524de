"""The commands that are recorded, as they are called today, and how their output is read.

In braces stand {data}, {work} (a folder to write to), {recipe.RUN}, {regard.RUN} and {hf.RUN}: a
recipe, or a model in either format, of a run of ``recipes.py``; {marian} is a published translator.
Verbs and options that get other names get them here too; keys of JSON are told to ``KEYS``.
"""

from typing import NamedTuple

KEYS: dict[str, str] = {}  # key of JSON today -> what it was called at first
VALUES: dict[str, str] = {}  # word that is a value of JSON today -> what it was at first
IGNORED = {"engine", "device_seconds", "untrained", "why", "formula", "tokens per second"}
"""Keys of JSON with prose, or with what depends on the machine or on an initial draw."""

TIMES = ("a step", "estimated", "FLOPs")  # of lines that tell times too, left out of "counts"


class Command(NamedTuple):
    """A verb with its arguments and what it is given as standard input (text, or @FILE).

    Of what it says are kept the values of JSON lines, "lines", "numbers" or
    "counts"; with ``messages`` the
    numbers in messages too; and what is in ``files`` that it writes. Output may go ``to`` a file,
    for commands that stand ``after`` it.
    """

    arguments: tuple[str, ...]
    stdin: str | None = None
    reads: str = "json"
    files: tuple[str, ...] = ()
    to: str | None = None
    after: tuple[str, ...] = ()
    messages: bool = False


MT, RNN = "{regard.translate-untied}", "{regard.translate-bahdanau}"
BERT, POOLED = "{regard.pretrain-next-sentence}", "{regard.classify-pooled}"
MARIAN = "{marian}"
PAIRS, SOURCE = "{data}/pairs", "@{data}/pairs/test.src"
LINES = "cow dog owl\nlion\nsow rat pig owl newt\n\nhen hen\n"
TWO = "cow dog\tsow owl\nlion\town\n"
QUESTIONS = "who is it?\tcow dog owl rat fox gnu hen ibis jay kid lion mole newt owl pig\n"
CHOICES = '{"first": "cow dog", "choices": ["sow owl", "lion", "hen hen hen"]}\n'
BLANKS = "seal [MASK] and the [MASK].\nbadger squirrel and the [MASK].\n"


def _translate(*options: str, model: str = MT) -> Command:
    return Command(("translate", model, "--engine", "torch", "--json", *options), SOURCE)


def _predict(run: str, stdin: str, *options: str) -> Command:
    return Command(("predict", f"{{regard.{run}}}", "--json", *options), stdin)


def _evaluate(run: str, *options: str) -> Command:
    model, recipe = f"{{regard.{run}}}", f"{{recipe.{run}}}"
    return Command(("evaluate", model, recipe, "--data", "{data}", "--json", *options))


def _look(model: str, *options: str) -> Command:
    return Command(("look", model, "cow dog owl", "--json", *options))


def _convert(model: str, to: str, name: str) -> Command:
    files = (f"{{work}}/{name}/model.safetensors",)
    return Command(("convert", model, f"{{work}}/{name}", "--to", to), None, "numbers", files)


def _train(
    run: str, name: str, *options: str, reads: str = "numbers", file: str | None = None
) -> Command:
    out = f"{{work}}/{name}"
    given = ("train", f"{{recipe.{run}}}", "--data", "{data}", "--out", out, *options)
    return Command(given, None, reads, () if file is None else (f"{out}/{file}",))


SAMPLE = ("--search", "sample", "--seed", "3")
MBR = ("--search", "mbr", "--samples", "6", "--seed", "5")
TO_HYPOTHESES = ("--search", "greedy", "--engine", "torch")
HYPOTHESES = ("{work}/greedy.tgt", PAIRS + "/test.tgt")
LINKS = (
    PAIRS + "/test.src",
    PAIRS + "/test.tgt",
    "--gold",
    PAIRS + "/test.links",
    "--pretokenised",
)

# In this order: some read what those before them wrote.
COMMANDS: dict[str, Command] = {
    "verb-translate-greedy": _translate("--search", "greedy"),
    "verb-translate-beam": _translate("--search", "beam", "--beam", "4"),
    "verb-translate-published": _translate(),
    "verb-translate-nbest": _translate("--beam", "4", "--best", "4", "--length", "power"),
    "verb-translate-diverse": _translate("--groups", "3", "--beam", "2", "--best", "3"),
    "verb-translate-sample": _translate(*SAMPLE),
    "verb-translate-top-k": _translate(*SAMPLE, "--top-k", "5", "--temperature", "0.7"),
    "verb-translate-top-p": _translate(*SAMPLE, "--top-p", "0.8", "--best", "2"),
    "verb-translate-mbr": _translate(*MBR),
    "verb-translate-mbr-beam": _translate(*MBR, "--candidates", "beam", "--utility", "bleu"),
    "verb-translate-exact": _translate(
        "--search", "exact", "--length", "none", "--max-active", "40"
    ),
    "verb-translate-ensemble": _translate(
        "--ensemble", "{regard.translate-transformer}", "--beam", "2"
    ),
    "verb-translate-no-repeat": _translate("--no-repeat", "2", "--stop", "transformers"),
    "verb-translate-rows": _translate("--batch-size", "3", "--beam", "2"),
    "verb-translate-prefix": _translate("--prefix", PAIRS + "/test.src", "--beam", "2"),
    "verb-translate-cho": _translate(model="{regard.translate-cho}"),
    "verb-translate-sutskever": _translate(model="{regard.translate-sutskever}"),
    "verb-translate-bahdanau": _translate(model=RNN),
    "verb-translate-luong": _translate("--best", "2", model="{regard.translate-luong}"),
    "verb-translate-gehring": _translate(model="{regard.translate-gehring}"),
    "verb-translate-relative": _translate(model="{regard.translate-relative}"),
    "verb-translate-mixed": _translate(model="{regard.translate-recurrent-transformer}"),
    "verb-translate-lines": Command(
        ("translate", MT, *TO_HYPOTHESES), SOURCE, "lines", (), "greedy.tgt"
    ),
    "verb-translate-store": Command(
        ("translate", MT, "--best", "4", "--coverage", "0", "--json"), SOURCE, to="nbest.jsonl"
    ),
    "verb-sweep": Command(
        ("sweep", "{work}/nbest.jsonl", PAIRS + "/test.tgt", "--json", "--out", "{work}/swept.tgt"),
        files=("{work}/swept.tgt",),
        after=("verb-translate-store",),
    ),
    "verb-bleu": Command(
        ("bleu", *HYPOTHESES, "--json", "--chrf", "--ter", "--interval"),
        after=("verb-translate-lines",),
    ),
    "verb-bleu-explain": Command(
        ("bleu", *HYPOTHESES, "--explain", "--tokenize", "char"),
        reads="numbers",
        after=("verb-translate-lines",),
    ),
    "verb-bleu-systems": Command(
        ("bleu", "{work}/greedy.tgt", "{work}/swept.tgt", "--refs", PAIRS + "/test.tgt", "--json"),
        after=("verb-translate-lines", "verb-sweep"),
    ),
    "verb-score": Command(("score", MT, "--json"), "cow dog\tdog cow\nowl\tsow sow\n"),
    "verb-score-recurrent": Command(("score", RNN, "--json"), "cow dog\tdog cow\nowl\tsow\n"),
    "verb-evaluate-translate": _evaluate("translate-untied"),
    "verb-evaluate-classify": _evaluate("classify-pooled", "--labels"),
    "verb-evaluate-one": _evaluate("tune-one", "--labels"),
    "verb-evaluate-several": _evaluate("tune-several"),
    "verb-evaluate-number": _evaluate("tune-number"),
    "verb-evaluate-tags": _evaluate("tune-tags", "--labels"),
    "verb-evaluate-heights": _evaluate("tune-heights"),
    "verb-evaluate-answer": _evaluate("tune-answer"),
    "verb-evaluate-choose": _evaluate("tune-choose"),
    "verb-align": Command(("align", MT, *LINKS, "--json", "--kinds"), messages=True),
    "verb-align-recurrent": Command(("align", RNN, *LINKS, "--json"), messages=True),
    "verb-align-layer": Command(
        ("align", MT, *LINKS, "--layer", "0", "--head", "1"), None, "lines"
    ),
    "verb-align-both": Command(
        ("align", MT, *LINKS, "--reverse-model", MT, "--multiply", "--json")
    ),
    "verb-look": _look(MT),
    "verb-look-encoder": _look(MT, "--map", "encoder", "--layer", "1", "--head", "0"),
    "verb-look-decoder": _look(MT, "--map", "decoder", "--target", "owl dog"),
    "verb-look-recurrent": _look(RNN, "--subwords"),
    "verb-look-pooled": _look(POOLED),
    "verb-look-bert": _look(BERT, "--layer", "0"),
    "verb-look-tuned": _look("{regard.tune-one}"),
    "verb-look-svg": Command(
        ("look", MT, "cow dog", "--svg", "{work}/look.svg"), None, "numbers", ("{work}/look.svg",)
    ),
    "verb-tree": Command(("tree", MT, "cow dog owl", "--beam", "3", "--json")),
    "verb-tree-recurrent": Command(("tree", RNN, "cow owl", "--beam", "2", "--json")),
    "verb-predict-pooled": _predict("classify-pooled", LINES),
    "verb-predict-last": _predict("classify-last", LINES),
    "verb-predict-transformer": _predict("classify-transformer", LINES),
    "verb-predict-one": _predict("tune-one", LINES),
    "verb-predict-two": _predict("tune-two", TWO),
    "verb-predict-several": _predict("tune-several", LINES),
    "verb-predict-number": _predict("tune-number", LINES),
    "verb-predict-tags": _predict("tune-tags", LINES),
    "verb-predict-heights": _predict("tune-heights", LINES, "--pretokenised"),
    "verb-predict-answer": _predict("tune-answer", QUESTIONS),
    "verb-predict-choose": _predict("tune-choose", CHOICES),
    "verb-fill": Command(("fill", BERT, "--json"), BLANKS),
    "verb-fill-masked": Command(
        ("fill", "{regard.pretrain-masked}", "--top", "2"), BLANKS, "lines"
    ),
    "verb-embed": Command(("embed", BERT, "--json"), LINES),
    "verb-embed-pooled": Command(("embed", BERT, "--json", "--pool", "pooled", "--normalise"), TWO),
    "verb-embed-translate": Command(("embed", MT, "--json", "--pool", "max"), LINES),
    "verb-embed-file": Command(
        ("embed", BERT, "--out", "{work}/vectors.npy"), LINES, "lines", ("{work}/vectors.npy",)
    ),
    "verb-convert-hf": _convert(BERT, "hf", "bert-hf"),
    "verb-convert-back": _convert("{work}/bert-hf", "regard", "bert-back")._replace(
        after=("verb-convert-hf",)
    ),
    "verb-convert-tuned": _convert("{regard.tune-tags}", "hf", "tags-hf"),
    "verb-convert-answer": _convert("{regard.tune-answer}", "hf", "answer-hf"),
    "verb-convert-regard": _convert(MT, "regard", "mt-copy"),
    "verb-marian-published": Command(("translate", MARIAN, "--json"), SOURCE),
    "verb-marian-greedy": _translate("--search", "greedy", model=MARIAN),
    "verb-marian-power": _translate("--length", "power", "--best", "2", model=MARIAN),
    "verb-marian-score": Command(("score", MARIAN, "--json"), "cow dog\tdog cow\nowl\tsow sow\n"),
    "verb-marian-look": _look(MARIAN, "--layer", "1"),
    "verb-marian-align": Command(("align", MARIAN, *LINKS, "--json"), messages=True),
    "verb-marian-regard": _convert(MARIAN, "regard", "marian-regard"),
    "verb-marian-back": _convert("{work}/marian-regard", "hf", "marian-hf")._replace(
        after=("verb-marian-regard",)
    ),
    "verb-translate-int8": _translate("--precision", "int8", "--search", "greedy"),
    "verb-predict-int8": _predict("tune-one", LINES, "--precision", "int8"),
    "verb-train-dry-run": _train("translate-bahdanau", "dry", "--dry-run", reads="counts"),
    "verb-train-dry-run-tags": _train("tune-scratch-relative", "dry", "--dry-run", reads="counts"),
    "verb-train-classify": _train(
        "classify-pooled", "trained", "--set", "train.steps=5", reads="counts"
    ),
    "verb-train-seeds": _train(
        *("classify-last", "seeds", "--set", "train.steps=3", "--seeds", "2"),
        reads="counts",
        file="seeds.json",
    ),
    "verb-train-ladder": _train("ladder", "ladder", file="ladder.json", reads="none"),
    "verb-papers": Command(("papers", "--json")),
    "verb-papers-two": Command(("papers", "transformer:base", "bahdanau:base"), None, "numbers"),
    "verb-recency": Command(("recency", POOLED, "--json"), LINES),
}
