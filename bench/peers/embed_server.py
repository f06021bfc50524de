"""sentence-transformers behind FastAPI: requests of a window of time share a batch.

    python embed_server.py FOLDER PORT [--window 0.005] [--batch 64]

It answers POST /embed {"inputs": TEXT} as text-embeddings-inference does. The model runs in one
thread; a batch begins when the window after its first request is over, or when it is full.
"""

import argparse
import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from sentence_transformers import SentenceTransformer


class EmbedBody(BaseModel):
    """A text."""

    inputs: str


class Batcher:
    """Requests that wait for the next batch."""

    def __init__(self, model: Any, window: float, most: int):
        self.model, self.window, self.most = model, window, most
        self.queue: asyncio.Queue[tuple[str, asyncio.Future[list[float]]]] = asyncio.Queue()
        self.thread = ThreadPoolExecutor(1)

    async def embed(self, text: str) -> list[float]:
        """The vector of a text."""
        future: asyncio.Future[list[float]] = asyncio.get_running_loop().create_future()
        await self.queue.put((text, future))
        return await future

    async def run(self) -> None:
        """Collect and run batches for ever."""
        loop = asyncio.get_running_loop()
        while True:
            batch = [await self.queue.get()]
            end = loop.time() + self.window
            while len(batch) < self.most and (left := end - loop.time()) > 0:
                try:
                    batch.append(await asyncio.wait_for(self.queue.get(), left))
                except TimeoutError:
                    break
            texts = [text for text, _ in batch]
            vectors = await loop.run_in_executor(self.thread, self._encode, texts)
            for (_, future), vector in zip(batch, vectors, strict=True):
                if not future.done():
                    future.set_result(vector)

    def _encode(self, texts: list[str]) -> list[list[float]]:
        return self.model.encode(texts, batch_size=self.most, show_progress_bar=False).tolist()


def main() -> None:
    """Serve a model on a port."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("port", type=int)
    parser.add_argument("--window", type=float, default=0.005)
    parser.add_argument("--batch", type=int, default=64)
    given = parser.parse_args()
    batcher = Batcher(SentenceTransformer(given.folder), given.window, given.batch)

    @asynccontextmanager
    async def running(app: FastAPI):
        task = asyncio.ensure_future(batcher.run())
        yield
        task.cancel()

    app = FastAPI(lifespan=running)

    @app.get("/health")
    def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.post("/embed")
    async def embed(body: EmbedBody) -> list[list[float]]:
        return [await batcher.embed(body.inputs)]

    uvicorn.run(app, host="127.0.0.1", port=given.port, log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
