"""transformers behind FastAPI, on a GPU or a CPU: sentence vectors, translations, completions.

    python transformers_server.py embed FOLDER PORT [--window 0.005] [--batch 64]
    python transformers_server.py sentences FOLDER PORT [--window 0.005] [--batch 64]
    python transformers_server.py translate FOLDER PORT [--window 0] [--batch 1]
    python transformers_server.py complete FOLDER PORT

"embed" answers POST /embed {"inputs": TEXT or TEXTS} by the mean of the last states, "sentences" by
sentence-transformers; "translate" answers POST /translate {"q": TEXT} by ``generate``. Texts that
arrive within the window share a batch, which one thread runs; --batch 1 is a loop around the model.
"complete" answers POST /v1/completions {"prompt": TEXT, "max_tokens": N} by the continuous batching
of transformers, whose cache takes a share of the memory (--memory), or has --blocks. Weights and
states are bf16 on CUDA.
"""

import argparse
import asyncio
import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import torch
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    ContinuousBatchingConfig,
    GenerationConfig,
)

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPE = torch.bfloat16 if DEVICE == "cuda" else torch.float32
Run = Callable[[list[str]], list[Any]]


class EmbedBody(BaseModel):
    """A text, or several."""

    inputs: str | list[str]


class TranslateBody(BaseModel):
    """A text."""

    q: str


class CompletionBody(BaseModel):
    """A prompt, continued greedily."""

    prompt: str
    max_tokens: int


class Batcher:
    """Texts that wait for the next batch."""

    def __init__(self, run: Run, window: float, most: int):
        self.run_batch, self.window, self.most = run, window, most
        self.queue: asyncio.Queue[tuple[str, asyncio.Future[Any]]] = asyncio.Queue()
        self.thread = ThreadPoolExecutor(1)

    async def ask(self, text: str) -> Any:
        """The result of a text."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        await self.queue.put((text, future))
        return await future

    async def run(self) -> None:
        """Collect and run batches for ever."""
        loop = asyncio.get_running_loop()
        while True:
            batch = [await self.queue.get()]
            end = loop.time() + self.window
            while len(batch) < self.most:
                if not self.queue.empty():
                    batch.append(self.queue.get_nowait())
                    continue
                if (left := end - loop.time()) <= 0:
                    break
                try:
                    batch.append(await asyncio.wait_for(self.queue.get(), left))
                except TimeoutError:
                    break
            texts = [text for text, _ in batch]
            results = await loop.run_in_executor(self.thread, self.run_batch, texts)
            for (_, future), result in zip(batch, results, strict=True):
                if not future.done():
                    future.set_result(result)


def embedding(folder: str) -> Run:
    """Mean of the last states, of length 1."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, dtype=DTYPE).eval().to(DEVICE)

    @torch.inference_mode()
    def run(texts: list[str]) -> list[list[float]]:
        batch = tokenizer(texts, padding=True, truncation=True, return_tensors="pt").to(DEVICE)
        states = model(**batch).last_hidden_state.float()
        mask = batch["attention_mask"][:, :, None].float()
        vectors = (states * mask).sum(1) / mask.sum(1)
        return torch.nn.functional.normalize(vectors, dim=-1).cpu().tolist()

    return run


def sentence_vectors(folder: str) -> Run:
    """Vectors of sentence-transformers, by the settings of the folder."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(folder)

    def run(texts: list[str]) -> list[list[float]]:
        return model.encode(texts, batch_size=len(texts), show_progress_bar=False).tolist()

    return run


def translation(folder: str) -> Run:
    """Translations by ``generate``, by the settings of the folder."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=DTYPE).eval().to(DEVICE)

    @torch.inference_mode()
    def run(texts: list[str]) -> list[str]:
        batch = tokenizer(texts, padding=True, return_tensors="pt").to(DEVICE)
        return tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True)

    return run


BATCHED = {"embed": embedding, "sentences": sentence_vectors, "translate": translation}


def batched_app(kind: str, folder: str, window: float, most: int) -> FastAPI:
    """Application of all kinds but "complete"."""
    run = BATCHED[kind](folder)
    batcher = Batcher(run, window, most)
    for _ in range(3):
        run(["the one"] * most)

    @asynccontextmanager
    async def running(app: FastAPI):
        task = asyncio.ensure_future(batcher.run())
        yield
        task.cancel()

    app = FastAPI(lifespan=running)

    @app.post("/embed")
    async def embed(body: EmbedBody) -> list[list[float]]:
        texts = [body.inputs] if isinstance(body.inputs, str) else body.inputs
        return await asyncio.gather(*map(batcher.ask, texts))

    @app.post("/translate")
    async def translate(body: TranslateBody) -> dict[str, str]:
        return {"translatedText": await batcher.ask(body.q)}

    return app


def completion_app(folder: str, cache: dict[str, Any]) -> FastAPI:
    """Application of "complete"."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=DTYPE).eval().to(DEVICE)
    settings = GenerationConfig(
        do_sample=False, eos_token_id=model.config.eos_token_id, pad_token_id=0, max_new_tokens=128
    )
    numbers = itertools.count()
    manager = model.init_continuous_batching(
        generation_config=settings, continuous_batching_config=ContinuousBatchingConfig(**cache)
    )

    @asynccontextmanager
    async def running(app: FastAPI):
        manager.start()
        yield
        manager.stop(block=True)

    app = FastAPI(lifespan=running)

    @app.post("/v1/completions")
    async def complete(body: CompletionBody) -> dict[str, Any]:
        number = f"request-{next(numbers)}"
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def receive(output: Any) -> None:
            if output.is_finished() and not future.done():
                future.set_result(output)

        manager.register_result_handler(number, receive)
        ids = tokenizer(body.prompt)["input_ids"]
        manager.add_request(ids, request_id=number, max_new_tokens=body.max_tokens)
        tokens = (await future).generated_tokens
        usage = {"prompt_tokens": len(ids), "completion_tokens": len(tokens)}
        return {"choices": [{"text": tokenizer.decode(tokens)}], "usage": usage}

    return app


def main() -> None:
    """Serve a model on a port."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=[*BATCHED, "complete"])
    parser.add_argument("folder")
    parser.add_argument("port", type=int)
    parser.add_argument("--window", type=float, default=0.005)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--memory", type=float, default=0.9)
    parser.add_argument("--blocks", type=int, help="on a CPU")
    given = parser.parse_args()
    if given.kind == "complete":
        small = {"num_blocks": given.blocks, "max_batch_tokens": 256}
        cache = small if given.blocks else {"max_memory_percent": given.memory}
        app = completion_app(given.folder, cache)
    else:
        app = batched_app(given.kind, given.folder, given.window, given.batch)

    @app.get("/health")
    def health() -> dict[str, str]:
        return {"status": "ok"}

    uvicorn.run(app, host="127.0.0.1", port=given.port, log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
