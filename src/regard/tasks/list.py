"""All tasks by the name that recipes give them."""

from regard.tasks.interim import Answer, Choose, Classify, Pretrain, Tag, Translate
from regard.tasks.task import Task

TASKS: dict[str, type[Task]] = {
    task.name: task for task in (Translate, Classify, Tag, Answer, Choose, Pretrain)
}
