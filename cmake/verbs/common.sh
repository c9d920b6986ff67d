# What all verbs share: messages, help, and the one build directory per variant.

say() { printf '%s\n' "== $*"; }
warn() { printf 'tern: %s\n' "$*" >&2; }

# Stops with a reason. Exit codes as the programs': 1 failed, 2 usage error, 5 interrupted.
fail() {
    warn "$*"
    exit 1
}

usage_error() {
    warn "$*"
    exit 2
}

# Prints the verb closest to a mistyped one: the fewest edits, at most a third of its length plus one.
nearest_verb() { # WRITTEN
    declare -F | sed -n 's/^declare -f verb_//p' | awk -v written="$1" '
        function least(a, b) { return a < b ? a : b }
        function distance(a, b,    i, j, diagonal, replaced, row) {
            for (j = 0; j <= length(b); j++) row[j] = j
            for (i = 1; i <= length(a); i++) {
                diagonal = row[0]
                row[0] = i
                for (j = 1; j <= length(b); j++) {
                    replaced = diagonal + (substr(a, i, 1) != substr(b, j, 1))
                    diagonal = row[j]
                    row[j] = least(replaced, least(row[j], row[j - 1]) + 1)
                }
            }
            return row[length(b)]
        }
        BEGIN { limit = int(length(written) / 3) + 2 }
        { edits = distance(written, $0); if (edits < limit) { limit = edits; best = $0 } }
        END { print best }'
}

# Debian's own Python has the python3-... packages. Another one, that PATH may have before it, may lack them, and
# pyenv's takes seven times as long to start.
PYTHON=/usr/bin/python3
[ -x "$PYTHON" ] || PYTHON=python3

cores() { nproc 2>/dev/null || echo 1; }

# Temporary files of tests in memory, where databases do not wait for the disk: tests take a fraction of the time. Exports
# TMPDIR, a folder that goes with this process, where memory is ample, programs may be run from there, and the caller chose
# no other.
MEMORY_FOLDER=/dev/shm MEMORY_ROOM_KIB=$((4 << 20))
use_memory() {
    local room free
    [ -z "${TMPDIR:-}" ] || return 0
    room=$(df --output=avail -k "$MEMORY_FOLDER" 2>/dev/null | tail -n 1) || return 0
    free=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo 2>/dev/null) || return 0
    [ "${room:-0}" -ge "$MEMORY_ROOM_KIB" ] && [ "${free:-0}" -ge $((2 * MEMORY_ROOM_KIB)) ] || return 0
    TMPDIR=$(mktemp -d "$MEMORY_FOLDER/tern.XXXXXX" 2>/dev/null) || return 0
    trap "rm -rf -- $TMPDIR" EXIT
    export TMPDIR
    chmod 755 "$TMPDIR" # PostgreSQL of the tests is another user's
    install -m 755 /dev/stdin "$TMPDIR/program" <<<'#!/bin/sh'
    "$TMPDIR/program" 2>/dev/null || TMPDIR=/tmp
}

# Runs a command with its output in a log; on failure prints the end of the log and the reason.
quietly() { # LOG WHAT COMMAND...
    local log=$1 what=$2
    shift 2
    if ! "$@" >"$log" 2>&1; then
        tail -n 40 "$log" >&2
        fail "$what failed; its output is in $log"
    fi
}

show_help() { # VERB
    if declare -F "help_$1" >/dev/null; then
        "help_$1"
    else
        help_help
    fi
}

help_help() {
    cat <<'END'
Tern: federated learning for devices that pay by the byte.

usage: ./tern VERB [OPTION...]      ./tern VERB --help tells more

  demo         a whole federation on this machine: accuracy and bytes, against uncompressed;
               demo failover: standbys take over from an aggregator that is killed
               demo private: secure rounds, and what device, aggregator and helper saw
  experiment   federations from an INI file, on your data; prints tables, draws, writes JSON
  test         the tests, in release, address- and thread-sanitizer builds; --all: all there is
  build        builds the programs into build/bin
  bench        what a round costs: bytes, updates per second, memory, speed of the codecs
  fuzz         runs the fuzzers for as long as you like
  firmware     builds the client for microcontrollers, and says what it takes of their memory
  rtl          simulates the codecs in hardware, and says what they take of a chip
  cross        builds for ARM boards, and tests there in emulation
  package      makes Debian packages of the programs and the library
  java         builds the client for Java
  image        makes container images of the aggregator and the client
  browser      looks at the aggregator's dashboard in headless Chromium
  docs         makes web pages of the documents and of the programs' man pages
  lint         layout, static analysis
  format       lays out all sources by clang-format
  fresh        proves demo and test in a minimal root of Debian 12 or 13 (needs root)
  setup        installs the Debian packages that are missing; the other verbs do it for you
  clean        removes everything that was built

On a fresh Debian 12 or 13 machine start with:  ./tern demo
END
}

verb_help() {
    if [ $# -gt 0 ] && declare -F "verb_$1" >/dev/null; then
        show_help "$1"
    else
        help_help
    fi
}
