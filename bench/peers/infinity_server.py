"""infinity-emb: its server with the torch engine on a CPU, answering POST /embeddings.

python infinity_server.py FOLDER PORT
"""

import os
import sys

SETTINGS = {
    "INFINITY_ANONYMOUS_USAGE_STATS": "0",
    "INFINITY_BETTERTRANSFORMER": "false",  # which current versions of transformers do not have
    "INFINITY_MODEL_WARMUP": "false",  # the warm-up of the bench is one
    "HF_HUB_OFFLINE": "1",
}


def main(folder: str, port: str) -> None:
    """Run the server as its command does."""
    os.environ.update(SETTINGS)
    from infinity_emb.cli import cli

    words = ["--model-id", folder, "--served-model-name", "model", "--port", port]
    sys.argv[1:] = ["v2", *words, "--engine", "torch", "--device", "cpu", "--log-level", "error"]
    cli()


if __name__ == "__main__":
    main(*sys.argv[1:])
