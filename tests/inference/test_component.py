"""All components by one protocol: a server, processes and the command line give what predict gives.

Each of them gets the same inputs, one of which is bad.
"""

import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from multiprocessing import get_context
from pathlib import Path

import pytest

from regard.core.errors import BadInput, BadItem
from regard.experiments.bulk.component_runs import ComponentRun
from regard.experiments.bulk.line_source import LineSource, ResultForm, parser_of
from regard.generation.beam import Beam
from regard.generation.sample import Sample
from regard.inference.component import Result
from regard.inference.decoder_model import Method, Request
from regard.inference.generator import Ending
from regard.tasks.components import COMPONENTS, ComponentSpec
from safety.frozen_folders import differences
from small_bert import SENTENCES
from small_bert import model as small_bert
from small_gpt import write_gpt2
from small_images import small_vit, write_images
from small_roles import small_labeller

WORDS = ["dog cow owl", "owl", "cow dog cow dog owl", "dog dog"]
LINES = {
    "embed": SENTENCES,
    "fill": [f"The [MASK] {one}" for one in SENTENCES],
    "score": SENTENCES,
    "one": SENTENCES,
    "tags": SENTENCES,
    "roles": [f"{one}\t1" for one in SENTENCES],
    "answer": [f"Who came?\t{one}" for one in SENTENCES],
    "choose": [json.dumps({"first": one, "choices": ["came in", "sang"]}) for one in SENTENCES],
    "generate": WORDS,
    "translate": WORDS,
    "pairs": [f"{one}\t{other}" for one, other in zip(WORDS, WORDS[::-1], strict=True)],
    "vectors": WORDS,
}
SAMPLED = {"method": Method(Sample(count=2, seed=3))}
SPECS = {  # the model, the component, its options
    "embed": ("one", "embed", {"pool": "max"}),
    "fill": ("words", "fill", {"top": 2}),
    "score": ("words", "score", {}),
    "one": ("one", "predict", {}),
    "tags": ("tags", "predict", {"pretokenised": True}),
    "roles": ("roles", "predict", {"pretokenised": True}),
    "answer": ("answer", "predict", {}),
    "choose": ("choose", "predict", {}),
    "image": ("vit", "predict", {}),
    "generate": ("gpt2", "generate", {**SAMPLED, "ending": Ending(4)}),
    "translate": ("translator", "translate", {"method": Method(Beam(3, best=3))}),
    "pairs": ("translator", "score", {}),
    "vectors": ("translator", "embed", {}),
}


@dataclass(frozen=True)
class Case:
    """A component, and the lines of a file of inputs for it."""

    spec: ComponentSpec
    lines: list[str]

    @cached_property
    def component(self):
        return self.spec.open()

    @cached_property
    def inputs(self):
        """The inputs of the lines; the second is bad."""
        first, *others = [self.component.parse(line, "here") for line in self.lines]
        return [first, _bad(first), *others]

    @cached_property
    def expected(self):
        """The records of the good inputs, by their keys, as ``predict`` gives them."""
        keys = [key for key in range(len(self.inputs)) if key != 1]
        values = [self.component.predict([self.inputs[key]], first=key)[0] for key in keys]
        return {key: self.records(Result(key, one)) for key, one in zip(keys, values, strict=True)}

    def records(self, result):
        return json.loads(json.dumps(self.component.records(result)))

    def check(self, results):
        """Results, or errors, of all inputs are those of ``predict``."""
        good = {one.key: one for one in results if not isinstance(one, BadInput)}
        assert [one.number for one in results if isinstance(one, BadInput)] == [2]
        records = {key: self.records(one) for key, one in good.items()}
        assert [*differences("", self.expected, records, 1e-4, 1e-5)] == []


def _bad(given):
    """An input of no kind that is read."""
    return given._replace(text=None) if hasattr(given, "_replace") else None


@pytest.fixture(scope="module")
def models(tmp_path_factory, small_run):
    pytest.importorskip("PIL")
    folder = tmp_path_factory.mktemp("models")
    for kind in ("one", "words", "tags", "answer", "choose"):
        small_bert(kind).save(folder / kind)
    small_labeller().save(folder / "roles")
    small_vit().save(folder / "vit")
    write_gpt2(folder / "gpt2")
    return {"translator": small_run / "run" / "model"} | {one.name: one for one in folder.iterdir()}


@pytest.fixture(scope="module")
def cases(models, tmp_path_factory):
    images = map(str, write_images(tmp_path_factory.mktemp("images") / "images", 4))
    lines = {**LINES, "image": [*images]}
    return {
        name: Case(ComponentSpec((models[model],), component, options, "cpu"), lines[name])
        for name, (model, component, options) in SPECS.items()
    }


def test_all_components_are_here(models):
    assert {name for _, name, _ in SPECS.values()} == COMPONENTS.keys()


@pytest.mark.thinned
@pytest.mark.parametrize("name", SPECS)
def test_a_stream_has_a_bad_input_in_its_place(cases, name):
    case = cases[name]
    case.check([*case.component.stream(iter(case.inputs))])
    with pytest.raises(BadItem, match=r"^input 2: "):
        case.component.predict(case.inputs)


@pytest.mark.parametrize("name", SPECS)
def test_a_server_mixes_the_rows_of_requests(cases, name):
    """Rows of two requests share batches; a bad row is answered at once."""
    case, results = cases[name], []
    session = case.component.session(slots=3)
    requests = [[0, 1], [*range(2, len(case.inputs))]]  # the keys of each
    waiting = [case.component.prepare([case.inputs[key] for key in one], one) for one in requests]
    coming = [row for request in waiting for row in request]
    while coming or session.waiting:
        while coming and session.free:
            row = coming.pop(0)
            results.append(row) if isinstance(row, BadInput) else session.add(row)
        results += session.step()
    case.check(results)
    assert session.step() == [] and session.free == 3


def test_a_row_that_is_cancelled_does_not_run(cases):
    component = cases["one"].component
    session = component.session(slots=2)
    for row in component.prepare(SENTENCES[:2], [7, 8]):
        session.add(row)
    session.cancel(7)
    assert [one.key for one in session.step()] == [8]


RECORDS = {
    "one": {"first": "The storm", "second": "came in."},
    "tags": {"text": "The storm"},
    "fill": {"text": "The [MASK] came"},
    "roles": {"text": "The storm", "predicates": "1"},
    "answer": {"question": "Who came?", "context": SENTENCES[0]},
    "choose": {"first": "The storm", "choices": ["came in", "sang"]},
    "image": {"image": "a.jpeg"},
    "generate": {"text": "The storm"},
    "translate": {"text": "dog cow", "prefix": "owl"},
    "pairs": {"source": "dog cow", "target": "cow dog"},
    "score": {"text": "The storm"},
    "embed": {"first": "The storm", "second": "came in."},
    "vectors": {"text": "dog cow"},
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_is_an_input(cases, name):
    """What a server or a table gives is the input that a line with the same texts gives."""
    component, record = cases[name].component, RECORDS[name]
    texts = [text if isinstance(text, str) else json.dumps(text) for text in record.values()]
    line = json.dumps(record) if name == "choose" else "\t".join(texts)
    parsed = component.parse(line, "here") if name != "translate" else Request(*texts)
    assert component.parse_record(record, "here") == parsed
    with pytest.raises(BadInput, match="here: "):
        component.parse_record({"nothing": ""}, "here")


@pytest.mark.parametrize("name", SPECS)
def test_the_command_line_prints_records_and_lines(cases, name, tmp_path, capsys):
    case = cases[name]
    first, *others = [line.encode() for line in case.lines]
    bad = b"no.jpeg" if name == "image" else b"\xff"
    (tmp_path / "in").write_bytes(b"\n".join([first, bad, *others]) + b"\n")
    source = LineSource(str(tmp_path / "in"), parser_of(case.component, None), skip_bad=True)
    component = case.component
    ComponentRun(source, component, ResultForm(as_json=True)).write(written := BytesIO())
    printed = [json.loads(line) for line in written.getvalue().splitlines()]
    expected = [record for records in case.expected.values() for record in records]
    bad_records = [record for record in printed if "error" in record]
    assert len(bad_records) == 1 and str(tmp_path / "in") in bad_records[0]["error"]
    good = [record for record in printed if record is not bad_records[0]]
    envelope = ("line", "cut") if component.is_numbered else ("cut",)
    assert all(("line" in record) == component.is_numbered for record in good)
    good = [{k: v for k, v in record.items() if k not in envelope} for record in good]
    assert [*differences("", expected, good, 1e-4, 1e-5)] == []
    ComponentRun(source, component, ResultForm()).write(written := BytesIO())
    lines = written.getvalue().decode().splitlines()
    assert "" in lines and len(lines) == len(expected) + 1


def run_part(spec, inputs, keys):
    """What another process does with some inputs."""
    component = spec.open()
    return component.results(component.prepare(inputs, keys))


@pytest.mark.slow
def test_two_processes_share_the_inputs(cases, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2])  # they find this file there
    monkeypatch.syspath_prepend(Path(__file__).parents[1])
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for case in cases.values():
            halves = [[0, 1], [*range(2, len(case.inputs))]]
            inputs = [[case.inputs[key] for key in keys] for keys in halves]
            parts = pool.map(run_part, [case.spec] * 2, inputs, halves)
            case.check([result for part in parts for result in part])
