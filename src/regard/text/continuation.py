"""Text of tokens that follow a prompt: whole, or streamed."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from regard.core.errors import BadInput, shown

Decode = Callable[[Sequence[int]], str]

CONTEXT = 8  # last tokens of a prompt that decide whether a space stands before the first token
BROKEN = "\ufffd"  # in place of a byte that is no whole character, or not yet


def check_stop_strings(strings: Sequence[str]) -> None:
    """Refuse stop strings that are not a list of non-empty texts."""
    if isinstance(strings, str) or not all(isinstance(string, str) for string in strings):
        raise BadInput(f"stop strings must be a list of strings, not {shown(strings)}")
    if "" in strings:
        raise BadInput("a stop string must have at least one character")


@dataclass(frozen=True)
class StopStrings:
    """Strings at which generated text ends, and which are cut off.

    Called with tokens, it returns whether their text contains a stop string. Only the last tokens
    are decoded, enough for a string that the newest token completes.
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
        """The text of tokens before the first stop string."""
        return self.cut(self.decode(tokens))

    def cut(self, text: str) -> str:
        """The text before the first stop string."""
        starts = [text.find(string) for string in self.strings]
        return text[: min((at for at in starts if at >= 0), default=len(text))]

    def settled(self, text: str) -> str:
        """The text without an end that may be the beginning of a stop string."""
        unsettled = (
            length
            for string in self.strings
            for length in range(1, len(string))
            if text.endswith(string[:length])
        )
        return text[: len(text) - max(unsettled, default=0)]


class Continuation:
    """Decoder of tokens that follow a ``prompt``, with the right space between them.

    A token of ``unsettled_ids``, such as a single byte, is decoded together with those after it.
    """

    def __init__(
        self, decode: Decode, prompt: Sequence[int] = (), unsettled_ids: Collection[int] = ()
    ):
        self.decode, self.context = decode, [*prompt[-CONTEXT:]]
        self.unsettled_ids = unsettled_ids
        self.before = decode(self.context)

    def text(self, tokens: Sequence[int]) -> str:
        """The text of the tokens alone, with a leading space if the prompt needs one."""
        whole = self.decode([*self.context, *tokens])
        if whole.startswith(self.before):
            return whole[len(self.before) :]
        return self.decode(tokens)  # the prompt ends within a character

    def settled(self, tokens: Sequence[int]) -> Sequence[int]:
        """The tokens whose text later tokens cannot change, except within a character."""
        count = len(tokens)
        while count and tokens[count - 1] in self.unsettled_ids:
            count -= 1
        return tokens[:count]


class TextStream:
    """Streamed continuation: ``add`` returns the text that later tokens cannot change.

    Incomplete characters and the beginning of a stop string are held back. All pieces together are
    the text of all tokens, cut at the first stop string.
    """

    def __init__(self, continuation: Continuation, stops: StopStrings):
        self.continuation, self.stops = continuation, stops
        self.tokens: list[int] = []
        self.sent = ""

    def add(self, token: int) -> str:
        """Add a token; returns the new text, which may be empty."""
        self.tokens.append(token)
        text = self.continuation.text(self.continuation.settled(self.tokens))
        cut = self.stops.cut(text)
        return self._new(self.stops.settled(text.rstrip(BROKEN)) if cut == text else cut)

    def end(self) -> str:
        """The text that was held back."""
        return self._new(self.stops.cut(self.continuation.text(self.tokens)))

    def _new(self, text: str) -> str:
        new, self.sent = text[len(self.sent) :], max(self.sent, text, key=len)
        return new
