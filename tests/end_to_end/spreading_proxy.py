"""A proxy that gives the requests of a client to one server after the other: it passes bytes on, and ends a connection
when the client goes on after an answer, upon which that makes a new one, which goes to the next server in turn."""

import asyncio
import threading

TURNS = 3  # of a client: its hello, the rest of its handshake, its request


class SpreadingProxy:
    """ports: of the servers, on loopback; may be changed while it runs."""

    def __init__(self, ports):
        self.ports = list(ports)
        self.used = {}  # connections by port
        self.turn = 0
        self.port = 0
        self.loop = asyncio.new_event_loop()
        started = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self.thread.start()
        started.wait()

    def _run(self, started):
        asyncio.set_event_loop(self.loop)
        server = self.loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        self.loop.run_forever()

    async def _connect(self):
        for _ in range(len(self.ports)):
            self.turn += 1
            port = self.ports[self.turn % len(self.ports)]
            try:
                connection = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                continue
            self.used[port] = self.used.get(port, 0) + 1
            return connection
        return None

    async def _serve(self, reader, writer):
        server = await self._connect()
        if server is None:
            writer.close()
            return
        turns = 0  # times that the client spoke after the server
        spoke = "server"

        async def pump(source, sink, who):
            nonlocal turns, spoke
            while data := await source.read(65536):
                turns += who == "client" and spoke == "server"
                spoke = who
                if turns > TURNS:
                    return
                sink.write(data)
                await sink.drain()

        tasks = [asyncio.ensure_future(task) for task in (
            pump(reader, server[1], "client"), pump(server[0], writer, "server"))]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        for end in (writer, server[1]):
            end.close()

    def close(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
