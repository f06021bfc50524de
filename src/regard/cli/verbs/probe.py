"""``regard probe``: linear probes of the states of models, layer by layer, with controls."""

from typing import Annotated

from typer import Argument

from regard.cli import formats
from regard.cli.io.console import note
from regard.experiments import options
from regard.experiments.options.measuring import ProbeOptions


def probe(
    models: Annotated[
        list[str], Argument(metavar="MODEL", help="Models to probe: folders or ids of the hub.")
    ],
    how: ProbeOptions,
    views: formats.ViewOptions,
    device: options.DEVICE = None,
    *,
    output: formats.TableOptions,
) -> None:
    """Probe what the states of each layer tell of words.

    A probe is a logistic regression on the frozen states of one layer, trained on --train, with the
    strength of L2 that is best on --dev, and scored on --test. It is always shown with controls:
    the same model with random weights, a control task (each word form has a random label, which a
    probe can only learn by heart; selectivity is the difference), and the most frequent label of
    each word form. A probe of a learned mix of all layers has a weight for each layer.

    Files are CoNLL-U or other columns (tags), CoNLL-U (arcs, arc-labels), or WiC's (pairs). Of
    translators, the encoder is probed. Two scores are compared only if their 95% intervals do not
    overlap.

    Example: regard probe runs/bert/model --train t.conllu --dev d.conllu --test s.conllu
    """
    from regard.experiments.view_results import probe_folders, show_probes

    report = probe_folders(models, how, device, note)
    output.show(show_probes(report))
    views.write(report, model=", ".join(models))
