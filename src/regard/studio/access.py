"""Who may use the studio: pages of its own on this machine, with its token if it has one."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Self
from urllib.parse import urlsplit

from starlette.responses import Response

from regard.serving.apis.request import API, APIRequest, Endpoint
from regard.serving.request_errors import RequestError
from regard.serving.settings import is_this_machine

TOKEN = "token"  # in the address of the page
BEARER = "bearer "  # before the token of a program, in the header "authorization"


class OtherOrigin(RequestError):
    """The request comes from a page of another site."""

    status, kind = 403, "other_origin"


class NoToken(RequestError):
    """The request has not the token of the studio."""

    status, kind = 403, "no_token"


@dataclass(frozen=True)
class AccessToken:
    """A secret of the address of a studio: other users of the machine reach its port as well.

    The page keeps it in a cookie, which pages of other sites cannot use, and no script can read.
    """

    value: str

    @classmethod
    def new(cls) -> Self:
        """A token that nobody guesses."""
        return cls(secrets.token_urlsafe(24))

    def is_named(self, request: APIRequest) -> bool:
        """Whether the address of a request names the token."""
        return self._is(request.http.query_params.get(TOKEN, ""))

    def check(self, request: APIRequest) -> None:
        """Refuse requests that neither name the token nor have its cookie or header."""
        header = request.http.headers.get("authorization", "")
        bearer = header[len(BEARER) :] if header.lower().startswith(BEARER) else ""
        cookie = request.http.cookies.get(cookie_name(request), "")
        if not (self.is_named(request) or self._is(bearer) or self._is(cookie)):
            raise NoToken("open the studio by the address that it has printed, with its token")

    def keep(self, request: APIRequest, response: Response) -> None:
        """Have the browser send the token with the requests of the page."""
        name = cookie_name(request)
        response.set_cookie(name, self.value, httponly=True, samesite="strict", path="/")

    def _is(self, secret: str) -> bool:
        return secrets.compare_digest(secret.encode(), self.value.encode())


def cookie_name(request: APIRequest) -> str:
    """The cookie of the studio at a port: cookies are those of all ports of a machine."""
    port = urlsplit(f"//{request.http.headers.get('host', '')}").port
    return f"regard-studio-{port or 80}"


def check_origin(request: APIRequest) -> None:
    """Refuse requests of pages of other sites, and of names that were bound to this machine.

    A name other than localhost may be another site's, whose address was changed to that of this
    machine after its page was loaded.
    """
    check_host(request)
    headers = request.http.headers
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != headers.get("host", ""):
        raise OtherOrigin("pages of other sites may not use the studio")
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        raise OtherOrigin("pages of other sites may not use the studio")


def check_host(request: APIRequest) -> None:
    """Refuse requests to other names than those of this machine."""
    if not is_this_machine(request.http.headers.get("host", "")):
        raise OtherOrigin("the studio answers only to localhost and 127.0.0.1")


def _is_opened(request: APIRequest) -> bool:
    """Whether a browser opens an address as a page of its own, whatever linked to it."""
    headers = request.http.headers
    return (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == (
        "navigate",
        "document",
    )


def guarded(
    api: API, headers: Mapping[str, str] = MappingProxyType({}), token: AccessToken | None = None
) -> API:
    """An API whose requests are checked, and whose answers have further headers."""

    def guard(route: Endpoint) -> Endpoint:
        async def handle(request: APIRequest) -> Response:
            named = token is not None and route.method == "GET" and token.is_named(request)
            if named and _is_opened(request):  # by a file of this user that names the token
                check_host(request)
            else:
                check_origin(request)
            if token is not None:
                token.check(request)
            response = await route.handler(request)
            for name, value in headers.items():
                response.headers.setdefault(name, value)
            if token is not None and named:
                token.keep(request, response)
            return response

        return replace(route, handler=handle)

    return replace(api, routes=[*map(guard, api.routes)])
