"""All tasks by the name that recipes give them."""

from regard.tasks.classify import Classify
from regard.tasks.multiple_choice import Choose
from regard.tasks.pretrain import Pretrain
from regard.tasks.question_answering import QuestionAnswering
from regard.tasks.tag import Tag
from regard.tasks.task import Task
from regard.tasks.text_to_text import TextToText
from regard.tasks.translate import Translate

TASKS: dict[str, type[Task]] = {
    task.name: task
    for task in (Translate, TextToText, Classify, Tag, QuestionAnswering, Choose, Pretrain)
}
