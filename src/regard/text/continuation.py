"""The text of tokens that follow a prompt: whole, or piece by piece as they come."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from regard.ground.errors import BadInput, shown

Decode = Callable[[Sequence[int]], str]

CONTEXT = 8  # last tokens of a prompt that decide whether a space stands before the first token
BROKEN = "\ufffd"  # in place of a byte that is no whole character, or not yet


def check_stop_strings(strings: Sequence[str]) -> None:
    """Refuse what is no list of texts, and an empty text."""
    if isinstance(strings, str) or not all(isinstance(string, str) for string in strings):
        raise BadInput(f"stop strings are a list of texts, not {shown(strings)}")
    if "" in strings:
        raise BadInput("a stop string must have at least one character")


@dataclass(frozen=True)
class StopStrings:
    """Strings at which a text ends; they are no part of it.

    Called with tokens, it says whether their text contains one, also across tokens. It decodes only
    the last tokens, and so finds what the newest of them completes.
    """

    decode: Decode
    strings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_stop_strings(self.strings)

    def __call__(self, tokens: Sequence[int]) -> bool:
        # Tokens that hold the longest string: each has a byte or more, but for a few.
        reach = CONTEXT + max((len(string.encode()) for string in self.strings), default=0)
        text = self.decode(tokens[-reach:])
        return any(string in text for string in self.strings)

    def text(self, tokens: Sequence[int]) -> str:
        """The text of tokens before the first of the strings."""
        return self.cut(self.decode(tokens))

    def cut(self, text: str) -> str:
        """The text before the first of the strings."""
        starts = [text.find(string) for string in self.strings]
        return text[: min((at for at in starts if at >= 0), default=len(text))]

    def settled(self, text: str) -> str:
        """The text without an end that may be the beginning of one of the strings."""
        starts = {string[:length] for string in self.strings for length in range(1, len(string))}
        unsettled = (len(start) for start in starts if text.endswith(start))
        return text[: len(text) - max(unsettled, default=0)]


class Continuation:
    """The text of tokens after a ``prompt``, so that both read as one."""

    def __init__(self, decode: Decode, prompt: Sequence[int] = ()):
        self.decode, self.context = decode, [*prompt[-CONTEXT:]]
        self.before = decode(self.context)

    def text(self, tokens: Sequence[int]) -> str:
        """The text of the tokens alone, with the space before it that the prompt calls for."""
        whole = self.decode([*self.context, *tokens])
        if whole.startswith(self.before):
            return whole[len(self.before) :]
        return self.decode(tokens)  # the prompt ends within a character


class TextStream:
    """A continuation that grows by tokens: ``add`` gives the text that nothing can change any more.

    A character whose bytes have not all come is held back, and so is the beginning of a stop
    string. All pieces together are the text of all tokens, cut at the first stop string.
    """

    def __init__(self, continuation: Continuation, stops: StopStrings):
        self.continuation, self.stops = continuation, stops
        self.tokens: list[int] = []
        self.sent = ""

    def add(self, token: int) -> str:
        """The new text, perhaps none."""
        self.tokens.append(token)
        text = self.continuation.text(self.tokens)
        cut = self.stops.cut(text)
        return self._new(self.stops.settled(text.rstrip(BROKEN)) if cut == text else cut)

    def end(self) -> str:
        """What was held back."""
        return self._new(self.stops.cut(self.continuation.text(self.tokens)))

    def _new(self, text: str) -> str:
        new, self.sent = text[len(self.sent) :], max(self.sent, text, key=len)
        return new
