"""Types of the modules, by the compiler of TypeScript, which reads their JSDoc."""

import os
import shutil
import subprocess

import pytest

from regard.studio.app import FOLDERS

TSC = os.environ.get("TSC") or shutil.which("tsc")
MODULES = {
    f"{folder}/{path.name}": path.read_text(encoding="utf-8")
    for folder, files in FOLDERS.items()
    for path in files.iterdir()
    if path.name.endswith((".js", ".json"))
}


@pytest.mark.skipif(TSC is None, reason="needs tsc (npm install typescript) on PATH or in TSC")
def test_the_types_of_all_modules_fit(tmp_path):
    """Modules lie as the studio serves them, since they import each other by these paths."""
    for name, text in MODULES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    settings = '{"extends": "./views/tsconfig.json", "include": ["*/*.js"]}'
    (tmp_path / "tsconfig.json").write_text(settings)
    done = subprocess.run(
        [TSC, "-p", str(tmp_path)], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", [name for name in MODULES if name.endswith(".js")])
def test_every_module_is_checked(name):
    assert MODULES[name].startswith("// @ts-check\n")
