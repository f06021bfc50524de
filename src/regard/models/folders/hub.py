"""Models of the Hugging Face hub by their ids: downloaded into its cache, and read from there.

Only safetensors, JSON and tokenizer files are downloaded, never pickled weights. Offline
(``HF_HUB_OFFLINE``), or if the hub cannot be reached, the cache is used.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from regard.core.checks import is_whole
from regard.core.errors import BadInput, reason_of
from regard.core.files import JSON, is_there, read_json

ID = re.compile(r"(\w[\w.-]*/)?\w[\w.-]*", re.ASCII)
CONFIG = "config.json"
POSITIONS = ("max_position_embeddings", "n_positions")  # keys of config.json
AFTER_PADDING = ("roberta", "xlm-roberta", "camembert")  # positions begin after the padding's id
FETCHED = ("*.json", "vocab.txt", "merges.txt", "*.model", "*.spm", "*.safetensors")


def is_hub_id(name: str | Path) -> bool:
    """Whether a name is a hub id such as "org/name" or "name".

    A path that exists, or whose first folder exists, is local.
    """
    if isinstance(name, Path) or ID.fullmatch(name) is None:
        return False
    return not (is_there(name) or is_there(name.split("/")[0]))


def local_folder(name: str | Path) -> Path:
    """The folder of a model, downloaded if the name is a hub id."""
    if is_hub_id(name):
        return fetch(str(name))
    is_there(name)  # raises BadInput if it cannot be a path
    return Path(name)


def fetch(name: str) -> Path:
    """Download a model by its id; returns the folder in the cache of the hub.

    config.json comes first: an unsupported model is refused before its weights are downloaded.
    """
    folder = _with_config(name)
    if "regard" not in (config := read_json(folder / CONFIG)):
        from regard.models.papers import paper_of_folder  # here: it imports torch

        paper_of_folder(config, name)
    folder = _download(name, FETCHED)
    if not any(folder.glob("*.safetensors")):
        raise BadInput(
            f"{name}: its repository on the hub has no safetensors; pickled weights are not loaded"
        )
    return folder


def check_model(name: str) -> None:
    """Refuse a name that is neither a folder nor a model of the hub; no weights are downloaded."""
    if is_hub_id(name):
        _with_config(name)
    elif not is_there(name):
        raise BadInput(f"{name}: no such folder")


def row_limit(name: str) -> int | None:
    """The most tokens of a row that a model reads, by config.json; None: unlimited or unknown."""
    folder = _with_config(name) if is_hub_id(name) else Path(name)
    if not (folder / CONFIG).is_file():
        return None
    config = read_json(folder / CONFIG)
    if "regard" in config:
        return _learned_positions(config.get("facts"))
    places = next((size for key in POSITIONS if is_whole(size := config.get(key))), None)
    if places is not None and config.get("model_type") in AFTER_PADDING:
        return places - 1 - (padding if is_whole(padding := config.get("pad_token_id")) else 1)
    return places


def _learned_positions(facts: JSON) -> int | None:
    """The number of learned positions in the facts of a folder, the least of several."""
    if not isinstance(facts, dict):
        return None
    if facts.get("is") == "Learned" and is_whole(longest := facts.get("longest")):
        return longest
    limits = [limit for part in facts.values() if (limit := _learned_positions(part)) is not None]
    return min(limits, default=None)


def _with_config(name: str) -> Path:
    """The folder in the cache, with config.json."""
    folder = _download(name, (CONFIG,))
    if not (folder / CONFIG).is_file():
        raise BadInput(f"{name}: no model: its repository on the hub has no {CONFIG}")
    return folder


def _download(name: str, patterns: Sequence[str]) -> Path:
    from huggingface_hub import errors, snapshot_download  # here: slow to import, rarely needed

    missing = f"{name}: no such folder, and"
    try:
        return Path(snapshot_download(name, allow_patterns=list(patterns)))
    except errors.HFValidationError:
        raise BadInput(f"{missing} no id of the Hugging Face hub") from None
    except errors.GatedRepoError:
        raise BadInput(
            f"{missing} the model on the hub is gated: request access and log in"
        ) from None
    except errors.RepositoryNotFoundError:
        raise BadInput(f"{missing} no public model of the Hugging Face hub") from None
    except errors.LocalEntryNotFoundError as error:
        raise BadInput(f"{missing} not in the cache of the hub ({_cause(error)})") from None
    except Exception as error:  # of the library, its client or the network
        raise BadInput(f"{name}: cannot be fetched from the hub ({reason_of(error)})") from None


def _cause(error: BaseException) -> str:
    """Reason why the hub did not answer."""
    cause = error.__cause__ or error
    if type(cause).__name__ == "OfflineModeIsEnabled":
        return "HF_HUB_OFFLINE is set"
    return f"the hub cannot be reached: {reason_of(cause)}"
