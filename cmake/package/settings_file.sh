#!/bin/sh
# Writes the settings file of a package: every setting of the program, documented and commented out,
# so that defaults which a later version improves reach those who did not choose; but for the state
# directory, which is the package's.
# Usage: settings_file.sh OUTPUT KEY VALUE COMMAND...
set -eu
output=$1 key=$2 value=$3
shift 3
"$@" --settings >"$output.all"
{
    printf '%s\n' \
        "# Settings of ${output##*/}. Each stands here with its default, commented out; remove the ;" \
        "# of what you change."
    sed -e 1,2d -e "s|^$key = .*|$key = $value|" -e t -e 's/^\([a-z0-9_]* =\)/; \1/' "$output.all"
} >"$output"
rm "$output.all"
grep -q "^$key = $value\$" "$output" || {
    echo "$0: there is no setting '$key' in $output" >&2
    exit 1
}
