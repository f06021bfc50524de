"""The one exception a user is meant to see."""


class BadInput(Exception):
    """Something outside the program is wrong: a file, an option, a recipe.

    The message is one line that says what is wrong and where. The command line prints it and
    exits with code 2; nothing is half-written when it is raised.
    """
