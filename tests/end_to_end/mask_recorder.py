"""A server between clients and an aggregator that sees the key of every mask that leaves a client, killed or not."""

import sqlite3
import threading

from harness import check
from protobuf import first, parse
from spoiling_proxy import SpoilingProxy

NONCE, CONTAINER = 12, 15  # fields of an Update


class MaskRecorder(SpoilingProxy):
    """A client's secret and the round's facts are the same for all its updates of a round, so the key of a mask is as
    unique as (client, nonce)."""

    def __init__(self, workspace, port):
        super().__init__(workspace, port, seed=0)
        self.spoiling = False
        self.lock = threading.Lock()
        self.uploads, self.updates, self.bodies = 0, set(), {}

    def ask(self, workspace, port, request, body):
        if request.command == "PUT" and request.path.startswith("/v1/updates/"):
            self.note(request, body)
        return super().ask(workspace, port, request, body)

    def note(self, request, body):
        update = parse(body) if "Content-Range" not in request.headers else {}  # the rest of one that was seen
        key = request.headers["Authorization"], first(update, NONCE)
        with self.lock:
            self.uploads += 1
            self.updates.add(request.path.removeprefix("/v1/updates/"))
            if update:
                self.bodies.setdefault(key, set()).add((request.path, first(update, CONTAINER)))

    def check(self, database):
        """Fails if a mask hid two updates, or if the aggregator has an update whose key was not seen. Returns the number of
        keys."""
        twice = [sorted(path for path, _ in bodies) for bodies in self.bodies.values() if len(bodies) > 1]
        check(not twice, f"masks that were used twice, for {twice}")
        check(all(nonce is not None and any(nonce) for _, nonce in self.bodies), "an update has no nonce")
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as reader:
            stored = [f"{round_number}/{sequence}"
                      for round_number, sequence in reader.execute("SELECT round, sequence FROM updates")]
        check(len(stored) <= len(self.bodies) and set(stored) <= self.updates,
              f"{len(stored)} updates are stored, and {len(self.bodies)} keys were seen")
        return len(self.bodies)
