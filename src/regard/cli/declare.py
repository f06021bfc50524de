"""Verbs as commands: options that the library declares, in help by their blocks."""

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_args

from typer import Argument, CallbackParam, Context, Option
from typer.core import TyperCommand
from typer.models import ParameterInfo

from regard.core.errors import BadInput
from regard.core.flags import Flag, Options, flag_of

PICTURES = ("html", "svg", "png")
ARGUMENTS, OPTIONS, OUTPUTS = (
    "Arguments",
    "Options",
    "Outputs",
)  # sections of a help text, besides those of blocks
Verb = Callable[..., None]


class SectionedCommand(TyperCommand):
    """A command whose help has a section for each block of options."""

    def format_options(self, ctx, formatter):
        sections: dict[str, list[tuple[str, str]]] = {ARGUMENTS: [], OPTIONS: []}
        for parameter in self.get_params(ctx):
            section = vars(parameter).get("rich_help_panel") or OPTIONS
            if parameter.param_type_name == "argument":
                section = ARGUMENTS
            if record := parameter.get_help_record(ctx):
                sections.setdefault(section, []).append(record)
        for section, records in sections.items():
            if records:
                with formatter.section(section):
                    formatter.write_dl(records)


def command_signature(verb: Verb) -> Signature:
    """The signature of a verb: the context, and options in place of blocks of them."""
    parameters = {each.name: each for each in _parameters(verb)}
    context = Parameter("context", Parameter.KEYWORD_ONLY, annotation=Context)
    return Signature([*({"context": context} | parameters).values()])


def _parameters(verb: Verb) -> Iterator[Parameter]:
    for parameter in signature(verb).parameters.values():
        block = _block(parameter)
        if block is None:
            hint = _declared(parameter.annotation)
            yield parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=hint)
            continue
        for name, hint in block.flags().items():
            default = getattr(block, name, Parameter.empty)
            hint = _declared(hint, block.section)
            yield Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _declared(hint: object, section: str = "") -> object:
    """The annotation of an option of a command, perhaps in a section of the help."""
    flag = flag_of(hint)
    if flag is not None:
        return Annotated[get_args(hint)[0], _info(flag, section)]
    if section:
        kind, info = get_args(hint)
        info = copy(info)
        info.rich_help_panel = section
        return Annotated[kind, info]
    return hint


def _info(flag: Flag, section: str) -> ParameterInfo:
    """What typer knows of an option."""
    texts: dict[str, Any] = {
        "help": flag.help,
        "metavar": flag.metavar,
        "show_default": flag.default or True,
    }
    if flag.argument:
        return Argument(**texts)
    if flag.is_output:
        return Option(flag.name, **texts, callback=named_output, rich_help_panel=OUTPUTS)
    return Option(
        *filter(None, [flag.name]),
        **texts,
        min=flag.least,
        max=flag.most,
        envvar=flag.envvar,
        rich_help_panel=section or flag.section or None,
    )


def named_output(context: Context, option: CallbackParam, path: Path | None) -> Path | None:
    """The path of an output.

    "-" is refused, as results without a file are printed, and a suffix that belongs to another
    option: ``--svg page.html``.
    """
    if path == Path("-"):
        raise BadInput(f"{option.opts[0]} -: leave it out, or name a {option.metavar}")
    suffix = "" if path is None else path.suffix.lower().removeprefix(".")
    others = {one.name for one in context.command.params} & {*PICTURES} - {option.name}
    if option.name in PICTURES and suffix in others:
        raise BadInput(f"{option.opts[0]} {path}: the name ends in .{suffix}; use --{suffix}")
    return path


def in_blocks(verb: Verb, context: Context, options: Mapping[str, object]) -> dict[str, object]:
    """The arguments of a verb, from the options of its command."""
    arguments, given = dict[str, object](), {name for name in options if was_given(context, name)}
    for name, parameter in signature(verb).parameters.items():
        if (block := _block(parameter)) is None:
            arguments[name] = options[name]
        else:
            names = block.flags().keys()
            values = {field: options[field] for field in names}
            arguments[name] = block(**values, given=frozenset(names & given))
    return arguments


def _block(parameter: Parameter) -> type[Options] | None:
    """The block that is the type of a parameter, if it is one."""
    kind = parameter.annotation
    return kind if isinstance(kind, type) and issubclass(kind, Options) else None


def was_given(context: Context, name: str) -> bool:
    """Whether an option was given on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def flags(context: Context, *names: str) -> dict[str, bool]:
    """Names of options, and whether each was given on the command line."""
    return {name: was_given(context, name) for name in names}
