# What comes from the npm registry that this machine's npm uses, never into the tree: by the hashes of a
# package-lock.json, which names no registry.

# Fetches them once, into FOLDER/node_modules. Fails, with a reason, where they cannot be had.
npm_fetch() { # FOLDER-OF-LOCK FOLDER
    local lock=$1 folder=$2 new=$2.new
    ! cmp -s "$lock/package-lock.json" "$folder/.complete" || return 0
    if ! command -v npm >/dev/null; then
        warn "npm is not installed (./tern setup charts)"
        return 1
    fi
    rm -rf -- "$new"
    mkdir -p "$new"
    cp "$lock/package.json" "$lock/package-lock.json" "$new"
    if ! (cd "$new" && npm ci --ignore-scripts --no-audit --no-fund --fetch-retries=0 \
        --fetch-timeout=20000) >"$new/log.txt" 2>&1; then
        grep -m 3 'error' "$new/log.txt" >&2 || true
        warn "npm could not fetch what $lock/package-lock.json lists; the whole output is in $new/log.txt"
        return 1
    fi
    cp "$lock/package-lock.json" "$new/.complete"
    rm -rf -- "$folder"
    mv "$new" "$folder"
}

# Prints the folder of uPlot; nothing where it cannot be had.
dashboard_charts() {
    if npm_fetch "$TERN_ROOT/aggregator/admin/page" "$TERN_BUILD/npm/page"; then
        printf '%s\n' "$TERN_BUILD/npm/page/node_modules/uplot"
    else
        warn "the dashboard is built without uPlot: it has tables in place of charts"
    fi
}
