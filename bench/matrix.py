"""The matrix of papers (tests/gpu/test_matrix.py): whether a paper may be measured as it stands.

    python bench/matrix.py            (the papers of whose models a row is missing or wrong)
    python bench/matrix.py ROWS       (write matrix.json from the rows that the tests have written)

`make matrix` runs the tests on a GPU and writes matrix.json beside this file. On a GPU no script
prints a figure of a paper whose rows are missing for the modules as they are, or are not fine. This
file imports neither torch nor regard.
"""

import hashlib
import json
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TABLE = HERE / "matrix.json"
PACKAGES = ("layers", "models", "generation")  # through which all models run
LEAST = {f"{precision} {what}" for precision in ("fp32", "bf16") for what in ("encode", "steps")}


@cache
def fingerprint() -> str:
    """Hash of the modules that compute."""
    root, digest = HERE.parent / "src" / "regard", hashlib.sha256()
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            digest.update(f"{path.relative_to(root)}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def write(rows: Sequence[dict[str, Any]]) -> None:
    """Write the table: for each model the largest difference of each row, or what is wrong."""
    (of_modules,) = {row["fingerprint"] for row in rows}
    models: dict[str, dict[str, float | str]] = {}
    for row in rows:
        found = row["difference"] if row["fine"] else f"wrong: {row['difference']}"
        models.setdefault(row["model"], {})[f"{row['precision']} {row['what']}"] = found
    lines = [f"  {json.dumps(name)}: {json.dumps(models[name])}" for name in sorted(models)]
    content = ",\n".join([f'  "fingerprint": {json.dumps(of_modules)}', *lines])
    TABLE.write_text(f"{{\n{content}\n}}\n", encoding="utf-8")


def obstacle(paper: str) -> str | None:
    """Why no figure of a paper may be printed; None: it may."""
    table = json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else {}
    if table.pop("fingerprint", None) != fingerprint():
        return f"{TABLE.name} is not of these modules"
    models = {name: rows for name, rows in table.items() if name.partition(":")[0] == paper}
    if missing := LEAST - {what for rows in models.values() for what in rows}:
        return f"{paper} has no row {min(missing)}"
    for name, rows in models.items():
        for what, found in rows.items():
            if isinstance(found, str):
                return f"{name} {what} is {found}"
    return None


def require(papers: Sequence[str]) -> None:
    """End the script unless figures of these papers may be printed."""
    for paper in papers:
        if (reason := obstacle(paper)) is not None:
            sys.exit(f"no figure: {reason} (make matrix)")


def main() -> None:
    """Write the table, or print what is missing or wrong."""
    if sys.argv[1:]:
        write([json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()])
    table = json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else {}
    for paper in sorted({name.partition(":")[0] for name in table if ":" in name}):
        print(f"{paper:16} {obstacle(paper) or 'fine'}")


if __name__ == "__main__":
    main()
