"""Steps of ``regard tour``: data, training, translation, alignment, attention."""

import shutil
from pathlib import Path
from time import monotonic

from rich.rule import Rule

from regard.api import Model, load
from regard.cli.alignment import GoldPairs, align_by_best_method
from regard.cli.io.console import OUT
from regard.cli.scores import check_expected
from regard.cli.training_runs import run_loop
from regard.ground.files import read_json, write_text
from regard.ground.lock import FolderLock, lock_folder
from regard.inference.generation_settings import DecodeConfig
from regard.metrics.alignment import AlignmentScore, GoldLinks
from regard.metrics.bleu import bleu
from regard.metrics.translation import MetricScore
from regard.text.config import TranslationTextConfig
from regard.tour.toy_language import corpus as toy_corpus
from regard.tour.toy_language.corpus import Corpus, SentencePair
from regard.training.distributed import World
from regard.training.loop.events import duration
from regard.training.recipe import Recipe, read
from regard.training.recipe_files import find
from regard.training.run import prepare
from regard.training.run_folder import OURS, RECIPE, claim

RECIPE_NAME = "tour"
EXPECTED_AER = 0.26  # at most, beside the recipe's BLEU; 0.178 to 0.222 over seeds and machines
QUICK = ("train.steps=30", "train.evaluate_every=30", "train.checkpoint_every=30")
PAIRS, HELD_OUT = 30_000, 500
SHOWN = 4


def run_tour(out: Path, quick: bool) -> bool:
    """Run all steps; return False if a score is worse than expected."""
    start = monotonic()
    OUT.print("The tour of regard: a Transformer learns to translate, from random weights.\n")
    recipe = read(find(RECIPE_NAME), QUICK if quick else ())
    with _clear(out, recipe):
        sentences = _language(out, 2_000 if quick else PAIRS, 50 if quick else HELD_OUT)
        model = _train(out, recipe)
        translation = _translate(model, recipe, sentences)
        alignment = _align(model, sentences, out)
        _look(model, sentences, out)
    _what_next(out)
    OUT.print(f"\nThe tour took {duration(monotonic() - start)}.")
    return quick or _as_expected(recipe, translation, alignment)


def _as_expected(recipe: Recipe, translation: MetricScore, alignment: AlignmentScore) -> bool:
    """Compare both scores with the expected ones; print the comparisons."""
    assert recipe.expect is not None
    translated = check_expected(recipe.expect, [translation])
    aligned = alignment.aer <= EXPECTED_AER
    expected = f"expected: alignment error rate at most {EXPECTED_AER:g}"
    result = "reached" if aligned else "NOT reached"
    OUT.print(f"{expected}; measured {alignment.aer:.3f}: {result}")
    return translated and aligned


def _step(title: str) -> None:
    OUT.print()
    OUT.print(Rule(title, align="left", style="dim"))


def _language(out: Path, train: int, held_out: int) -> Corpus:
    _step("1. A toy language")
    sentences = toy_corpus.corpus(train, held_out, held_out)
    toy_corpus.write(sentences, out / "corpus")
    OUT.print(
        f"{train:,} sentence pairs for training, {held_out} for development, {held_out} for "
        f"testing, all different; written to {out / 'corpus'}\n"
    )
    for pair in sentences.test[:2]:
        OUT.print(f"  en  {pair.source}\n  de  {pair.target}", markup=False)
    return sentences


def _clear(out: Path, recipe: Recipe) -> FolderLock:
    """Remove an earlier tour from the folder, and lock it; anything else in it is an error."""
    lock = lock_folder(out) if _is_tour(out, recipe) else None
    if lock is not None and _is_tour(out, recipe):  # checked again under the lock
        for name in (*OURS, "corpus"):
            shutil.rmtree(out / name, ignore_errors=True)
    return claim(out, recipe)  # the same lock: no other process gets in between


def _is_tour(out: Path, recipe: Recipe) -> bool:
    """Whether a folder has a run of this recipe and a corpus (``regard train`` writes none)."""
    marker, about = out / RECIPE, recipe.about.model_dump(mode="json")
    has_files = (out / "corpus").is_dir() and marker.is_file()
    return has_files and read_json(marker).get("about") == about


def _train(out: Path, recipe: Recipe) -> Model:
    _step("2. Training")
    run = prepare(recipe, out, World.join("cpu"), data=out / "corpus")
    parameters, kind = run.paper.parameters(run.facts), recipe.tables[TranslationTextConfig].kind
    subwords = f"{kind} subwords, {len(run.tokenizer.vocabularies[0]):,} for both languages"
    OUT.print(f"{subwords}; a {run.paper.name} of {parameters:,} parameters")
    run.finish(run_loop(run).progress)
    return load(run.model_folder, "cpu")


def _translate(model: Model, recipe: Recipe, sentences: Corpus) -> MetricScore:
    _step("3. Translating the test set")
    search = recipe.tables[DecodeConfig].search
    outputs = model.translate([pair.source for pair in sentences.test], search)
    translations = [nbest[0].text for nbest in outputs]
    for pair, text in list(zip(sentences.test, translations, strict=True))[:SHOWN]:
        mark = "✓" if text == pair.target else "✗"
        OUT.print(f"  en  {pair.source}\n  de  {text}  {mark}", markup=False)
        if text != pair.target:
            OUT.print(f"      {pair.target}  (reference)", markup=False)
    references = [[pair.target for pair in sentences.test]]
    known = toy_corpus.dictionary(sentences.train)
    naive = [toy_corpus.word_by_word(pair.source, known) for pair in sentences.test]
    ours, baseline = bleu(translations, references), bleu(naive, references)
    OUT.print(f"\nthis model              {ours}", markup=False)
    OUT.print(f"word-by-word baseline   {baseline}", markup=False)
    OUT.print(f"scores of the beam search: {search.formula}", markup=False)
    return ours


def _align(model: Model, sentences: Corpus, out: Path) -> AlignmentScore:
    _step("4. Word alignment by attention")
    score = align_by_best_method(model, _with_golds(sentences.dev), _with_golds(sentences.test))
    model.save(out / "model")
    method = model.alignment_method
    which = f"layer {method.layer} {'shifted' if method.shifted else 'plain'}"
    parts = f"precision {score.precision:.3f}, recall {score.recall:.3f}"
    OUT.print(
        f"alignment error rate {score.aer:.3f} ({parts}) on the test set,\n"
        f"from {which}, as chosen on the development set"
    )
    return score


def _look(model: Model, sentences: Corpus, out: Path) -> None:
    _step("5. The attention of one sentence")
    pair = min(sentences.test, key=lambda pair: abs(len(pair.target.split()) - 9))
    seen = model.look(pair.source)
    OUT.print(seen.choose(layer=model.alignment_method.layer))
    write_text(out / "look.html", seen.html())
    OUT.print(f"\nAll layers and heads, in one page: {out / 'look.html'}")


def _what_next(out: Path) -> None:
    _step("6. What to try next")
    for command in (
        f'echo "The old man reads a book." | regard translate {out}/model --best 3',
        f'regard look {out}/model "The children sleep because they are tired."',
        f"regard evaluate {out}/model tour --data {out}/corpus --interval",
        "regard recipes tour > mine.toml    # then: regard train mine.toml --data YOUR-FOLDER",
    ):
        OUT.print(f"  {command}", markup=False)


def _with_golds(pairs: tuple[SentencePair, ...]) -> GoldPairs:
    texts = [(pair.source, pair.target) for pair in pairs]
    return texts, [GoldLinks(pair.links, pair.links) for pair in pairs]
