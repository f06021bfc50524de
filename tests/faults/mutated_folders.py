"""Folders that are damaged at random: they are used, or refused in one line, and nothing else.

    python tests/faults/mutated_folders.py --count 10000 --seed 1

Each case is a copy of a small folder with one to three changes (``mutations``), drawn by the seed
and the number of the case; it is loaded and used once. A worker does many cases, with limits on
its memory and its time; the process that started it notices when it dies or hangs.
"""

import argparse
import json
import os
import random
import resource
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [one for one in (str(TESTS),) if one not in sys.path]

MEMORY = 3 << 30  # bytes that a worker may take beyond what it has at its start
SECONDS = 20  # that a case may take, several times what the slowest needs
PATIENCE = 120  # seconds after which a silent worker is taken to hang
SETTINGS = ("train.checkpoint_every=2", "train.report_every=2", "train.evaluate_every=4")
WORDS = ["ada bit", "cow dog elf"]


def build(folder: Path) -> None:
    """One folder of each kind."""
    import torch

    from regard.models.folders import folder as folders
    from regard.training.distributed import World
    from regard.training.loop import train
    from regard.training.recipe import read
    from regard.training.run import prepare
    from small import write_corpus
    from small_labels import write_owls

    torch.set_num_threads(1)
    for name, write in (("translator", write_corpus), ("classifier", write_owls)):
        corpus = folder / "corpora" / name
        corpus.mkdir(parents=True)
        recipe = write(corpus)
        asked = read(recipe, [*SETTINGS, "train.steps=4"])
        run = prepare(asked, corpus / "run", World(0, 1, torch.device("cpu")), data=corpus)
        *_, ended = train(run.job)
        run.finish(ended.progress)
        if run.lock is not None:
            run.lock.release()
        shutil.copytree(corpus / "run" / "model", folder / name)
        shutil.copytree(corpus / "run", folder / f"{name}-run", ignore=lambda *_: ["model"])
        (folder / f"{name}-recipe").mkdir()
        shutil.copy(recipe, folder / f"{name}-recipe" / "recipe.toml")
    _build_encoders(folder)
    _build_marian(folder / "marian")
    _build_llama(folder / "llama")
    for name in ("bert", "bert-parts", "marian"):
        if (folder / name).is_dir():
            folders.write(folder / f"{name}-converted", folders.read(folder / name))


def _build_encoders(folder: Path) -> None:
    import torch

    from regard.models.folders import folder as folders
    from regard.weights.files import read_tensors, write_tensors
    from small_bert import small_bert

    folders.write(folder / "encoder", small_bert("words"))
    folders.write(folder / "tagger", small_bert("tags"))
    folders.write(folder / "bert", small_bert("one"), "hf")
    folders.write(folder / "bert-answers", small_bert("answer"), "hf")
    old = folder / "bert-old"  # vocab.txt alone, older names, tensors in a pickle
    folders.write(old, small_bert("words"), "hf")
    (old / "tokenizer.json").unlink()
    torch.save(read_tensors(old / "model.safetensors"), old / "pytorch_model.bin")
    (old / "model.safetensors").unlink()
    (old / "special_tokens_map.json").write_text(json.dumps({"mask_token": "[MASK]"}))
    (old / "added_tokens.json").write_text("{}")
    parts = folder / "bert-parts"  # weights in two files, with files of sentence-transformers
    folders.write(parts, small_bert("states"), "hf")
    tensors = sorted(read_tensors(parts / "model.safetensors").items())
    (parts / "model.safetensors").unlink()
    places = {}
    for number in (1, 2):
        file = f"model-0000{number}-of-00002.safetensors"
        part = dict(tensors[number - 1 :: 2])
        write_tensors(parts / file, part)
        places |= dict.fromkeys(part, file)
    index = {"metadata": {}, "weight_map": places}
    (parts / "model.safetensors.index.json").write_text(json.dumps(index))
    modules = [{"type": "sentence_transformers.models.Transformer", "path": ""}]
    modules.append({"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"})
    (parts / "modules.json").write_text(json.dumps(modules))
    (parts / "1_Pooling").mkdir()
    (parts / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    (parts / "sentence_bert_config.json").write_text('{"max_seq_length": 32}')


def _build_marian(folder: Path) -> None:
    """As Hugging Face keeps it; left out where SentencePiece is not installed."""
    try:
        import sentencepiece  # noqa: F401
    except ImportError:
        return
    import torch

    from marian_folders import write_text
    from regard.models.facts import change
    from regard.models.folders import folder as folders
    from regard.models.papers import marian
    from regard.text.tokenizers.marian_spm import MarianTokenizer

    files = folder.with_name("spm")
    files.mkdir()
    vocab, _ = write_text(files)
    facts = change(marian.BASE, vocab=vocab, width=16, inner=24, heads=2, depth=1)
    torch.manual_seed(0)
    module = facts.build().eval()
    text = MarianTokenizer.load(files, vocab - 1)
    folders.write(folder, folders.LoadedModel(marian.PAPER, facts, module, text), "hf")
    shutil.rmtree(files)
    settings = json.loads((folder / "generation_config.json").read_text())
    settings |= {"max_length": 12, "num_beams": 2}
    (folder / "generation_config.json").write_text(json.dumps(settings))


def _build_llama(folder: Path) -> None:
    """A causal model whose tokenizer.json is used as it stands."""
    import torch

    from regard.models.facts import change
    from regard.models.folders import folder as folders
    from regard.text.tokenizers.bpe import DecoderBPE
    from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer
    from small_families import FACTS
    from small_tokenizers import write_tokenizer

    files = write_tokenizer(folder.with_name("llama-tokenizer"), "llama3")
    text = EncoderTokenizer.load(files, family=DecoderBPE())
    assert text is not None
    paper, facts = FACTS["llama"]
    facts = change(facts, vocab=len(text.words), longest=64)
    torch.manual_seed(0)
    folders.write(folder, folders.LoadedModel(paper, facts, facts.build().eval(), text), "hf")
    shutil.rmtree(files)


def _translate(folder: Path) -> None:
    from regard.api import load

    model = load(folder, "cpu")
    model.translate(WORDS)
    list(model.align([("ada bit", "bit ada")]))


def _predict(folder: Path) -> None:
    from regard.api import load

    model = load(folder, "cpu")
    model.predict(WORDS)
    model.look("ada bit")


def _answer(folder: Path) -> None:
    from regard.api import load

    load(folder, "cpu").predict([("who counted gulls?", "she counted twelve gulls")])


def _fill(folder: Path) -> None:
    from regard.api import load

    model = load(folder, "cpu")
    model.embed(WORDS)
    model.fill(["the old [MASK] mended"])


def _embed(folder: Path) -> None:
    from regard.api import load

    load(folder, "cpu").embed(WORDS)


def _generate(folder: Path) -> None:
    from regard.api import load

    model = load(folder, "cpu")
    model.generate(["The old man", "x" * 60], max_new_tokens=3)
    model.look("The dog")


def _convert(folder: Path) -> None:
    """There and back: as it is kept here, and as it was published."""
    from regard.api import load

    written = folder.with_name("written")
    for format in ("regard", "hf"):
        shutil.rmtree(written, ignore_errors=True)
        load(folder, "cpu").save(written, format)
        load(written, "cpu").encode([[1, 2, 3]])


def _read_recipe(folder: Path) -> None:
    from regard.training.recipe import read
    from regard.training.run import task_of

    task_of(read(folder / "recipe.toml")).resolve(Path())


def _resume(name: str, recipe: str, folder: Path) -> None:
    """Go on for one more step; the corpora lie beside the folder."""
    import torch

    from regard.training.distributed import World
    from regard.training.loop import train
    from regard.training.metrics_log import MetricsLog
    from regard.training.recipe import read
    from regard.training.run import prepare

    corpus = folder.with_name("corpora") / name
    asked = read(corpus / recipe, [*SETTINGS, "train.steps=5"])
    world = World(0, 1, torch.device("cpu"))
    run = prepare(asked, folder, world, data=corpus, resume=True)
    try:
        MetricsLog(folder, after_step=2)
        *_, ended = train(run.job, resume=True)
        run.finish(ended.progress)
    finally:
        if run.lock is not None:
            run.lock.release()


USES: dict[str, Callable[[Path], None]] = {
    "translator": _translate,
    "marian": _translate,
    "classifier": _predict,
    "tagger": _predict,
    "bert": _predict,
    "bert-answers": _answer,
    "encoder": _fill,
    "bert-old": _fill,
    "bert-parts": _embed,
    "llama": _generate,
    **dict.fromkeys(("bert-converted", "bert-parts-converted", "marian-converted"), _convert),
    "translator-recipe": _read_recipe,
    "classifier-recipe": _read_recipe,
    "translator-run": partial(_resume, "translator", "small.toml"),
    "classifier-run": partial(_resume, "classifier", "owls.toml"),
}


def copied(folders: Path, kind: str, scratch: Path) -> Path:
    """A copy of a folder that may be damaged, with the corpora beside it."""
    case, corpora = scratch / "case", scratch / "corpora"
    shutil.rmtree(case, ignore_errors=True)
    shutil.copytree(folders / kind, case)
    if not corpora.exists():
        corpora.symlink_to(folders / "corpora")
    return case


def one_case(
    folders: Path, number: int, seed: int, scratch: Path, kinds: str = ""
) -> dict[str, Any]:
    """Damage a folder and use it: what was done, and how it ended."""
    from faults.mutations import mutate
    from regard.core.errors import LONGEST, BadInput

    draw = random.Random(f"{seed}/{number}")
    kind = draw.choice([one for one in USES if kinds in one and (folders / one).is_dir()])
    case, harm = copied(folders, kind, scratch), scratch / "harm"
    changes = [mutate(case, draw, harm) for _ in range(draw.choice((1, 1, 1, 2, 3)))]
    record = {"number": number, "kind": kind, "changes": changes, "outcome": "used"}
    begun = time.perf_counter()
    signal.alarm(SECONDS)
    try:
        USES[kind](case)
    except BadInput as error:
        said = str(error)
        clean = said.isprintable() and 0 < len(said) <= LONGEST
        record |= {"outcome": "refused" if clean else "WRONG", "said": said[:200]}
    except BaseException as error:  # whatever it is, it is no clean end
        last = "".join(traceback.format_exception(error)[-6:])
        record |= {"outcome": "WRONG", "said": f"{type(error).__name__}: {error!s:.300}\n{last}"}
    signal.alarm(0)
    if harm.exists():
        record |= {"outcome": "WRONG", "said": "code was run"}
        harm.rmdir()
    record["seconds"] = round(time.perf_counter() - begun, 2)
    return record


def work(folders: Path, numbers: range, seed: int, kinds: str) -> None:
    """Many cases in this process, one line of JSON for each."""
    import torch

    torch.set_num_threads(1)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"

    def stop(*_: Any) -> None:
        raise TimeoutError(f"took more than {SECONDS} s")

    signal.signal(signal.SIGALRM, stop)
    with tempfile.TemporaryDirectory() as scratch:
        one_case(folders, 0, 0, Path(scratch))  # imports what there is to import
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
        for number in numbers:
            print(f"BEGIN {number}", flush=True)
            print(json.dumps(one_case(folders, number, seed, Path(scratch), kinds)), flush=True)


def campaign(
    folders: Path, count: int, seed: int, first: int = 0, kinds: str = ""
) -> Iterator[dict[str, Any]]:
    """The record of each case; a worker that dies or hangs is one, too."""
    while first < count:
        command = [sys.executable, __file__, "--work", str(folders), "--seed", str(seed)]
        command += ["--first", str(first), "--count", str(count), "--kinds", kinds]
        begun: int | None = None
        with (
            tempfile.TemporaryFile() as errors,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors) as process,
        ):
            for line in _lines(process):
                if line.startswith("BEGIN"):
                    begun = int(line.split()[1])
                elif line.startswith("{"):
                    record, begun = json.loads(line), None
                    first = record["number"] + 1
                    yield record
            process.kill()
            status = process.wait()
            errors.seek(0)
            said = errors.read().decode(errors="replace")[-2000:]
        if begun is not None:
            yield {"number": begun, "kind": "?", "changes": [], "outcome": "WRONG"} | {
                "said": f"the worker hung or died (status {status}): {said}"
            }
            first = begun + 1
        elif first < count:
            raise RuntimeError(f"the worker does not start: {said}")


def _lines(process: subprocess.Popen[bytes]) -> Iterator[str]:
    """What a process prints, line by line, until it ends or is silent for too long."""
    assert process.stdout is not None
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while selector.select(PATIENCE):
            if not (chunk := os.read(process.stdout.fileno(), 1 << 16)):
                return
            *lines, rest = (rest + chunk).split(b"\n")
            yield from (line.decode() for line in lines)


def main() -> None:
    """Run the cases, print what is wrong, and count the rest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kinds", default="", help="only folders whose kind has this in its name")
    parser.add_argument("--work", type=Path, help="for workers: the folders to damage")
    options = parser.parse_args()
    if options.work is not None:
        work(options.work, range(options.first, options.count), options.seed, options.kinds)
        return
    print(f"seed {options.seed}", flush=True)
    outcomes = Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
        given = (options.count, options.seed, options.first, options.kinds)
        for record in campaign(Path(folder), *given):
            outcomes[record["outcome"]] += 1
            if outcomes.total() % 1000 == 0:
                print(f"{outcomes.total()} cases: {dict(outcomes)}", flush=True)
            if record["outcome"] == "WRONG":
                print(json.dumps(record, indent=1).replace("\\n", "\n"), flush=True)
    print(f"seed {options.seed}: {dict(outcomes)}")
    sys.exit(1 if outcomes["WRONG"] else 0)


if __name__ == "__main__":
    main()
