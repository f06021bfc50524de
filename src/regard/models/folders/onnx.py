"""ONNX folders: graphs in onnx/, beside config.json and the files of tokenizer and images.

The layout and the names are as in transformers.js, sentence-transformers and optimum.
"""

import copy
from collections.abc import Collection, Sequence
from pathlib import Path

import torch
from torch import nn

from regard.core.errors import BadInput
from regard.core.files import write_files, write_json
from regard.models.folders import hf
from regard.models.folders.loaded_model import CONFIG, ONNX_GRAPHS, LoadedModel
from regard.models.folders.onnx_graphs import Graph, graphs_of
from regard.models.folders.onnx_int8 import quantise, without_remarks
from regard.models.formats.hf_format import HFExtras

QUANTISED = "_quantized"  # end of the name of a graph with int8 weights
OPSET = 18  # the newest that every onnxruntime for browsers runs
PACKAGES = "onnx, onnxscript and onnxruntime"
LARGEST = 2**31 - 2**20  # bytes of a file; larger weights lie beside the graph
JS_CONFIG = "transformers.js_config"


def check(model: LoadedModel) -> None:
    """Raise BadInput for a model of which no graph can be made."""
    name = model.paper.name
    for side in model.facts.sides:
        trunk = getattr(model.facts, side)
        if trunk.features is not None:
            raise BadInput(f"{name}: features of another model cannot be exported to ONNX")
        if not trunk.stack.traceable:
            layers = "recurrent layers" if trunk.eager else f"layers of {name}"
            raise BadInput(f"{name}: {layers} cannot be exported to ONNX, only Transformers can")
        if trunk.ids_per_token and not trunk.embed.reads_images:
            raise BadInput(f"{name}: characters of words cannot be exported to ONNX")
        if trunk.stack.heads_by_layer and (trunk.stack.causal or trunk.stack.decodes):
            raise BadInput(f"{name}: a decoder with removed heads cannot be exported to ONNX")
    if unread := [head.name for head in model.facts.output_heads if head.logits_order is None]:
        raise BadInput(f"{name}: the head {unread[0]} cannot be exported to ONNX")
    if "hf" not in model.paper.formats:
        raise BadInput(f"{name}: other programs have no config.json for this paper")


def check_layers(model: LoadedModel, layers: Collection[int]) -> None:
    """Raise BadInput if the model has no such layers of attention."""
    depth = max(getattr(model.facts, side).stack.depth for side in model.facts.sides)
    for layer in layers:
        if not 0 <= layer < depth:
            raise BadInput(f"attention: layers are numbered from 0 to {depth - 1}, not {layer}")


def write(
    folder: Path, model: LoadedModel, *, int8: bool = False, attention: Sequence[int] | None = ()
) -> None:
    """Write the graphs of a model, and what programs need to run them.

    With ``int8``, there is a second file of each graph, with weights in int8. The graphs output the
    attention weights of the layers ``attention``; None: of all layers.
    """
    check(model)
    check_layers(model, attention or ())
    _require_packages()
    format = model.paper.formats["hf"]
    extras = model.extras or format.graph_extras(model.tokenizer, model.notes)
    (folder / CONFIG).unlink(missing_ok=True)
    if model.tokenizer is not None:
        model.tokenizer.save(folder)
        contents = model.tokenizer.json_files()
        write_files(folder, {name: text.encode() for name, text in contents.items()})
    write_files(folder, {**extras.files, **hf.sentence_files(model)})
    (folder / ONNX_GRAPHS).mkdir(parents=True, exist_ok=True)
    module, large = _in_single_precision(model.module), []
    for graph in graphs_of(model.facts, module, attention):
        path = folder / ONNX_GRAPHS / f"{graph.file}.onnx"
        large += [path.name] * _export(graph, path)
        if int8:
            quantise(path, path.with_stem(path.stem + QUANTISED))
    write_json(folder / CONFIG, _config(model, extras, large))


def _config(model: LoadedModel, extras: HFExtras, large: Sequence[str]) -> dict[str, object]:
    """config.json; it names the graphs whose weights lie beside them."""
    config = model.paper.formats["hf"].graph_config(model.facts, model.labels)
    beside = {JS_CONFIG: {"use_external_data_format": dict.fromkeys(large, 1)}} if large else {}
    return {**extras.config, **config, **beside}


def _require_packages() -> None:
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        needed = f"ONNX needs {PACKAGES}: pip install 'regard[onnx]'"
        raise BadInput(f"{needed} ({error.name} is missing)") from None


def _in_single_precision(module: nn.Module) -> nn.Module:
    """The module in float32, for which graphs are made; a copy if it is in another precision."""
    if all(weight.dtype == torch.float32 for weight in module.parameters()):
        return module
    return copy.deepcopy(module).float()


def _export(graph: Graph, path: Path) -> bool:
    """Write a graph; whether its weights were too large for one file."""
    example = graph.eval().example()
    with torch.no_grad(), without_remarks():
        outputs = [*graph.compute(dict(example))]
        program = torch.onnx.export(
            graph,
            tuple(example.values()),
            dynamo=True,
            verbose=False,
            input_names=[*example],
            output_names=outputs,
            dynamic_shapes=(tuple(graph.axes.values()),),
            opset_version=OPSET,
        )
    assert program is not None
    size = sum(weight.numel() * weight.element_size() for weight in graph.parameters())
    if size < LARGEST:
        program.save(path)
        return False
    import onnx

    data = f"{path.name}_data"
    onnx.save(program.model_proto, path, save_as_external_data=True, location=data)
    return True
