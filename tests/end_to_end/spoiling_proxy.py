"""A server between a client and an aggregator that it takes for that: TLS ends here, and answers are spoiled."""
import http.client
import http.server
import random
import ssl
import threading


class SpoilingProxy:
    """While `spoiling`, every other answer is changed at random: by a few bits, in length, or in their status."""

    def __init__(self, workspace, port, seed):
        proxy = self
        self.random, self.spoiling, self.spoiled, self.passed = random.Random(seed), True, 0, 0

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_any(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                try:
                    status, headers, data = proxy.ask(workspace, port, self, body)
                except OSError:
                    self.close_connection = True
                    return
                status, data = proxy.spoil(status, data)
                self.send_response_only(status)
                for name, value in headers:
                    if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PUT = do_any

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(workspace.path / "server.crt", workspace.path / "server.key")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def ask(self, workspace, port, request, body):
        context = ssl.create_default_context(cafile=workspace.path / "ca.crt")
        connection = http.client.HTTPSConnection("localhost", port, context=context, timeout=60)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in ("host", "connection")}
        connection.request(request.command, request.path, body, headers)
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return answer.status, answer.getheaders(), data

    def spoil(self, status, data):
        if not self.spoiling or self.random.random() < .5:
            self.passed += 1
            return status, data
        self.spoiled += 1
        data = bytearray(data)
        kind = self.random.randrange(6)
        if kind == 0:
            status = self.random.choice([200, 204, 206, 301, 400, 404, 409, 410, 413, 416, 422, 429, 500, 503, 599])
        elif kind == 1:
            del data[self.random.randrange(len(data) + 1):]
        elif kind == 2:
            data += self.random.randbytes(self.random.randrange(1, 300))
        elif kind == 3:
            data = bytearray(self.random.randbytes(len(data)))
        else:
            for _ in range(self.random.randrange(1, 4)):
                if data:
                    data[self.random.randrange(len(data))] ^= 1 << self.random.randrange(8)
        return status, bytes(data)
