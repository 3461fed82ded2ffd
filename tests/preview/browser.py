"""A headless Chromium, spoken to by its own protocol: opens a page at a size and a colour scheme, and looks at it."""

from __future__ import annotations

import asyncio
import base64
import re
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp

FLAGS = (
    "--headless=new",
    "--no-sandbox",  # it runs as root in CI, and opens a file of our own making
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--remote-debugging-port=0",
    "--remote-allow-origins=*",
)


@dataclass
class Tab:
    """One page."""

    socket: aiohttp.ClientWebSocketResponse
    numbers: Any = field(default_factory=lambda: count(1))
    requests: list[str] = field(default_factory=list)  # every address that the page asked for
    loaded: int = 0  # how many pages have been, to their end

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self.numbers)
        await self.socket.send_json({"id": number, "method": method, "params": parameters})
        while True:
            said = await self._hear()
            if said.get("id") == number:
                assert "error" not in said, said
                result: dict[str, Any] = said["result"]
                return result

    async def _hear(self) -> dict[str, Any]:
        said: dict[str, Any] = await self.socket.receive_json(timeout=60)
        if said.get("method") == "Network.requestWillBeSent":
            self.requests.append(said["params"]["request"]["url"])
        self.loaded += said.get("method") == "Page.loadEventFired"
        return said

    async def open(self, page: Path, *, width: int, height: int, dark: bool) -> None:
        await self.call("Page.enable")
        await self.call("Network.enable")
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])
        before = self.loaded
        await self.call("Page.navigate", url=page.as_uri())
        while self.loaded == before:
            await self._hear()

    async def ask(self, expression: str) -> Any:
        """What an expression is in the page, whatever the page itself may run."""
        return (await self.call("Runtime.evaluate", expression=expression, returnByValue=True))["result"].get("value")

    async def picture(self) -> bytes:
        """As PNG, to the end of the page."""
        shot = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        return base64.b64decode(shot["data"])


@asynccontextmanager
async def opened(program: str) -> AsyncIterator[Tab]:
    """A tab of a browser that is gone afterwards, with all that it kept."""
    with tempfile.TemporaryDirectory(prefix="fleet-browser-", ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            program,
            *FLAGS,
            f"--user-data-dir={profile}",
            "about:blank",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            address = await asyncio.wait_for(_address(process), 60)
            async with aiohttp.ClientSession() as session:
                listing = re.sub(r"^ws://([^/]+)/.*", r"http://\1/json/list", address)
                async with session.get(listing) as answer:
                    tabs = await answer.json()
                url = next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
                async with session.ws_connect(url, max_msg_size=0) as socket:
                    yield Tab(socket)
        finally:
            process.kill()
            await process.wait()


async def _address(process: asyncio.subprocess.Process) -> str:
    assert process.stderr
    async for line in process.stderr:
        match = re.search(rb"DevTools listening on (ws://\S+)", line)
        if match:
            return match[1].decode()
    raise AssertionError("the browser ended without saying where it listens")
