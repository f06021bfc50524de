"""Tokenizer files of an encoder's folder, read as ``transformers`` 5 reads them.

tokenizer.json, or else the files of a family, gives the pieces and their ids; tokenizer_config.json
has the normalisation and the names of the special tokens. The normaliser in tokenizer.json is used
only if tokenizer_config.json names a class that loads tokenizer.json unchanged, or if the model is
of a family whose tokenizer.json is always used so. If neither tokenizer_config.json nor config.json
names a class, ``model_type`` in config.json decides.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, cast

from tokenizers import AddedToken, Tokenizer

from regard.core.errors import BadInput, reason_of
from regard.core.files import JSON, read_bytes, read_json, write_files
from regard.text.templates import TEXTS
from regard.text.tokenizers import FAMILIES
from regard.text.tokenizers.bounds import library_errors, parse_tokenizer
from regard.text.tokenizers.bpe import merges_like
from regard.text.tokenizers.family import TokenizerFamily, TokenizerSettings, Vocab
from regard.text.tokenizers.subwords import Subwords

WORDS = "tokenizer.json"
SETTINGS, NAMES, ADDED = "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"
CONFIG, CLASS = "config.json", "tokenizer_class"  # old folders name the class in config.json
AS_IT_STANDS = ("PreTrainedTokenizer", "TokenizersBackend")  # classes that load tokenizer.json
PROPERTIES = ("single_word", "lstrip", "rstrip", "normalized", "special")  # of an added token
OPTIONAL = ("pad_token",)  # roles that a family may do without
ROLES = tuple(f"{role}_token" for role in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"))
SENTENCEPIECE, CHAT = "tokenizer.model", "chat_template.jinja"  # copied, not read
EXTRAS = ("extra_special_tokens", "additional_special_tokens")
LONGEST = 1_000_000  # a greater model_max_length is how folders write that there is none
OF_ALL = ("tokenizer_class", "model_max_length", *EXTRAS)  # settings of every family


def all_files() -> tuple[str, ...]:
    """The files that a tokenizer of any family may have."""
    of_families = dict.fromkeys(name for family in FAMILIES for name in family.files)
    return (WORDS, *of_families, SETTINGS, NAMES, ADDED, SENTENCEPIECE, CHAT)


Token = dict[str, Any]  # as tokenizer.json lists an added token: content, id, properties


@dataclass(frozen=True, repr=False)
class TokenizerFiles:
    """Vocabulary, names of its special tokens by role, and its files as read or generated."""

    family: TokenizerFamily
    words: Subwords
    names: Mapping[str, str]
    longest: int | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path, family: TokenizerFamily | None = None) -> Self | None:
        """Read the tokenizer of a folder; None if it has no vocabulary.

        ``family`` is the default for files that name no class.
        """
        families = FAMILIES if family is None else (family, *FAMILIES)
        files = {
            name: read_bytes(folder / name) for name in all_files() if (folder / name).exists()
        }
        content = read_json(folder / SETTINGS) if SETTINGS in files else {}
        settings = TokenizerSettings(content, str(folder / SETTINGS))
        named, where = _class_named(folder, settings)
        unchanged = family is not None and family.unchanged
        complete = [each for each in families if {*each.files} <= files.keys()]
        if WORDS not in files and (unchanged or not complete):
            _refuse_incomplete(folder, files.keys(), unchanged)
            return None
        if named in AS_IT_STANDS or unchanged:
            written = read_json(folder / WORDS)
            own = _family_of(written, family, settings)
            names = _names(folder, own, settings, NAMES in files)
            tokenizer = _as_it_stands(folder / WORDS, written, own, names, settings)
        else:
            usual = [family] if family and WORDS in files else complete or [*families]
            own = _family_named(named, usual, where)
            names = _names(folder, own, settings, NAMES in files)
            tokenizer = _rebuilt(folder, own, settings, names, files.keys())
        names |= _optional(tokenizer, names, settings)
        longest = _longest(content.get("model_max_length"))
        return cls(own, Subwords(own.complete(tokenizer)), names, longest, files)

    @classmethod
    def create(
        cls,
        family: TokenizerFamily,
        model: Vocab,
        own: Mapping[str, JSON],
        longest: int | None = None,
        special_tokens: Sequence[str] = (),
    ) -> Self:
        """Make a tokenizer with its files; ``own`` are its keys of tokenizer_config.json."""
        names = family.special_tokens
        tokenizer = _assembled(family, model, names, TokenizerSettings(own))
        if known := [token for token in special_tokens if token in tokenizer.get_vocab()]:
            raise BadInput(f"the vocabulary has {', '.join(known)} already: choose another token")
        tokenizer.add_special_tokens([*special_tokens])
        settings = {CLASS: family.classes[0], **own, "model_max_length": longest, **names}
        if longest is None:
            del settings["model_max_length"]
        if special_tokens:
            settings[EXTRAS[0]] = [*special_tokens]
        written = json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
        contents = {WORDS: tokenizer.to_str(pretty=True), SETTINGS: written}
        contents |= family.write_files(model)
        files = {name: content.encode() for name, content in contents.items()}
        return cls(family, Subwords(family.complete(tokenizer)), names, longest, files)

    def with_family(self, name: str) -> Self:
        """Tokenizer with this vocabulary and the row template of another family of its kind."""
        family = next(family for family in FAMILIES if family.name == name)
        settings = json.loads(self.files[SETTINGS])
        own = {key: settings[key] for key in settings if key not in (*self.names, *OF_ALL)}
        model = family.model_in(json.loads(self.files[WORDS]), Path(WORDS))
        return self.create(family, model, own, self.longest, settings.get(EXTRAS[0], ()))

    def with_special_tokens(self, tokens: Sequence[str]) -> Self:
        """Tokenizer with these special tokens, under the next ids where they are missing."""
        missing = [token for token in tokens if not self.words.has(token)]
        if not missing:
            return self
        words = self.words.with_special_tokens(missing)
        settings = json.loads(self.files.get(SETTINGS, b"{}"))
        settings.setdefault(CLASS, self.family.classes[0])
        key = next((key for key in EXTRAS if settings.get(key)), EXTRAS[0])
        settings[key] = [*_several(settings.get(key)), *missing]
        if "added_tokens_decoder" in settings:
            special = {**dict.fromkeys(PROPERTIES, False), "special": True}
            listed = {str(words.number(token)): {"content": token, **special} for token in missing}
            settings["added_tokens_decoder"] = {**settings["added_tokens_decoder"], **listed}
        content = merges_like(self.files.get(WORDS, b""), words.content)
        written = {WORDS: content, SETTINGS: json.dumps(settings, indent=2, ensure_ascii=False)}
        contents = {name: f"{content}\n".encode() for name, content in written.items()}
        return replace(self, words=words, files={**self.files, **contents})

    def save(self, folder: Path) -> None:
        """Write the files, and remove the files of an earlier tokenizer."""
        write_files(folder, self.files, stale=all_files())

    def json_files(self) -> dict[str, str]:
        """tokenizer.json where it is missing, and a complete tokenizer_config.json."""
        settings: dict[str, JSON] = {CLASS: self.family.classes[0], **self.names}
        settings |= {} if self.longest is None else {"model_max_length": self.longest}
        settings |= json.loads(self.files.get(SETTINGS, b"{}"))
        words = {} if WORDS in self.files else {WORDS: self.words.content}
        return {**words, SETTINGS: json.dumps(settings, indent=2, ensure_ascii=False)}


def _class_named(folder: Path, settings: TokenizerSettings) -> tuple[str, str]:
    """The tokenizer class in tokenizer_config.json, or else config.json, and that file."""
    name, where = settings.content.get(CLASS), settings.where
    if not name and (folder / CONFIG).is_file():
        name, where = read_json(folder / CONFIG).get(CLASS), str(folder / CONFIG)
    return str(name or "").removesuffix("Fast"), where


def _family_named(named: str, usual: Sequence[TokenizerFamily], where: str) -> TokenizerFamily:
    """Family of a tokenizer class; without a class, the first of the ``usual`` families."""
    families = [family for family in FAMILIES if named in family.classes] if named else usual
    if not families:
        raise BadInput(f"{where}: the {CLASS} {named!r} is not supported")
    return families[0]


def _family_of(
    content: Mapping[str, JSON], first: TokenizerFamily | None, settings: TokenizerSettings
) -> TokenizerFamily:
    """The family with the model type and the row template of a tokenizer.json.

    Without a ``first`` family, one with any template fits if tokenizer_config.json has its special
    tokens. If none fits, the first family reports the error.
    """
    if first is not None and first.unchanged:
        return first
    families = FAMILIES if first is None else (first, *FAMILIES)
    model = content.get("model")
    kind = model.get("type") if isinstance(model, dict) else None
    same = [family for family in families if family.model == kind] or [families[0]]
    named = {role for role in ROLES if first is None and settings.content.get(role) is not None}
    unchanged = [each for each in same if each.unchanged and each.special_tokens.keys() <= named]
    shape = _written_shape(content)
    fitting = (each for each in same if not each.unchanged and _shape(each) == shape)
    return next(iter(unchanged), None) or next(fitting, same[0])


def _shape(family: TokenizerFamily) -> list[bool]:
    """For each part of a row of one text: whether it is the text, or a special token (False)."""
    return [part.name in TEXTS for part in family.template.parts(1)]


def _written_shape(content: Mapping[str, JSON]) -> list[bool] | None:
    """Like ``_shape``, by the template of a tokenizer.json; None without a template."""
    processor = content.get("post_processor")
    parts = processor.get("single") if isinstance(processor, dict) else None
    if not isinstance(parts, list):
        return None
    return [isinstance(part, dict) and "Sequence" in part for part in parts]


def _names(
    folder: Path, family: TokenizerFamily, settings: TokenizerSettings, mapped: bool
) -> dict[str, str]:
    """The special tokens by their roles. Folders list all added tokens in one place, or are old:
    then special_tokens_map.json goes before tokenizer_config.json."""
    usual = {} if family.unchanged else family.special_tokens
    tokens = {role: (SETTINGS, settings.content.get(role)) for role in usual or ROLES}
    if mapped and "added_tokens_decoder" not in settings.content:
        older = read_json(folder / NAMES)
        tokens |= {role: (NAMES, older[role]) for role in tokens if role in older}
    names = {
        role: _name(usual[role] if token is None else token, role, str(folder / file))
        for role, (file, token) in tokens.items()
        if token is not None or role in usual
    }
    for role, name in names.items():
        if role != "mask_token" and name == names.get("mask_token"):
            raise BadInput(f"{folder}: {role} and mask_token are both {name!r}")
    return names


def _optional(
    tokenizer: Tokenizer, known: Collection[str], settings: TokenizerSettings
) -> dict[str, str]:
    """Add the special tokens that the family does not need; returns their names by role."""
    tokens = {role: settings.content.get(role) for role in OPTIONAL if role not in known}
    named = {role: token for role, token in tokens.items() if token is not None}
    names = {role: _name(token, role, settings.where) for role, token in named.items()}
    tokenizer.add_special_tokens([*names.values()])
    return names


def _name(token: JSON, role: str, where: str) -> str:
    name = _as_dict(token).get("content")
    if not isinstance(name, str) or not name:
        raise BadInput(f"{where}: {role} is not the name of a token")
    return name


def _rebuilt(
    folder: Path,
    family: TokenizerFamily,
    settings: TokenizerSettings,
    names: Mapping[str, str],
    files: Iterable[str],
) -> Tokenizer:
    """Build a tokenizer by its family from the pieces in a folder."""
    path = folder / (WORDS if WORDS in files else family.files[0])
    content = read_json(path) if WORDS in files else {}
    model = family.model_in(content, path) if WORDS in files else family.read_files(folder)
    added = _added_tokens(folder, content, settings, files)
    _refuse_missing({*model["vocab"], *_contents(added)}, names, path)
    with library_errors(f"{folder}: the tokenizer cannot be built", Exception):
        tokenizer = _assembled(family, model, names, settings, added)
    extras = [_as_dict(token) for key in EXTRAS for token in _several(settings.content.get(key))]
    _add(tokenizer, [{"special": True, **token} for token in extras], names, folder / SETTINGS)
    return tokenizer


def _added_tokens(
    folder: Path, content: Mapping[str, JSON], settings: TokenizerSettings, files: Iterable[str]
) -> list[tuple[Path, list[Token]]]:
    """The tokens that a folder adds to the vocabulary, with their ids, and the files that do it.

    ``content`` is its tokenizer.json. A list in tokenizer_config.json replaces all others.
    """
    if "added_tokens_decoder" in settings.content:
        by_id = _by_id(settings.content["added_tokens_decoder"])
        listed: dict[Path, object] = {folder / SETTINGS: by_id}
    else:
        older = read_json(folder / ADDED) if ADDED in files else {}
        by_name = [{"content": name, "id": number} for name, number in older.items()]
        listed = {folder / ADDED: by_name, folder / WORDS: content.get("added_tokens") or []}
    return [(path, _checked(tokens, path)) for path, tokens in listed.items()]


def _contents(added: Iterable[tuple[Path, list[Token]]]) -> set[str]:
    return {token["content"] for _, tokens in added for token in tokens}


def _assembled(
    family: TokenizerFamily,
    model: Vocab,
    names: Mapping[str, str],
    settings: TokenizerSettings,
    added: Sequence[tuple[Path, list[Token]]] = (),
) -> Tokenizer:
    """Build a tokenizer with added tokens, special tokens and template."""
    tokenizer = family.build(model, names.get("unk_token", ""), settings)
    for path, tokens in added:
        _add(tokenizer, tokens, names, path)
    listed = _contents(added)
    tokenizer.add_special_tokens([name for name in names.values() if name not in listed])
    roles = {part.name for part in family.template.parts(2)} - {*TEXTS}
    by_role = {role: names[f"{role}_token"] for role in sorted(roles)}
    ids = tokenizer.get_vocab()
    numbers = {role: ids[name] for role, name in by_role.items()}
    tokenizer.post_processor = family.processor(by_role, numbers, settings)
    return tokenizer


def _as_it_stands(
    path: Path,
    content: dict[str, JSON],
    family: TokenizerFamily,
    names: Mapping[str, str],
    settings: TokenizerSettings,
) -> Tokenizer:
    """Read the tokenizer of a tokenizer.json.

    Families with any template may lack special tokens in the file; they have the next ids.
    """
    added = _checked(content.get("added_tokens") or [], path)
    known = {*family.model_in(content, path)["vocab"], *_contents([(path, added)])}
    _refuse_missing(known, {} if family.unchanged else names, path)
    tokenizer = parse_tokenizer(content, path)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    with library_errors(f"{path}: not a tokenizer.json", Exception):
        empty = tokenizer.encode("", "")
    if family.unchanged:
        _add_named(tokenizer, path.parent, content, names, settings)
        return tokenizer
    special = [part for part in family.template.parts(2) if part.name not in TEXTS]
    tokens = [names[f"{part.name}_token"] for part in special]
    if empty.tokens != tokens or empty.type_ids != [part.segment for part in special]:
        raise BadInput(f"{path}: its template differs from that of {family.classes[0]}")
    return tokenizer


def _add_named(
    tokenizer: Tokenizer,
    folder: Path,
    content: Mapping[str, JSON],
    names: Mapping[str, str],
    settings: TokenizerSettings,
) -> None:
    """Add the tokens of tokenizer_config.json to a tokenizer; named tokens become special."""
    for path, tokens in _added_tokens(folder, content, settings, ()):
        _add(tokenizer, tokens, names, path)
    extras = [_as_dict(token) for key in EXTRAS for token in _several(settings.content.get(key))]
    more = [*({"content": name} for name in names.values()), *extras]
    known = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    missing = [{"special": True, **token} for token in more if token.get("content") not in known]
    _add(tokenizer, missing, names, folder / SETTINGS)


def _refuse_incomplete(folder: Path, files: Collection[str], unchanged: bool) -> None:
    """Refuse a folder with some, but not all, of the files of a family.

    If tokenizer.json is used ``unchanged``, nothing can replace it.
    """
    vocabularies = {*all_files()} - {SETTINGS, NAMES, ADDED, CHAT}
    other = [name for name in all_files() if name in vocabularies.intersection(files)]
    if unchanged and other:
        remedy = "write it with transformers: AutoTokenizer.from_pretrained(…).save_pretrained(…)"
        raise BadInput(f"{folder}: has {' and '.join(other)}, but no {WORDS}: {remedy}")
    for family in FAMILIES:
        absent = [name for name in family.files if name not in files]
        present = [name for name in family.files if name in files]
        if absent and present:
            has, lacks = " and ".join(present), " and ".join(absent)
            raise BadInput(f"{folder}: has {has}, but no {lacks}, nor {WORDS}")


def _refuse_missing(vocabulary: Collection[str], names: Mapping[str, str], path: Path) -> None:
    if absent := [name for name in names.values() if name not in vocabulary]:
        raise BadInput(f"{path}: has no {', '.join(absent)}")


def _checked(tokens: object, path: Path) -> list[Token]:
    """Return a list of tokens and their ids; refuse anything else."""
    for token in tokens if isinstance(tokens, list) else [None]:
        match {"id": 0, **token} if isinstance(token, dict) else token:
            case {"content": str(), "id": int()}:
                continue
        raise BadInput(f"{path}: added tokens must be a list of tokens with content and id")
    return cast(list[Token], tokens)


def _add(tokenizer: Tokenizer, tokens: object, names: Mapping[str, str], path: Path) -> None:
    """Add tokens to a tokenizer, which assigns the next ids; they must equal the file's."""
    for listed in sorted(_checked(tokens, path), key=lambda token: token.get("id", 0)):
        name = listed["content"]
        properties = {key: listed[key] for key in PROPERTIES if key in listed}
        if name in names.values():
            properties["special"] = True
        try:
            tokenizer.add_tokens([AddedToken(name, **properties)])
        except (TypeError, ValueError) as error:
            raise BadInput(
                f"{path}: {name!r} is not a valid added token ({reason_of(error)})"
            ) from None
        number = tokenizer.token_to_id(name)
        if (expected := listed.get("id", number)) != number:
            raise BadInput(
                f"{path}: {name!r} has the id {expected}, but the library assigns {number}"
            )


def _by_id(tokens: JSON) -> list[Token] | None:
    """Added tokens by their ids, in the form of tokenizer.json."""
    if not isinstance(tokens, dict) or not all(key.isdecimal() and len(key) < 10 for key in tokens):
        return None
    return [{**_as_dict(token), "id": int(key)} for key, token in tokens.items()]


def _several(tokens: JSON) -> list[JSON]:
    """Tokens as folders list them: as a list, or by their roles."""
    if isinstance(tokens, dict):
        return list(tokens.values())
    return tokens if isinstance(tokens, list) else []


def _as_dict(token: JSON) -> Token:
    return token if isinstance(token, dict) else {"content": token}


def _longest(length: JSON) -> int | None:
    if isinstance(length, bool) or not isinstance(length, int | float):
        return None
    return int(length) if 1 <= length <= LONGEST else None
