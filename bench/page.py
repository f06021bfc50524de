"""Size of a page with all heads of BERT-base on a text, and seconds until Chromium shows it.

    python bench/page.py [--tokens 512] [--rounds 5]             (random weights)
    python bench/page.py --model FOLDER --text FILE              (of a trained encoder)

"opened" is when the heat map and lines are painted, "pictures" when the small pictures of all heads
are, both from the request of the page, which a server in this process answers; "frames" are
frames a second while the pointer moves over the heat map of all tokens. BERT-base with random
weights has nearly uniform attention, which compresses less than that of a trained model.
"""

import argparse
import json
import subprocess
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from tempfile import TemporaryDirectory
from threading import Thread

import numpy as np
import torch
from measure import add_options, emit, interval, rounded

import regard
from regard.core.batch import TokenRow, pack_texts
from regard.core.tape import Tape
from regard.inside.attention.attention_map import AttentionMap
from regard.inside.attention.attention_view import AttentionView
from regard.models.papers import bert

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0")
PATIENCE = 120  # seconds for a page
PROBE = """<script>const begin = () => requestAnimationFrame(() => setTimeout(() => {
const opened = performance.now();
const wait = () => {
  if (document.querySelector(".pictures")?.dataset.waiting !== "0") setTimeout(wait, 10);
  else hover(performance.now());
};
const hover = (pictures) => { // one cell further in each frame
  const cells = document.querySelector(".cells");
  const { left, top, width, height } = cells.getBoundingClientRect();
  const began = performance.now();
  let frames = 0;
  const next = () => {
    const place = { clientX: left + (frames * 7) % width, clientY: top + (frames * 5) % height };
    cells.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, ...place }));
    if (++frames < 240) return requestAnimationFrame(next);
    const rate = (1000 * frames) / (performance.now() - began);
    parent.postMessage(JSON.stringify([opened / 1000, pictures / 1000, rate]), "*");
  };
  next();
};
wait();
}));
const watch = () => (document.querySelector(".pictures") ? begin() : setTimeout(watch, 5));
watch();
</script></body>"""
FRAME = """<!doctype html><iframe src="page#hide=" width="1280" height="900"></iframe><script>
addEventListener("message", ({ data }) => fetch("times", { method: "POST", body: data }))
</script>"""


def main() -> None:
    """Print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--model", help="folder of a trained encoder")
    parser.add_argument("--text", type=Path, help="text for it, which is truncated")
    add_options(parser, rounds=5, seconds=300)
    asked = parser.parse_args()
    view = trained(asked) if asked.model else untrained(asked.tokens)
    start = time.perf_counter()
    html = view.html()
    seconds = time.perf_counter() - start
    times = [open_page(html) for _ in range(asked.rounds)]
    opened, pictures, frames = (interval([*kind]) for kind in zip(*times, strict=True))
    (shown,) = view.maps
    emit(
        asked,
        tokens=len(shown.queries),
        heads=sum(map(len, shown.layers)),
        megabytes=round(len(html.encode()) / 1e6, 2),
        written=round(seconds, 1),
        opened=rounded(opened),
        pictures=rounded(pictures),
        frames=rounded(frames),
    )


def untrained(tokens: int) -> AttentionView:
    """Attention of BERT-base with random weights on random tokens."""
    torch.manual_seed(0)
    model, tape = bert.BASE.build().eval(), Tape("*.weights")
    row = torch.randint(0, 30_522, (tokens,)).numpy()
    with torch.inference_mode():
        model(pack_texts([TokenRow(row, np.zeros_like(row))]), tape=tape)
    layers = tuple(weights_1HLS[0].numpy() for weights_1HLS in tape.records.values())
    labels = tuple(f"token{number}" for number in range(tokens))
    return AttentionView("random", (AttentionMap("encoder", labels, labels, layers),))


def trained(asked: argparse.Namespace) -> AttentionView:
    """Attention of an encoder on the first words of a text, as many as are ``tokens`` tokens."""
    model, words = regard.load(asked.model), asked.text.read_text(encoding="utf-8").split()
    while len(model.tokens([" ".join(words)])[0].ids) > asked.tokens:
        words = words[: len(words) * 9 // 10]
    return model.look(" ".join(words), subwords=True)


def open_page(html: str) -> list[float]:
    """Open a page in a new browser; seconds until it is shown and complete, and frames."""
    pages = {"/": FRAME, "/page": html.replace("</body>", PROBE)}
    times: Queue[list[float]] = Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = pages.get(self.path)
            self.send_response(404 if page is None else 200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write((page or "").encode())

        def do_POST(self) -> None:
            times.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server, TemporaryDirectory() as profile:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/"
        command = ["chromium", *FLAGS, f"--user-data-dir={profile}/profile", address]
        browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            return times.get(timeout=PATIENCE)
        finally:
            browser.terminate()
            browser.wait()
            server.shutdown()


if __name__ == "__main__":
    main()
