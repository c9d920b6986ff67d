"""A cluster of PostgreSQL for a test, in a temporary folder, without a TCP port unless it is given an address, with
fsync as in production. It runs as a user without rights, as PostgreSQL demands, and ends with the program that made it.
The first cluster of a build leaves its data as a template in the build folder: initdb takes as long as a short test."""
import glob
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import zlib

END = "end of rows"
BUILD = pathlib.Path(os.environ.get("TERN_BUILD_DIR", "build"))


def folder_of_programs():
    """Where initdb is, installed or unpacked into the build folder; None where it is not."""
    found = []
    for root in (pathlib.Path("/"), BUILD / "postgresql", BUILD.parent / "postgresql"):
        found += sorted(glob.glob(f"{root}/usr/lib/postgresql/*/bin/initdb"), reverse=True)
    return pathlib.Path(found[0]).parent if found else None


class Cluster:
    """The role tern owns its one database, tern."""

    def __init__(self, address=""):
        """address: that it listens at beside its socket, in the network namespace of who makes it, for anybody."""
        self.address = address
        self.programs = folder_of_programs()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tern-postgres-"))
        self.user = []
        if os.getuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
            self.user = ["--reuid", str(nobody.pw_uid), "--regid", str(nobody.pw_gid), "--clear-groups"]
        os.chmod(self.folder, 0o755)
        self.environment = dict(os.environ, HOME=str(self.folder), LC_ALL="C")
        self._be_reached()
        libraries = self.programs.parents[3] / f"lib/{os.uname().machine}-linux-gnu"
        if self.programs.parents[4] != pathlib.Path("/"):
            self.environment["LD_LIBRARY_PATH"] = str(libraries)
        self.server = self.reader = None
        self.asking = threading.Lock()
        template = BUILD / f"postgres-{self.programs.parent.name}-{os.getuid()}-{zlib.crc32(pathlib.Path(__file__).read_bytes())}"
        if not self._copy(template, self.data):
            self._make_data()
            # The name appears with a complete folder only. Where several programs make one, the first stays.
            part = f"{template}.{os.getpid()}"
            if self._copy(self.data, part):
                try:
                    os.rename(part, template)
                except OSError:
                    shutil.rmtree(part, ignore_errors=True)
        if address:
            with open(self.data / "pg_hba.conf", "a") as rules:
                print("host all all all trust", file=rules)
        self.start()

    def _make_data(self):
        self._run("initdb", "-D", self.data, "-A", "trust", "-U", "tern", "-E", "UTF8", "--locale=C", "--no-sync",
                  "--no-instructions")
        self.start()
        # ICU's collation, where the server has it: its order differs from the order of bytes.
        icu = "LOCALE_PROVIDER icu ICU_LOCALE 'en' TEMPLATE template0"
        has_icu = self.sql("SELECT count(*) FROM pg_collation WHERE collprovider = 'i'", database="postgres") != "0"
        self.sql(f"CREATE DATABASE tern {icu if has_icu else ''}", database="postgres")
        self.stop()

    @staticmethod
    def _copy(source, target):
        """Copies a folder with its owners; returns whether that was possible."""
        return os.path.isdir(source) and subprocess.run(["cp", "-a", "--reflink=auto", source, target], check=False,
                                                        stderr=subprocess.DEVNULL).returncode == 0

    def _be_reached(self):
        """Programs in a folder that only root may enter are copied."""
        root = self.programs.parents[4]
        if not self.user or all(folder.stat().st_mode & 1 for folder in self.programs.parents):
            return
        shutil.copytree(root / "usr", self.folder / "usr", symlinks=True)
        self.programs = self.folder / self.programs.relative_to(root)

    @property
    def data(self):
        return self.folder / "data"

    def url(self, more=""):
        return f"postgresql://tern@/tern?host={self.folder}{more}"

    def far_url(self, more=""):
        return f"postgresql://tern@{self.address}/tern?sslmode=disable{more}"

    def _command(self, program, *arguments):
        return ["setpriv", *self.user, self.programs / program, *arguments]

    def _run(self, program, *arguments):
        subprocess.run(self._command(program, *arguments), check=True, stdout=subprocess.DEVNULL,
                       env=self.environment, cwd=self.folder)

    def start(self):
        command = self._command("postgres", "-D", self.data, "-k", self.folder, "-c", f"listen_addresses={self.address}",
                                "-c", "shared_buffers=16MB", "-c", "max_connections=60", "-c", "checkpoint_timeout=1h")
        command[1:1] = ["--pdeathsig", "INT"]
        with open(self.folder / "log", "ab") as log:
            self.server = subprocess.Popen(command, stdout=log, stderr=log, env=self.environment, cwd=self.folder,
                                           start_new_session=True)
        self.wait()

    def wait(self):
        for _ in range(600):
            ready = subprocess.run([self.programs / "pg_isready", "-q", "-h", self.folder], env=self.environment,
                                   check=False)
            if ready.returncode == 0:
                return
            if self.server.poll() is not None:
                break
            time.sleep(0.05)
        raise AssertionError("PostgreSQL does not start: " + (self.folder / "log").read_text()[-2000:])

    def _psql(self, database="tern"):
        return [self.programs / "psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-h", self.folder, "-U", "tern", "-d", database]

    def _select(self, text):
        """The rows from a psql that stays for the next query; None where it ended: the server has, or refused the query."""
        with self.asking:
            if self.reader is None or self.reader.poll() is not None:
                self.reader = subprocess.Popen(self._psql(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                               stderr=subprocess.DEVNULL, env=self.environment)
            try:
                self.reader.stdin.write(f"{text};\n\\echo {END}\n")
                self.reader.stdin.flush()
            except OSError:
                return None
            rows = []
            for line in self.reader.stdout:
                if line == f"{END}\n":
                    return "".join(rows).strip()
                rows.append(line)
            return None

    def sql(self, text, database="tern"):
        """What psql prints, without headings. Waits for a server that recovers."""
        if text.startswith("SELECT") and database == "tern":
            rows = self._select(text)
            if rows is not None:
                return rows
        for _ in range(600):
            done = subprocess.run([*self._psql(database), "-c", text], capture_output=True, text=True, env=self.environment,
                                  check=False)
            if "FATAL:  the database system is" not in done.stderr:
                break
            time.sleep(0.05)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def hold(self, table):
        """Lets nobody write into the table until release()."""
        self._select(f"BEGIN; LOCK TABLE {table} IN SHARE MODE")

    def release(self):
        self._select("COMMIT")

    def stop(self, how=signal.SIGINT):
        """SIGINT: fast; SIGQUIT: immediate, as after a crash."""
        self.server.send_signal(how)
        self.server.wait()

    def end(self):
        if self.reader is not None:
            self.reader.kill()
            self.reader.communicate()
        if self.server is not None and self.server.poll() is None:
            self.stop(signal.SIGQUIT)  # nothing of it is kept
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
