"""Each coined word stands in the glossary, in one row with a link to where it is defined."""

import re
from pathlib import Path

GLOSSARY = Path(__file__).parents[2] / "docs" / "glossary.md"
COINED = (
    *("`Layout`", "`Tape`", "`Facts`", "`Paper`", "`Recipe`", "`Plan`", "`Reading`", "`attend`"),
    *("`Score`", "*ladder*", "*component*"),
)


def rows() -> dict[str, tuple[str, str]]:
    """Meaning and link of each coined word: the first table."""
    table = GLOSSARY.read_text(encoding="utf-8").split("\n## ")[0]
    cells = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("|")]
    return {word.strip(): (meaning.strip(), where) for word, meaning, where in cells[2:]}


def test_these_words_are_coined_and_no_others():
    assert tuple(rows()) == COINED


def test_each_is_one_sentence():
    for word, (meaning, _) in rows().items():
        assert re.fullmatch(r"[A-Z](?!.*\. [A-Z]).*\.", meaning), word


def test_every_link_leads_somewhere():
    links = re.findall(r"\]\(([^)]+)\)", GLOSSARY.read_text(encoding="utf-8"))
    assert len(links) > len(COINED)
    for link in links:
        assert (GLOSSARY.parent / link).exists(), link


def test_keys_of_recipes_that_it_names_exist():
    from regard.training.recipe import recipe_class

    text = GLOSSARY.read_text(encoding="utf-8")
    fields = recipe_class("translate").model_fields
    names = re.findall(r"`(batches|decode|train|model)\.(\w+)`", text.replace("`model.py`", ""))
    from_model = {"tokenizer", "facts", "predict", "fill", "logits"}  # of regard.Model
    keys = [pair for pair in names if pair[1] not in from_model]
    assert len(keys) > 5
    for table, key in keys:
        assert key in fields[table].annotation.model_fields, f"{table}.{key}"
