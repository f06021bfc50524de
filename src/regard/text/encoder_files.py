"""The tokenizer files of a BERT folder: which of them says what, as ``transformers`` 5 has it.

tokenizer.json, or else vocab.txt, gives the pieces and their ids; tokenizer_config.json says how
texts are normalised and what the special tokens are called. Only where that file names a class that
takes tokenizer.json as it stands does the normaliser written there count.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer

from regard.ground.errors import BadInput, reason_of
from regard.ground.files import read_bytes, read_json
from regard.text.vocabulary import check_pieces
from regard.text.wordpiece import GOES_ON, SPECIALS, Normalisation, bert_tokenizer

WORDS, LINES = "tokenizer.json", "vocab.txt"
SETTINGS, NAMES, ADDED = "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"
FILES = (WORDS, LINES, SETTINGS, NAMES, ADDED)

# Classes that cut as BERT does, and classes that take tokenizer.json as it stands.
BERTS = ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "MobileBertTokenizer")
PLAIN = ("PreTrainedTokenizer", "TokenizersBackend")
PROPERTIES = ("single_word", "lstrip", "rstrip", "normalized", "special")  # of an added token
EXTRAS = ("extra_special_tokens", "additional_special_tokens")
LONGEST = 1_000_000  # a greater model_max_length is how folders write that there is none


@dataclass(frozen=True)
class Found:
    """What the files of a folder say."""

    tokenizer: Tokenizer
    names: dict[str, str]
    longest: int | None
    files: dict[str, bytes]


def read_files(folder: Path) -> Found | None:
    """The tokenizer of a folder; None where it has no vocabulary."""
    files = {name: read_bytes(folder / name) for name in FILES if (folder / name).exists()}
    if WORDS not in files and LINES not in files:
        return None
    settings = read_json(folder / SETTINGS) if SETTINGS in files else {}
    names = _names(folder, settings, NAMES in files)
    kind = str(settings.get("tokenizer_class") or BERTS[0]).removesuffix("Fast")
    if kind not in BERTS + PLAIN:
        raise BadInput(f"{folder / SETTINGS}: the tokenizer_class {kind!r} is not supported")
    if kind in PLAIN:
        tokenizer = _as_it_stands(folder / WORDS, names)
    else:
        tokenizer = _rebuilt(folder, settings, names, WORDS in files, ADDED in files)
    return Found(tokenizer, names, _longest(settings.get("model_max_length")), files)


def fresh_files(
    tokenizer: Tokenizer, manner: Normalisation, names: Mapping[str, str], longest: int | None
) -> dict[str, bytes]:
    """The files with which ``transformers`` makes the same tokenizer."""
    settings = {
        "tokenizer_class": BERTS[0],
        "do_lower_case": manner.lower,
        "strip_accents": manner.strip_accents,
        "tokenize_chinese_chars": manner.chinese,
        "model_max_length": longest,
        **names,
    }
    if longest is None:
        del settings["model_max_length"]
    ids = tokenizer.get_vocab()
    lines = "".join(f"{piece}\n" for piece in sorted(ids, key=ids.__getitem__))
    said = json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
    contents = {WORDS: tokenizer.to_str(pretty=True), SETTINGS: said, LINES: lines}
    return {name: content.encode() for name, content in contents.items()}


def _names(folder: Path, settings: dict[str, Any], mapped: bool) -> dict[str, str]:
    """The special tokens by their roles. Folders list all added tokens in one place, or are old:
    then special_tokens_map.json goes before tokenizer_config.json."""
    said = {role: (SETTINGS, settings.get(role)) for role in SPECIALS}
    if mapped and "added_tokens_decoder" not in settings:
        older = read_json(folder / NAMES)
        said |= {role: (NAMES, older[role]) for role in SPECIALS if role in older}
    names = {}
    for role, (file, token) in said.items():
        token = SPECIALS[role] if token is None else token
        name = token.get("content") if isinstance(token, dict) else token
        if not isinstance(name, str) or not name:
            raise BadInput(f"{folder / file}: {role} is not the name of a token")
        names[role] = name
    for role, name in names.items():
        if role != "mask_token" and name == names["mask_token"]:
            raise BadInput(f"{folder}: {role} and mask_token are both {name!r}")
    return names


def _rebuilt(
    folder: Path, settings: dict[str, Any], names: dict[str, str], words: bool, added: bool
) -> Tokenizer:
    path = folder / (WORDS if words else LINES)
    content = read_json(path) if words else {}
    vocabulary = _of_json(content, path) if words else _of_lines(path)
    _refuse_missing(vocabulary, names, path)
    manner = Normalisation(
        _flag(folder, settings, "do_lower_case", True),
        _flag(folder, settings, "strip_accents", None),
        _flag(folder, settings, "tokenize_chinese_chars", True),
    )
    try:
        tokenizer = bert_tokenizer(vocabulary, manner, names)
    except Exception as error:  # the library raises bare Exception
        raise BadInput(f"{folder}: no tokenizer can be made of this ({reason_of(error)})") from None
    if "added_tokens_decoder" in settings:
        listed = _by_id(settings["added_tokens_decoder"])
        _add(tokenizer, listed, names, folder / SETTINGS)
    else:
        older = read_json(folder / ADDED) if added else {}
        listed = [{"content": name, "id": number} for name, number in older.items()]
        _add(tokenizer, listed, names, folder / ADDED)
        _add(tokenizer, content.get("added_tokens") or [], names, path)
    extras = [_as_dict(token) for key in EXTRAS for token in _several(settings.get(key))]
    _add(tokenizer, [{"special": True, **one} for one in extras], names, folder / SETTINGS)
    return tokenizer


def _as_it_stands(path: Path, names: dict[str, str]) -> Tokenizer:
    content = read_json(path)
    _refuse_missing(_of_json(content, path), names, path)
    try:
        tokenizer = Tokenizer.from_str(json.dumps(content))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        empty = tokenizer.encode("", "")
    except Exception as error:  # the library raises bare Exception
        raise BadInput(f"{path}: not a tokenizer.json ({reason_of(error)})") from None
    marks = [names[role] for role in ("cls_token", "sep_token", "sep_token")]
    if empty.tokens != marks or empty.type_ids != [0, 0, 1]:
        raise BadInput(f"{path}: its template is not BERT's")
    return tokenizer


def _of_json(content: dict[str, Any], path: Path) -> dict[str, int]:
    """The vocabulary in a tokenizer.json; ids that it leaves out get names that no text has."""
    model = content.get("model")
    if not isinstance(model, dict) or model.get("type", "WordPiece") != "WordPiece":
        raise BadInput(f"{path}: not a WordPiece vocabulary")
    pieces: Any = model.get("vocab")
    if model.get("continuing_subword_prefix", GOES_ON) != GOES_ON:
        raise BadInput(f"{path}: a continuing_subword_prefix other than {GOES_ON} is not supported")
    check_pieces(pieces, path)
    taken = set(pieces.values())
    left = set(range(max(taken, default=-1))) - taken
    return pieces | {f"(no piece {number})": number for number in left}


def _of_lines(path: Path) -> dict[str, int]:
    """The vocabulary in a vocab.txt: one piece in each line, its id is the line.

    Of equal lines the last counts; the others keep their ids, under names that no text has.
    """
    try:
        lines = read_bytes(path).decode().split("\n")
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not UTF-8 (byte {error.start})") from None
    pieces = [line.rstrip() for line in (lines if lines[-1] else lines[:-1])]
    last = {piece: number for number, piece in enumerate(pieces)}
    return {
        piece if last[piece] == number else f"{piece} (line {number + 1})": number
        for number, piece in enumerate(pieces)
    }


def _refuse_missing(vocabulary: Mapping[str, int], names: Mapping[str, str], path: Path) -> None:
    if absent := [name for name in names.values() if name not in vocabulary]:
        raise BadInput(f"{path}: has no {', '.join(absent)}")


def _add(tokenizer: Tokenizer, tokens: Any, names: Mapping[str, str], path: Path) -> None:
    """Put added tokens into a tokenizer, which numbers them on; their ids must be those."""
    if not isinstance(tokens, list) or not all(
        isinstance(one, dict)
        and isinstance(one.get("content"), str)
        and isinstance(one.get("id", 0), int)
        for one in tokens
    ):
        raise BadInput(f"{path}: its added tokens are not tokens and their ids")
    for one in sorted(tokens, key=lambda one: one.get("id", 0)):
        name = one["content"]
        said = {key: one[key] for key in PROPERTIES if key in one}
        try:
            token = AddedToken(name, **said | ({"special": True} if name in names.values() else {}))
            tokenizer.add_tokens([token])
        except (TypeError, ValueError) as error:
            raise BadInput(f"{path}: {name!r} is no token ({reason_of(error)})") from None
        number = tokenizer.token_to_id(name)
        if one.get("id", number) != number:
            raise BadInput(f"{path}: the id of {name!r} is {one['id']}, but here it is {number}")


def _by_id(tokens: Any) -> Any:
    """Added tokens that are listed by their ids, as tokenizer.json lists them."""
    if not isinstance(tokens, dict) or not all(key.isdecimal() and len(key) < 10 for key in tokens):
        return None
    return [{**_as_dict(token), "id": int(key)} for key, token in tokens.items()]


def _several(tokens: Any) -> list[Any]:
    """Tokens as folders list them: in a row, or by their roles."""
    if isinstance(tokens, dict):
        return list(tokens.values())
    return tokens if isinstance(tokens, list) else []


def _as_dict(token: Any) -> dict[str, Any]:
    return token if isinstance(token, dict) else {"content": token}


def _flag(folder: Path, settings: dict[str, Any], key: str, default: Any) -> Any:
    value = settings.get(key, default)
    if not isinstance(value, bool) and value is not default:
        raise BadInput(f"{folder / SETTINGS}: {key} is neither true nor false")
    return value


def _longest(said: Any) -> int | None:
    sane = isinstance(said, int | float) and 1 <= said <= LONGEST
    return int(said) if sane and not isinstance(said, bool) else None
