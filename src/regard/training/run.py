"""From a recipe to a trained folder: data, vocabularies, model, loop, the weights that are kept."""

import os
import shutil
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.data.packing import in_order
from regard.data.prepare import prepare_pair_texts, prepare_pairs
from regard.data.sampler import Sampler
from regard.data.shards import PairRows
from regard.data.sources import STDIN, Dropped, Lines, Source, read_lines, read_pairs
from regard.ground.batch import Budget
from regard.ground.errors import BadInput
from regard.ground.files import read_json, write_json, write_text
from regard.metrics.bleu import bleu
from regard.models import folder as folders
from regard.models import paper as paper_named
from regard.models import sized
from regard.models.cost import training_flops
from regard.models.facts import PairFacts, change
from regard.models.paper import Paper, count_parameters
from regard.objectives.translated import Translated
from regard.search.greedy import Greedy
from regard.tasks.translate import Translator
from regard.text.bilingual import Bilingual, train_bilingual
from regard.training.checkpoint import Checkpoints, Progress
from regard.training.events import Verdict
from regard.training.loop import Job, seed_everything
from regard.training.ranks import Ranks
from regard.training.recipe import Recipe
from regard.weights.files import load_weights

RECIPE = "recipe.json"  # its presence says that a folder is a run
OURS = ("checkpoints", "text", "data", "model")
FREE = {("train", "steps"), ("train", "report_every"), ("train", "patience")}


@dataclass(frozen=True, eq=False)
class Run:
    """A prepared run: its job, and what belongs to the model it will leave behind."""

    job: Job
    paper: Paper
    facts: PairFacts
    text: Bilingual
    out: Path
    dropped: Dropped

    @property
    def model_folder(self) -> Path:
        """Where the trained model goes."""
        return self.out / "model"

    def finish(self, progress: Progress) -> str:
        """Write the weights that are kept into the model folder; says which they are."""
        said, weights = _kept_weights(self.job.recipe, self.job.checkpoints, progress)
        module = self.job.model.cpu().eval()
        load_weights(module, weights, str(self.job.checkpoints.folder))
        notes = {"weights": said, "cost": cost(module, progress, self.job.ranks)}
        folders.write(
            self.model_folder, folders.Stored(self.paper, self.facts, module, self.text, notes)
        )
        return said


def prepare(
    recipe: Recipe,
    out: Path,
    ranks: Ranks,
    *,
    data: Path = Path(),
    resume: bool = False,
    skip_bad: bool = False,
    **limits: Any,
) -> Run:
    """Everything up to the first step. The leader writes vocabularies and shards, all read them.

    What can be known to be wrong is said before anything is written.
    """
    _check_model(recipe)
    _check_test(recipe, data, skip_bad)
    checkpoints = Checkpoints(out / "checkpoints")
    if ranks.leads:
        claim(out, recipe, resume=resume)
    if recipe.train.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # else cuBLAS draws lots
        torch.use_deterministic_algorithms(True)
    if not ranks.leads:
        ranks.wait()
    train = _kept_input(recipe.data.train.under(data), out, again=resume or not ranks.leads)
    text = _vocabularies(recipe, train, out, skip_bad, fresh=ranks.leads and not resume)
    prepared = _Data(recipe, text, train, data, out / "data", skip_bad)
    if ranks.leads:
        ranks.wait()
    paper, facts = _model_facts(recipe, text)
    seed_everything(recipe.train.seed, 0)
    model = _built(paper, facts)
    objective = Translated(text.target.bos, text.target.eos, recipe.train.smoothing)
    job = Job(
        recipe=recipe,
        model=model,
        objective=objective,
        sampler=prepared.sampler(objective),
        judge=partial(_judge, recipe, text, prepared.dev, prepared.dev_texts, ranks),
        flops=lambda examples: training_flops(facts, [objective.length(one) for one in examples]),
        checkpoints=checkpoints,
        ranks=ranks,
        data=prepared.mark,
        **limits,
    )
    return Run(job, paper, facts, text, out, prepared.dropped)


def cost(module: nn.Module, progress: Progress, ranks: Ranks) -> dict[str, float]:
    """What a run has cost, as every table of scores prints it."""
    return {
        "parameters": count_parameters(module),
        "training_flops": progress.flops,
        "tokens": progress.tokens,
        "device_seconds": round(progress.seconds * ranks.world, 1),
    }


class _Data:
    """The pairs of a recipe as ids, tokenised once (training text anew each epoch if it drops)."""

    def __init__(
        self,
        recipe: Recipe,
        text: Bilingual,
        train: Source,
        root: Path,
        store: Path,
        skip_bad: bool,
    ):
        self.recipe, self.text, self.store = recipe, text, store
        self.dropped = Dropped()
        self.options: dict[str, Any] = {
            "longest_characters": recipe.data.longest_characters,
            "dropped": self.dropped if skip_bad else None,
        }
        self.read: Callable[[int, np.ndarray], Sequence[Any]]
        if recipe.text.dropout:
            self.texts = prepare_pair_texts(store, "train", train, **self.options)
            self.count, self.read = len(self.texts), self._read_dropped
        else:
            self.pairs = self._tokenised("train", train)
            self.count, self.read = len(self.pairs), self._read
        dev = recipe.data.dev.under(root)
        self.dev = self._tokenised("dev", dev)
        self.dev_texts = [
            (source, target)
            for _, source, target in read_pairs(
                dev, recipe.data.longest_characters, Dropped() if skip_bad else None
            )
        ][: recipe.train.judge_sentences]

    @property
    def mark(self) -> str:
        """What the training data is, in short: a resumed run says if it has changed."""
        rows = self.texts if self.recipe.text.dropout else self.pairs
        lengths = np.stack([rows.source.lengths, rows.target.lengths])
        return f"{self.count} pairs, {zlib.crc32(lengths.tobytes()):08x}"

    def sampler(self, objective: Translated) -> Sampler:
        """Batches without end."""
        limits = self.recipe.batches
        budget = Budget(limits.tokens, limits.rows, limits.longest)
        return Sampler(
            self.read,
            objective.length,
            self.count,
            budget,
            self.recipe.train.seed,
            dropped=self.dropped,
        )

    def _tokenised(self, name: str, source: Source) -> PairRows:
        source_text, target_text = self.text.source, self.text.target
        return prepare_pairs(
            self.store,
            name,
            source,
            source_text.encode_all,
            target_text.encode_all,
            vocab=max(len(source_text), len(target_text)),
            fingerprint=f"{source_text.fingerprint} {target_text.fingerprint}",
            **self.options,
        )

    def _read(self, epoch: int, indices: np.ndarray) -> Sequence[Any]:
        return [self.pairs[i] for i in indices]

    def _read_dropped(self, epoch: int, indices: np.ndarray) -> Sequence[Any]:
        rate, seed = self.recipe.text.dropout, self.recipe.train.seed

        def drawn(index: int) -> tuple[list[int], list[int]]:
            source, target = self.texts[index]
            return (
                self.text.source.encode_dropped(source, rate, (seed, epoch, index, 0)),
                self.text.target.encode_dropped(target, rate, (seed, epoch, index, 1)),
            )

        return [drawn(int(index)) for index in indices]


def claim(out: Path, recipe: Recipe, *, resume: bool = False) -> None:
    """Make a folder this run's own. What somebody else put there is never touched.

    Resuming where there is nothing yet begins: a run may be killed before it has written a word.
    """
    ours, steps = (out / RECIPE).is_file(), Checkpoints(out / "checkpoints").steps()
    if resume and ours:
        _check_same(out, recipe)
    elif not ours and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BadInput(f"{out}: holds something else; choose a folder that is empty or not there")
    elif steps and steps[-1] > 0:
        raise BadInput(f"{out}: holds a run already; go on with --resume, or choose another --out")
    else:
        for name in OURS:
            shutil.rmtree(out / name, ignore_errors=True)
    write_json(out / RECIPE, recipe.model_dump(mode="json"))


def _check_same(out: Path, recipe: Recipe) -> None:
    """A run may be made longer or shown otherwise; what decides its weights must stay."""
    before, now = read_json(out / RECIPE), recipe.model_dump(mode="json")
    changed = [
        f"{table}.{key}"
        for table in ("data", "text", "model", "batches", "optimiser", "train")
        for key, value in now[table].items()
        if (table, key) not in FREE and (before.get(table) or {}).get(key) != value
    ]
    if changed:
        raise BadInput(f"{out}: was begun with another recipe (differs in: {', '.join(changed)})")


def _check_model(recipe: Recipe) -> None:
    paper, facts = _chosen_facts(recipe)
    with torch.device("meta"):
        _built(paper, facts)
    Budget(recipe.batches.tokens, recipe.batches.rows, recipe.batches.longest)


def _built(paper: Paper, facts: PairFacts) -> nn.Module:
    try:
        return paper.build(facts)
    except (ValueError, RuntimeError) as error:
        raise BadInput(f"model: {str(error).splitlines()[0]}") from None


def _check_test(recipe: Recipe, data: Path, skip_bad: bool) -> None:
    sets = [recipe.data.test, *recipe.data.more_tests.values()]
    for files in sets:
        if files is not None:
            source, dropped = files.under(data), Dropped() if skip_bad else None
            if not any(True for _ in read_pairs(source, recipe.data.longest_characters, dropped)):
                raise BadInput(f"{', '.join(source.paths)}: no pairs to test on")


def _kept_input(source: Source, out: Path, *, again: bool) -> Source:
    """Standard input can be read once, training reads twice and may resume: keep a copy."""
    if STDIN not in source.paths:
        return source
    copy = out / "stdin.txt"
    if not (again and copy.exists()):
        write_text(copy, "".join(f"{line}\n" for line in read_lines(STDIN)))
    if isinstance(source, Lines):
        paths = tuple(str(copy) if path == STDIN else path for path in source.paths)
        return replace(source, paths=paths)
    return replace(source, path=str(copy))


def _vocabularies(
    recipe: Recipe, train: Source, out: Path, skip_bad: bool, *, fresh: bool
) -> Bilingual:
    folder = out / "text"
    if not fresh and any(folder.glob("*tokenizer.json")):
        return Bilingual.load(folder)
    pairs = [
        (source, target)
        for _, source, target in read_pairs(
            train,
            recipe.data.longest_characters,
            Dropped() if skip_bad else None,
        )
    ]
    facts = recipe.text
    text = train_bilingual(
        (source for source, _ in pairs),
        (target for _, target in pairs),
        facts.kind,
        facts.vocab,
        joint=facts.joint,
        normalise=facts.normalise,
        lower=facts.lower,
    )
    text.save(folder)
    return text


def _chosen_facts(recipe: Recipe) -> tuple[Paper, PairFacts]:
    paper, wanted = paper_named(recipe.model.paper), recipe.model
    if any(name.split(".")[-1] == "vocab" for name in wanted.change):
        raise BadInput("model.change.vocab follows from text.vocab: set that")
    facts = sized(f"{wanted.paper}:{wanted.size}")
    if wanted.source is not None:
        facts = replace(facts, source=sized(wanted.source).source)
    if wanted.target is not None:
        facts = replace(facts, target=sized(wanted.target).target)
    facts = change(facts, **wanted.change)
    if facts.tie == "all" and not recipe.text.joint:  # two vocabularies cannot share vectors
        if "tie" in wanted.change:
            raise BadInput("text.joint=false gives two vocabularies: tie 'target' or 'none'")
        facts = change(facts, tie="target")
    return paper, facts


def _model_facts(recipe: Recipe, text: Bilingual) -> tuple[Paper, PairFacts]:
    paper, facts = _chosen_facts(recipe)
    sizes = {"source.vocab": len(text.source), "target.vocab": len(text.target)}
    return paper, change(facts, **sizes)


def _judge(
    recipe: Recipe,
    text: Bilingual,
    dev: PairRows,
    texts: list[tuple[str, str]],
    ranks: Ranks,
    model: nn.Module,
) -> Verdict:
    """Negative log-likelihood of the development set, and BLEU where it judges."""
    objective = Translated(text.target.bos, text.target.eos, smoothing=0.0)
    lengths = np.stack([dev.source.lengths, dev.target.lengths], axis=1) + 1
    limits = recipe.batches
    batches = in_order(lengths, Budget(limits.tokens, limits.rows, limits.tokens))
    sums = torch.zeros(2, dtype=torch.float64, device=ranks.device)
    with torch.inference_mode():
        for chosen in batches[ranks.rank :: ranks.world]:
            batch = objective.collate([dev[i] for i in chosen]).to(ranks.device)
            sums[0] += objective(model, batch)[1]
            sums[1] += batch.weight
    total, weight = ranks.total(sums).tolist()
    loss = total / weight
    figures = {"loss": loss, "perplexity": float(np.exp(min(loss, 700.0)))}
    if recipe.train.judge == "loss":
        return Verdict(-loss, figures)
    figures["bleu"] = _dev_bleu(model, text, texts, ranks)
    return Verdict(figures["bleu"], figures)


def _dev_bleu(
    model: nn.Module, text: Bilingual, texts: list[tuple[str, str]], ranks: Ranks
) -> float:
    found = torch.zeros(1, dtype=torch.float64, device=ranks.device)
    if ranks.leads:
        with torch.autocast(ranks.device.type, enabled=ranks.device.type == "cuda"):
            translations = Translator(model, text).translate([s for s, _ in texts], Greedy())
        found += bleu([one[0].text for one in translations], [[t for _, t in texts]]).value
    return float(ranks.total(found))


def _kept_weights(
    recipe: Recipe, checkpoints: Checkpoints, progress: Progress
) -> tuple[str, dict[str, torch.Tensor]]:
    """Which weights a run leaves behind: an average if the recipe asks for one, else the best."""
    steps = checkpoints.steps()
    best = progress.best_step if progress.best_step in steps else steps[-1]
    if recipe.train.average > 1:
        regular = recipe.train.regular(steps)
        chosen = regular[-recipe.train.average :] or steps[-1:]
        return f"mean of steps {', '.join(map(str, chosen))}", checkpoints.average(chosen)
    _, tensors = checkpoints.load(best)
    if "average" in tensors:
        return f"moving average at step {best}", tensors["average"]
    return f"step {best}", tensors["model"]
