"""Calls of the verbs beyond those of ``safety/commands.py``, so that every verb is called.

{inputs} and {work} are folders; files that a call writes are captured, too.
"""

from typing import NamedTuple


class Call(NamedTuple):
    """A call of the command line, its standard input, and the files that it writes."""

    line: str
    stdin: str = ""
    files: tuple[str, ...] = ()


BERT = "{inputs}/models/hf-bert-base-uncased"
GPT = "{inputs}/models/hf-gpt2"
MARIAN = "{inputs}/models/hf-marian"
VIT = "{inputs}/models/regard-vit"
ONE = "{inputs}/models/regard-task-one"
OWLS = "{inputs}/regard/classify-pooled"
MT = "{inputs}/regard/translate-untied"
TUNED = "{inputs}/regard/tune-one"
OWN = "--data {inputs}/data"
MT_RECIPE = "{inputs}/recipes/translate-untied.toml " + OWN
TUNED_RECIPE = "{inputs}/recipes/tune-one.toml " + OWN
BANKS = "--train {inputs}/treebank.conllu --dev {inputs}/treebank.conllu"
TEXTS = "the old sailor\n\na storm came, and the cat\n"
SHORT = "--set train.steps=4 --set train.evaluate_every=2 --set optimiser.warmup=1 --device cpu"

CALLS: dict[str, Call] = {
    "none": Call(""),
    "version": Call("--version"),
    "help": Call("--help"),
    "translate": Call(f"translate {MARIAN} --best 2", "cow dog\nowl\n"),
    "translate-table": Call(
        f"translate {MARIAN} {{inputs}}/table.csv --column text --out {{work}}/t.csv",
        files=("t.csv",),
    ),
    "generate": Call(f"generate {GPT} --max-new-tokens 3", TEXTS),
    "generate-sample": Call(
        f"generate {GPT} --max-new-tokens 5 --search sample --seed 3 --top-k 20 --best 2", TEXTS
    ),
    "generate-no-repeat": Call(
        f"generate {GPT} --max-new-tokens 6 --no-repeat 2 --repetition-penalty 1.3", TEXTS
    ),
    "generate-stop": Call(f"generate {GPT} --max-new-tokens 8 --stop-string a", "the\n"),
    "generate-out": Call(
        f"generate {GPT} {{inputs}}/texts.txt --max-new-tokens 2 --out {{work}}/g.jsonl",
        files=("g.jsonl",),
    ),
    "fill": Call(f"fill {BERT} --top 2", "the [MASK] sailor\n"),
    "predict-one": Call(f"predict {ONE}", TEXTS),
    "predict-tags": Call("predict {inputs}/models/regard-task-tags", "Ada met Charles\n"),
    "predict-answer": Call("predict {inputs}/models/regard-task-answer", "who?\tthe old sailor\n"),
    "predict-images": Call(f"predict {VIT} {{inputs}}/images"),
    "predict-roles": Call("predict {inputs}/mistakes/labeller", "the owl\n"),
    "embed": Call(f"embed {BERT}", TEXTS),
    "embed-sentences": Call("embed {inputs}/models/st-bert", TEXTS),
    "embed-npy": Call(f"embed {BERT} {{inputs}}/texts.txt --out {{work}}/e.npy", files=("e.npy",)),
    "score": Call(f"score {GPT} {{inputs}}/texts.txt"),
    "score-masked": Call(f"score {BERT} {{inputs}}/texts.txt"),
    "score-translation": Call(f"score {MARIAN}", "cow dog\tdog cow\n"),
    "retrieve": Call(
        f"retrieve {BERT} {{inputs}}/queries.jsonl {{inputs}}/corpus.jsonl"
        " --qrels {inputs}/qrels.tsv"
    ),
    "retrieve-plain": Call(f"retrieve {BERT} {{inputs}}/queries.jsonl {{inputs}}/corpus.jsonl"),
    "mine": Call(f"mine {BERT} {{inputs}}/texts.txt"),
    "mine-two": Call(f"mine {BERT} {{inputs}}/texts.txt {{inputs}}/other.txt"),
    "new": Call("new {inputs}/table.csv --out {work}/new.toml", files=("new.toml",)),
    "new-pairs": Call(
        "new {inputs}/data/pairs/train.src {inputs}/data/pairs/train.tgt --out {work}/pairs.toml",
        files=("pairs.toml",),
    ),
    "new-tags": Call(
        "new {inputs}/data/tags/train.conll --out {work}/tags.toml", "", ("tags.toml",)
    ),
    "prepare": Call(f"prepare {MT_RECIPE} --out {{work}}/prepared"),
    "train-dry-run": Call(f"train {MT_RECIPE} --out {{work}}/dry --dry-run"),
    "train": Call(
        f"train {MT_RECIPE} --out {{work}}/run {SHORT} --watch heads",
        files=("run/metrics.jsonl", "run/recipe.json", "run/model/config.json"),
    ),
    "train-again": Call(f"train {MT_RECIPE} --out {{work}}/run {SHORT}"),
    "train-seeds": Call(
        f"train {TUNED_RECIPE} --set model.start={BERT} --set model.size= --set text=false"
        f" --out {{work}}/seeds --seeds 2 {SHORT}",
        files=("seeds/seeds.json",),
    ),
    "train-ladder": Call(
        f"train {{inputs}}/recipes/ladder.toml {OWN} --out {{work}}/ladder {SHORT}",
        files=("ladder/ladder.json",),
    ),
    "train-branch": Call(
        f"train {MT_RECIPE} --out {{work}}/branch --branch {{work}}/run --at 2 {SHORT}"
    ),
    "tune": Call(
        f"tune {{inputs}}/recipes/classify-pooled.toml {OWN} --out {{work}}/tuned"
        f" --set optimiser.rate=0.001,0.01 {SHORT}",
        files=("tuned/trials.jsonl",),
    ),
    "curves": Call(
        "curves {work}/run --svg {work}/c.svg --html {work}/c.html", files=("c.svg", "c.html")
    ),
    "formation": Call(
        "formation {work}/run --svg {work}/f.svg --html {work}/f.html", files=("f.svg", "f.html")
    ),
    "recipes": Call("recipes"),
    "recipes-one": Call("recipes tour"),
    "evaluate": Call(f"evaluate {MT} {MT_RECIPE}"),
    "evaluate-dev": Call(f"evaluate {TUNED} {TUNED_RECIPE} --dev --labels"),
    "compare": Call(f"compare {MT} {{inputs}}/regard/translate-transformer --recipe {MT_RECIPE}"),
    "compare-labels": Call(f"compare {TUNED} {TUNED} --recipe {TUNED_RECIPE}"),
    "bleu": Call("bleu {inputs}/data/pairs/test.src {inputs}/data/pairs/test.tgt --chrf --ter"),
    "bleu-explain": Call(
        "bleu {inputs}/data/pairs/test.src {inputs}/data/pairs/test.tgt --explain"
    ),
    "similarity": Call("similarity {inputs}/vectors.txt {inputs}/similar.tsv"),
    "study": Call("study"),
    "agreement": Call(f"agreement {GPT} --sentences 2"),
    "align": Call(f"align {MT} {{inputs}}/data/pairs/dev.src {{inputs}}/data/pairs/dev.tgt"),
    "align-gold": Call(
        f"align {MT} {{inputs}}/data/pairs/test.src {{inputs}}/data/pairs/test.tgt"
        " --gold {inputs}/data/pairs/test.links --pretokenised"
    ),
    "look": Call(f"look {MARIAN} 'cow dog'"),
    "look-bert": Call(f"look {BERT} 'the old sailor'"),
    "look-gpt": Call(f"look {GPT} 'the old sailor and the old sailor' --induction"),
    "look-image": Call(f"look {VIT} {{inputs}}/images/0.png"),
    "frames": Call(
        "frames {inputs}/mistakes/labeller 'the owl saw' --predicate 1 --svg {work}/r.svg",
        files=("r.svg",),
    ),
    "attribute": Call(f"attribute {ONE} 'the old sailor'"),
    "attribute-without": Call(f"attribute {ONE} 'the old sailor' --without 'head 0.1'"),
    "heads": Call(f"heads {BERT} --text {{inputs}}/texts.txt"),
    "heads-treebank": Call(f"heads {BERT} --treebank {{inputs}}/treebank.conllu --least 2"),
    "ablate": Call(f"ablate {TUNED} {TUNED_RECIPE} "),
    "ablate-translator": Call(f"ablate {MT} {MT_RECIPE} --limit 4 --layers"),
    "prune": Call(f"prune {TUNED} {TUNED_RECIPE} --seeds 1 --limit 8"),
    "prune-share": Call(f"prune {TUNED} {TUNED_RECIPE} --share 0.3 --out {{work}}/pruned"),
    "steer": Call(
        f"steer {GPT} --plus {{inputs}}/texts.txt --minus {{inputs}}/other.txt --layer 1"
        " --out {work}/steer.safetensors",
        files=("steer.safetensors",),
    ),
    "tree": Call(f"tree {MARIAN} 'cow dog' --beam 2"),
    "tree-tokens": Call(f"tree {GPT} 'the old'"),
    "stream": Call(f"stream {GPT} 'the old sailor'"),
    "stream-masked": Call(f"stream {BERT} 'the [MASK] sailor'"),
    "patch": Call(f"patch {GPT} 'the old the cat' 'the cat the old'"),
    "neighbours": Call(f"neighbours {GPT} the", "the old sailor\nthe cat\n"),
    "neighbours-vectors": Call("neighbours {inputs}/regard/classify-pooled owl", "cow owl\ndog\n"),
    "probe": Call(f"probe {BERT} {BANKS} --test {{inputs}}/treebank.conllu --layers 0,1"),
    "recency": Call(f"recency {GPT} {{inputs}}/texts.txt"),
    "check": Call("check"),
    "check-one": Call(f"check head-roles --model {BERT} --data {{inputs}}/bank"),
    "papers": Call("papers"),
    "papers-one": Call("papers RoBERTa"),
    "papers-two": Call("papers transformer:base marian:base"),
    "papers-results": Call("papers --results Bahdanau"),
    "cite": Call("cite BERT GPT-2"),
    "cite-model": Call(f"cite {MARIAN}"),
    "convert-formats": Call(f"convert {BERT} --list-formats"),
    "convert": Call(
        f"convert {BERT} {{work}}/bert --to regard",
        files=("bert/config.json", "bert/model.safetensors"),
    ),
    "convert-check": Call("convert {inputs}/models/regard-task-one {work}/one --to hf --check"),
}
