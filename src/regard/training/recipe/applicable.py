"""Which keys of a recipe can be used with its task: those that nothing would read are refused."""

from typing import Any

LEARNED = ("bpe", "wordpiece")  # the default, which stands for what an encoder learns, and that


def misplaced(recipe: Any) -> list[str]:
    """A line for each key that is set and that the task of the recipe does not read."""
    task, labels, start = recipe.task, recipe.labels, recipe.model.start
    translates = task == "translate"
    pooled = _is_pooled(recipe)
    pairs = translates or pooled  # else the task of an encoder
    one, text = labels.kind == "one", recipe.text
    foreign = {
        "labels": task not in ("classify", "tag") and _is_set(recipe, "labels"),
        "labels.scheme": _is_set(labels, "scheme") and (task != "tag" or not one),
        "labels.positive": _is_set(labels, "positive") and (task != "classify" or not one),
        "labels.weights": _is_set(labels, "weights") and not one,
        "labels.kind": (task == "tag" and labels.kind == "several") or (pooled and not one),
        "answers": task != "answer" and _is_set(recipe, "answers"),
        "pretrain": task != "pretrain" and _is_set(recipe, "pretrain"),
        "data.test": task == "pretrain" and bool(recipe.data.test or recipe.data.more_tests),
        "text.kind": not pairs and text.kind not in LEARNED,
        "text.joint": not translates and not text.joint,
        "text.normalise": not pairs and _is_set(text, "normalise"),
        "text.dropout": not pairs and _is_set(text, "dropout"),
        "decode": not translates and _is_set(recipe, "decode"),
        "measure": not translates and _is_set(recipe, "measure"),
        "data.links": not translates and recipe.data.links is not None,
        "rung": not translates and bool(recipe.rung),
        "model.start": pairs and start is not None,
    }
    return [unusable(name, recipe) for name, wrong in foreign.items() if wrong]


def unusable(key: str, recipe: Any) -> str:
    """What is said of a key that the task of the recipe does not read."""
    kind = recipe.labels.kind
    what = f" of kind {kind!r}" if kind != "one" else ""
    where = " where data.train has no reader" if _is_pooled(recipe) else ""
    return f"{key} cannot be used with task {recipe.task!r}{what}{where}"


def _is_pooled(recipe: Any) -> bool:
    return bool(recipe.task == "classify" and recipe.data.train.reader is None)


def _is_set(table: Any, key: str) -> bool:
    return getattr(table, key) != type(table).model_fields[key].get_default(
        call_default_factory=True
    )
