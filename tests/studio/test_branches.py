"""Branches that the studio starts: they are followed, stopped, and say why they failed."""

import sys
import time

import pytest

from regard.core.errors import BadInput
from regard.serving.app import ServerSettings
from regard.studio.app import studio_apis
from regard.studio.branches import StartCommand, Trainings
from regard.training.branch import origin_of
from regard.training.metrics_log import read_log
from serving.running_server import running
from small_bert import model as small_bert
from studio.small_run import train_small_run
from studio.test_app import write_run

RECIPE = """
[data]
train = { source = "a", target = "b" }
dev = { source = "a", target = "b" }
[optimiser]
rate = 0.1
[train]
steps = 3
"""
ENDLESS = "import time\nprint('step', flush=True)\ntime.sleep(600)"
# As ``regard train`` in a background shell: Ctrl-C is ignored until the first SIGTERM.
BACKGROUND = """
import signal, time
def remember(number, frame):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    print('saves', flush=True)
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, remember)
print('step', flush=True)
time.sleep(600)
"""


def wait_for(value, *, seconds=600):
    end = time.monotonic() + seconds
    while not (result := value()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return result


@pytest.fixture
def trainings():
    trainings = Trainings()
    yield trainings
    trainings.close()


def start(trainings, folder, code, name="one"):
    return trainings.start(name, [sys.executable, "-c", code], folder, "a=1")


def test_the_command_of_a_branch_has_the_options_of_its_run(tmp_path):
    command = "/bin/regard train r.toml --set train.steps=3 --out old --branch x --at=2 --resume"
    record = {"command": command, "folder": str(tmp_path)}
    write_run(tmp_path / "one", [1.0], environment_jsonl=record)
    known = StartCommand.of(tmp_path / "one")
    assert known.words == ["regard", "train", "r.toml", "--set", "train.steps=3"]
    words = known.branch(tmp_path / "one", 2, tmp_path / "two", "optimiser.rate=0.5; rm -r /")
    assert words[:5] == [sys.executable, "-P", "-m", "regard", "train"]
    assert words[-1] == "--set=optimiser.rate=0.5; rm -r /"
    assert words[7:-1] == [
        *("train.steps=3", "--branch", str(tmp_path / "one"), "--at", "2"),
        *("--out", str(tmp_path / "two")),
    ]
    write_run(tmp_path / "other", [1.0], environment_jsonl={"command": "python script.py"})
    assert not StartCommand.of(tmp_path / "other").words


def test_the_name_of_the_next_branch_is_free(trainings, tmp_path):
    write_run(tmp_path / "sweep" / "one", [1.0])
    for step in (2, 4):
        checkpoint = tmp_path / "sweep" / "one" / "checkpoints" / f"step-{step:08}"
        checkpoint.mkdir(parents=True)
        (checkpoint / "state.json").write_text("{}")
    (tmp_path / "sweep" / "one-at-2").mkdir()
    start(trainings, tmp_path, "", "sweep/one-at-4")
    with running({"labels": small_bert("one")}, apis=studio_apis(tmp_path, trainings)) as server:
        (run,) = server.client.get("/studio/runs").json()["runs"]
    assert run["outs"] == {"2": "sweep/one-at-2-2", "4": "sweep/one-at-4-2"}


def test_a_setting_is_checked_with_those_of_the_command(tmp_path):
    (tmp_path / "r.toml").write_text(RECIPE)
    words = ["regard", "train", "r.toml", "--set", "optimiser.rate=0.2", "--set=train.seed=2"]
    command = StartCommand(words, tmp_path)
    command.check("train.steps=4")
    command.check("")
    for wrong in ("optimiser.rate=banana", "train.steps=-1", "train.nothing=1"):
        with pytest.raises(BadInput, match=wrong.partition("=")[0]):
            command.check(wrong)
    with pytest.raises(BadInput, match="seed"):
        StartCommand([*words, "--set=train.seed=x"], tmp_path).check("")
    with pytest.raises(BadInput, match=r"gone\.toml: no such recipe file"):
        StartCommand(["regard", "train", "gone.toml"], tmp_path).check("")
    StartCommand(["regard", "train", "--data", "x", "gone.toml"], tmp_path).check("a=1")


def test_a_training_that_fails_has_its_last_line(trainings, tmp_path):
    code = "import sys; print('step 1'); sys.exit('regard: \\x1b[1m no such key\\n')"
    failed = start(trainings, tmp_path, code)
    wait_for(lambda: failed.state == "failed")
    assert failed.record["line"] == "regard: ␛[1m no such key"


def test_a_training_is_stopped_and_ends_with_the_studio(trainings, tmp_path):
    first = start(trainings, tmp_path, ENDLESS)
    second = start(trainings, tmp_path, ENDLESS, "two")
    wait_for(lambda: first.last_line == second.last_line == "step")
    with pytest.raises(BadInput, match="2 trainings are going on already"):
        start(trainings, tmp_path, ENDLESS, "three")
    assert first.state == "running"
    first.stop()
    assert wait_for(lambda: first.process.poll() is not None)
    assert first.state == "stopped" and first.record["line"] == ""
    trainings.close()
    assert second.state == "stopped"


def test_a_training_is_stopped_where_ctrl_c_is_ignored(trainings, tmp_path):
    training = start(trainings, tmp_path, BACKGROUND)
    wait_for(lambda: training.last_line == "step")
    training.stop()
    wait_for(lambda: training.last_line == "saves")
    assert training.state == "stopping"
    training.stop()
    wait_for(lambda: training.process.poll() is not None)
    assert training.state == "stopped"


def test_a_folder_that_is_gone_is_refused(trainings, tmp_path):
    with pytest.raises(BadInput, match="does not exist any more"):
        start(trainings, tmp_path / "gone", "")


def test_a_studio_starts_no_training_unless_it_may(tmp_path):
    def paths(*trainings):
        return {route.path for route in studio_apis(tmp_path, *trainings)[-1].routes}

    assert paths(Trainings()) - paths() == {"/studio/branch", "/studio/branch/stop"}


def test_wrong_branches_are_refused_in_one_line(trainings, tmp_path):
    (tmp_path / "r.toml").write_text(RECIPE)
    command = {"command": "regard train r.toml", "folder": str(tmp_path)}
    write_run(tmp_path / "one", [1.0], environment_jsonl=command)
    write_run(tmp_path / "other", [1.0])
    for name in ("one", "other"):
        (tmp_path / name / "checkpoints" / "step-00000002").mkdir(parents=True)
        (tmp_path / name / "checkpoints" / "step-00000002" / "state.json").write_text("{}")
    apis = studio_apis(tmp_path, trainings)
    with running({"labels": small_bert("one")}, ServerSettings(), apis) as server:
        for body, status, message in (
            ({"run": "../one", "step": 2}, 404, "no such run"),
            ({"run": "one", "step": 3}, 400, "no checkpoint of step 3"),
            ({"run": "other", "step": 2}, 400, "was not started by regard train"),
            ({"run": "one", "step": 2, "key": "data.x", "value": "1"}, 400, "no setting is called"),
            (
                {"run": "one", "step": 2, "key": "optimiser.rate", "value": "banana"},
                *(400, "optimiser.rate"),
            ),
            ({"run": "one", "step": 2, "value": "x" * 300}, 400, "value: more than 200 characters"),
            ({"run": "one", "step": 2, "more": 1}, 400, "not what this path reads"),
        ):
            answer = server.post("/studio/branch", body)
            assert answer.status_code == status
            assert message in answer.json()["error"]["message"]
        assert server.post("/studio/branch/stop", {"run": "one"}).status_code == 404
        evil = {"origin": "https://evil.example"}
        body = {"run": "one", "step": 2}
        assert server.post("/studio/branch", body, headers=evil).status_code == 403
    assert not trainings.by_name


@pytest.mark.slow
def test_a_branch_is_started_and_its_curve_parts(trainings, tmp_path):
    root = tmp_path / "runs"
    train_small_run(root)
    with running(
        {"labels": small_bert("one")}, ServerSettings(), studio_apis(root, trainings)
    ) as server:

        def started():
            return server.client.get("/studio/runs").json()["trainings"]

        body = {"run": "one", "step": 4, "key": "optimiser.rate", "value": "0.02"}
        names = [server.post("/studio/branch", body).json()["name"] for _ in range(2)]
        assert names == ["one-at-4", "one-at-4-2"]
        wait_for(lambda: {each["state"] for each in started()} == {"finished"})
        wrong = server.post("/studio/branch", {**body, "value": "fast"})
        assert wrong.status_code == 400 and "optimiser.rate" in wrong.text
        assert len(started()) == 2
    assert origin_of(root / "one-at-4")["changed"] == ["optimiser.rate"]
    before, after = (
        {each["step"]: each["loss"] for each in read_log(root / name) if each["event"] == "train"}
        for name in ("one", "one-at-4")
    )
    assert before.keys() == after.keys() and before[5] == after[5] and before[12] != after[12]
