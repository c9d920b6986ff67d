"""The checkers find what they are there to find: each case plants one fault in a small tree."""
import os
import tempfile
import unittest

import check_includes
import check_text


class Planted(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.TemporaryDirectory(prefix="tern-architecture-")
        for path in ["shared/codec/codec.h", "shared/hosted/cli.h", "client/ports.h",
                     "client/client.h", "aggregator/store/store.h", "aggregator/rounds/round.h",
                     "aggregator/http/http.h"]:
            self.plant(path, "// A header.\n#ifndef TERN_A_H\n#define TERN_A_H\n#endif\n")

    def tearDown(self):
        self.root.cleanup()

    def plant(self, path, text):
        full = os.path.join(self.root.name, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)

    def includes(self, path, line):
        self.plant(path, line + "\n")
        return list(check_includes.violations(self.root.name))

    def text(self, path, text):
        self.plant(path, text)
        return list(check_text.findings(self.root.name))

    def test_a_sound_tree_has_no_violation(self):
        self.assertEqual(self.includes("client/a.c", '#include "codec/codec.h"'), [])
        self.assertEqual(self.includes("client/posix/a.c", "#include <curl/curl.h>"), [])
        self.assertEqual(self.includes("aggregator/service/a.c", '#include "http/http.h"'), [])
        self.assertEqual(self.includes("shared/util/sha256_x86.c", "#include <immintrin.h>"), [])
        self.assertEqual(self.text("shared/b.c", "// fine\n"), [])

    def test_forbidden_includes_are_found(self):
        for path, line in [
                ("shared/a.c", '#include "ports.h"'),
                ("shared/a.c", '#include "hosted/cli.h"'),
                ("shared/codec/a.c", "#include <stdio.h>"),
                ("shared/util/a.c", "#include <immintrin.h>"),
                ("shared/util/sha256_x86.c", "#include <stdlib.h>"),
                ("shared/codec/a.c", "#  include <stdlib.h>"),
                ("client/a.c", '#include "store/store.h"'),
                ("client/a.c", "#include <stdlib.h>"),
                ("client/phases/a.c", "#include <time.h>"),
                ("client/phases/a.c", '#include "../../aggregator/http/http.h"'),
                ("client/cli/a.c", "#include <curl/curl.h>"),
                ("client/cli/a.c", '#include "rounds/round.h"'),
                ("aggregator/rounds/a.c", "#include <pthread.h>"),
                ("aggregator/rounds/a.c", '#include "http/http.h"'),
                ("aggregator/service/a.c", "#include <sqlite3.h>"),
                ("aggregator/service/a.c", "#include <mbedtls/ssl.h>"),
                ("aggregator/http/a.c", '#include "store/store.h"'),
                ("aggregator/cli/a.c", '#include "client.h"'),
                ("aggregator/cli/a.c", "#include <uv.h>")]:
            with self.subTest(path=path, line=line):
                self.assertEqual(len(self.includes(path, line)), 1)
            self.plant(path, "\n")

    def test_forbidden_calls_are_found(self):
        self.assertEqual(len(self.includes("shared/a.c", "p = malloc(3);")), 1)
        self.assertEqual(len(self.includes("client/phases/b.c", "free(p);")), 2)
        self.plant("shared/a.c", "ports->free(p); tern_free(p); // free(p)\n")
        self.assertEqual(len(list(check_includes.violations(self.root.name))), 1)

    def test_text_faults_are_found(self):
        for path, text in [
                ("shared/a.c", "// TO" + "DO: later\n"),
                ("docs/a.md", "see /wo" + "rk/main/x\n"),
                ("a.cmake", "http://deb.deb" + "ian.org/x\n"),
                ("shared/a.c", "int a; \n"),
                ("shared/a.c", "\tint a;\n"),
                ("shared/a.h", "#ifndef TERN_A_H\n#define TERN_A_H\n#endif\n"),
                ("shared/a.h", "// A header.\n#pragma once\n")]:
            with self.subTest(path=path, text=text):
                self.assertEqual(len(self.text(path, text)), 1)
            os.remove(os.path.join(self.root.name, path))


if __name__ == "__main__":
    unittest.main()
