"""Several scripts of this folder after one another, each within a time limit.

    python bench/all_gpu.py --out FOLDER [--limit 150] [NAME ...]
    python bench/all_gpu.py --list

Every line that they print goes to FOLDER/results.jsonl, with the name of its bench, and what else
they write to FOLDER/log. The limit of each bench is shared out: systems must be warm after 7/10 of
it, and rounds begin during 2/10. --extra adds options to all commands: --extra "--rounds 3". The
memory of all systems of a bench must fit the GPU at once.
"""

import argparse
import json
import shlex
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
BENCHES = {
    "bert": "pretrain_encoder.py --steps 12 --rounds 7",
    "bert-forms": "pretrain_encoder.py --steps 8 --rounds 3 --peers captured unmasked gathered",
    "bert-ragged": "pretrain_encoder.py --ragged --steps 24 --rounds 5",
    "gpt2": "pretrain_gpt2.py --peers plain compiled --rounds 7 --steps 8",
    "electra": "pretrain_electra.py --rounds 7 --steps 12",
    "electra-base": "pretrain_electra.py --size base --rounds 5 --steps 8",
    "xlnet": "pretrain_xlnet.py --peers eager layers --rounds 5 --steps 6",
    "vit": "train_vit.py --rounds 7 --steps 10",
    "translator": "train_translator.py --steps 32 --rounds 5",
    "recurrent": "train_recurrent.py --pairs 12000",
    "lstm": "lstm_lm.py",
    "translate": "translate.py --batch 64 --beam 4 --rounds 6 --most 9",
    "translate-greedy": "translate.py --batch 1 64 --rounds 6 --most 9",
    "translate-recurrent": "translate.py --recurrent --rounds 6 --most 6",
    "generate": "generate.py --rounds 6 --most 9",
    "record": "record.py",
    "record-compiled": "record.py --compiled",
}


def main() -> None:
    """Run the benches that are named, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*BENCHES, []])
    parser.add_argument("--out", type=Path, default=Path("bench-results"))
    parser.add_argument("--limit", type=float, default=150, help="seconds for each bench")
    parser.add_argument("--extra", default="", help="options for all commands")
    parser.add_argument("--list", action="store_true", help="print the commands")
    asked = parser.parse_args()
    names = asked.names or list(BENCHES)
    if asked.list:
        for name in names:
            print(f"{name:20} python bench/{BENCHES[name]}")
        return
    asked.out.mkdir(parents=True, exist_ok=True)
    for name in names:
        run(name, asked)


def run(name: str, asked: argparse.Namespace) -> None:
    """Run a bench; its lines are those of its own --out."""
    script, *options = shlex.split(BENCHES[name])
    lines = asked.out / f".{name}.jsonl"
    patience, seconds = 0.7 * asked.limit, 0.2 * asked.limit
    command = [sys.executable, str(HERE / script), *options, "--out", str(lines)]
    command += ["--patience", f"{patience:.0f}", "--seconds", f"{seconds:.0f}"]
    command += shlex.split(asked.extra)
    began, ended = time.monotonic(), {}
    with (asked.out / "log").open("a") as log:
        log.write(shlex.join(command[1:]) + "\n")
        log.flush()
        process = subprocess.Popen(command, stderr=log)
        try:
            code = process.wait(asked.limit)
            ended = {} if code == 0 else {"exit": code}
        except subprocess.TimeoutExpired:
            process.terminate()  # it ends its systems
            process.wait()
            ended = {"exit": f"after {asked.limit:.0f} seconds"}
    shown = shlex.join(["python", f"bench/{script}", *options, *shlex.split(asked.extra)])
    last = {"command": shown, "seconds": round(time.monotonic() - began), **ended}
    printed = lines.read_text().splitlines() if lines.exists() else []
    lines.unlink(missing_ok=True)
    with (asked.out / "results.jsonl").open("a") as results:
        for line in [*map(json.loads, printed), last]:
            results.write(json.dumps({"bench": name, **line}) + "\n")
    print(json.dumps({"bench": name, **last}), flush=True)


if __name__ == "__main__":
    main()
