"""All tasks by the name that recipes give them."""

from regard.tasks.interim import (
    AnswerInterim,
    ChooseInterim,
    ClassifyInterim,
    PretrainInterim,
    TagInterim,
    TranslateInterim,
)
from regard.tasks.task import Task

TASKS: dict[str, type[Task]] = {
    task.name: task
    for task in (
        TranslateInterim,
        ClassifyInterim,
        TagInterim,
        AnswerInterim,
        ChooseInterim,
        PretrainInterim,
    )
}
