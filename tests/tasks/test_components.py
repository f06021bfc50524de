"""Tasks are found by their names, and by the heads that they train."""

from regard.tasks.components import TASKS, TASKS_OF_HEADS


def test_tasks_have_their_names_in_the_catalogue():
    assert [task.name for task in TASKS.values()] == [*TASKS]
    assert [task.head.name for task in TASKS_OF_HEADS.values()] == [*TASKS_OF_HEADS]
    assert {*TASKS_OF_HEADS.values()} < {*TASKS.values()}
