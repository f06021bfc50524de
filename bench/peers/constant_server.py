"""uvicorn and Starlette answering every request with the same bytes: what HTTP itself costs.

python constant_server.py BYTES PORT
"""

import sys

import uvicorn
from starlette.requests import Request
from starlette.responses import Response


def main(size: str, port: str) -> None:
    """Answer with a number of bytes."""
    content = b"1" * int(size)

    async def app(scope, receive, send) -> None:
        request = Request(scope, receive)
        await request.body()
        await Response(content, media_type="application/json")(scope, receive, send)

    more = {"access_log": False, "http": "h11", "ws": "none", "lifespan": "off"}
    uvicorn.run(app, port=int(port), log_level="warning", **more)


if __name__ == "__main__":
    main(*sys.argv[1:])
