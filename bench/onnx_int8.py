"""Vectors of a sentence encoder by ONNX graphs in fp32 and int8: cosines with the model, and time.

    python bench/onnx_int8.py MODEL FILE [FILE …] [--lines 100]

Sentences are lines of the files, as many of each, at equal distances; they run one by one in one
thread. Besides the int8 graph of ``regard convert --to onnx --int8`` there is that of ONNX
Runtime's ``quantize_dynamic`` with a scale for each column. Milliseconds are of CPU time, tokens
included. Output: a line of JSON for each graph.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.quantization.shape_inference import quant_pre_process

import regard


def sentences(files: list[Path], count: int) -> Iterator[str]:
    """Lines of the files, the first column of each."""
    for file in files:
        lines = [line.split("\t")[0] for line in file.read_text("utf-8").splitlines() if line]
        yield from lines[:: max(1, len(lines) // count)][:count]


def figures(graph: Path, model: Any, texts: list[str], vectors_ND: np.ndarray) -> dict[str, Any]:
    """Cosines with the vectors of the model, and CPU time of a sentence."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(graph), options)
    names = {each.name for each in session.get_inputs()}
    begun, cosines = process_time(), []
    for text, expected_D in zip(texts, vectors_ND, strict=True):
        (row,) = model.tokenizer.rows([text])
        tokens, segments = (x[None].astype(np.int64) for x in (row.tokens, row.segments))
        inputs = {"input_ids": tokens, "attention_mask": np.ones_like(tokens)}
        inputs |= {"token_type_ids": segments} if "token_type_ids" in names else {}
        states_LD = session.run(["last_hidden_state"], inputs)[0][0]
        mean_D = states_LD.mean(0)
        cosines.append(mean_D @ expected_D / np.linalg.norm(mean_D) / np.linalg.norm(expected_D))
    return {
        "graph": graph.stem,
        "least": round(float(min(cosines)), 4),
        "mean": round(float(np.mean(cosines)), 4),
        "below_0.99": int(np.less(cosines, 0.99).sum()),
        "ms": round(1_000 * (process_time() - begun) / len(texts), 1),
        "mb": round(graph.stat().st_size / 1e6, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--lines", type=int, default=100, help="of each file")
    given = parser.parse_args()
    model, texts = regard.load(given.model, "cpu"), [*sentences(given.files, given.lines)]
    vectors_ND = np.stack([np.asarray(model.embed([text]))[0] for text in texts])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model.save(folder, "onnx", int8=True)
        whole, dynamic = folder / "onnx" / "model.onnx", folder / "quantize_dynamic.onnx"
        simple = folder / "simplified.onnx"
        quant_pre_process(whole, simple, skip_symbolic_shape=True, skip_onnx_shape=True)
        program = onnx.load(simple)
        del program.graph.value_info[:]  # shapes of matrices before they were transposed
        quantize_dynamic(program, dynamic, per_channel=True, weight_type=QuantType.QInt8)
        for graph in (whole, dynamic, folder / "onnx" / "model_quantized.onnx"):
            print(json.dumps(figures(graph, model, texts, vectors_ND)), flush=True)


if __name__ == "__main__":
    main()
