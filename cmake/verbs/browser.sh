# The dashboard in a browser.

help_browser() {
    cat <<'END'
usage: ./tern browser

Opens the aggregator's dashboard in headless Chromium, over a federation of 10,000 clients and 5,000
rounds, and looks at all of it: what it shows, its buttons, keyboard and screen readers (axe-core), how
long it takes. Screenshots of each view, light, dark and on a phone: build/browser. Installs Debian's
chromium and chromium-driver.
END
}

verb_browser() {
    [ $# -eq 0 ] || usage_error "browser: unknown option '$1'; ./tern browser --help"
    verb_setup build browser
    command -v npm >/dev/null || verb_setup charts
    npm_fetch "$TERN_ROOT/tests/browser" "$TERN_BUILD/npm/browser" || fail "there is no axe-core"
    build_variant release tern-aggregator make_federation
    say "the dashboard in Chromium"
    rm -rf -- "$TERN_BUILD/browser"
    TERN_BIN_DIR=$TERN_BUILD/bin TERN_TEST_BIN_DIR=$TERN_BUILD/tests TERN_SHOTS=$TERN_BUILD/browser \
        TERN_AXE=$TERN_BUILD/npm/browser/node_modules/axe-core/axe.min.js TERN_UPLOT=$(dashboard_charts) \
        /usr/bin/python3 "$TERN_ROOT/tests/browser/test_dashboard.py" ||
        fail "the dashboard is not what it should be; screenshots are in $TERN_BUILD/browser"
    say "screenshots are in $TERN_BUILD/browser"
}
