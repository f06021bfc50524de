"""A model that is served: by its name, with its components by name and options."""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Self

from regard.api import Model, load
from regard.core.errors import BadInput, did_you_mean, shown
from regard.core.files import digest_folder
from regard.inference.decoder_model import Method, Request
from regard.inference.embed import EncoderInput
from regard.inference.generator import Ending
from regard.models.edits import EditList, read_edits
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.folders.hub import local_folder
from regard.tasks.components import AnyComponent, with_captured_encoder
from regard.text.label_sets import LabelSet

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
LANGUAGES = re.compile(r"(?:^|[-_.])([a-z]{2,3})-([a-z]{2,3})$")  # as in opus-mt-en-de


ModelInput = EncoderInput | tuple[str, Sequence[str]] | Request | None
"""An input of any component; None is no input, and the component says so."""
OptionValue = str | float | tuple[str, ...] | list[str] | Method | Ending | None
Options = Mapping[str, OptionValue]
NO_OPTIONS: Options = MappingProxyType({})


class ServedModel:
    """A model under the ``name`` by which requests choose it.

    ``languages`` are the codes of source and target of a translator; None: by its name, if it ends
    like opus-mt-en-de.
    """

    def __init__(
        self,
        model: Model,
        name: str,
        folder: Path | None = None,
        edits: EditList | None = None,
        languages: tuple[str, str] | None = None,
    ):
        if not NAME.fullmatch(name):
            rule = "letters, digits, '.', '_' and '-', at most 96, with a letter or digit first"
            raise BadInput(f"the name of a model has {rule}, not {shown(name)}")
        self.name, self.folder, self.edits = name, folder, edits
        self.plain = model  # without edits
        self.model = model if edits is None else model.edited(edits)
        if languages is not None and "translate" not in self.components:
            raise BadInput(f"languages: model {name} does not translate")
        self.languages = languages or self._languages()

    @classmethod
    def open(
        cls,
        folder: str | Path,
        name: str | None = None,
        device: str | None = None,
        precision: str | None = None,
        edits: str | Path | None = None,
        languages: tuple[str, str] | None = None,
    ) -> Self:
        """Load a model; by default it has the name of its folder."""
        listed = None if edits is None else read_edits(edits)
        place = local_folder(folder)
        model = load(folder, device, precision=precision)
        return cls(model, name or name_of_folder(str(folder)), place, listed, languages)

    def _languages(self) -> tuple[str, str] | None:
        """Languages of a translator, by the end of its name."""
        match = LANGUAGES.search(self.name)
        is_translator = self.model.facts.sides == EncoderDecoder.sides
        return (match[1], match[2]) if match and is_translator else None

    @property
    def source(self) -> str | None:
        """Code of the source language of a translator, if known."""
        return None if self.languages is None else self.languages[0]

    @property
    def target(self) -> str | None:
        """Code of the target language of a translator, if known."""
        return None if self.languages is None else self.languages[1]

    @property
    def labels(self) -> LabelSet | None:
        return self.model.labels

    @cached_property
    def components(self) -> tuple[str, ...]:
        """Names of the components that the model has."""
        return self.model.components

    @cached_property
    def folder_hash(self) -> str:
        """Digest of all files of the folder; empty for a model in memory."""
        return "" if self.folder is None else digest_folder(self.folder)

    @property
    def is_on_cpu(self) -> bool:
        """Whether the model runs on a CPU."""
        return self.model.runner.device.type == "cpu"

    @property
    def max_length(self) -> int | None:
        """The maximum number of tokens of an input; None: no limit."""
        if self.encodes_sentences:
            return self.component("embed").own_limit
        runner = self.model.runner
        return runner.truncation or runner.position_limit

    def component(self, name: str, options: Options = NO_OPTIONS) -> AnyComponent:
        """The component with these options, which ``Model.component`` keeps; None: no option."""
        if name not in self.components:
            known = did_you_mean(name, self.components)
            raise BadInput(f"model {self.name} has no component {shown(name)}{known}")
        values = {key: _hashable(value) for key, value in options.items()}
        chosen = {key: value for key, value in values.items() if value is not None}
        return self.model.component(name, **chosen)

    @property
    def writes(self) -> bool:
        """Whether it is a generator or a translator."""
        return "generate" in self.components or "translate" in self.components

    @property
    def encodes_sentences(self) -> bool:
        """Whether it is a sentence encoder: its files say how texts are embedded."""
        return bool(self.model.notes.get("embedding"))

    def replacing(
        self, before: "ServedModel | None", languages: tuple[str, str] | None
    ) -> "ServedModel":
        """The model with these languages; without any, with those and the edits of an earlier."""
        if before is None:
            return ServedModel(self.plain, self.name, self.folder, self.edits, languages)
        if "translate" in self.components:
            languages = languages or before.languages
        return ServedModel(self.plain, self.name, self.folder, before.edits, languages)

    def capture_encoder(self) -> None:
        """Run the encoder as CUDA graphs from now on, on a GPU; edited models stay as they are."""
        if self.edits is None:
            self.model = with_captured_encoder(self.model)

    def with_edits(self, edits: EditList) -> "ServedModel":
        """The model with further edits, for one request."""
        both = edits if self.edits is None else _joined(self.edits, edits)
        return ServedModel(self.plain, self.name, self.folder, both, self.languages)


def reads_images(component: AnyComponent) -> bool:
    """Whether inputs are images; those of several keys, such as source and target, are texts."""
    return len(component.record_keys[0]) == 1 and component.reads_images


def inputs_of(component: AnyComponent, inputs: Sequence[ModelInput]) -> list[ModelInput]:
    """Inputs of a component; texts and ids for a writer are requests without a prefix."""
    if reads_images(component) and any(isinstance(item, str | Path) for item in inputs):
        raise BadInput("images are served from their pixels, not from files of the server")
    return [component.as_input(item) for item in inputs]


def _joined(first: EditList, second: EditList) -> EditList:
    return EditList(f"{first.name} and {second.name}", (*first.edits, *second.edits))


def _hashable(value: OptionValue) -> OptionValue:
    return tuple(value) if isinstance(value, list) else value


def parse_languages(text: str, where: str) -> tuple[str, str]:
    """The codes of two languages, such as en-de."""
    source, dash, target = text.partition("-")
    if not dash or not source or not target:
        raise BadInput(f"{where}: write SRC-TGT, such as en-de, not {shown(text)}")
    return source, target


def name_of_folder(folder: str) -> str:
    """Name of a model by its folder, or by its id on the hub; of runs/NAME/model, NAME."""
    if Path(folder).exists() or not local_folder(folder).is_dir():
        path = Path(folder).absolute()  # a link has its own name
        path = path.resolve() if ".." in path.parts else path
        name = path.parent.name if path.name == "model" and path.parent.name else path.name
    else:
        name = folder.rpartition("/")[2]
    return re.sub(r"[^A-Za-z0-9._-]", "-", name).lstrip("._-")[:96] or "model"
