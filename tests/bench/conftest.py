"""Scripts of bench/ are imported by their names; their systems run here, not in processes."""

import json
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture(autouse=True)
def bench_on_path(monkeypatch):
    monkeypatch.syspath_prepend(BENCH)
    yield
    for script in [*BENCH.glob("*.py"), *(BENCH / "peers").glob("*.py")]:
        sys.modules.pop(script.stem if script.parent == BENCH else f"peers.{script.stem}", None)
    sys.modules.pop("peers", None)


@pytest.fixture
def printed(monkeypatch, capsys):
    """The lines that a script prints, of systems that run in this process: starting others takes
    seconds. Their settings and results pass through JSON as they do between processes."""
    import measure
    import worker

    class Here(measure.Worker):
        def __init__(self, spec):
            self.spec, self.asked, self.remarks = spec, [], {}

        def ask(self, command):
            self.asked.append(json.loads(json.dumps(command)))

        def answer(self, seconds=0.0):
            return json.loads(json.dumps(worker.do_round(self.system, **self.asked.pop(0))))

        def wait_until_built(self, seconds):
            settings = json.loads(json.dumps(self.spec.settings))
            self.system = worker.build(self.spec.entry, settings)
            self.remarks, self.place = dict(self.system.remarks), worker.place()

        def close(self):
            pass

    def run(script, *options):
        monkeypatch.setattr(measure, "Worker", Here)
        monkeypatch.setattr(sys, "argv", [script.__name__, *options])
        script.main()
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run
