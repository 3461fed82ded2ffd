"""Websockets by aiohttp, which is slow to load: this module is imported with the first of them.

Redirects are not followed: what is said would reach a machine that the kubeconfig does not name.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from types import SimpleNamespace

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from fleet.kube.client.connection import CONNECT_SECONDS, READ_SECONDS
from fleet.kube.client.credentials import Credentials
from fleet.kube.client.errors import BrokenError
from fleet.kube.client.kubeconfig import Headers
from fleet.kube.client.pool import header_pairs


class Session:
    """aiohttp session of one set of credentials. A connection that breaks raises BrokenError or TimeoutError."""

    def __init__(self, credentials: Credentials, headers: Headers) -> None:
        self._server = credentials.server
        self._arguments = credentials.request_arguments
        self._session = credentials.session(
            trust_env=False,  # three to four times faster than asking the environment with each request
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=header_pairs(headers),
            trace_configs=[_refuse_redirects()],
            timeout=aiohttp.ClientTimeout(
                total=None, connect=None, sock_connect=CONNECT_SECONDS, sock_read=READ_SECONDS
            ),
        )
        # aiohttp sends a GET a second time by itself when a kept connection breaks: a command could run twice.
        self._session._retry_connection = False

    async def close(self) -> None:
        await self._session.close()

    @contextlib.asynccontextmanager
    async def websocket(
        self, path: str, headers: Headers, protocols: Sequence[str]
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        with _broken_errors():
            socket = await self._session.ws_connect(
                self._url(path),
                headers=CIMultiDict(header_pairs(headers)),
                protocols=protocols,
                max_msg_size=0,
                heartbeat=20.0,
                **self._arguments,
            )
        try:
            yield socket
        finally:
            await socket.close()

    def _url(self, path: str) -> URL:
        return URL(self._server + path, encoded=True)


def _refuse_redirects() -> aiohttp.TraceConfig:
    """Return traces that end a redirected websocket with the redirecting answer: aiohttp has no option for that."""

    async def stay(
        session: aiohttp.ClientSession, context: SimpleNamespace, answer: aiohttp.TraceRequestRedirectParams
    ) -> None:
        response = answer.response
        response.close()
        raise aiohttp.WSServerHandshakeError(
            response.request_info, response.history, status=response.status, headers=response.headers
        )

    traces = aiohttp.TraceConfig()
    traces.on_request_redirect.append(stay)
    return traces


@contextlib.contextmanager
def _broken_errors() -> Iterator[None]:
    """Turn the errors of aiohttp into BrokenError; leave refused handshakes, which are answers, and timeouts."""
    try:
        yield
    except aiohttp.WSServerHandshakeError:
        raise  # an answer, not a broken connection
    except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientSSLError, aiohttp.InvalidURL) as problem:
        raise BrokenError(problem, sent=False, trusted=False) from problem
    except aiohttp.ClientConnectorError as problem:
        raise BrokenError(problem, sent=False) from problem
    except TimeoutError:
        raise
    except (aiohttp.ClientError, OSError) as problem:
        raise BrokenError(problem) from problem
