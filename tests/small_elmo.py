"""A small ELMo as published: its files with random weights, and its equations as slow loops."""

import json
from pathlib import Path

import numpy as np

OPTIONS = {
    "lstm": {
        "cell_clip": 3,
        "use_skip_connections": True,
        "n_layers": 2,
        "proj_clip": 3,
        "projection_dim": 4,
        "dim": 6,
    },
    "char_cnn": {
        "embedding": {"dim": 3},
        "filters": [[1, 2], [2, 3], [3, 4]],
        "n_highway": 2,
        "n_characters": 262,
        "max_characters_per_token": 12,
        "activation": "relu",
    },
}
BEGIN, END = "\x00begin", "\x00end"  # the words around a sentence


def write_elmo(folder: Path, options: dict = OPTIONS, *, scale: float = 1.0, seed: int = 0) -> Path:
    """Write options.json and weights.hdf5 with random weights."""
    import h5py

    draw = np.random.default_rng(seed)
    cnn, lstm = options["char_cnn"], options["lstm"]
    size, filters = cnn["embedding"]["dim"], cnn["filters"]
    total, width, cells = sum(n for _, n in filters), lstm["projection_dim"], lstm["dim"]
    shapes = {"char_embed": (261, size)}
    for i, (reach, count) in enumerate(filters):
        shapes |= {f"CNN/W_cnn_{i}": (1, reach, size, count), f"CNN/b_cnn_{i}": (count,)}
    for i in range(cnn["n_highway"]):
        for part in ("transform", "carry"):
            shapes |= {f"CNN_high_{i}/W_{part}": (total, total)}
            shapes |= {f"CNN_high_{i}/b_{part}": (total,)}
    shapes |= {"CNN_proj/W_proj": (total, width), "CNN_proj/b_proj": (width,)}
    for way in (0, 1):
        for layer in range(lstm["n_layers"]):
            name = f"RNN_{way}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/"
            shapes |= {
                name + "W_0": (2 * width, 4 * cells),
                name + "B": (4 * cells,),
                name + "W_P_0": (cells, width),
            }
    folder.mkdir(parents=True, exist_ok=True)
    with h5py.File(folder / "weights.hdf5", "w") as file:
        for name, shape in shapes.items():
            factor = scale if name.startswith("RNN") else 1.0
            values = factor * draw.normal(size=shape) / np.sqrt(max(1, shape[0] // 2))
            file.create_dataset(name, data=values.astype(np.float32))
    (folder / "options.json").write_text(json.dumps(options))
    return folder


def characters(word: str, longest: int) -> list[int]:
    special = {BEGIN: [256], END: [257]}
    inner = [258, *special.get(word, list(word.encode())[: longest - 2]), 259]
    return inner + [260] * (longest - len(inner))


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


class SlowELMo:
    """The published equations in float64, word by word; its states stay from call to call."""

    def __init__(self, folder: Path):
        import h5py

        self.options = json.loads((folder / "options.json").read_text())
        self.weights: dict[str, np.ndarray] = {}
        with h5py.File(folder / "weights.hdf5") as file:
            file.visititems(
                lambda name, value: self.weights.update(
                    {name: value[()].astype(np.float64)} if isinstance(value, h5py.Dataset) else {}
                )
            )
        lstm = self.options["lstm"]
        self.states = {
            (way, layer): (np.zeros(lstm["projection_dim"]), np.zeros(lstm["dim"]))
            for way in (0, 1)
            for layer in range(lstm["n_layers"])
        }
        self.clipped = {"cell": 0, "projection": 0}

    def word(self, word: str) -> np.ndarray:
        cnn, w = self.options["char_cnn"], self.weights
        x = w["char_embed"][characters(word, cnn["max_characters_per_token"])]
        found = []
        for i, (reach, _) in enumerate(cnn["filters"]):
            kernel = w[f"CNN/W_cnn_{i}"][0]
            at = range(len(x) - reach + 1)
            outputs = [np.einsum("rd,rdn->n", x[j : j + reach], kernel) for j in at]
            found.append(np.maximum(0, np.max(outputs, axis=0) + w[f"CNN/b_cnn_{i}"]))
        x = np.concatenate(found)
        for i in range(cnn["n_highway"]):
            name = f"CNN_high_{i}/"
            carry = sigmoid(x @ w[name + "W_carry"] + w[name + "b_carry"])
            new = np.maximum(0, x @ w[name + "W_transform"] + w[name + "b_transform"])
            x = carry * new + (1 - carry) * x
        return x @ w["CNN_proj/W_proj"] + w["CNN_proj/b_proj"]

    def clip(self, what: str, x: np.ndarray, limit: float | None) -> np.ndarray:
        if limit is None:
            return x
        self.clipped[what] += int(np.sum(np.abs(x) > limit))
        return np.clip(x, -limit, limit)

    def step(self, way: int, layer: int, x: np.ndarray) -> np.ndarray:
        lstm, name = self.options["lstm"], f"RNN_{way}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/"
        h, c = self.states[way, layer]
        gates = np.concatenate([x, h]) @ self.weights[name + "W_0"] + self.weights[name + "B"]
        i, g, f, o = np.split(gates, 4)
        c = self.clip("cell", sigmoid(f + 1) * c + sigmoid(i) * np.tanh(g), lstm.get("cell_clip"))
        h = (sigmoid(o) * np.tanh(c)) @ self.weights[name + "W_P_0"]
        h = self.clip("projection", h, lstm.get("proj_clip"))
        self.states[way, layer] = (h, c)
        return h

    def layers(self, words: list[str]) -> list[np.ndarray]:
        """(words, 2 × width) of the embedding and of each layer."""
        x = [self.word(word) for word in (BEGIN, *words, END)]
        of_ways = []
        for way in (0, 1):
            y = x[::-1] if way else x
            found = [y]
            for layer in range(self.options["lstm"]["n_layers"]):
                new = [self.step(way, layer, one) for one in y]
                if layer and self.options["lstm"].get("use_skip_connections"):
                    new = [a + b for a, b in zip(new, y, strict=True)]
                found.append(y := new)
            of_ways.append([one[::-1] if way else one for one in found])
        pairs = zip(*of_ways, strict=True)
        return [np.concatenate([np.array(f), np.array(b)], 1)[1:-1] for f, b in pairs]
