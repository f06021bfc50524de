"""Checks of keyword arguments: an unknown one is an error that names the nearest one."""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, isfunction, signature
from typing import ParamSpec, TypeVar

from regard.core.errors import BadKeyword, did_you_mean, shown

Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")
AnyClass = TypeVar("AnyClass", bound=type)


def check_keywords(
    function: Callable[Arguments, Value], what: str = ""
) -> Callable[Arguments, Value]:
    """Decorate a function: a keyword that it does not have is a ``BadKeyword``.

    A function that takes any keyword is returned as it is. Messages say ``what`` has no such thing:
    by default the function, and "argument".
    """
    parameters = signature(function).parameters
    if any(parameter.kind == Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return function
    known = [name for name in parameters if name != "self"]
    what = what or f"{getattr(function, '__name__', 'call')}() has no argument"

    @wraps(function)
    def checked(*args: Arguments.args, **options: Arguments.kwargs) -> Value:
        for keyword in options:
            if keyword not in parameters:
                raise BadKeyword(f"{what} {shown(keyword)}" + did_you_mean(keyword, known))
        return function(*args, **options)

    return checked


def check_method_keywords(kind: AnyClass) -> AnyClass:
    """Decorate a class: ``check_keywords`` for the public methods that it defines."""
    for name, method in list(vars(kind).items()):
        if not name.startswith("_") and isfunction(method):
            setattr(kind, name, check_keywords(method))
    return kind
