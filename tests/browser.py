"""A browser under remote control: pages as people see them, without a driver of its own.

Chromium is started headless and spoken to in its debugging protocol over a web socket (aiohttp,
which ray brings). Tests skip, aloud, where either is missing.
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
Found = TypeVar("Found")


def program() -> str:
    """Return the browser's path, or skip."""
    for name in NAMES:
        path = shutil.which(name)
        if path is not None:
            return path
    pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed (apt-get install chromium)")


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """Start a browser with its files in a folder; yield the address of its web socket."""
    flags = [
        *("--headless=new", "--remote-debugging-port=0", f"--user-data-dir={folder}"),
        *("--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-extensions"),
        *("--disable-background-networking", "--disable-dev-shm-usage"),
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
    ]
    process = subprocess.Popen(
        [program(), *flags, "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield _address(folder / "DevToolsActivePort", process)
    finally:
        process.terminate()
        process.wait(timeout=20)


def _address(port_file: Path, process: subprocess.Popen[bytes], patience: float = 60.0) -> str:
    end = time.monotonic() + patience
    while time.monotonic() < end and process.poll() is None:
        if port_file.exists() and len(lines := port_file.read_text().splitlines()) >= 2:
            return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
        time.sleep(0.05)
    pytest.skip(f"the browser did not start (exit status {process.poll()})")


@dataclass
class Tab:
    """A page that is open: what it said on its console is kept."""

    socket: Any
    session: str
    said: list[str] = field(default_factory=list)
    number: int = 0

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Return what the browser answers; events that come in between are noted."""
        self.number += 1
        mine = self.number
        message = {"id": mine, "method": method, "params": parameters}
        await self.socket.send_json({**message, "sessionId": self.session})
        while True:
            answer = await asyncio.wait_for(self.socket.receive_json(), 60)
            self._note(answer)
            if answer.get("id") == mine:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def _note(self, event: dict[str, Any]) -> None:
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.said.append(str(parameters["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled":
            self.said.append(f"{parameters['type']}: {parameters['args']}")
        elif method == "Log.entryAdded":
            self.said.append(str(parameters["entry"]))

    async def run(self, script: str) -> Any:
        """Return the value of an expression of the page's own language."""
        found = await self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    async def show(self, page: Path) -> None:
        """Load a file and wait until it is there."""
        for domain in ("Runtime", "Log", "Page"):
            await self.call(f"{domain}.enable")
        await self.call("Page.navigate", url=page.as_uri())
        for _ in range(200):
            here = f"document.readyState === 'complete' && location.href === '{page.as_uri()}'"
            if await self.run(here):
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"{page} did not load")

    async def width(self, pixels: int, height: int = 800, *, scale: float = 1.0) -> None:
        """Make the window as wide as a phone, or a desk."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=pixels,
            height=height,
            deviceScaleFactor=scale,
            mobile=pixels < 600,
        )

    async def media(self, *, scheme: str = "light", medium: str = "screen") -> None:
        """Choose dark or light, and screen or print."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.call("Emulation.setEmulatedMedia", media=medium, features=features)

    async def picture(self, path: Path) -> None:
        """Write what is on the screen as PNG."""
        found = await self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(found["data"]))


def browse(folder: Path, what: Callable[[Tab], Awaitable[Found]]) -> Found:
    """Run something on a fresh tab of a fresh browser and return what it returns."""
    aiohttp = pytest.importorskip("aiohttp", reason="speaking to the browser needs aiohttp")

    async def visit(address: str) -> Found:
        async with (
            aiohttp.ClientSession() as client,
            client.ws_connect(address, max_msg_size=0) as socket,
        ):
            plain = Tab(socket, "")
            target = await _bare(plain, "Target.createTarget", url="about:blank")
            joined = await _bare(
                plain, "Target.attachToTarget", targetId=target["targetId"], flatten=True
            )
            return await what(Tab(socket, joined["sessionId"], number=1000))

    with running(folder) as address:
        return asyncio.run(visit(address))


async def _bare(tab: Tab, method: str, **parameters: Any) -> dict[str, Any]:
    """Speak to the browser itself, which has no session."""
    tab.number += 1
    await tab.socket.send_json({"id": tab.number, "method": method, "params": parameters})
    while True:
        answer = await asyncio.wait_for(tab.socket.receive_json(), 60)
        if answer.get("id") == tab.number:
            result: dict[str, Any] = answer["result"]
            return result
