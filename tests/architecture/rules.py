"""Who may include whom: docs/DESIGN.md as data.

A component is the longest of these path prefixes that a file starts with. `knows` lists the
components (or single headers) that it may include beside its own; `system` the system headers, as
patterns.
"""

FREESTANDING = ["stdint.h", "stddef.h", "stdbool.h", "stdarg.h", "float.h", "limits.h",
                "inttypes.h", "stdalign.h", "string.h"]
NANOPB = ["pb.h", "pb_*.h"]
SIMD = ["immintrin.h", "arm_neon.h"]
HOSTED = FREESTANDING + ["stdio.h", "stdlib.h", "errno.h", "math.h", "ctype.h", "stdatomic.h"]
PURE = ["math.h", "stdlib.h"]  # of stdlib: qsort() and the like; see NO_CALLS
# Everything but the libraries that one folder keeps to itself.
OS = ["*"]
KEPT = {
    "curl/*": ["client/posix/"],
    "dbus/*": ["client/posix/conditions.c"],
    "uv.h": ["aggregator/http/"],
    "http_parser.h": ["aggregator/http/parser/http_parser.c"],
    "llhttp.h": ["aggregator/http/parser/llhttp.c"],
    "mbedtls/*": ["aggregator/http/", "client/posix/", "firmware_port/net/",
                  "firmware_port/zephyr/", "lab/bench/", "ring/mesh/ring_tls.c", "shared/hosted/mbedtls_versions.h"],
    "psa/*": ["firmware_port/zephyr/tls_stream.c", "shared/hosted/mbedtls_versions.h", "shared/secure/secret.c",
              "firmware_port/net/tls_platform.c"],
    "tern/*": ["bindings/swift/", "tests/install/"],
    "jni.h": ["bindings/java/jni/"],
    "lwip/*": ["firmware_port/net/"],
    "sqlite3.h": ["aggregator/store/sqlite.c", "helper/ledger.c"],
    "libpq-fe.h": ["aggregator/store/postgres.c"],
    "zlib.h": ["client/data/", "shared/hosted/input.c"],
    "zstd.h": ["lab/codec/rivals.c"],
    "lz4.h": ["lab/codec/rivals.c"],
    "dlfcn.h": ["client/external/library_trainer.c", "client/posix/tls/openssl.c"],
    "ini.h": ["shared/hosted/", "lab/fleet/"],
    "cjson/*": ["shared/cli/", "shared/hosted/", "client/", "aggregator/", "ring/cli/", "lab/", "tests/"],
    "cmocka.h": ["tests/"],
}

PURE_SHARED = ["shared/codec/", "shared/tensor/", "shared/error_feedback/", "shared/wire/",
               "shared/secure/", "shared/meter/", "shared/util/", "shared/build.h", "shared/result.h",
               "shared/version.h"]
# Bytes of data files, and the CSV tables that init looks at, too.
TABLES = ["shared/hosted/input.h", "shared/hosted/csv.h", "shared/hosted/csv_columns.h",
          "shared/hosted/csv_text.h", "shared/hosted/csv_profile.h", "shared/hosted/csv_judge.h",
          "shared/hosted/data_spec.h", "shared/hosted/name_set.h"]
CLIENT_CORE = ["client/phases/", "client/client.h", "client/ports.h", "client/core.h",
               "client/defaults.h"]
# Pure files among others: encoders, plans and the book of replicas.
DOWNLOADS = ["aggregator/downloads/plan.", "aggregator/downloads/replicas.", "aggregator/downloads/whole."]
ROUNDS = ["aggregator/rounds/", "aggregator/strategies/", "aggregator/merge/delta.",
          "aggregator/store/store.h"]
# Each knows those before it.
MERGE = PURE_SHARED + ["shared/hosted/"] + ROUNDS
CATCHUP = MERGE + ["aggregator/merge/"]
FEDERATION = CATCHUP + ["aggregator/downloads/abilities.h", "aggregator/downloads/catchup.h", "aggregator/secure/ask.h"]
SERVICE = FEDERATION + ["aggregator/federation/accuracy.h", "aggregator/federation/federation.h",
                        "aggregator/http/http.h"]

RULES = {
    # libtern: no OS call, no clock, no stdio, no malloc.
    "shared/": (PURE_SHARED, FREESTANDING + NANOPB),
    "shared/codec/kernels/": (PURE_SHARED, FREESTANDING + SIMD),
    "shared/secure/secret.c": (["shared/secure/", "shared/result.h", "shared/build.h"],
                               FREESTANDING + ["psa/*", "stdatomic.h"]),
    # Ask the processor what it can do, and remember the answer.
    "shared/codec/kernels/dispatch.c": (["shared/codec/kernels/"], FREESTANDING + ["stdatomic.h"]),
    "shared/util/sha256_x86.c": (["shared/util/", "shared/build.h"], FREESTANDING + SIMD + ["cpuid.h", "stdatomic.h"]),
    "shared/util/crc32c_instruction.c": (["shared/util/crc32c.h"], FREESTANDING + [
        "immintrin.h", "cpuid.h", "stdatomic.h", "arm_acle.h", "sys/auxv.h"]),
    "shared/hosted/": (PURE_SHARED, OS),
    "shared/cli/": (["shared/"], OS),
    # The client core is driven through ports.
    "client/": (PURE_SHARED + CLIENT_CORE, FREESTANDING),
    "client/phases/": (PURE_SHARED + CLIENT_CORE, FREESTANDING),
    "client/trainer/": (PURE_SHARED + ["client/ports.h", "client/data/"], HOSTED),
    # Readers of data files: hosted, but no sockets, threads, processes or clocks.
    "client/data/": (PURE_SHARED + TABLES, HOSTED + ["zlib.h", "sys/stat.h", "unistd.h"]),
    "client/posix/": (PURE_SHARED + ["shared/hosted/"] + CLIENT_CORE, OS),
    # Trainers of the user's: the only place that runs other programs and loads libraries.
    "client/external/": (PURE_SHARED + ["shared/hosted/", "client/ports.h",
                                        "client/trainer/tern_trainer_abi.h"], OS),
    # The interface that such libraries are built against stands alone.
    "client/trainer/tern_trainer_abi.h": ([], ["stddef.h", "stdint.h"]),
    "client/cli/": (["shared/", "client/"], OS),
    "aggregator/http/": (PURE_SHARED + ["shared/hosted/"], OS),
    "aggregator/store/": (PURE_SHARED, OS),
    # The round machine: time, randomness, disk and network come in as arguments.
    "aggregator/rounds/": (PURE_SHARED, FREESTANDING + PURE),
    "aggregator/strategies/": (PURE_SHARED, FREESTANDING + PURE),
    "aggregator/merge/delta.": (PURE_SHARED, FREESTANDING + PURE),
    "aggregator/merge/": (MERGE, HOSTED),
    "aggregator/downloads/": (CATCHUP + DOWNLOADS, HOSTED),
    "aggregator/federation/": (FEDERATION, HOSTED + ["pthread.h"]),
    # The aggregator's requests to the helper of secure rounds, and its connection.
    "aggregator/secure/": (PURE_SHARED, HOSTED),
    "aggregator/secure/link/": (PURE_SHARED + ["shared/hosted/", "aggregator/secure/ask.h", "client/client.h",
                                               "client/ports.h", "client/posix/"], OS),
    "aggregator/service/": (SERVICE, OS),
    # Lists that operators read: rows with named columns, for whoever prints them.
    "aggregator/views/": (FEDERATION + ["aggregator/federation/accuracy.h", "aggregator/federation/federation.h",
                                        "aggregator/store/tables/"], HOSTED + ["time.h", "cjson/*"]),
    "aggregator/admin/": (SERVICE + ["aggregator/service/service.h", "aggregator/store/tables/", "aggregator/views/"], OS),
    # A gateway is a client of the upstream aggregator; its trainer runs a round of its own service.
    "aggregator/relay/": (SERVICE + ["aggregator/service/service.h", "aggregator/merge/", "client/client.h",
                                     "client/ports.h", "client/posix/"], OS),
    "aggregator/cli/": (["shared/", "aggregator/"], OS),
    # The helper: its decisions are pure, and the service stands on the aggregator's listener.
    "helper/": (["shared/", "helper/", "aggregator/http/http.h"], OS),
    "helper/judge.": (PURE_SHARED + ["helper/judge.h"], FREESTANDING + ["stdio.h"]),
    # A ring of peers: the exchange is pure, mesh/ alone has sockets.
    "ring/exchange/": (PURE_SHARED, FREESTANDING),
    "ring/mesh/": (PURE_SHARED + ["shared/hosted/", "ring/exchange/exchange.h"], OS),
    "ring/node/": (PURE_SHARED + ["shared/hosted/", "ring/exchange/", "ring/mesh/"],
                   HOSTED + ["signal.h"]),
    "ring/cli/": (["shared/", "ring/", "client/data/", "client/trainer/", "client/ports.h",
                   "client/cli/client_data.h", "client/cli/data_settings.def", "client/cli/model_fit.h"], OS),
    # Java's client: the embeddable client behind JNI.
    "bindings/java/jni/": (PURE_SHARED + ["client/client.h", "client/ports.h", "client/posix/", "client/trainer/",
                                          "client/data/dataset.h", "bindings/java/jni/"], OS),
    # What Swift imports: a program that uses the installed library.
    "bindings/swift/": (["bindings/swift/"], OS),
    # What measures Tern; nothing of Tern itself knows it.
    "lab/fleet/": (["shared/", "client/"], OS),
    "lab/codec/": (["shared/"], OS),
    "lab/lgc/": (["shared/", "client/"], OS),
    "lab/bench/": (["shared/", "client/", "aggregator/", "firmware_port/", "lab/"], OS),
    "tests/": (["shared/", "client/", "aggregator/", "helper/", "ring/", "firmware_port/", "lab/"], OS),
    "firmware_port/": (PURE_SHARED + CLIENT_CORE +
                       ["client/data/dataset.h", "client/trainer/trainer.h", "firmware_port/"], OS),
}

RULES.update({prefix: (PURE_SHARED + ["aggregator/merge/delta.", "aggregator/store/store.h"], FREESTANDING + PURE)
              for prefix in DOWNLOADS})

# Where "name.h" is looked for, after the including file's own folder.
INCLUDE_ROOTS = ["shared/", "client/", "aggregator/", "ring/", "firmware_port/", "lab/", "tests/", ""]

# Functions that pure components do not call, wherever they may be declared.
NO_CALLS = {
    "shared/": ["malloc", "calloc", "realloc", "free", "abort", "exit", "getenv", "rand"],
    "aggregator/rounds/": ["malloc", "calloc", "realloc", "free", "getenv", "rand", "exit"],
}
NO_CALLS["shared/codec/kernels/"] = NO_CALLS["shared/"]
NO_CALLS["shared/codec/kernels/dispatch.c"] = NO_CALLS["shared/"]
NO_CALLS["shared/secure/secret.c"] = NO_CALLS["shared/"]
NO_CALLS["shared/util/sha256_x86.c"] = NO_CALLS["shared/"]
for prefix in ["aggregator/strategies/", "aggregator/merge/delta.", *DOWNLOADS, "client/", "client/phases/",
               "ring/exchange/"]:
    NO_CALLS[prefix] = NO_CALLS["aggregator/rounds/"]

# Sources that stand for each other, by the beginnings of their paths: a build has one of each, and both
# define the same functions.
ALTERNATIVES = [
    ("firmware_port/boards/", "firmware_port/template/", "lab/bench/firmware/"),
    ("firmware_port/log/device_log.c", "firmware_port/log/silent/"),
    ("client/posix/tls/openssl.c", "client/posix/tls/mbedtls.c"),
    ("aggregator/http/parser/http_parser.c", "aggregator/http/parser/llhttp.c"),
]

# Public functions that one other file of their folder calls, and nobody else: at most so many (check_neighbours.py).
NEIGHBOURS = {
    "aggregator/admin/": 7,
    "aggregator/cli/": 45,
    "aggregator/downloads/": 16,
    "aggregator/federation/": 61,
    "aggregator/http/": 71,
    "aggregator/merge/": 16,
    "aggregator/relay/": 7,
    "aggregator/rounds/": 0,
    "aggregator/service/": 30,
    "aggregator/store/": 30,
    "aggregator/strategies/": 0,
    "aggregator/views/": 2,
    "client/cli/": 15,
    "client/external/": 9,
    "client/posix/": 0,
    "lab/fleet/": 72,
    "lab/lgc/": 31,
    "ring/mesh/": 13,
    "ring/node/": 4,
    "shared/cli/": 21,
    "shared/hosted/": 25,
}

# Folders without files that are too small to be a subject, unused public functions, and calls in a circle
# (check_rooms.py).
ROOMS = ["aggregator/http/", "aggregator/merge/", "aggregator/relay/", "aggregator/service/",
         "aggregator/store/", "aggregator/strategies/", "lab/lgc/"]

# More folders without calls in a circle.
ONE_WAY = ["aggregator/admin/", "aggregator/cli/", "aggregator/downloads/", "aggregator/federation/",
           "aggregator/rounds/", "aggregator/views/", "client/cli/", "client/data/",
           "client/external/", "client/phases/", "client/posix/", "client/trainer/", "lab/fleet/", "ring/mesh/",
           "ring/node/", "shared/cli/", "shared/hosted/"]

# No two of these folders have a file of one name.
DISTINCT_NAMES = ["aggregator/federation/", "aggregator/rounds/", "aggregator/downloads/", "aggregator/http/",
                  "aggregator/service/"]
