# The documents and man pages as web pages.

help_docs() {
    cat <<'END'
usage: ./tern docs [--output FOLDER]

Makes web pages of README.md, the documents of docs/ and the man pages of the programs and their INI
files, into build/docs or FOLDER. They can be read from a disk and fetch nothing from elsewhere. Links
are checked: one that leads nowhere is an error.
END
}

verb_docs() {
    local output=$TERN_BUILD/docs
    while [ $# -gt 0 ]; do
        case $1 in
        --output)
            [ $# -gt 1 ] || usage_error "docs: --output needs a folder"
            output=$2
            shift
            ;;
        *) usage_error "docs: unknown option '$1'; ./tern docs --help" ;;
        esac
        shift
    done
    verb_setup build docs
    build_variant release manuals
    local manuals=()
    mapfile -t manuals < <(find "$TERN_BUILD/package" -maxdepth 1 -name '*.[15]' | sort)
    /usr/bin/python3 "$TERN_ROOT/cmake/site/build_site.py" "$output" "${manuals[@]}" ||
        fail "cmake/site/build_site.py could not build the pages"
}
