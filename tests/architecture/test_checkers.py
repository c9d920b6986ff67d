"""The checkers find what they are there to find: each case plants one fault in a small tree."""
import itertools
import json
import os
import subprocess
import tempfile
import unittest
import unittest.mock

import check_documents
import check_includes
import check_neighbours
import check_symbols
import check_objects
import check_rooms
import check_text
from rules import RULES

# As docs/overview.dot has them, and as graphviz draws them.
EDGES = "    a -> b -> c [dir=both]\n    edge [style=invis]\n    c -> a\n"
DRAWN = "<title>a&#45;&gt;b</title><title>b&#45;&gt;c</title>"


class Planted(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.TemporaryDirectory(prefix="tern-architecture-")
        for path in ["shared/codec/codec.h", "shared/hosted/cli.h", "client/ports.h",
                     "client/client.h", "aggregator/store/store.h", "aggregator/rounds/machine.h",
                     "aggregator/http/http.h", "aggregator/merge/merge.h", "aggregator/downloads/blobs.h",
                     "aggregator/service/service.h", "lab/fleet/fleet.h"]:
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
        self.assertEqual(self.includes("aggregator/service/a.c", '#include "merge/merge.h"'), [])
        self.assertEqual(self.includes("lab/fleet/b.c", '#include "client.h"'), [])
        self.assertEqual(self.includes("tests/fleet/b.c", '#include "fleet/fleet.h"'), [])
        self.assertEqual(self.includes("shared/util/sha256_x86.c", "#include <immintrin.h>"), [])
        self.assertEqual(self.text("shared/b.c", "// fine\n"), [])

    def room(self, name, calls):
        """Plants a file of 80 lines that defines name() and calls others."""
        body = "".join(f"    {call}();\n" for call in calls)
        self.plant(f"aggregator/http/{name}.c", f"void {name}(void)\n{{\n{body}}}\n" + "// A line.\n" * 80)

    def test_rooms_have_one_subject(self):
        self.room("a", ["b"])
        self.room("b", [])
        self.plant("aggregator/service/user.c", "static int number;\n" * 80 + "void user(void)\n{\n    a();\n}\n")
        self.plant("tests/user.c", "static void test(void)\n{\n    user();\n}\n")
        self.assertEqual(list(check_rooms.findings(self.root.name)), [])
        self.room("b", ["a"])
        self.assertIn("calls go round", list(check_rooms.findings(self.root.name))[0])
        self.room("b", [])
        self.room("c", [])
        self.assertIn("c() has no caller", list(check_rooms.findings(self.root.name))[0])
        self.plant("aggregator/http/c.c", "// A line.\n")
        self.assertIn("fewer than 80 lines", list(check_rooms.findings(self.root.name))[0])

    def test_calls_go_one_way(self):
        self.plant("shared/hosted/a.c", "void a(void)\n{\n    b();\n}\n")
        self.plant("shared/hosted/b.c", "void b(void)\n{\n}\n")
        self.assertEqual(list(check_rooms.findings(self.root.name)), [])
        self.plant("shared/hosted/b.c", "void b(void)\n{\n    a();\n}\n")
        self.assertIn("calls go round", list(check_rooms.findings(self.root.name))[0])

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
                ("client/cli/a.c", '#include "rounds/machine.h"'),
                ("aggregator/rounds/a.c", "#include <pthread.h>"),
                ("aggregator/rounds/a.c", '#include "http/http.h"'),
                ("aggregator/service/a.c", "#include <sqlite3.h>"),
                ("aggregator/service/a.c", "#include <mbedtls/ssl.h>"),
                ("aggregator/http/a.c", '#include "store/store.h"'),
                ("aggregator/merge/a.c", '#include "service/service.h"'),
                ("aggregator/merge/a.c", '#include "http/http.h"'),
                ("aggregator/downloads/a.c", '#include "service/service.h"'),
                ("aggregator/federation/a.c", '#include "http/http.h"'),
                ("aggregator/federation/a.c", '#include "downloads/blobs.h"'),
                ("aggregator/cli/a.c", '#include "client.h"'),
                ("aggregator/cli/a.c", "#include <uv.h>"),
                ("shared/cli/a.c", '#include "fleet/fleet.h"'),
                ("client/cli/a.c", '#include "fleet/fleet.h"'),
                ("aggregator/cli/a.c", '#include "../../lab/fleet/fleet.h"'),
                ("firmware_port/app/a.c", '#include "fleet/fleet.h"'),
                ("lab/fleet/a.c", '#include "store/store.h"')]:
            with self.subTest(path=path, line=line):
                self.assertEqual(len(self.includes(path, line)), 1)
            self.plant(path, "\n")

    def test_torn_comments_are_found(self):
        for text in ("// --- Store\n// ------------\n", "// --- Store ---------\n",
                     "    // again. TERN_OK      a response came\n",
                     "// --- Store: a few named\n// records ---------\n"):
            with self.subTest(text=text):
                self.assertEqual(len(self.text("shared/torn.c", text)), 1)
        torn = "struct a {\n    struct b\n        c; // long\n};\n"
        self.assertEqual(len(self.text("shared/torn.c", torn)), 1)
        for text in (torn.replace("\n        c", " c"), "// --- Store\n", "// TERN_OK  done\n//   TERN_OK         done\n",
                     "// TERN_ERR_A  so; TERN_ERR_B  not so\n", "// Returns TERN_OK when done\n"):
            with self.subTest(text=text):
                self.assertEqual(self.text("shared/torn.c", text), [])

    def documents(self, **changed):
        """What the check finds in a sound tree of one folder, but for the files given by name."""
        files = {"overview.dot": 'a [label="shared/codec\\nfloats"]\n' + EDGES,
                 "overview.svg": "<t>shared/codec</t><t>floats</t>" + DRAWN,
                 "DESIGN.md": "| shared/codec | floats |\n\n## Words\n", "CONTRIBUTING.md": "Edit `shared/codec/a.c`.",
                 "EMBEDDING.md": "It has 2 lines of code.", "examples/embedding/join.c": "// A.\n\nint a;\n  int b;\n"}
        files.update(changed)
        for name, text in files.items():
            self.plant(name if name == "CONTRIBUTING.md" else "docs/" + name, text)
        self.plant("shared/codec/a.c", "")
        for folder in check_documents.COMPONENTS:
            os.makedirs(os.path.join(self.root.name, folder), exist_ok=True)
        return list(check_documents.findings(self.root.name))

    def test_documents_that_name_what_is_not_there_are_found(self):
        self.assertEqual(self.documents(), [])
        for name, text in [("overview.dot", 'a [label="floats"]\n' + EDGES),
                           ("overview.dot", 'a [label="shared/codec"]\na -> b -> c\nc -> a'),
                           ("overview.dot", 'a [label="shared/codec"]\na -> b'),
                           ("overview.svg", "<t>shared/codec</t>" + DRAWN),
                           ("DESIGN.md", "\n## Words\n| shared/codec | in the essays |\n"),
                           ("DESIGN.md", "| shared/codec | |\n| shared/gone | |\n\n## Words\n"),
                           ("CONTRIBUTING.md", "`shared/codec/gone.c`"), ("CONTRIBUTING.md", "nothing"),
                           ("EMBEDDING.md", "It has 3 lines of code."), ("EMBEDDING.md", "nothing")]:
            with self.subTest(name=name, text=text):
                self.assertEqual(len(self.documents(**{name: text})), 1)
        self.assertEqual(self.documents(**{"CONTRIBUTING.md": "`shared/codec/a.c` is built into `build/`"}), [])
        self.assertEqual(len(self.documents(**{"CONTRIBUTING.md": "`shared/codec/a.c`, `builds/`"})), 1)
        self.plant("lab/new/a.py", "")
        self.assertEqual(self.documents(), ["docs/overview.dot does not have lab/new"])

    def test_sizes_that_differ_from_the_documented_ones_are_found(self):
        images = {image % libc for image in check_documents.IMAGES for libc in ("newlib", "picolibc")}
        images |= {"an385-newlib-psk-secure", *(image for _, *pair in check_documents.DIFFERENCES for image in pair)}
        sizes = {image: {part: {"flash": 30000, "ram": 200} for _, _, part in check_documents.ROWS} for image in images}
        self.plant("firmware_port/sizes.json", json.dumps(sizes))
        self.plant("docs/PORTING.md", "")
        found = list(check_documents.firmware_size_findings(self.root.name))
        self.assertEqual(len(found), len(check_documents.ROWS) + len(check_documents.DIFFERENCES) + 4)
        page = "\n".join("  " + line.split(": ", 1)[1] for line in found)
        self.plant("docs/PORTING.md", page)
        self.assertEqual(list(check_documents.firmware_size_findings(self.root.name)), [])
        for wrong in (page.replace("30,000 / 200", "30,001 / 200", 1), page + "\nDHCP takes 4.8 KB of flash.",
                      page.replace("0.0 KB of flash:", "0.1 KB of flash:", 1)):
            self.plant("docs/PORTING.md", wrong)
            self.assertNotEqual(list(check_documents.firmware_size_findings(self.root.name)), [])

    def test_source_files_that_are_gone_are_found(self):
        self.plant("shared/codec/b.c", "// As codec/a.c does.\n#include <sys/gone.h>\n")
        self.assertEqual(self.documents(), [])
        self.plant("shared/codec/b.c", "// As codec/gone.c does.\n")
        self.assertEqual(len(self.documents()), 1)
        self.plant("shared/codec/b.c", "")
        self.assertEqual(len(self.documents(**{"PLAN.md": "`codec/gone.c` does it."})), 1)

    def test_citations_of_what_a_document_does_not_have_are_found(self):
        text = "# Formats\n## 2. Container\n### 2.1 Index sets\n## Checkpoints, and how far back\n"
        page = {"FORMAT.md": text, "PLAN.md": text}
        by_number = "FORM" + "AT"  # in pieces, so that the check does not find this file
        there = ['docs/PLAN.md, "Checkpoints"', 'PLAN.md ("Index\n// sets")', "PLAN.md, section 2.1", f"{by_number} 2",
                 'docs/OTHER.md, "Nothing"', '{PLAN, "nothing"}', "PLAN 3, FORMATS 7", 'see(PLAN.md, \\"Index "\n"sets\\")']
        for cited in there:
            self.plant("shared/codec/b.c", f"// {cited}\n")
            self.assertEqual(self.documents(**page), [], cited)
        for cited in ['PLAN.md, "Check"', 'PLAN.md ("Index\n// set")', 'PLAN, "Gone"', 'PLAN.md, section "Gone"',
                      "PLAN.md,\n// section 2.2", "docs/PLAN.md sections 2 and 3", f"{by_number} 3",
                      'printf("See PLAN.md, \\"Gone\\".")', "[F](PLAN.md), section 3"]:
            self.plant("shared/codec/b.c", f"// {cited}\n")
            self.assertEqual(len(self.documents(**page)), 1, cited)

    def test_events_that_no_program_logs_are_found(self):
        self.plant("client/log.c", 'tern_log("round-over", "round=%u");\n')
        self.assertEqual(self.documents(**{"PLAN.md": "`event=round-over round=3`"}), [])
        self.assertEqual(self.documents(**{"PLAN.md": "(`event=round-lost`)"}),
                         ["docs/PLAN.md names event=round-lost, which no program logs"])

    def test_events_of_the_aggregator_that_no_document_names_are_found(self):
        self.plant("aggregator/service/log.c", 'tern_log(is_bad(a, "x") ? TERN_LOG_WARN : TERN_LOG_INFO,\n'
                                               '    was ? "round-over" : "round-on", "key=%s", "other");\n')
        named = "`round-over`, and `event=round-on n=1`"
        drawn = {"overview.dot": 'a [label="shared/codec\\nfloats"]\nb [label="aggregator/service"]\n' + EDGES,
                 "overview.svg": "<t>shared/codec</t><t>floats</t><t>aggregator/service</t>" + DRAWN,
                 "DESIGN.md": "| shared/codec | floats |\n| aggregator/service | s |\n\n## Words\n"}
        self.assertEqual(self.documents(**drawn, **{"PLAN.md": named}), [])
        self.assertEqual(self.documents(**drawn, **{"PLAN.md": named.replace("on n", "off n")})[1:],
                         ['aggregator/service/log.c logs event=round-on, which no document names: add it to '
                          'docs/OPERATIONS.md, "Logs"'])

    def test_names_with_two_meanings_are_found(self):
        self.plant("client/a.c", "int\ntern_a(void)\n{\n}\n\nstatic int helper(void)\n{\n}\n")
        self.plant("aggregator/a.c", "static int helper(void)\n{\n}\n\nint main(void)\n{\n}\n")
        self.plant("firmware_port/log/device_log.c", "void tern_says(int a)\n{\n}\n")
        self.plant("firmware_port/log/silent/device_log.c", "void tern_says(int a)\n{\n}\n")
        self.assertEqual(list(check_symbols.findings(self.root.name)), [])
        self.plant("firmware_port/app/a.c", "// Says.\n__attribute__((used)) int tern_a(int *a)\n{\n}\n")
        self.assertEqual(list(check_symbols.findings(self.root.name)),
                         ["tern_a is defined by client/a.c and by firmware_port/app/a.c"])

    def test_forbidden_calls_are_found(self):
        self.assertEqual(len(self.includes("shared/a.c", "p = malloc(3);")), 1)
        self.assertEqual(len(self.includes("client/phases/b.c", "free(p);")), 2)
        self.plant("shared/a.c", "ports->free(p); tern_free(p); // free(p)\n")
        self.assertEqual(len(list(check_includes.violations(self.root.name))), 1)

    def compiled(self, texts):
        """The objects of these files, as a build leaves them."""
        root = self.root.name
        commands = []
        for path, text in texts.items():
            self.plant(path, text)
            command = f"cc -c {path} -o {path}.o"
            subprocess.run(command.split(), cwd=root, check=True)
            commands.append({"directory": root, "file": os.path.join(root, path),
                             "command": command})
        self.plant("compile_commands.json", json.dumps(commands))
        return list(check_objects.objects(root, root))

    def ring(self, names):
        """Files that each call the next one, the last the first; one by a table's row."""
        return {f"shared/{name}.c": f"void tern_{after}(void);\n"
                                    f"void (*const tern_{name}_row)(void) = tern_{after};\n"
                                    f"void tern_{name}(void) {{}}\n"
                                    if name == names[0] else
                                    f"void tern_{after}(void);\n"
                                    f"void tern_{name}(void) {{ tern_{after}(); }}\n"
                for name, after in zip(names, names[1:] + names[:1])}

    def test_large_circles_are_found(self):
        found = list(check_objects.too_large(check_objects.calls(self.compiled(self.ring("abcd")))))
        self.assertEqual(len(found), 1)
        self.assertIn("a circle of 4 files", found[0])
        self.assertIn("shared/a.c -> shared/b.c: tern_b", found[0])
        calls = list(check_objects.calls(self.compiled(self.ring("abc"))))
        self.assertEqual(list(check_objects.too_large(calls)), [])

    def test_headers_in_a_circle_are_found(self):
        for name, after in zip("abcd", "bcda"):
            self.plant(f"shared/{name}.h", f'#include "{after}.h"\n')
        found = list(check_objects.too_large(check_objects.includes(self.root.name)))
        self.assertEqual(len(found), 1)

    def test_no_two_components_may_know_each_other(self):
        for one, other in itertools.combinations(RULES, 2):
            apart = not one.startswith(other) and not other.startswith(one)
            both = all(any(known.startswith(b) or b.startswith(known) for known in RULES[a][0])
                       for a, b in [(one, other), (other, one)])
            with self.subTest(one=one, other=other):
                self.assertFalse(apart and both)

    def test_functions_for_one_neighbour_are_counted(self):
        folder = "aggregator/rounds/"
        self.plant(folder + "a.h", "int tern_a(void);\nint tern_both(void);\n")
        self.plant(folder + "a.c", "int tern_a(void)\n{\n}\n\nint tern_both(void)\n{\n}\n\nstatic int f(void)\n{\n}\n")
        self.plant(folder + "b.c", "int tern_b(void)\n{\n    return tern_a() + tern_both();\n}\n")
        self.plant("aggregator/service/a.c", "// tern_a() is not called here.\nint x = tern_both();\n")
        found = check_neighbours.for_one_neighbour(self.root.name)
        self.assertEqual(found, {folder: [("tern_a", folder + "a.c", folder + "b.c")]})
        with unittest.mock.patch.dict(check_neighbours.NEIGHBOURS, {folder: 0}):
            self.assertIn("tern_a is for", "\n".join(check_neighbours.findings(self.root.name)))

    def test_files_of_one_name_are_found(self):
        self.plant("aggregator/rounds/waits.c", "")
        self.assertEqual(list(check_neighbours.findings(self.root.name)), [])
        self.plant("aggregator/federation/waits.h", "")
        self.assertIn("both have a file waits", list(check_neighbours.findings(self.root.name))[0])

    def test_names_without_prefix_are_found(self):
        built = self.compiled({"shared/a.c": "int value;\nstatic void f(void) {}\n"
                                             "void tern_g(void) { f(); }\n"})
        self.assertEqual(list(check_objects.unprefixed(built)),
                         ["shared/a.c: value has external linkage and no prefix tern_"])

    def test_functions_of_headers_are_told_from_all_else(self):
        header = ("// tern_said() in a comment\n#define TERN_M(x) \\\n    tern_macro(x)\n"
                  "extern \"C\" {\nstruct a { int (*tern_member)(int); };\n"
                  "static inline int tern_inline(void)\n{\n    return tern_called();\n}\n"
                  "MUST int tern_one(int a,\n    int b);\nvoid tern_two(void (*f)(int));\n}\n")
        self.assertEqual(list(check_text.declared(header)), ["tern_one", "tern_two"])

    def test_text_faults_are_found(self):
        for path, text in [
                ("shared/a.c", "// TO" + "DO: later\n"),
                ("docs/a.md", "see /wo" + "rk/main/x\n"),
                ("a.cmake", "http://deb.deb" + "ian.org/x\n"),
                ("shared/a.c", "int a; \n"),
                ("shared/a.c", "\tint a;\n"),
                ("shared/a.h", "#ifndef TERN_A_H\n#define TERN_A_H\n#endif\n"),
                ("shared/a.h", "// A.\n#ifndef TERN_A_H\n#define TERN_A_H\nextern \"C\" {\nint a(int class);\n}\n#endif\n"),
                ("shared/a.h", "// A header.\n#pragma once\n")]:
            with self.subTest(path=path, text=text):
                self.assertEqual(len(self.text(path, text)), 1)
            os.remove(os.path.join(self.root.name, path))


if __name__ == "__main__":
    unittest.main()
