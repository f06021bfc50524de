"""The models of the studio: what each can do, and its attention heads."""

from collections.abc import Container
from typing import Any, cast

import msgspec

from regard.core.errors import BadInput
from regard.inference.fill_mask import MaskFiller
from regard.inside.ablation import head_edits
from regard.models.paper import count_parameters
from regard.serving.apis.operations import describe
from regard.serving.apis.own import PATHS, has_path
from regard.serving.apis.request import APIRequest
from regard.serving.served_model import ServedModel
from regard.studio.predictions import prediction_paths


async def list_models(
    request: APIRequest, *, runs: bool, checkpoints: Container[str] = ()
) -> object:
    """All models but open checkpoints, and whether there is a folder of runs."""
    served = [each for each in request.engine.models.values() if each.name not in checkpoints]
    models = [*map(describe_model, served)]
    return {"models": models, "runs": runs}


def describe_model(served: ServedModel) -> dict[str, Any]:
    """A model: its paths, its mask token, and its heads with the edits of each."""
    return {
        **msgspec.structs.asdict(describe(served)),
        "folder": "" if served.folder is None else str(served.folder),
        "year": served.model.paper.year,
        "parameters": count_parameters(served.model.module),
        "paths": [*(path for path in PATHS if has_path(served, path)), *prediction_paths(served)],
        "mask": _mask(served),
        "sites": _sites(served),
    }


def _mask(served: ServedModel) -> str | None:
    if "fill" not in served.components:
        return None
    return cast(MaskFiller, served.component("fill")).mask


def _sites(served: ServedModel) -> list[dict[str, Any]]:
    """Attention sites; of each layer, its number of heads and the place where they are edited."""
    try:
        edits = head_edits(served.model.runner)
    except BadInput:
        return []
    return [
        {
            "name": site.name,
            "layers": [
                {"heads": heads, "at": edits[site.name, layer, 0].edits[0].at if heads else ""}
                for layer, heads in enumerate(site.heads)
            ],
        }
        for site in served.model.runner.sites
    ]
