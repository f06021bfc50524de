"""Types of the modules, by the compiler of TypeScript, which reads their JSDoc."""

import os
import shutil
import subprocess
from importlib.resources import files

import pytest

TSC = os.environ.get("TSC") or shutil.which("tsc")


@pytest.mark.skipif(TSC is None, reason="needs tsc (npm install typescript) on PATH or in TSC")
def test_the_types_of_all_modules_fit():
    project = files("regard.inside.views") / "modules"
    done = subprocess.run(
        [TSC, "-p", str(project)], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout


def test_every_module_is_checked():
    for path in (files("regard.inside.views") / "modules").iterdir():
        if path.name.endswith(".js"):
            assert path.read_text(encoding="utf-8").startswith("// @ts-check\n"), path.name
