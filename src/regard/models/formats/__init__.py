"""Types of the tables that map the file formats of other libraries to facts."""

from regard.models.formats.architectures import Architectures, HFHead
from regard.models.formats.config_map import (
    Constant,
    Key,
    LabelCount,
    OverridingKey,
    Presence,
    UnreadKey,
)
from regard.models.formats.hf_format import HFExtras, HFFormat

__all__ = [
    "Architectures",
    "Constant",
    "HFExtras",
    "HFFormat",
    "HFHead",
    "Key",
    "LabelCount",
    "OverridingKey",
    "Presence",
    "UnreadKey",
]
