"""Three users' paths from empty folders, by newcomer.sh: its commands are those of the pages."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from small import environment

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("newcomer.sh")
SHORTER = (r" \$short", r" --quick", r" --device cpu")


def walk(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", SCRIPT, *command],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )


def commands_of_script() -> list[str]:
    """Its commands without redirections, and without what makes runs shorter."""
    calls = re.findall(r"^ *(?:echo .* \| )?(regard [a-z]+ .*)", SCRIPT.read_text("utf-8"), re.M)
    plain = [re.sub(r"( 2?> \S+)+( #.*)?$", "", call) for call in calls]
    return [re.sub("|".join(SHORTER), "", call) for call in plain]


def test_its_commands_are_those_of_the_pages():
    commands = commands_of_script()
    assert len(commands) > 25
    pages = "".join(path.read_text("utf-8") for path in (ROOT / "docs").glob("*.md"))
    assert [command for command in commands if command not in pages] == []


@pytest.mark.parametrize("command", ["false", "true"])
def test_it_fails_if_a_command_fails_or_writes_nothing(command):
    done = walk(command)
    assert done.returncode == 1
    assert "all three paths work" not in done.stdout


@pytest.mark.slow
def test_three_users():
    done = walk(sys.executable, "-m", "regard")
    assert done.returncode == 0, done.stderr[-4000:]
    assert "all three paths work" in done.stdout
    assert "Traceback" not in done.stderr
