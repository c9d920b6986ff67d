"""What stands between a program and PostgreSQL's socket: it passes on what both say, and asks a function about each
piece that the program sends, so that a connection is lost, or a statement fails, where a test wants it."""
import contextlib
import pathlib
import select
import shutil
import socket
import tempfile
import threading

PASS, LOSE, LOSE_REPLY, CUT_REPLY = "pass", "lose", "lose reply", "cut reply"


class Between:
    def __init__(self, cluster, judge=lambda piece: (PASS, piece)):
        """judge: of a piece that the program sends, what becomes of it, and what is passed on in its place. PASS; LOSE:
        the connection is lost before; LOSE_REPLY: after PostgreSQL has answered; CUT_REPLY: within its answer."""
        self.cluster, self.judge = cluster, judge
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tern-between-"))
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.folder / ".s.PGSQL.5432"))
        self.listener.listen(64)
        self.lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, more=""):
        return f"postgresql://tern@/tern?host={self.folder}{more}"

    def end(self):
        self.listener.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def _accept(self):
        while True:
            try:
                program, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(program,), daemon=True).start()

    def _serve(self, program):
        server = socket.socket(socket.AF_UNIX)
        with program, server, contextlib.suppress(OSError):
            server.connect(f"{self.cluster.folder}/.s.PGSQL.5432")
            while self._turn(program, server):
                pass

    @staticmethod
    def _answer(program, server):
        """The first piece of it. There may be none before the program has sent more: the rest of a pipeline."""
        while server not in select.select([program, server], [], [])[0]:
            more = program.recv(65536)
            if more == b"":
                return b""
            server.sendall(more)
        return server.recv(65536)

    def _turn(self, program, server):
        """Whether the connection goes on."""
        ready = select.select([program, server], [], [])[0]
        if server in ready:
            piece = server.recv(65536)
            program.sendall(piece)
            return piece != b""
        piece = program.recv(65536)
        if piece == b"":
            return False
        with self.lock:
            fate, piece = self.judge(piece)
        if fate == LOSE:
            return False
        server.sendall(piece)
        if fate == PASS:
            return True
        answer = self._answer(program, server)
        if fate == CUT_REPLY:
            program.sendall(answer[:len(answer) // 2])
        return False
