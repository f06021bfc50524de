"""ONNX graphs whose matrices are int8; activations are quantised token by token when they run.

A token x between its least value lo and its highest, hi, is q = round(255 (x − lo) / (hi − lo)) in
unsigned bytes, so that with W = w ∘ s, of int8 and a scale for each column,

    xW ≈ (hi − lo) / 255 · (qw) ∘ s + lo · (1w) ∘ s.

One scale for all tokens, which ONNX Runtime's own quantiser gives, would depend on the token with
the largest value, and rows on the batch that they are in.
"""

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, TensorProto

GEMM = {"transA": 0, "transB": 0, "alpha": 1.0, "beta": 1.0}  # defaults
LEVELS, LARGEST = 255, 127  # steps of a token's values; largest int8
LEAST_RANGE = 1e-12  # of a token whose values are all equal
STEP, ZERO, LEAST = "int8.step", "int8.zero", "int8.least"  # names of constants
LAST_AXIS, AXIS_START, AXIS_END = "int8.last_axis", "int8.axis_start", "int8.axis_end"
OTHER_OPERATORS = ["Conv", "Gather"]  # which ONNX Runtime quantises


def quantise(path: Path, quantised: Path) -> None:
    """Write a graph whose embeddings, and matrices of linear layers, are int8.

    Constants of the graph are computed first, so that transposed matrices are quantised as well.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process

    with without_remarks(), TemporaryDirectory() as temporary:
        simplified = Path(temporary) / path.name
        quant_pre_process(path, simplified, skip_symbolic_shape=True, skip_onnx_shape=True)
        program = onnx.load(simplified)
        _quantise_linear_layers(program.graph)
        operators, int8 = OTHER_OPERATORS, QuantType.QInt8
        quantize_dynamic(program, quantised, operators, per_channel=True, weight_type=int8)


def _quantise_linear_layers(graph: "GraphProto") -> None:
    """Replace each product with a constant matrix, and each xWᵀ + b, by a product of integers."""
    from onnx import numpy_helper

    weights = {weight.name: weight for weight in graph.initializer}
    nodes, layers, inputs = [*graph.node], dict[tuple[str, bool], Int8Matrix](), set[str]()
    del graph.node[:]
    del graph.value_info[:]  # shapes, which are inferred again
    for node in nodes:
        transposed = _is_linear(node)
        if not (transposed or _is_product(node, weights)):
            graph.node.append(node)
            continue
        x, weight, *bias = node.input
        matrix = layers.get((weight, transposed))
        if matrix is None:
            array = numpy_helper.to_array(weights[weight])
            matrix = Int8Matrix(f"int8.{len(layers)}", array.T if transposed else array)
            layers[weight, transposed] = matrix
        if x not in inputs:
            inputs.add(x)
            graph.node.extend(_input_nodes(x))
        graph.node.extend(_product_nodes(x, matrix.name, node.output[0], bias))
    used = {name for node in graph.node for name in node.input}
    kept = [weight for name, weight in weights.items() if name in used]
    added = [tensor for matrix in layers.values() for tensor in matrix.tensors()]
    del graph.initializer[:]
    graph.initializer.extend([*kept, *added, *(_constants() if layers else ())])


def _is_linear(node: "NodeProto") -> bool:
    """Whether a node is xWᵀ + b."""
    from onnx import helper

    own = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    return node.op_type == "Gemm" and {**GEMM, **own} == {**GEMM, "transB": 1}


def _is_product(node: "NodeProto", weights: "Mapping[str, TensorProto]") -> bool:
    """Whether a node is xW of a constant W."""
    return (
        node.op_type == "MatMul"
        and node.input[1] in weights
        and len(weights[node.input[1]].dims) == 2
    )


class Int8Matrix:
    """A matrix in int8, with a scale for each column; ``name`` begins the names of its tensors.

    x86 processors without VNNI add the products of two neighbouring rows in 16 bits: no two of them
    add to more than 128, so that their products with bytes up to 255 have room there.
    """

    def __init__(self, name: str, weight_DF: np.ndarray):
        self.name = name
        pairs_DF = weight_DF[:-1:2] + weight_DF[1::2]
        largest_F = np.abs(np.concatenate([weight_DF, pairs_DF])).max(0)
        self.scale_F = np.maximum(largest_F / LARGEST, np.finfo(np.float32).tiny)
        self.weight_DF = np.rint(weight_DF / self.scale_F).astype(np.int8)

    def tensors(self) -> "list[TensorProto]":
        """Bytes, scales for products with them, and sums of the columns."""
        from onnx import numpy_helper

        sums_F = (self.weight_DF.sum(0, dtype=np.int64) * self.scale_F).astype(np.float32)
        scale_F = self.scale_F / np.float32(LEVELS)
        arrays = {"weight": self.weight_DF, "scale": scale_F, "sums": sums_F}
        return [numpy_helper.from_array(x, f"{self.name}.{name}") for name, x in arrays.items()]


def _constants() -> "list[TensorProto]":
    from onnx import numpy_helper

    arrays: dict[str, np.ndarray] = {
        STEP: np.array(1 / LEVELS, np.float32),
        ZERO: np.array(0, np.uint8),
        LEAST: np.array(LEAST_RANGE, np.float32),
        LAST_AXIS: np.array([-1]),
        AXIS_START: np.array([0]),
        AXIS_END: np.array([1]),
    }
    return [numpy_helper.from_array(array, name) for name, array in arrays.items()]


def _input_nodes(x: str) -> "list[NodeProto]":
    """Nodes for the least value, the range and the bytes of each token of ``x``.

    Of no tokens, as those of an encoder whose keys are in the cache, ONNX Runtime's ReduceMin and
    ReduceMax have a wrong shape, which the slices mend.
    """
    from onnx import helper

    first = [AXIS_START, AXIS_END, LAST_AXIS]
    return [
        helper.make_node("ReduceMin", [x, LAST_AXIS], [f"{x}.least"]),
        helper.make_node("ReduceMax", [x, LAST_AXIS], [f"{x}.largest"]),
        helper.make_node("Sub", [f"{x}.largest", f"{x}.least"], [f"{x}.width"]),
        helper.make_node("Max", [f"{x}.width", LEAST], [f"{x}.divisor"]),
        helper.make_node("Slice", [f"{x}.least", *first], [f"{x}.low"]),
        helper.make_node("Slice", [f"{x}.divisor", *first], [f"{x}.range"]),
        helper.make_node("Sub", [x, f"{x}.low"], [f"{x}.above"]),
        helper.make_node("Div", [f"{x}.above", f"{x}.range"], [f"{x}.share"]),
        helper.make_node("QuantizeLinear", [f"{x}.share", STEP, ZERO], [f"{x}.bytes"]),
    ]


def _product_nodes(x: str, matrix: str, output: str, bias: Sequence[str]) -> "list[NodeProto]":
    """Nodes for the product of ``x`` and a matrix, by the names of their tensors."""
    from onnx import TensorProto, helper

    product = f"{output}.product" if bias else output
    nodes = [
        helper.make_node("MatMulInteger", [f"{x}.bytes", f"{matrix}.weight"], [f"{output}.sum"]),
        helper.make_node("Cast", [f"{output}.sum"], [f"{output}.float"], to=TensorProto.FLOAT),
        helper.make_node("Mul", [f"{output}.float", f"{matrix}.scale"], [f"{output}.scaled"]),
        helper.make_node("Mul", [f"{output}.scaled", f"{x}.range"], [f"{output}.first"]),
        helper.make_node("Mul", [f"{x}.low", f"{matrix}.sums"], [f"{output}.second"]),
        helper.make_node("Add", [f"{output}.first", f"{output}.second"], [product]),
    ]
    return [*nodes, *(helper.make_node("Add", [product, b], [output]) for b in bias)]


@contextmanager
def without_remarks() -> Iterator[None]:
    """Silence the remarks of exporter and quantiser about themselves."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
