"""A browser by the WebDriver protocol: chromedriver and Chromium, headless. Standard library only."""
import base64
import json
import os
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
PATIENCE = 60  # seconds for what takes a moment


class Browser:
    def __init__(self, log):
        self.log = open(log, "wb")
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE,
                                       stderr=self.log)
        self.session = None
        self.base = f"http://127.0.0.1:{self.read_port()}"
        options = {"binary": shutil.which("chromium"),
                   "args": ["--headless=new", "--disable-gpu", "--window-size=1280,900",
                            *(["--no-sandbox"] if os.geteuid() == 0 else [])]}
        reply = self.ask("POST", "/session", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"}}}})
        self.session = f"/session/{reply['sessionId']}"

    def read_port(self):
        for line in self.driver.stdout:
            found = re.search(rb"successfully on port (\d+)", line)
            if found:
                return int(found.group(1))
        raise RuntimeError("chromedriver did not start")

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"},
                                         method=method)
        try:
            with DIRECT.open(request, timeout=300) as reply:
                return json.load(reply)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from None

    def do(self, method, path, body=None):
        return self.ask(method, self.session + path, body)

    def close(self):
        try:
            if self.session is not None:
                self.ask("DELETE", self.session)
        finally:
            self.driver.terminate()
            self.driver.wait()
            self.driver.stdout.close()
            self.log.close()

    # --- Pages

    def open(self, url):
        self.do("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        """The value that the script returns."""
        return self.do("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def run_until_called(self, script, *arguments):
        """What the script calls its last argument with."""
        return self.do("POST", "/execute/async", {"script": script, "args": list(arguments)})

    def wait(self, script, what):
        """Until the script returns something that is not false; returns that."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            value = self.run(script)
            if value:
                return value
            time.sleep(0.05)
        raise AssertionError(f"{what}: not within {PATIENCE} s")

    def find(self, selector):
        return self.do("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector):
        self.do("POST", f"/element/{self.find(selector)}/click", {})

    def type(self, selector, text):
        self.do("POST", f"/element/{self.find(selector)}/value", {"text": text})

    def press(self, *keys):
        """Keys to whatever has the focus."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.do("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def console(self):
        """What was written to the console since the last call."""
        return self.do("POST", "/se/log", {"type": "browser"})

    # --- How it is looked at

    def devtools(self, command, **parameters):
        return self.do("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def look(self, width, height, scheme):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height,
                      deviceScaleFactor=1, mobile=False)
        self.devtools("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"}])

    def screenshot(self, path):
        shot = self.devtools("Page.captureScreenshot", format="png", captureBeyondViewport=False)
        path.write_bytes(base64.b64decode(shot["data"]))
