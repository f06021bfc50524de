"""Models that verbs load, with the edits of ``--edits``."""

from pathlib import Path

from regard.api import Model, load
from regard.cli.io.console import note
from regard.cli.options import refuse
from regard.inside.edits import BESIDE, read_edits
from regard.models.folders.hub import local_folder


def load_model(
    model: str,
    device: str | None,
    edits: Path | None,
    precision: str | None = None,
    batch_size: int | None = None,
) -> tuple[Model, dict[str, str]]:
    """Load a model and apply a file of edits; also the key of results that has their hash.

    Edits beside the model are never applied by themselves: a message says that they are there.
    """
    listed = None if edits is None else read_edits(edits)
    loaded = load(model, device, precision=precision, batch_size=batch_size)
    if listed is None:
        beside = local_folder(model) / BESIDE
        if beside.is_file():
            note(f"{beside} is not applied; to apply it, add --edits {beside}")
        return loaded, {}
    edited = loaded.edited(listed)
    note(f"edits: {listed}")
    return edited, {"edits": listed.hash}


def sharing(
    model: Model, workers: int | None, ray: str | None, edits: Path | None
) -> tuple[int | None, int | None]:
    """Numbers of processes that decode images, and of workers that run a model.

    ``--workers`` is the first for models of images, except with ``--ray``.
    """
    if model.facts.encoder.embed.reads_images and ray is None:
        return workers, None
    if edits is not None:
        refuse({"--workers": workers, "--ray": ray}, "cannot be used with --edits")
    return None, workers
