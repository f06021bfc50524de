"""ONNX folders: graphs in onnx/, beside config.json and the files of tokenizer and images.

The layout and the names are as in transformers.js, sentence-transformers and optimum.
"""

import copy
import logging
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import torch
from torch import nn

from regard.ground.errors import BadInput
from regard.ground.files import write_files, write_json
from regard.models.folders import hf
from regard.models.folders.loaded_model import CONFIG, WEIGHTS, LoadedModel
from regard.models.folders.onnx_graphs import Graph, graphs_of
from regard.models.formats.hf_format import HFExtras

if TYPE_CHECKING:
    from onnx import GraphProto, TensorProto

GRAPHS = "onnx"  # the folder of the graphs
QUANTISED = "_quantized"  # end of the name of a graph with int8 weights
OPSET = 18  # the newest that every onnxruntime for browsers runs
PACKAGES = "onnx, onnxscript and onnxruntime"
LARGEST = 2**31 - 2**20  # bytes of a file; larger weights lie beside the graph
JS_CONFIG = "transformers.js_config"
GEMM = {"transA": 0, "transB": 0, "alpha": 1.0, "beta": 1.0}  # defaults


def is_onnx(folder: Path) -> bool:
    """Whether a folder has graphs, and no weights."""
    return (folder / GRAPHS).is_dir() and not (folder / WEIGHTS).exists()


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
    (folder / GRAPHS).mkdir(parents=True, exist_ok=True)
    module, large = _in_single_precision(model.module), []
    for graph in graphs_of(model.facts, module, attention):
        path = folder / GRAPHS / f"{graph.file}.onnx"
        large += [path.name] * _export(graph, path)
        if int8:
            _quantise(path, path.with_stem(path.stem + QUANTISED))
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
    with torch.no_grad(), _without_remarks():
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


def _quantise(path: Path, quantised: Path) -> None:
    """Write a graph whose matrices are int8; activations are quantised when it runs.

    Constants of the graph are computed first, so that transposed matrices are quantised as well.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process

    with _without_remarks(), TemporaryDirectory() as temporary:
        simplified = Path(temporary) / path.name
        quant_pre_process(path, simplified, skip_symbolic_shape=True, skip_onnx_shape=True)
        program = onnx.load(simplified)
        _split_linear_layers(program.graph)
        quantize_dynamic(program, quantised, weight_type=QuantType.QInt8, per_channel=True)


def _split_linear_layers(graph: "GraphProto") -> None:
    """Replace each xWᵀ + b by a product with a transposed copy of W, and a sum.

    The quantiser would transpose W in place, also for layers that share it: tied embeddings.
    """
    from onnx import helper, numpy_helper

    weights = {weight.name: weight for weight in graph.initializer}
    nodes, transposed = [*graph.node], dict[str, "TensorProto"]()
    del graph.node[:]
    del graph.value_info[:]  # shapes, which are inferred again
    for node in nodes:
        own = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        if node.op_type != "Gemm" or {**GEMM, **own} != {**GEMM, "transB": 1}:
            graph.node.append(node)
            continue
        x, name, *bias = node.input
        if name not in transposed:
            copy_DF = numpy_helper.to_array(weights[name]).T.copy()
            transposed[name] = numpy_helper.from_array(copy_DF, f"{name}_transposed")
        product = f"{node.name}_product" if bias else node.output[0]
        graph.node.append(helper.make_node("MatMul", [x, transposed[name].name], [product]))
        if bias:
            graph.node.append(helper.make_node("Add", [product, *bias], node.output))
    used = {name for node in graph.node for name in node.input}
    kept = [weight for name, weight in weights.items() if name in used]
    del graph.initializer[:]
    graph.initializer.extend([*kept, *transposed.values()])


@contextmanager
def _without_remarks() -> Iterator[None]:
    """Silence the remarks of exporter and quantiser about themselves."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
