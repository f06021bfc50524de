"""All tasks by name, the components of a model by name, and ``Runner``, with a method for each."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from regard.core.batch import Ids
from regard.core.catalogue import Catalogue, Entry
from regard.core.checks import check_whole, listed
from regard.core.device import device_named
from regard.core.errors import BadInput, BadItem, did_you_mean, shown
from regard.core.keywords import check_keywords, check_method_keywords
from regard.core.tape import NULL_TAPE, NullTape, check_tape
from regard.core.workers import RayActors, WorkerProcesses
from regard.generation.step import Search
from regard.inference.captured_encoder import capture_encoder
from regard.inference.classifier import SentencePairClassifier
from regard.inference.component import AnyResult, BlockWorkers, Component
from regard.inference.encoder_model import EncoderInput, EncoderModel, ImageModel
from regard.inference.fill_mask import FilledText
from regard.inference.generator import Ending, Generation, Generator
from regard.inference.inputs import verb_of
from regard.inference.predictor import Predictor
from regard.inference.text_tokens import TextTokens
from regard.inference.translator import Translation, Translator
from regard.inference.written_labels import WritingClassifier
from regard.layers.linear.convert import chosen_precision
from regard.models.edits import AnyEdit, edit_module
from regard.models.encoder_decoder import EncoderDecoder, ModelFacts
from regard.models.folders.folder import read as read_folder
from regard.models.folders.hub import local_folder
from regard.models.folders.loaded_model import LoadedModel
from regard.models.label_heads import SentencePairHead
from regard.models.paper import Paper
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.tasks.encoder_task import EncoderTask
from regard.tasks.task import Task
from regard.text.label_sets import LabelSet, SingleLabelSet
from regard.text.task_prompt import PromptConfig
from regard.text.tokenizers.list import Tokenizer

Texts = Iterable[EncoderInput]
AnyComponent = Component[Any, Any, Any]
MOST_COMPONENTS = 64  # with different options, which are kept
MOST_OPTION_BYTES = 1 << 20  # of the options of all components that are kept
BYTES = 8  # of an option, for a character of its description
AnyRunner = TypeVar("AnyRunner", bound="Runner")
TASKS = Catalogue[type[Task]](
    {
        "translate": Entry("regard.tasks.translate:Translate"),
        "text-to-text": Entry("regard.tasks.text_to_text:TextToText"),
        "classify": Entry("regard.tasks.classify:Classify"),
        "tag": Entry("regard.tasks.tag:Tag"),
        "roles": Entry("regard.tasks.semantic_roles:Roles"),
        "answer": Entry("regard.tasks.question_answering:QuestionAnswering"),
        "choose": Entry("regard.tasks.multiple_choice:Choose"),
        "coreference": Entry("regard.tasks.coreference:Coreference"),
        "embed": Entry("regard.tasks.sentence_encoder:Embed"),
        "pretrain": Entry("regard.tasks.pretrain:Pretrain"),
    }
)
TASKS_OF_HEADS = Catalogue[type[EncoderTask]](
    {
        "label": TASKS.entry("classify"),
        "token_label": TASKS.entry("tag"),
        "span": TASKS.entry("answer"),
        "choice": TASKS.entry("choose"),
        "coreference": TASKS.entry("coreference"),
    }
)

AnyModel = EncoderModel | Translator
RUNNERS: dict[tuple[tuple[str, ...], bool, bool], type[AnyModel]] = {
    (TrunkWithHeads.sides, False, False): EncoderModel,
    (TrunkWithHeads.sides, False, True): ImageModel,
    (TrunkWithHeads.sides, True, False): Generator,
    (EncoderDecoder.sides, True, False): Translator,
}
"""By the sides of the model, whether it writes, and whether it reads images."""


def runner_of(loaded: LoadedModel) -> AnyModel:
    """The runner of the model of a folder."""
    facts = loaded.facts
    return RUNNERS[facts.sides, facts.writes, facts.encoder.embed.reads_images].of(loaded)


def predictor_of(runner: EncoderModel) -> Predictor:
    """Predictor of a model's head, with the settings of training if config.json stores them."""
    heads = [head.name for head in runner.facts.output_heads if head.name in TASKS_OF_HEADS]
    roles = cast(type[EncoderTask], TASKS["roles"])
    if heads and {*roles.saved_settings} <= runner.notes.keys():  # their head is a tagger's
        return roles.predictor_of(runner)
    if heads:
        return TASKS_OF_HEADS[heads[0]].predictor_of(runner)
    head = runner.facts.head(SentencePairHead.name)
    if head is None:
        raise BadInput("this model has no head of a task: fine-tune it before you predict")
    return SentencePairClassifier(
        runner.module,
        runner.reading,
        SingleLabelSet(head.classes),
        runner.batch_size,
        runner.truncation,
    )


class ComponentCache:
    """Components of a model by their options: the last used ones, within bytes of options."""

    def __init__(self) -> None:
        self._components: OrderedDict[Hashable, tuple[AnyComponent, int]] = OrderedDict()
        self.option_bytes = 0

    def __len__(self) -> int:
        return len(self._components)

    def get(self, key: Hashable, open_component: Callable[[], AnyComponent]) -> AnyComponent:
        """The component of a key, which is opened if it is not kept, or the key has no hash."""
        try:
            if key in self._components:
                self._components.move_to_end(key)
                return self._components[key][0]
        except TypeError:
            return open_component()
        component, size = open_component(), BYTES * len(repr(key))
        self._components[key] = component, size
        self.option_bytes += size
        while len(self) > MOST_COMPONENTS or self.option_bytes > MOST_OPTION_BYTES:
            _, (_, size) = self._components.popitem(last=False)
            self.option_bytes -= size
        return component


@check_method_keywords
class Runner:
    """A model on its device, in its precision, with a method for each of its components.

    At most ``batch_size`` inputs run at once.
    """

    def __init__(
        self, loaded: LoadedModel, precision: str | None = None, batch_size: int | None = None
    ):
        self._loaded, self.precision, self._batch_size = loaded, precision, batch_size
        if batch_size is not None:
            check_whole("batch_size", batch_size, 1)
        if precision is not None:
            chosen_precision(precision, next(loaded.module.parameters()).device)
        self.paper: Paper = loaded.paper
        self.facts: ModelFacts = loaded.facts
        self.module: nn.Module = loaded.module
        self.tokenizer = cast(Tokenizer | None, loaded.tokenizer)
        self.labels: LabelSet | None = loaded.labels
        self.notes: dict[str, Any] = loaded.notes
        self._components = ComponentCache()

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        return next(self.module.parameters()).device

    def to(self, device: str | torch.device) -> Self:
        """Move the model to a device; buffers of the previous device are dropped."""
        place = device_named(str(device))
        if self.precision is not None:
            chosen_precision(self.precision, place)
        self.module.to(place)
        self.__dict__.pop("runner", None)
        self._components = ComponentCache()
        return self

    @cached_property
    def runner(self) -> AnyModel:
        """The model on its device, in its precision, which all methods call."""
        return self._runner_of(self._loaded)

    def _runner_of(self, loaded: LoadedModel) -> AnyModel:
        runner = runner_of(loaded).with_limits(self._batch_size)
        return runner if self.precision is None else runner.with_precision(self.precision)

    def _with_edits(self, edits: Sequence[AnyEdit]) -> Self:
        """Copy whose runs are edited, in every method; weights are shared, and saved unedited."""
        module = edit_module(self.module, self.facts.sides, edits)
        return self._with(self._runner_of(replace(self._loaded, module=module)))

    def _limited(self, batch_size: int | None = None, max_length: int | None = None) -> Self:
        """Copy with other limits; None keeps a limit."""
        return self._with(self.runner.with_limits(batch_size, max_length))

    def _with(self, runner: AnyModel) -> Self:
        model = copy(self)
        model.__dict__["runner"], model._components = runner, ComponentCache()
        return model

    @property
    def encoder(self) -> EncoderModel:
        """The model as a trunk with heads."""
        if self.facts.sides != TrunkWithHeads.sides:
            fault = "is an encoder-decoder: this needs a model with one trunk"
            raise BadInput(f"{self.paper.name} {fault}; use {verb_of(self.facts)}")
        return cast(EncoderModel, self.runner)

    @property
    def translator(self) -> Translator:
        """The model as a translator."""
        if self.facts.sides != EncoderDecoder.sides:
            fault = "reads no source: it cannot translate"
            raise BadInput(f"{self.paper.name} {fault}; use {verb_of(self.facts)}")
        return cast(Translator, self.runner)

    @property
    def generator(self) -> Generator:
        """The model as a generator."""
        if self.facts.sides != TrunkWithHeads.sides or not self.facts.writes:
            fault = "is no causal model with a next-token head: it cannot generate"
            raise BadInput(f"{self.paper.name} {fault}; use {verb_of(self.facts)}")
        return cast(Generator, self.runner)

    def component(self, name: str, **options: Any) -> AnyComponent:
        """Component of this name ("embed", "translate", ...), with options.

        Equal options give the same object, as long as it is kept: the last used ones are.
        """
        if name not in COMPONENTS:
            raise BadInput(f"there is no component {shown(name)}{did_you_mean(name, COMPONENTS)}")

        def open_component() -> AnyComponent:
            return check_keywords(COMPONENTS[name](self), f"{name} has no option")(**options)

        typed = ((option, type(options[option]), options[option]) for option in sorted(options))
        return self._components.get((name, *typed), open_component)

    @property
    def components(self) -> tuple[str, ...]:
        """The names of the components that the model has."""
        return tuple(name for name in COMPONENTS if self._has(name))

    def _has(self, name: str) -> bool:
        try:
            return bool(self.component(name))
        except BadInput:
            return False

    @property
    def predictor(self) -> Predictor:
        """The predictor of the task that the model was trained for."""
        noted = self.notes.get("prompt") if self.facts.sides == EncoderDecoder.sides else None
        prompt = PromptConfig() if noted is None else PromptConfig.as_trained(noted)
        if prompt.labels:
            return WritingClassifier.of(self.translator, prompt)
        return predictor_of(self.encoder)

    def predict(
        self,
        inputs: Iterable[Any],
        *,
        tape: NullTape = NULL_TAPE,
        batch_size: int | None = None,
        max_length: int | None = None,
    ) -> list[Any]:
        """Predict labels with probabilities, tags, frames, answers, choices or clusters, by task.

        A classifier reads texts or pairs of texts, a tagger texts or lists of words, a labeller of
        roles these too, or (text, indices of predicates), a model of coreference texts or lists of
        sentences; other inputs are pairs (question, context) or (text, choices).
        """
        rows = self.runner.listed(inputs, "inputs")
        predictor = self._limited(batch_size, max_length).predictor
        return predictor.predict(rows, tape=check_tape(tape))

    def fill(
        self,
        texts: Iterable[str],
        top: int = 5,
        *,
        tape: NullTape = NULL_TAPE,
        batch_size: int | None = None,
        max_length: int | None = None,
    ) -> list[FilledText]:
        """The most probable words for each mask token of each text ([MASK], RoBERTa's <mask>)."""
        rows = listed(texts)
        filler = self._limited(batch_size, max_length).encoder.filler(top)
        return filler.predict(rows, tape=check_tape(tape))

    def encode(
        self,
        texts: Texts,
        layer: int = -1,
        batch_size: int | None = None,
        *,
        carry: bool = False,
        tape: NullTape = NULL_TAPE,
        max_length: int | None = None,
        as_numpy: bool = False,
    ) -> list[Any]:
        """Encoder states of each text, (tokens, width).

        Layer 0 is the embedding, n the state after block n, -1 the input of the decoder (or of the
        pool). Token ids are used as given; texts get the special tokens of training, if any.
        Encoders also read pairs of texts and lists of words; ELMo returns one state per word. With
        ``carry``, a recurrent model begins each text with its state at the end of the text before.
        """
        name = self.facts.encoder.state_path(self.facts.encoder_path, layer)
        runner = self._limited(batch_size, max_length).runner
        if carry and not self.facts.encoder.stack.carries_state:
            raise BadInput(f"carry: {self.paper.name} is not recurrent: it has no state to carry")
        read = runner.carried_states if carry else runner.states
        states = read(runner.read_rows(runner.listed(texts)), name, check_tape(tape))
        return [_array(states_TD) for states_TD in states] if as_numpy else states

    def tokens(self, texts: Texts, *, max_length: int | None = None) -> list[TextTokens]:
        """Tokens of each text, in the order of the states that ``encode`` returns for it.

        They have their ids, the characters of the text that they cover, and the words of the text
        with the positions of their tokens; ``of_words`` averages states over each word. Token ids
        have names only.
        """
        runner = self._limited(max_length=max_length).runner
        return runner.tokens(runner.listed(texts))

    def embed(
        self,
        texts: Texts,
        pool: str | None = None,
        normalise: bool | None = None,
        *,
        prompt_name: str | None = None,
        tape: NullTape = NULL_TAPE,
        batch_size: int | None = None,
        max_length: int | None = None,
        as_numpy: bool = False,
    ) -> Any:
        """One vector per text, (n, width): the mean of its states, or their maximum ("max").

        Encoders also have "first", the state of the summary token (even if it is last), and
        "pooled", the output of the model's pool. The default is the pooling that the folder
        configures for sentence vectors, else the mean (for images: the class token). If the folder
        has prompts, such as "query" and "passage", the one of ``prompt_name``, or else the folder's
        default, is put before each text. Vectors are float32, on the device of the model.
        """
        runner = self._limited(batch_size, max_length).runner
        embedder = runner.embedder(pool, normalise, prompt_name)
        vectors_ND = embedder.vectors(runner.listed(texts), check_tape(tape))
        return _array(vectors_ND) if as_numpy else vectors_ND

    def logits(
        self,
        inputs: Iterable[Any],
        *,
        head: str | None = None,
        tape: NullTape = NULL_TAPE,
        batch_size: int | None = None,
        max_length: int | None = None,
        as_numpy: bool = False,
    ) -> list[Any]:
        """Logits of each input: (tokens, vocabulary) for a pair (source, target) of texts or ids.

        Row t predicts target token t; the last row predicts EOS. An encoder reads texts, which may
        contain masks, pairs of texts, or ids; after fine-tuning its logits are (tokens, labels), or
        (labels,) for a whole text. ``head`` names one of several heads ("choice", ...); the default
        is the head of the task, and the next-token head of a GPT with two heads.

        A ``tape`` records or edits values inside the model; ``tape_names`` lists their names.
        Recorded values are in the order of the inputs.
        """
        runner = self._limited(batch_size, max_length).runner
        logits = runner.logits(runner.listed(inputs, "inputs"), check_tape(tape), head)
        return [_array(logits_TV) for logits_TV in logits] if as_numpy else logits

    def translate(
        self,
        texts: Iterable[str | Ids],
        search: Search | None = None,
        prefixes: Iterable[str] | None = None,
        *,
        max_new_tokens: int | None = None,
        tape: NullTape = NULL_TAPE,
        batch_size: int | None = None,
        max_length: int | None = None,
    ) -> list[list[Translation]]:
        """Hypotheses with scores for each text, best first; ids are used as given.

        The training recipe sets the default search; for a published folder, its
        generation_config.json does; else it is a beam of 5. Each translation begins with its prefix
        in ``prefixes``, and has at most ``max_new_tokens`` more tokens. The default of these is in
        generation_config.json; else it is 2n + 10 for a text of n tokens, and at least 128 if there
        is such a file. A translation that is unfinished there has ``ended`` "length".

        The edits of a ``tape`` apply to every step of the search, with torch's operators. It
        records one forward pass over each text and its best translation, as ``logits`` does.
        """
        rows, translator = listed(texts), self._limited(batch_size, max_length).translator
        return translator.translate(rows, search, prefixes, max_new_tokens, tape=check_tape(tape))

    def generate(
        self,
        prompts: Iterable[str | Ids],
        search: Search | None = None,
        *,
        max_new_tokens: int | None = None,
        min_new_tokens: int = 0,
        stop_strings: Iterable[str] = (),
        tape: NullTape = NULL_TAPE,
        batch_size: int | None = None,
        max_length: int | None = None,
    ) -> list[list[Generation]]:
        """Continuations of each prompt with scores, best first; ids are used as given.

        The default is greedy search with at most 128 new tokens, or the generation_config.json of
        the folder. A text ends before the first of the ``stop_strings``, or at the last position of
        the model. Results do not depend on batching; a sample depends on the seed, the index of its
        prompt and its own index.

        The edits of a ``tape`` apply to every step, with torch's operators. It records one forward
        pass over each prompt and its best continuation, without EOS.
        """
        rows = listed(prompts, "prompts")
        generator = self._limited(batch_size, max_length).generator
        ending = Ending.of(max_new_tokens, min_new_tokens, stop_strings)
        return generator.generate(rows, search, ending, tape=check_tape(tape))

    def stream(
        self,
        prompt: str | Ids,
        search: Search | None = None,
        *,
        max_new_tokens: int | None = None,
        min_new_tokens: int = 0,
        stop_strings: Iterable[str] = (),
        number: int = 0,
    ) -> Iterator[str]:
        """Yield the continuation of one prompt as pieces of text, while they are generated.

        Together they equal the text that ``generate`` returns for the prompt with this ``number``,
        counted from 0. Only greedy search and sampling can stream.
        """
        ending = Ending.of(max_new_tokens, min_new_tokens, stop_strings)
        return self.generator.stream(prompt, search, ending, number=number)

    def score(
        self,
        inputs: Iterable[Any],
        *,
        window: int | None = None,
        stride: int | None = None,
        tape: NullTape = NULL_TAPE,
        batch_size: int | None = None,
    ) -> list[list[float]]:
        """Log-probabilities of texts, or of given translations, token by token.

        A causal model predicts each token of a text from the tokens before it, a masked LM from all
        others. Texts longer than a ``window`` (default: the most tokens that the model reads) are
        read in overlapping windows, ``stride`` tokens apart. Ids are used as given. A translator
        scores pairs (source, target): the tokens of the target, and EOS. The first token has no
        score if there is no token before it: for ids, and for GPT, whose texts have no separator.
        """
        rows, runner = listed(inputs, "inputs"), self._limited(batch_size).runner
        scores = runner.scorer(window, stride).predict(rows, tape=check_tape(tape))
        return [list(scored.logprobs) for scored in scores]


COMPONENTS: dict[str, Callable[[Runner], Callable[..., AnyComponent]]] = {
    "embed": lambda model: model.runner.embedder,
    "fill": lambda model: model.encoder.filler,
    "score": lambda model: model.runner.scorer,
    "predict": lambda model: model.predictor.with_options,
    "translate": lambda model: model.translator.writer,
    "generate": lambda model: model.generator.writer,
}


@dataclass(frozen=True)
class ComponentSpec:
    """A component of the model in a folder, to be opened in any process.

    Several ``folders`` are an ensemble of translators.
    """

    folders: tuple[str | Path, ...]
    name: str
    options: Mapping[str, object] = field(default_factory=dict)
    device: str | None = None
    precision: str | None = None
    engine: str = "auto"
    batch_size: int | None = None
    max_length: int | None = None

    def open(self) -> AnyComponent:
        """Read the model; the component runs on its device."""
        device = device_named(self.device)
        models = [Runner(read_folder(local_folder(folder), device)) for folder in self.folders]
        first = models[0]._limited(self.batch_size, self.max_length)
        runner = first.runner
        if len(models) > 1:
            members = tuple(model.translator for model in models[1:])
            runner = replace(first.translator, others=members)
        if self.precision is not None:
            runner = runner.with_precision(self.precision, self.engine)
        return first._with(runner).component(self.name, **self.options)

    def open_block_runner(self) -> Callable[..., list[AnyResult | BadItem]]:
        """The ``run_block`` of the component, for a worker."""
        return self.open().run_block

    @contextmanager
    def workers(self, count: int | None, ray: str | None) -> Iterator[BlockWorkers | None]:
        """``count`` processes with a copy of the component, or actors of the Ray at an address.

        None without a count and an address. Each actor has a core, or a GPU if that is the device.
        """
        if not count and ray is None:
            yield None
            return
        use_gpu = device_named(self.device).type != "cpu"
        if use_gpu and ray is None:
            raise BadInput("worker processes run on a CPU: choose the device cpu, or Ray")
        folders = tuple(Path(local_folder(folder)).absolute() for folder in self.folders)
        begin = replace(self, folders=folders).open_block_runner
        count = count or None
        with (
            WorkerProcesses(count or 1, begin)
            if ray is None
            else RayActors(ray, begin, count, use_gpu=use_gpu)
        ) as workers:
            yield workers


def with_captured_encoder(model: AnyRunner) -> AnyRunner:
    """Copy whose encoder runs as CUDA graphs, captured here; the model itself without CUDA."""
    runner = model.runner
    if model.device.type != "cuda" or type(runner) is not EncoderModel:
        return model
    module = capture_encoder(runner.module)
    return model if module is None else model._with(runner.with_module(module))


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.float().cpu().numpy()
