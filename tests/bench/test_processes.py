"""Systems of the bench scripts in processes of their own: turns, failures, and no regard there."""

import argparse
import ast
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
PEERS = sorted(path.stem for path in (BENCH / "peers").glob("*.py"))
NOT_INSTALLED = ("ct2", "sentence_encoder", "transformers_server")  # what these import
SCRIPTS = sorted(BENCH.glob("*.py"))
SYSTEMS = """
import json
import os
import sys
import time

from worker import System


def counting(first):
    print("a library says something")
    numbers = iter(range(first, 1_000))
    remarks = {"pid": os.getpid(), "regard": "regard" in sys.modules}
    return System(lambda: [float(next(numbers))], remarks)


def waiting(seconds):
    return System(lambda: time.sleep(seconds), {})


def failing(at):
    left = iter(range(at))

    def work():
        next(left, None) is None and sys.exit("it is broken")
        return [1.0]

    return System(work, {})


def infinite():
    return System(lambda: [float("inf")], {})


def environment():
    return System(lambda: [1.0], {"variable": os.environ.get("SET_BY_REGARD")})
"""


@pytest.fixture
def systems(tmp_path, monkeypatch):
    """Systems that need no torch, and so start at once."""
    import measure

    (tmp_path / "systems.py").write_text(SYSTEMS)
    monkeypatch.setitem(measure.ENVIRONMENT, "PYTHONPATH", str(tmp_path))
    return lambda name, **settings: measure.Spec(f"systems:{name}", settings)


def asked(**options):
    usual = {"rounds": 2, "seconds": 60, "patience": 60, "apart": False, "out": None}
    return argparse.Namespace(**usual | options)


def test_every_system_has_a_process_and_results_of_its_own(systems, capsys):
    from measure import rounds_of, running

    specs = {"a": systems("counting", first=10), "b": systems("counting", first=20)}
    with running(specs, asked()) as workers:
        taken = rounds_of(workers, asked())
        assert workers["a"].result == [12.0] and workers["b"].result == [22.0]
        pids = {worker.remarks["pid"] for worker in workers.values()} | {os.getpid()}
        assert len(pids) == 3 and not workers["a"].remarks["regard"]
        assert workers["a"].remarks["first_loss"] == 10.0
    assert [len(seconds) for seconds in taken.values()] == [2, 2]
    assert not capsys.readouterr().out
    for worker in (worker for worker in workers.values()):
        assert worker.process.poll() is not None


def test_a_system_may_have_an_interpreter_of_its_own(systems, tmp_path):
    from measure import running

    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nSET_BY_REGARD=own exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    spec = systems("environment")
    with running({"a": spec, "b": spec._replace(python=str(python))}, asked()) as workers:
        assert workers["a"].remarks["variable"] is None
        assert workers["b"].remarks["variable"] == "own"


@pytest.mark.parametrize("apart", [False, True])
def test_systems_get_ready_together_or_one_by_one(systems, apart):
    from measure import running

    specs = {name: systems("waiting", seconds=0.2) for name in "abc"}
    start = time.monotonic()
    with running(specs, asked(apart=apart)):
        taken = time.monotonic() - start
    assert taken >= (0.6 if apart else 0.2)


def test_seconds_are_those_of_the_work(systems):
    from measure import rounds_of, running

    with running({"a": systems("waiting", seconds=0.1)}, asked()) as workers:
        (seconds,) = rounds_of(workers, asked(rounds=1))["a"]
        (of_process,) = rounds_of(workers, asked(rounds=1), clock="process")["a"]
    assert seconds >= 0.1 > of_process


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_system_that_ends_is_reported_and_the_others_go_on(systems, capsys, at):
    """While it warms up, in the first round, in the second."""
    from measure import rounds_of, running

    specs = {"broken": systems("failing", at=at), "whole": systems("counting", first=1)}
    with running(specs, asked()) as workers:
        taken = rounds_of(workers, asked())
    assert list(taken) == ["whole"] and len(taken["whole"]) == 2
    (line,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert line["system"] == "broken" and "it is broken" in line["failed"]


def test_a_system_without_an_answer_or_a_finite_loss_is_left_out(systems, capsys, tmp_path):
    from measure import running

    specs = {"slow": systems("waiting", seconds=60), "infinite": systems("infinite")}
    specs["unknown"] = systems("unknown")
    with running(specs, asked(patience=1, out=tmp_path / "results" / "lines")) as workers:
        assert not workers
    written = (tmp_path / "results" / "lines").read_text()
    lines = {line["system"]: line["failed"] for line in map(json.loads, written.splitlines())}
    assert written == capsys.readouterr().out
    assert "in time" in lines["slow"] and "inf" in lines["infinite"]
    assert "AttributeError" in lines["unknown"]


def test_what_regard_sets_in_the_environment_stays_in_this_process(systems, monkeypatch):
    from measure import running

    monkeypatch.setenv("SET_BY_REGARD", "1")
    with running({"a": systems("environment")}, asked()) as workers:
        assert workers["a"].remarks["variable"] is None


def test_a_script_that_is_terminated_ends_its_systems(systems, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import argparse, sys\n"
        f"sys.path.insert(0, {str(BENCH)!r})\n"
        "from measure import Spec, running\n"
        "asked = argparse.Namespace(patience=60, apart=False, out=None)\n"
        "with running({'a': Spec('systems:counting', {'first': 1})}, asked) as workers:\n"
        "    print(workers['a'].process.pid, flush=True)\n"
        "    workers['a'].answer()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        pid = int(process.stdout.readline())
        os.kill(pid, 0)  # it runs
        process.terminate()
    assert process.returncode == 143
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def imports(path: Path) -> list[str]:
    """The modules that a file imports, in its order."""
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
    return [name.split(".")[0] for name in names]


@pytest.mark.parametrize("name", [*(f"peers/{name}" for name in PEERS), "worker", "corpus"])
def test_no_peer_imports_regard(name):
    """Nor a file of this folder that does."""
    read = set(imports(BENCH / f"{name}.py"))
    own = {path.stem for path in SCRIPTS} - {"worker", "corpus"}
    assert "regard" not in read and not read & own


@pytest.mark.parametrize("script", [path.stem for path in SCRIPTS if path.stem != "measure"])
def test_the_environment_of_systems_is_noted_before_regard_is_imported(script):
    read = imports(BENCH / f"{script}.py")
    if "measure" in read and "running" in (BENCH / f"{script}.py").read_text():
        later = [read.index(name) for name in ("ours", "regard") if name in read]
        assert all(read.index("measure") < at for at in later)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PEERS if name not in NOT_INSTALLED])
def test_importing_a_peer_leaves_regard_out(name):
    code = f"import sys; import peers.{name}; sys.exit('regard' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(BENCH), *sys.path])}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


@pytest.mark.slow
def test_a_script_runs_with_systems_in_processes():
    command = [sys.executable, str(BENCH / "pretrain_gpt2.py"), "--tiny", "--peers", "eager"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    ours, theirs, place = map(json.loads, lines.splitlines())
    assert ours["system"] == "regard" and theirs["regard_over_it"][0] > 0
    assert ours["first_loss"] == pytest.approx(theirs["first_loss"], abs=0.01)
    assert place["torch"] and place["date"]


def test_several_scripts_run_after_one_another(tmp_path, monkeypatch, capsys):
    import all_gpu

    (tmp_path / "script.py").write_text(
        "import sys, time\n"
        "out = sys.argv[sys.argv.index('--out') + 1]\n"
        "open(out, 'w').write('{\"system\": \"a\"}\\n')\n"
        "time.sleep(60 if 'slowly' in sys.argv else 0)\n"
    )
    monkeypatch.setattr(all_gpu, "HERE", tmp_path)
    benches = {"quick": "script.py", "slow": "script.py slowly", "none": "script.py"}
    monkeypatch.setattr(all_gpu, "BENCHES", benches)
    out = tmp_path / "out"
    options = ["quick", "slow", "--limit", "1", "--out", str(out), "--extra", "--rounds 3"]
    monkeypatch.setattr(sys, "argv", ["all_gpu.py", *options])
    all_gpu.main()
    lines = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert [line["bench"] for line in lines] == ["quick", "quick", "slow", "slow"]
    assert lines[0]["system"] == "a" and "exit" not in lines[1]
    assert lines[1]["command"] == "python bench/script.py --rounds 3"
    assert lines[3]["exit"] == "after 1 seconds"
    assert "--patience 1 --seconds 0" in (out / "log").read_text()


def test_every_bench_of_the_list_is_a_script():
    import all_gpu

    assert all((BENCH / command.split()[0]).is_file() for command in all_gpu.BENCHES.values())
