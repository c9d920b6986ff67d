# Measures; prints tables and writes JSON into build/bench.

help_bench() {
    cat <<'END'
usage: ./tern bench [codec|protocol|load|size]...

Measures on this machine, prints a table and writes build/bench/NAME.json. Nothing here passes or
fails; docs/BENCHMARKS.md says how each figure comes about and what was reached.

  codec      speed of the codecs against memcpy, bits per value
  protocol   bytes of a warm round beyond its bodies, of a full and of a resumed TLS handshake
  load       durable updates per second, memory per idle connection
  size       stripped programs, peak memory of a client
END
}

verb_bench() {
    local parts=("$@") part
    [ ${#parts[@]} -gt 0 ] || parts=(codec protocol load size)
    for part in "${parts[@]}"; do
        declare -F "bench_$part" >/dev/null || usage_error "bench: there is no part '$part'"
    done
    verb_setup build
    build_variant release
    mkdir -p "$TERN_BUILD/bench"
    for part in "${parts[@]}"; do
        say "bench: $part"
        "bench_$part" "$TERN_BUILD/bench/$part.json"
    done
}
