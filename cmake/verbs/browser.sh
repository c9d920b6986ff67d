# The dashboard in a browser.

help_browser() {
    cat <<'END'
usage: ./tern browser

Opens the aggregator's dashboard in headless Chromium, over a federation of 10,000 clients and 5,000
rounds, and looks at all of it: what it shows, its buttons, keyboard and screen readers (axe-core), how
long it takes. Screenshots of each view, light, dark and on a phone: build/browser. Installs Debian's
chromium, chromium-driver and npm.
END
}

# Installs the packages of a package-lock.json, checked by their hashes, into FOLDER/node_modules, once, from the
# registry that npm is configured with. Fails, with a reason, where the installation is not possible.
npm_fetch() { # FOLDER-OF-LOCK FOLDER
    local lock=$1 folder=$2 new=$2.new
    ! cmp -s "$lock/package-lock.json" "$folder/.complete" || return 0
    if ! command -v npm >/dev/null; then
        warn "npm is not installed (./tern setup npm)"
        return 1
    fi
    rm -rf -- "$new"
    mkdir -p "$new"
    cp "$lock/package.json" "$lock/package-lock.json" "$new"
    if ! (cd "$new" && npm ci --ignore-scripts --no-audit --no-fund --fetch-retries=0 \
        --fetch-timeout=20000) >"$new/log.txt" 2>&1; then
        grep -m 3 'error' "$new/log.txt" >&2 || true
        warn "npm could not fetch the packages of $lock/package-lock.json; its output is in $new/log.txt"
        return 1
    fi
    cp "$lock/package-lock.json" "$new/.complete"
    rm -rf -- "$folder"
    mv "$new" "$folder"
}

verb_browser() {
    [ $# -eq 0 ] || usage_error "browser: unknown option '$1'; ./tern browser --help"
    verb_setup build browser
    command -v npm >/dev/null || verb_setup npm
    npm_fetch "$TERN_ROOT/tests/browser" "$TERN_BUILD/npm/browser" || fail "axe-core could not be installed, which checks the pages' accessibility"
    build_variant release tern-aggregator make_federation
    say "the dashboard in Chromium"
    rm -rf -- "$TERN_BUILD/browser"
    TERN_BIN_DIR=$TERN_BUILD/bin TERN_TEST_BIN_DIR=$TERN_BUILD/tests TERN_SHOTS=$TERN_BUILD/browser \
        TERN_AXE=$TERN_BUILD/npm/browser/node_modules/axe-core/axe.min.js \
        /usr/bin/python3 "$TERN_ROOT/tests/browser/test_dashboard.py" ||
        fail "a check of the dashboard failed; the screenshots are in $TERN_BUILD/browser"
    say "screenshots are in $TERN_BUILD/browser"
}
