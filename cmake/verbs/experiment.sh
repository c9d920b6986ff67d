# experiment and demo: an aggregator and a fleet of clients on this machine, over real HTTPS.

help_experiment() {
    cat <<'END'
usage: ./tern experiment CONFIG.ini [--data-dir DIR] [--json OUT.json] [--baseline RUN.json]
                         [--curves OUT.svg|OUT.png] [--set section.key=value]... [--keep DIR]
       ./tern experiment --compare RUN.json OTHER.json
       ./tern experiment CONFIG.ini [--data-dir DIR] [--json OUT.json] [--markdown OUT.md]
                         [--svg OUT.svg] [--curves OUT.svg|OUT.png] [--jobs N] [--only TEXT]... [--again]
                         [--set section.key=value]... [--keep DIR]

Runs the federation that CONFIG.ini describes: makes a throw-away CA and server certificate, starts
tern-aggregator on a free port of 127.0.0.1, runs tern-fleet against it, and prints a line per round
and a table of accuracy and bytes. At the end it trains once more as one client with all rows would, and
warns where the federation is far below. Stops and removes everything afterwards, also on Ctrl-C.

  --data-dir DIR       folder of the data set, when [data] source names only the format (idx)
  --json OUT.json      writes the results, flat
  --baseline RUN.json  compares with the results of an earlier run: the settings that differ, and what
                       came of it; --compare does the same with two finished runs
  --curves OUT         accuracy against rounds and against bytes, as OUT.svg or OUT.png
  --set section.key=v  overrides a key of CONFIG.ini; see configs/*.example.ini
  --keep DIR           keeps the aggregator's state, certificates and logs in DIR

A CONFIG.ini with a section [experiment] plans many federations: one per run and seed that it lists,
in each of its cells where it has such, several at once, and a table of them all at the end. Results of
single runs are kept in build/experiments/CONFIG (or --keep DIR), each beside RUN.ini, the settings that
it was made with, which is an experiment of its own; a run whose results are there with the same
settings is not run again, so an interrupted comparison goes on where it stopped. The settings of all
are checked before the first. A run that fails is named, and the others go on. lab/compare.py says what
the section may hold.

  --jobs N             so many runs at once, each with one worker; as many as there are cores
  --only TEXT          only the runs whose name contains TEXT, "CELL: RUN" where there are cells, or with
                       tag=NAME those that have this tag; of several --only, all (the table shows all there are)
  --again              runs also what is there, as after a change of code
  --set experiment.k=v a key of the section: experiment.seeds=1, and experiment.run='LABEL | ...' is one
                       run more
  --markdown, --svg    the table for a page, and a picture of accuracy against bytes

  ./tern experiment configs/experiments/fashion-3lc.ini --data-dir ~/fashion-mnist --json 3lc.json
  ./tern experiment configs/experiments/fashion-3lc.ini --data-dir ~/fashion-mnist \
         --set codec.codec=float32 --baseline 3lc.json
  ./tern experiment configs/experiments/codecs-fashion.ini --data-dir ~/fashion-mnist \
         --json codecs.json --svg codecs.svg
  ./tern experiment configs/experiments/suite.ini --data-dir ~/fashion-mnist --set experiment.seeds=1
END
}

EXPERIMENT_PIDS=()
EXPERIMENT_DIR=
EXPERIMENT_KEEP=no

# Ends the started programs, the newest first, and waits for them.
stop_programs() {
    local i pid tries
    for ((i = ${#EXPERIMENT_PIDS[@]} - 1; i >= 0; i--)); do
        pid=${EXPERIMENT_PIDS[i]}
        kill -TERM "$pid" 2>/dev/null || continue
        for ((tries = 0; tries < 100; tries++)); do
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL "$pid" 2>/dev/null || true
    done
    [ ${#EXPERIMENT_PIDS[@]} -eq 0 ] || wait "${EXPERIMENT_PIDS[@]}" 2>/dev/null || true
    EXPERIMENT_PIDS=()
}

clean_experiment() {
    stop_programs
    if [ -n "$EXPERIMENT_DIR" ] && [ "$EXPERIMENT_KEEP" = no ]; then
        rm -rf -- "$EXPERIMENT_DIR"
    fi
    EXPERIMENT_DIR=
}

# From here on, no started program outlives the script.
begin_experiment() { # [KEEP_DIR]
    # A second signal does not stop the cleaning, which takes seconds at most.
    trap 'trap "" INT TERM HUP; clean_experiment' EXIT
    trap 'warn "interrupted: stopping all programs"; exit 5' INT TERM HUP
    if [ -n "${1:-}" ]; then
        EXPERIMENT_KEEP=yes
        mkdir -p -- "$1"
        EXPERIMENT_DIR=$(cd -- "$1" && pwd)
    else
        EXPERIMENT_DIR=$(mktemp -d "${TMPDIR:-/tmp}/tern-experiment.XXXXXX")
    fi
}

# A CA and a server certificate for 127.0.0.1 and localhost, valid for a week. ECDSA P-256 and short
# names, because every full handshake carries the certificate.
make_certificates() { # DIR
    local dir=$1
    mkdir -p "$dir"
    {
        openssl ecparam -name prime256v1 -genkey -noout -out "$dir/ca.key" &&
            openssl req -x509 -new -sha256 -key "$dir/ca.key" -days 7 -subj /CN=ca \
                -out "$dir/ca.pem" &&
            openssl ecparam -name prime256v1 -genkey -noout -out "$dir/server.key" &&
            openssl req -new -sha256 -key "$dir/server.key" -subj /CN=tern -out "$dir/server.csr" &&
            printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\n' >"$dir/server.ext" &&
            openssl x509 -req -sha256 -in "$dir/server.csr" -CA "$dir/ca.pem" \
                -CAkey "$dir/ca.key" -set_serial 1 -days 7 -extfile "$dir/server.ext" \
                -out "$dir/server.pem"
    } >"$dir/openssl.log" 2>&1 || {
        cat "$dir/openssl.log" >&2
        fail "openssl could not make the throw-away certificates"
    }
}

# Sets OPTIONS to the --set words of those overrides that a program reads; it refuses the others.
take_options() { # fleet|aggregator OVERRIDE...
    local program=$1 override
    OPTIONS=()
    for override in "${@:2}"; do
        case $program:$override in
            aggregator:fleet.* | aggregator:data.* | aggregator:experiment.* | aggregator:deep.*) ;;
            aggregator:* | fleet:fleet.* | fleet:data.* | fleet:round.rounds=* | fleet:federation.model=*)
                OPTIONS+=(--set "$override")
                ;;
        esac
    done
}

# Starts an aggregator in DIR; sets AGGREGATOR (command words), AGGREGATOR_PID and AGGREGATOR_PORT.
start_aggregator() { # DIR CONFIG OVERRIDE...
    local dir=$1 config=$2
    shift 2
    take_options aggregator "$@" "federation.state=$dir/state" server.address=127.0.0.1 server.port=0 admin.port=0 \
        "server.port_file=$dir/port" "server.certificate=$dir/server.pem" "server.private_key=$dir/server.key"
    AGGREGATOR_OPTIONS=(--config "$config" "${OPTIONS[@]}")
    rm -f "$dir/port"
    "$TERN_BUILD/bin/tern-aggregator" init "${AGGREGATOR_OPTIONS[@]}" >"$dir/init.log" 2>&1 || {
        cat "$dir/init.log" >&2
        fail "tern-aggregator init failed"
    }
    "$TERN_BUILD/bin/tern-aggregator" serve "${AGGREGATOR_OPTIONS[@]}" >"$dir/aggregator.log" 2>&1 &
    AGGREGATOR_PID=$!
    EXPERIMENT_PIDS+=("$AGGREGATOR_PID")
    local tries # for five minutes: a model of 100 million values is not there at once
    for ((tries = 0; tries < 3000; tries++)); do
        [ -s "$dir/port" ] && break
        kill -0 "$AGGREGATOR_PID" 2>/dev/null || break
        sleep 0.1
    done
    [ -s "$dir/port" ] || {
        tail -n 20 "$dir/aggregator.log" >&2
        fail "tern-aggregator did not start"
    }
    AGGREGATOR_PORT=$(cat "$dir/port")
}

enroll_code() { # DIR
    "$TERN_BUILD/bin/tern-aggregator" enroll-code "${AGGREGATOR_OPTIONS[@]}" --uses 100000 --evaluator \
        2>"$1/enroll-code.log" || {
        cat "$1/enroll-code.log" >&2
        fail "tern-aggregator enroll-code failed"
    }
}

# Runs one federation from start to end. NAME: its folder under EXPERIMENT_DIR. RESULTS_FILE: for the JSON; empty =
# none.
run_federation() { # NAME CONFIG OVERRIDES_ARRAY_NAME RESULTS_FILE FLEET_OPTION...
    local dir=$EXPERIMENT_DIR/$1 config=$2 results=${4:-} fleet_options status=0 code
    local -n overrides_=$3
    shift 4
    results=${results:-$dir/results.json}
    make_certificates "$dir"
    start_aggregator "$dir" "$config" "${overrides_[@]}"
    code=$(enroll_code "$dir") || exit 1
    take_options fleet "${overrides_[@]}" "fleet.server=https://127.0.0.1:$AGGREGATOR_PORT" \
        "fleet.ca=$dir/ca.pem" "fleet.join_code=$code" "fleet.state_dir=$dir/clients"
    fleet_options=("${OPTIONS[@]}")
    "$TERN_BUILD/bin/tern-fleet" run --config "$config" "${fleet_options[@]}" \
        --results "$results" "$@" &
    local fleet=$! ended=
    EXPERIMENT_PIDS+=("$fleet")
    wait -n -p ended "$fleet" "$AGGREGATOR_PID" || status=$?
    if [ "$ended" != "$fleet" ] || [ "$status" -ge 128 ]; then
        warn "the end of the aggregator's log:"
        tail -n 20 "$dir/aggregator.log" >&2
        [ "$ended" = "$fleet" ] || fail "tern-aggregator ended before the run was complete"
        fail "tern-fleet ended with exit code $status"
    elif [ "$status" -ne 0 ]; then # it has said why
        grep '^time=[^ ]* level=error' "$dir/aggregator.log" | tail -n 20 >&2 || true
        exit 1
    fi
    stop_programs
    measure_global_model "$dir" "$config" "$results" "${fleet_options[@]}"
    describe_run "$results" "$config" "${overrides_[@]}"
}

# Adds to the results the settings of the run.
describe_run() { # RESULTS_FILE CONFIG OVERRIDE...
    local sets=() override
    for override in "${@:3}"; do
        sets+=(--set "$override")
    done
    "$PYTHON" -B "$TERN_ROOT/lab/compare.py" describe "$1" "$2" "${sets[@]}" ||
        fail "the settings could not be added to $1"
}

# Measures the models in the aggregator after the run: the final ones, and those at the arrival of late clients. The
# fleet itself has measured the clients' replicas.
measure_global_model() { # DIR CONFIG RESULTS_FILE FLEET_OPTION...
    local dir=$1 config=$2 results=$3
    shift 3
    "$TERN_BUILD/bin/tern-aggregator" export "${AGGREGATOR_OPTIONS[@]}" --global "$dir/global.f32" \
        >"$dir/export.log" 2>&1 || {
        cat "$dir/export.log" >&2
        fail "tern-aggregator export failed"
    }
    "$TERN_BUILD/bin/tern-fleet" evaluate --config "$config" "$@" "$results" "$dir/global.f32" ||
        fail "the global model could not be measured"
    measure_averaged_model "$dir" "$config" "$results" "$@"
    "$PYTHON" -B "$TERN_ROOT/lab/arrived.py" "$results" \
        "$TERN_BUILD/bin/tern-aggregator" "${AGGREGATOR_OPTIONS[@]}" \
        -- "$TERN_BUILD/bin/tern-fleet" --config "$config" "$@" ||
        fail "the global models of arrivals could not be measured"
}

# Exports the averaged model if there is one; otherwise export ends with 4.
measure_averaged_model() { # DIR CONFIG RESULTS_FILE FLEET_OPTION...
    local dir=$1 config=$2 results=$3 code=0
    shift 3
    "$TERN_BUILD/bin/tern-aggregator" export "${AGGREGATOR_OPTIONS[@]}" --averaged \
        "$dir/averaged.f32" >"$dir/export.log" 2>&1 || code=$?
    [ "$code" -ne 4 ] || return 0
    [ "$code" -eq 0 ] || {
        cat "$dir/export.log" >&2
        fail "tern-aggregator export --averaged failed"
    }
    "$TERN_BUILD/bin/tern-fleet" evaluate --averaged --config "$config" "$@" "$results" \
        "$dir/averaged.f32" || fail "the averaged model could not be measured"
}

# A deep federation, in the place of this script.
run_deep() { # CONFIG JSON OVERRIDE...
    local config=$1 json=$2 sets=() override
    shift 2
    for override in "$@"; do
        sets+=(--set "$override")
    done
    verb_setup build torch
    build_variant release tern-aggregator tern-client
    export TERN_BIN_DIR=$TERN_BUILD/bin
    exec "$PYTHON" -B "$TERN_ROOT/lab/deep/run.py" "$config" --json "${json:-/dev/null}" "${sets[@]}"
}

# Checks settings and baseline as the programs do, before any program is started.
check_settings() { # CONFIG BASELINE OVERRIDE...
    local config=$1 baseline=$2 override sets=()
    shift 2
    take_options aggregator "$@"
    "$TERN_BUILD/bin/tern-aggregator" serve --check --config "$config" "${OPTIONS[@]}" || exit 2
    take_options fleet "$@"
    "$TERN_BUILD/bin/tern-fleet" run --check ${baseline:+--baseline "$baseline"} --config "$config" "${OPTIONS[@]}" ||
        exit 2
    for override in "$@"; do
        sets+=(--set "$override")
    done
    "$PYTHON" -B "$TERN_ROOT/lab/compare.py" advise "$config" "${sets[@]}" || exit 2
}

# Results get their final name only when they are complete.
take_results() { # RESULTS_FILE WHERE
    if ! cp -- "$1" "$2.part" || ! mv -- "$2.part" "$2"; then
        EXPERIMENT_KEEP=yes
        fail "the results could not be written to $2; they are in $1"
    fi
}

# Refuses what a single run could not write to at its end, and a folder that has a run: another would go
# on from its state.
check_places() { # JSON KEEP_DIR
    if [ -n "$1" ]; then
        [ ! -e "$1" ] || [ -f "$1" ] || usage_error "experiment: --json $1 is not a regular file"
        [ -w "$(dirname -- "$1")" ] ||
            usage_error "experiment: --json $1: its folder cannot be written to"
    fi
    if [ -n "$2" ] && [ -e "$2/run" ]; then
        usage_error "experiment: --keep $2: the folder already has a run; name another folder"
    fi
}

# The sections of both programs may have the key.
refuse_without_section() { # KEY=VALUE
    local meant
    meant=$(awk -F ' *= *' -v key="${1%%=*}" '/^\[/ { section = substr($0, 2, length($0) - 2) }
        $1 == key { printf "%s%s.%s", n++ ? " or " : "; did you mean ", section, key }' \
        "$TERN_ROOT"/configs/{aggregator,fleet}.example.ini)
    usage_error "experiment: --set $1: expected section.key=value$meant"
}

verb_experiment() {
    local config='' keep='' json='' single='' planned='' jobs='' fleet=() overrides=() table=()
    local groups=(build) programs=(tern-aggregator tern-fleet) override sets=() curves='' baseline=''
    while [ $# -gt 0 ]; do
        case $1 in
        --again)
            planned=$1
            table+=("$1")
            shift
            ;;
        --compare)
            [ $# -ge 3 ] || usage_error "experiment: --compare needs RUN.json and OTHER.json"
            compare_runs "$2" "$3"
            return
            ;;
        --data-dir | --json | --baseline | --set | --keep | --only | --jobs | --markdown | --svg | --curves)
            [ $# -ge 2 ] || usage_error "experiment: $1 needs a value"
            case $1 in
            --data-dir)
                [ -d "$2" ] || usage_error "experiment: there is no folder '$2'. Fashion-MNIST: apt-get install" \
                    "dataset-fashion-mnist, then --data-dir /usr/share/datasets/fashion-mnist"
                overrides+=("data.dir=$(cd -- "$2" && pwd)")
                ;;
            --json | --markdown | --svg)
                [ -d "$(dirname -- "$2")" ] ||
                    usage_error "experiment: $1 $2: there is no folder '$(dirname -- "$2")'"
                [ "$1" != --json ] || json=$2
                [ "$1" = --json ] || planned=$1
                [ "$1" != --svg ] || groups+=(picture)
                table+=("$1" "$2")
                ;;
            --curves)
                [ -d "$(dirname -- "$2")" ] ||
                    usage_error "experiment: $1 $2: there is no folder '$(dirname -- "$2")'"
                [[ $2 == *.svg || $2 == *.png ]] ||
                    usage_error "experiment: $1 $2: write OUT.svg or OUT.png"
                curves=$2 groups+=(picture)
                table+=("$1" "$2")
                ;;
            --baseline) fleet+=(--baseline "$2") single=$1 baseline=$2 ;;
            --only) planned=$1 table+=("$1" "$2") ;;
            --jobs)
                [[ $2 =~ ^[1-9][0-9]{0,3}$ ]] ||
                    usage_error "experiment: --jobs $2: use a number of simultaneous runs from 1"
                planned=$1 jobs=$2
                ;;
            --set)
                [[ ${2%%=*} == *.* ]] || refuse_without_section "$2"
                overrides+=("$2")
                [[ $2 != experiment.* ]] || planned="--set $2"
                ;;
            --keep) keep=$2 ;;
            esac
            shift 2
            ;;
        -*) usage_error "experiment: unknown option '$1'; ./tern experiment --help" ;;
        *)
            [ -z "$config" ] || usage_error "experiment: '$1' is a second CONFIG.ini; give one"
            config=$1
            shift
            ;;
        esac
    done
    [ -n "$config" ] || usage_error "experiment: give a CONFIG.ini, for example of configs/experiments"
    [ -f "$config" ] || usage_error "experiment: there is no file '$config'"
    # Whether the file plans several runs, and whether lab/deep/run.py makes them with PyTorch.
    local kind
    for override in "${overrides[@]}"; do
        table+=(--set "$override")
        sets+=(--set "$override")
    done
    kind=$("$PYTHON" -B "$TERN_ROOT/lab/compare.py" kind "$config" "${sets[@]}") || exit 2
    [[ $kind != *secure ]] || programs+=(tern-helper)
    if [[ $kind == planned* ]]; then
        [ -z "$single" ] ||
            usage_error "experiment: $config plans several runs, and $single works with a single run"
        if [[ $kind == *deep* ]]; then
            groups+=(torch)
            programs+=(tern-client)
        fi
        verb_setup "${groups[@]}"
        build_variant release "${programs[@]}"
        local results=${keep:-$TERN_BUILD/experiments/$(basename "$config" .ini)}
        mkdir -p -- "$results"
        # In the place of this script, so that signals reach what has to stop the runs.
        exec "$PYTHON" -B "$TERN_ROOT/lab/compare.py" run "$config" "$results" \
            --tern "$TERN_ROOT/tern" --programs "$TERN_BUILD/bin" --jobs "${jobs:-$(cores)}" \
            "${table[@]}"
    fi
    [ -z "$planned" ] ||
        usage_error "experiment: $planned needs a section [experiment], which $config does not have"
    check_places "$json" "$keep"
    if [[ $kind == *deep* ]]; then
        [ -z "$curves$baseline$keep" ] ||
            usage_error "experiment: a single deep run has no --curves, --baseline or --keep; a plan has curves"
        run_deep "$config" "$json" "${overrides[@]}"
    fi
    verb_setup "${groups[@]}"
    build_variant release "${programs[@]}"
    if [[ $kind == *secure ]]; then
        [ -z "$baseline" ] || usage_error "experiment: --baseline works with plain rounds; use --compare afterwards"
        begin_experiment "$keep"
        run_demo private "$config" overrides "$EXPERIMENT_DIR/results.json" run
        cat "$EXPERIMENT_DIR/run/saw.txt"
        mv -- "$EXPERIMENT_DIR/results.json" "$EXPERIMENT_DIR/run/results.json"
    else
        check_settings "$config" "$baseline" "${overrides[@]}"
        begin_experiment "$keep"
        [ -n "${TERN_PLANNED:-}" ] || fleet+=(--pooled)
        run_federation run "$config" overrides "" "${fleet[@]}"
    fi
    if [ -n "$json" ]; then
        take_results "$EXPERIMENT_DIR/run/results.json" "$json"
    else
        json=$EXPERIMENT_DIR/run/results.json
    fi
    if [ -n "$baseline" ]; then
        "$PYTHON" -B "$TERN_ROOT/lab/compare.py" differ "$json" "$baseline"
    fi
    if [ -n "$curves" ]; then
        "$PYTHON" -B "$TERN_ROOT/lab/compare.py" curves "$curves" "$json" ${baseline:+"$baseline"}
    fi
}

# Two finished runs: what they are and what differs between them.
compare_runs() { # RUN.json OTHER.json
    local file
    for file in "$@"; do
        [ -f "$file" ] || usage_error "experiment: there is no file '$file'"
    done
    verb_setup build
    build_variant release tern-fleet
    "$TERN_BUILD/bin/tern-fleet" compare "$@" || exit 1
    "$PYTHON" -B "$TERN_ROOT/lab/compare.py" differ "$@"
}

help_demo() {
    cat <<'END'
usage: ./tern demo
       ./tern demo failover [--clients N] [--keep DIR]
       ./tern demo private [--clients N] [--keep DIR]

Installs what is missing, builds, and runs a whole federation on this machine over real HTTPS with
a real database: 10 clients, 20 rounds, on drawn digits that are generated on the spot; once with
Tern's defaults (column Tern of the table), once uncompressed (float32). Ends with a table of accuracy and of
bytes per client and round, and with the first commands for your own data. About a minute; leaves nothing
running; Ctrl-C cleans up. The federation: configs/experiments/demo.ini

failover: 200 clients and an aggregator with two standbys on one database of PostgreSQL, behind nginx, which keeps
downloads. In rounds 3 and 9 the aggregator that leads is killed, in round 6 PostgreSQL; each in the next round if
that one was over too soon. The model must be, to the bit, that of one undisturbed aggregator on SQLite. Exit code 0
reports this, and that no acknowledged update is lost. One to two minutes. Where this machine has no PostgreSQL or
nginx, those of Debian are unpacked into the build folder.
The federation: configs/experiments/failover.ini

private: 60 clients in secure rounds, an aggregator and a helper (tern-helper). Ends with the accuracy and bytes beside those
of Tern's defaults and of float32, and with what each party saw. Exit code 0 reports that in each round the sum which the
aggregator computed from masked updates is, to the bit, the sum of the same updates without masks, which the clients'
program adds for this check. One to two minutes. The federation: configs/experiments/private.ini

  --clients N          another number of clients than 200 or 60; fewer than 50 lower min_clients of all parties
  --keep DIR           keeps state, certificates and logs in DIR
END
}

verb_demo() {
    if [ "${1:-}" = failover ]; then
        shift
        demo_failover "$@"
        return
    elif [ "${1:-}" = private ]; then
        shift
        demo_private "$@"
        return
    fi
    [ $# -eq 0 ] || usage_error "demo: unknown option '$1'; ./tern experiment has options"
    # shellcheck disable=SC2034
    local config=$TERN_ROOT/configs/experiments/demo.ini compressed=() plain=(codec.codec=float32)
    verb_setup build
    build_variant release tern-aggregator tern-fleet
    begin_experiment
    say "federation 1 of 2: Tern's defaults"
    run_federation tern "$config" compressed "$EXPERIMENT_DIR/Tern.json" --no-table
    say "federation 2 of 2: uncompressed float32, for comparison"
    run_federation float32 "$config" plain "$EXPERIMENT_DIR/float32.json" --no-table
    # The names of the files are the headings of the columns.
    "$TERN_BUILD/bin/tern-fleet" compare "$EXPERIMENT_DIR/Tern.json" "$EXPERIMENT_DIR/float32.json"
    cat <<'END'

Next: your own data. From a table with a header and a column to predict, here "state" of pumps.csv:
  ./tern build && export PATH=$PWD/build/bin:$PATH
  tern-aggregator init --data pumps.csv --label state
init proposes a model, writes the settings, and prints the commands that lead to the first rounds.
docs/GUIDE.md leads from there to a trained model.
END
}

# Reads the options of a demo with programs of its own: sets KEEP, and OF, the overrides for another number of clients.
take_demo_options() { # NAME OPTION...
    local name=$1
    shift
    KEEP='' OF=()
    while [ $# -gt 0 ]; do
        case $1 in
        --clients | --keep) [ $# -ge 2 ] || usage_error "demo $name: $1 needs a value" ;;
        *) usage_error "demo $name: unknown option '$1'; ./tern demo --help" ;;
        esac
        if [ "$1" = --keep ]; then
            [ ! -e "$2/$name" ] || usage_error "demo $name: --keep $2: the folder already has a run; name another folder"
            KEEP=$2
        else
            [[ $2 =~ ^[1-9][0-9]{0,3}$ ]] || usage_error "demo $name: --clients takes a number from 1 to 9999"
            OF=("fleet.clients=$2" "round.cohort=$2" "round.quorum=$2" "round.min_clients=$2")
        fi
        shift 2
    done
}

demo_private() {
    local config=$TERN_ROOT/configs/experiments/private.ini plain
    take_demo_options private "$@"
    # shellcheck disable=SC2034
    plain=("${OF[@]}" codec.codec=float32)
    verb_setup build
    build_variant release tern-aggregator tern-fleet tern-helper
    begin_experiment "$KEEP"
    say "federation 1 of 3: secure rounds"
    run_demo private "$config" OF "$EXPERIMENT_DIR/secure.json"
    say "federation 2 of 3: plain rounds with Tern's defaults"
    run_federation tern "$config" OF "$EXPERIMENT_DIR/Tern.json" --no-table
    say "federation 3 of 3: uncompressed float32"
    run_federation float32 "$config" plain "$EXPERIMENT_DIR/float32.json" --no-table
    "$TERN_BUILD/bin/tern-fleet" compare "$EXPERIMENT_DIR/secure.json" "$EXPERIMENT_DIR/Tern.json"
    "$TERN_BUILD/bin/tern-fleet" compare "$EXPERIMENT_DIR/secure.json" "$EXPERIMENT_DIR/float32.json"
    cat "$EXPERIMENT_DIR/private/saw.txt"
}

demo_failover() {
    local config=$TERN_ROOT/configs/experiments/failover.ini plain
    take_demo_options failover "$@"
    # shellcheck disable=SC2034
    plain=("${OF[@]}" codec.codec=float32)
    verb_setup build
    unpack_neighbours nginx postgresql
    build_variant release tern-aggregator tern-fleet
    begin_experiment "$KEEP"
    say "federation 1 of 3: one aggregator on SQLite"
    run_federation alone "$config" OF "$EXPERIMENT_DIR/alone.json" --no-table
    say "federation 2 of 3: the same with standbys on PostgreSQL, behind nginx, while leaders are killed"
    chmod 711 "$EXPERIMENT_DIR" # PostgreSQL does not run as root, and its files are below this folder
    run_demo failover "$config" OF "$EXPERIMENT_DIR/failover.json"
    say "federation 3 of 3: uncompressed float32, for comparison"
    run_federation float32 "$config" plain "$EXPERIMENT_DIR/float32.json" --no-table
    "$TERN_BUILD/bin/tern-fleet" compare "$EXPERIMENT_DIR/failover.json" "$EXPERIMENT_DIR/float32.json"
    compare_models "an aggregator with standbys, with failures" "$EXPERIMENT_DIR/failover/global.f32" \
        "one aggregator, without" "$EXPERIMENT_DIR/alone/global.f32"
}

# Runs one federation from start to end by lab/NAME/demo.py.
run_demo() { # NAME CONFIG OVERRIDES_ARRAY_NAME RESULTS_FILE [FOLDER]
    local dir=$EXPERIMENT_DIR/${5:-$1} config=$2 results=$4 options=() override status=0 running
    local -n demo_overrides_=$3
    make_certificates "$dir"
    for override in "${demo_overrides_[@]}"; do
        options+=(--set "$override")
    done
    TERN_BUILD_DIR=$TERN_BUILD "$PYTHON" -B "$TERN_ROOT/lab/$1/demo.py" "$config" "$dir" "$results" \
        --programs "$TERN_BUILD/bin" "${options[@]}" &
    running=$!
    EXPERIMENT_PIDS+=("$running")
    wait "$running" || status=$?
    EXPERIMENT_PIDS=()
    [ "$status" -eq 0 ] || exit "$status"
    describe_run "$results" "$config" "${demo_overrides_[@]}"
}

# Whether two federations ended with the same weights, to the bit.
compare_models() { # WHAT MODEL.f32 OTHER_WHAT OTHER.f32
    local one other
    one=$(sha256sum <"$2" | cut -d ' ' -f 1)
    other=$(sha256sum <"$4" | cut -d ' ' -f 1)
    printf '\n%s  %s\n%s  %s\n' "$one" "$1" "$other" "$3"
    [ -n "$one" ] && [ "$one" = "$other" ] || fail "the two federations ended with different models; both must end with the same model"
    echo "one and the same model, to the bit"
}
