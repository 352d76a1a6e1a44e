"""A headless Chromium, driven over the DevTools protocol."""

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from websockets.sync.client import connect

PROGRAM = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --remote-debugging-port=0 --hide-scrollbars about:blank"
)
SECONDS = 60


class Browser:
    """One tab."""

    def __init__(self, socket: Any) -> None:
        self._socket, self._number = socket, 0
        self.problems: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **given: Any) -> dict[str, Any]:
        """Call a method of the protocol, and note what the console says meanwhile."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": given}))
        while (message := json.loads(self._socket.recv(SECONDS))).get("id") != self._number:
            self._note(message)
        assert "error" not in message, message
        return message["result"]

    def _note(self, message: dict[str, Any]) -> None:
        if message["method"] == "Log.entryAdded":
            self.problems.append(message["params"]["entry"]["text"])
        elif message["method"] in {"Runtime.exceptionThrown", "Page.javascriptDialogOpening"}:
            self.problems.append(json.dumps(message["params"]))

    def show(self, width: int, *, dark: bool) -> None:
        """Take this width and scheme of colours."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, url: str) -> None:
        """Go to a page, and wait until it is there."""
        self.value("window.left = true")
        self.call("Page.navigate", url=url)
        self.wait("!window.left && document.readyState === 'complete'")

    def value(self, expression: str) -> Any:
        """Evaluate JavaScript."""
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def wait(self, expression: str) -> None:
        """Wait until JavaScript is true."""
        until = time.monotonic() + SECONDS
        while not self.value(expression):
            assert time.monotonic() < until, f"never true: {expression}"
            time.sleep(0.02)

    def press(self, key: str, code: int, text: str = "") -> None:
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            given = {"key": key, "code": key, "windowsVirtualKeyCode": code}
            self.call(
                "Input.dispatchKeyEvent", type=kind, **given, **({"text": text} if kind == "keyDown" else {})
            )

    def type(self, text: str) -> None:
        """Type a text where the focus is."""
        self.call("Input.insertText", text=text)


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser with a profile of its own."""
    assert PROGRAM is not None
    program = subprocess.Popen(
        [PROGRAM, f"--user-data-dir={folder}", *FLAGS.split()],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        port_file, until = folder / "DevToolsActivePort", time.monotonic() + SECONDS
        while not (port_file.exists() and "\n" in port_file.read_text()):
            assert program.poll() is None
            assert time.monotonic() < until, "Chromium did not start"
            time.sleep(0.05)
        port = port_file.read_text().split()[0]
        tabs = httpx.get(f"http://127.0.0.1:{port}/json", timeout=SECONDS).json()
        (tab,) = [each for each in tabs if each["type"] == "page"]
        with connect(tab["webSocketDebuggerUrl"], max_size=None, proxy=None) as socket:
            yield Browser(socket)
    finally:
        program.terminate()
        program.wait(SECONDS)
