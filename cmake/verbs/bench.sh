# Measures; prints tables and writes JSON into build/bench.

help_bench() {
    cat <<'END'
usage: ./tern bench [--json FILE] [--beside BUILD] [--participation PERCENT]
                    [codec|protocol|participation|load|crowd|rounds|large|link|size|replicas|updates|papers|
                     qsvrg|lgc|gateways|deep|suite]...

Measures on this machine, prints a table and writes build/bench/NAME.json. Nothing here passes or
fails; docs/BENCHMARKS.md says how each figure comes about and what was reached.

  codec      speed of the codecs against memcpy, bits per value
  protocol   bytes of a warm round beyond its bodies, of a full and of a resumed TLS handshake
  participation  bytes beside the tensors of 50 clients of which a round asks 10, by what they were for,
             and bytes that a device moves on a day on which no round needs it
  load       durable updates per second, CPU time of a client's round, CPU time of a round's commit and
             how long others wait meanwhile, memory per idle connection; CPU time of status and reports
             behind a million updates. CPU time where all clients take part in every round, and where
             --participation PERCENT (20) of them do: the others miss rounds, and catch up by downloads of
             their own
  crowd      what requests of BENCH_CONNECTED (2,000) connected clients of BENCH_ENROLLED (10,000) wait for, by
             percentiles, for BENCH_SECONDS (30) each in a closed loop and in an open one of BENCH_RATE (1,000)
             requests a second; only when asked for
  rounds     one kind of round, as the load's are: BENCH_COHORT (100) clients that send about BENCH_BYTES
             (7000) each, of BENCH_MODEL (mlp:784-128-10) by BENCH_CODEC (what init proposes for updates of
             that model), BENCH_ROUNDS (5) times over, which do BENCH_STEPS (1, at most 20) different numbers of
             local steps, with --participation PERCENT (100) of the clients in each round; only when asked for
  large      a model of BENCH_VALUES values (1,000,000), BENCH_LARGE_CLIENTS (20) clients, BENCH_ROUNDS (4)
             rounds of one local step, updates and downloads by BENCH_CODEC (those of the model's size when
             not set): processor time, memory and bytes on disk of the aggregator; only when asked for
  link       a model of 50 million values, most of them frozen, over links of 2 Mbit/s up and 10 down, 300 ms each
             way, 2 % loss and a cut every minute: bytes sent over bytes needed, memory of the clients,
             conservation; takes eight minutes and root; only when asked for
  size       stripped programs, peak memory of a client
  replicas   bytes in the store and time per check-in of clients' own replicas
  updates    bits per value of the updates of configs/experiments/fashion-3lc.ini, by ternary coder;
             needs TERN_DATA_DIR, the folder of Fashion-MNIST, and runs only when asked for
  papers     what four papers claim of their schemes beside the same quantities here, as a table in markdown; by
             configs/experiments/papers.ini, and by qsvrg where that has not run; needs TERN_DATA_DIR, takes ten
             minutes and those of qsvrg, and runs only when asked for; the row on LGC is of build/bench/lgc.json, which
             `./tern bench lgc` makes: run that first, or the row says so
  qsvrg      QSVRG beside QSGD on strongly convex tasks whose optimum is known: how far from it each of BENCH_EPOCHS
             (12) epochs ends, and bits, beside what the theorem promises; a table in markdown, and a picture,
             build/bench/qsvrg.svg; BENCH_TABLES (even uneven classes); takes a quarter of an hour, only when asked for
  lgc        learned gradient compression beside Tern's codecs, on a small CNN and on a model of 5.3 million values
             (BENCH_TASKS, "cnn large"); needs TERN_DATA_DIR likewise, takes half an hour, only when asked for
  gateways   bytes on the metered link of 5 sites with 10 devices each, directly and behind gateways, over
             BENCH_ROUNDS (60) rounds, and accuracies; needs TERN_DATA_DIR likewise, only when asked for
  deep       deep models in short federations, float32 beside the defaults: the plan configs/experiments/deep.ini; needs
             TERN_DATA_DIR likewise and PyTorch, only when asked for
  suite      all tasks that decide the defaults: the plans suite.ini, middle.ini, pilots.ini and deep.ini, into one file;
             needs TERN_DATA_DIR likewise and PyTorch, only when asked for. Of deep and suite: BENCH_DAILY=1 takes the cells of
             a quarter of an hour, with one seed; BENCH_RUN='LABEL | section.key=value' tries a candidate, too. Results are
             kept as those of `./tern experiment` are

--json FILE writes the figures of all these parts into one file, too.

--beside BUILD (load, rounds): times the aggregator of another build folder, which must speak the same protocol,
in turns with this one's, BENCH_TURNS (3) of each, by the same clients. Figures are medians, those of the other
build are called beside_NAME, and NAME_over_beside is the median of the quotients of one turn, which tells
more than times do where others work on the machine. Of the load only rounds are measured then.
END
}

verb_bench() {
    local parts=() files=() part json=""
    while [ $# -gt 0 ]; do
        case $1 in
        --json)
            [ $# -ge 2 ] || usage_error "bench: --json needs a FILE"
            json=$2
            shift
            ;;
        --beside)
            [ $# -ge 2 ] || usage_error "bench: --beside needs the build folder of another version"
            BENCH_BESIDE=$2
            shift
            ;;
        --participation)
            [[ ${2:-} =~ ^([1-9][0-9]?|100)$ ]] ||
                usage_error "bench: --participation needs the percentage of clients in a round, 1 to 100," \
                    "not '${2:-}'"
            BENCH_PARTICIPATION=$2
            shift
            ;;
        *) parts+=("$1") ;;
        esac
        shift
    done
    [ ${#parts[@]} -gt 0 ] || parts=(codec protocol participation load size replicas)
    for part in "${parts[@]}"; do
        declare -F "bench_$part" >/dev/null || usage_error "bench: there is no part '$part'"
    done
    check_beside "${parts[@]}"
    verb_setup build
    build_variant release tern-programs tern-benches
    mkdir -p "$TERN_BUILD/bench"
    for part in "${parts[@]}"; do
        say "bench: $part"
        files+=("$TERN_BUILD/bench/$part.json")
        "bench_$part" "${files[-1]}"
    done
    [ -z "$json" ] || join_numbers "${files[@]}" >"$json"
}

# Build folder of the other version, timed in turns with this one; empty = none.
BENCH_BESIDE=
BENCH_PARTICIPATION=${BENCH_PARTICIPATION:-}
BENCH_TURNS=${BENCH_TURNS:-3}

check_beside() { # PART...
    local part
    [ -n "$BENCH_BESIDE" ] || return 0
    for part in "$@"; do
        [[ $part =~ ^(load|rounds)$ ]] || usage_error "bench: $part cannot be compared with another build; --beside works with load and rounds"
    done
    [ -x "$BENCH_BESIDE/bin/tern-aggregator" ] ||
        usage_error "bench: --beside $BENCH_BESIDE is not a build folder: bin/tern-aggregator is missing there"
    [[ $BENCH_TURNS =~ ^[1-9][0-9]*$ ]] || usage_error "bench: BENCH_TURNS=$BENCH_TURNS: use a whole number from 1"
    BENCH_BESIDE=$(cd -- "$BENCH_BESIDE" && pwd)
}

# Prints the numbers of a flat JSON file, one "name  value" per line.
print_numbers() { # FILE
    "$PYTHON" - "$1" <<'END'
import json, sys
for key, value in json.load(open(sys.argv[1])).items():
    print(f"  {key:<34} {value:>14,}" if isinstance(value, (int, float)) else f"  {key:<34} {value:>14}")
END
}

# Merges several flat JSON objects.
join_numbers() { # FILE...
    "$PYTHON" -c 'import json, sys
print(json.dumps({k: v for f in sys.argv[1:] for k, v in json.load(open(f)).items()}, indent=1))' "$@"
}

# Runs an aggregator for one measurement; sets BENCH_CODE and AGGREGATOR_PORT, AGGREGATOR_PID.
start_bench_aggregator() { # NAME OVERRIDE...
    local dir=$EXPERIMENT_DIR/$1
    shift
    make_certificates "$dir"
    start_aggregator "$dir" "$TERN_ROOT/configs/experiments/bench.ini" "$@"
    BENCH_DIR=$dir
    BENCH_CODE=$(enroll_code "$dir") || exit 1
}

# Further options of tern-bench codec, such as --quick.
BENCH_CODEC_OPTIONS=${BENCH_CODEC_OPTIONS:-}

bench_codec() { # OUT
    # shellcheck disable=SC2086
    "$TERN_BUILD/bench-bin/tern-bench" codec --save "$1" $BENCH_CODEC_OPTIONS || fail "tern-bench failed"
}

bench_replicas() { # OUT
    "$TERN_BUILD/bench-bin/bench-replicas" >"$1" || fail "bench-replicas failed"
    print_numbers "$1"
}

# Segments of mlp:784-128-10: the two weight matrices, and the biases fused.
BENCH_SEGMENTS=100352,1280,138

need_fashion() { # PART
    [ -d "${TERN_DATA_DIR:-}" ] || fail "bench $1: set TERN_DATA_DIR to the folder of Fashion-MNIST"
}

bench_updates() { # OUT
    need_fashion updates
    begin_experiment
    # shellcheck disable=SC2034
    local overrides=("data.dir=$TERN_DATA_DIR" codec.codec=3lc:s=1)
    run_federation updates "$TERN_ROOT/configs/experiments/fashion-3lc.ini" overrides "" --no-table \
        >"$EXPERIMENT_DIR/updates.log"
    "$PYTHON" -B "$TERN_ROOT/lab/bench/real_updates.py" "$TERN_BUILD/bin/tern-codec" \
        "$EXPERIMENT_DIR/updates/state/tern.db" --counts "$BENCH_SEGMENTS" --json "$1"
    clean_experiment
}

bench_papers() { # OUT
    local runs=$TERN_BUILD/bench/papers-runs.json rate=0.1 convex=$TERN_BUILD/bench/qsvrg.json
    local lgc=$TERN_BUILD/bench/lgc.json
    [ -e "$lgc" ] || lgc=
    need_fashion papers
    [ -e "$convex" ] || bench_qsvrg "$convex"
    TERN_SKIP_BUILD=1 "$TERN_ROOT/tern" experiment "$TERN_ROOT/configs/experiments/papers.ini" \
        --data-dir "$TERN_DATA_DIR" --json "$runs"
    begin_experiment
    # shellcheck disable=SC2034
    local overrides=("data.dir=$TERN_DATA_DIR" data.partition=iid codec.codec=float32 round.strategy=fedavg
        fleet.clients=10 round.min_clients=10 round.rounds=100 train.local_steps=1 train.batch_size=16
        train.learning_rate=$rate train.momentum=0 train.weight_decay=0)
    run_federation papers "$TERN_ROOT/configs/experiments/fashion-3lc.ini" overrides "" --no-table \
        >"$EXPERIMENT_DIR/papers.log"
    "$PYTHON" -B "$TERN_ROOT/lab/bench/papers.py" "$TERN_BUILD/bin/tern-codec" \
        "$EXPERIMENT_DIR/papers/state/tern.db" "$runs" "$convex" --count "${BENCH_SEGMENTS%%,*}" --rate "$rate" \
        ${lgc:+--lgc "$lgc"} --json "$1"
    clean_experiment
}

# Each table's two federations have the same tables, examples, steps and step size.
bench_qsvrg() { # OUT
    local table strategy epochs=${BENCH_EPOCHS:-12} made=$TERN_BUILD/bench/qsvrg settings qsvrg_overrides
    verb_setup picture
    mkdir -p "$made"
    rm -f -- "$made"/*.json
    begin_experiment
    for table in ${BENCH_TABLES:-even uneven classes}; do
        for strategy in qsvrg fedavg; do
            settings=$("$PYTHON" -B "$TERN_ROOT/lab/bench/qsvrg.py" plan "$EXPERIMENT_DIR" "$table" "$strategy" \
                "$epochs") || fail "lab/bench/qsvrg.py could not write the table '$table'"
            # shellcheck disable=SC2034
            mapfile -t qsvrg_overrides <<<"$settings"
            run_federation "$table-$strategy" "$TERN_ROOT/configs/experiments/qsvrg.ini" qsvrg_overrides "" \
                --no-table >"$EXPERIMENT_DIR/qsvrg.log"
            "$PYTHON" -B "$TERN_ROOT/lab/bench/qsvrg.py" read "$made" "$table" "$strategy" "$epochs" \
                "$EXPERIMENT_DIR/$table-$strategy/state/tern.db" \
                "$TERN_BUILD/bin/tern-aggregator" "${AGGREGATOR_OPTIONS[@]}" || fail "lab/bench/qsvrg.py could not read the run's results"
        done
    done
    "$PYTHON" -B "$TERN_ROOT/lab/bench/qsvrg.py" report "$made" --json "$1" \
        --svg "$TERN_BUILD/bench/qsvrg.svg"
    clean_experiment
}

bench_lgc() { # OUT
    local tasks=() task
    need_fashion lgc
    for task in ${BENCH_TASKS:-cnn large}; do
        tasks+=(--task "$task")
    done
    "$PYTHON" -B "$TERN_ROOT/lab/bench/lgc.py" "$TERN_BUILD/bench-bin/bench-lgc" \
        "idx:$TERN_DATA_DIR,mean=0.286,std=0.353" "${tasks[@]}" --json "$1" || fail "bench-lgc could not measure a scheme"
}

# A plan of configs/experiments, with its results in build/experiments.
bench_plan() { # NAME OUT
    local options=()
    [ -z "${BENCH_DAILY:-}" ] || options+=(--only tag=daily --set experiment.seeds=1)
    [ -z "${BENCH_RUN:-}" ] || options+=(--set "experiment.run=$BENCH_RUN")
    TERN_SKIP_BUILD=1 "$TERN_ROOT/tern" experiment "$TERN_ROOT/configs/experiments/$1.ini" \
        --data-dir "$TERN_DATA_DIR" --json "$2" "${options[@]}" || fail "a run of $1.ini failed"
}

bench_deep() { # OUT
    need_fashion deep
    bench_plan deep "$1"
}

bench_suite() { # OUT
    local plan files=()
    need_fashion suite
    for plan in suite middle pilots deep; do
        files+=("${1%.json}-$plan.json")
        bench_plan "$plan" "${files[-1]}"
    done
    "$PYTHON" -c 'import json, sys
print(json.dumps({name: json.load(open(name_of)) for name, name_of in zip(sys.argv[1::2], sys.argv[2::2])}, indent=1))' \
        suite "${files[0]}" middle "${files[1]}" pilots "${files[2]}" deep "${files[3]}" >"$1"
}

bench_protocol() { # OUT
    begin_experiment
    start_bench_aggregator protocol
    "$TERN_BUILD/bench-bin/bench-protocol" "https://127.0.0.1:$AGGREGATOR_PORT" \
        "$BENCH_DIR/ca.pem" "$BENCH_CODE" >"$1" || fail "bench-protocol failed"
    clean_experiment
    print_numbers "$1"
}

bench_gateways() { # OUT
    [ -n "${TERN_DATA_DIR:-}" ] || usage_error "bench: gateways needs TERN_DATA_DIR, the folder of Fashion-MNIST"
    begin_experiment
    "$PYTHON" -B "$TERN_ROOT/lab/bench/gateways.py" "$TERN_BUILD" "$TERN_DATA_DIR" "$EXPERIMENT_DIR/gateways" \
        "${BENCH_ROUNDS:-60}" >"$1" || fail "lab/bench/gateways.py could not measure the sites"
    clean_experiment
    print_numbers "$1"
}

bench_participation() { # OUT
    begin_experiment
    # shellcheck disable=SC2034
    local overrides=()
    run_federation participation "$TERN_ROOT/configs/experiments/participation.ini" overrides "" --no-table \
        >"$EXPERIMENT_DIR/participation.log"
    "$PYTHON" -B "$TERN_ROOT/lab/bench/participation.py" "$EXPERIMENT_DIR/participation/state/tern.db" \
        >"$EXPERIMENT_DIR/participation.json" || fail "lab/bench/participation.py could not read the meter"
    start_bench_aggregator idle-day round.min_clients=2
    "$PYTHON" -B "$TERN_ROOT/lab/bench/idle.py" "$TERN_BUILD" "$TERN_ROOT/configs/aggregator.example.ini" \
        "https://127.0.0.1:$AGGREGATOR_PORT" "$BENCH_DIR/ca.pem" "$BENCH_CODE" "$BENCH_DIR/client" \
        >"$EXPERIMENT_DIR/idle-day.json" || fail "an idle device's check-ins could not be measured"
    join_numbers "$EXPERIMENT_DIR/participation.json" "$EXPERIMENT_DIR/idle-day.json" >"$1"
    clean_experiment
    print_numbers "$1"
}

# Clients of the load test, each of which sends one update of about 10 KB.
BENCH_CLIENTS=${BENCH_CLIENTS:-20000}
BENCH_CONNECTIONS=${BENCH_CONNECTIONS:-64}
BENCH_IDLE=${BENCH_IDLE:-2000}
# Updates of the federation whose reports are timed.
BENCH_HISTORY=${BENCH_HISTORY:-1000000}

BENCH_LOAD_MODEL=mlp:784-128-10
# The codec of updates that `tern-aggregator init` proposes for it.
BENCH_DEFAULT_CODEC=3lc:s=1,clip=4.5,coder=range

# Times rounds of CLIENTS updates of about BYTES each, with the aggregator of a build folder. PARTICIPATION: percent of the
# enrolled clients that each round asks.
time_rounds() { # BUILD NAME CLIENTS ROUNDS BYTES CODEC MODEL STEPS PARTICIPATION
    local build=$1 name=$2 clients=$3 rounds=$4 bytes=$5 codec=$6 model=$7 steps=$8 cohort=$(($3 + 1))
    local enrolled=$(((cohort * 100 + $9 - 1) / $9))
    TERN_BUILD=$build start_bench_aggregator "$name" "round.cohort=$cohort" "round.min_clients=$enrolled" \
        "round.rounds=$rounds" "codec.codec=$codec" "federation.model=$model" \
        limits.enrollments_per_minute=0 limits.connections_per_address=10000
    "$TERN_BUILD/bench-bin/bench-load" 127.0.0.1 "$AGGREGATOR_PORT" "$BENCH_DIR/ca.pem" \
        "$BENCH_CODE" "$model" 1 "$clients" "$BENCH_CONNECTIONS" "$bytes" "$codec" "$rounds" \
        "$AGGREGATOR_PID" "$steps" "$enrolled" >"$EXPERIMENT_DIR/$name.json" || fail "bench-load failed"
    stop_programs
    rm -rf -- "$BENCH_DIR"
}

# Times such rounds, in turns with the build of --beside if there is one; the first one alternates. Adds their figures
# to rounds.json under other names.
measure_rounds() { # CLIENTS ROUNDS BYTES CODEC MODEL STEPS PARTICIPATION NAME=FIGURE...
    local shape=("${@:1:7}") name=rounds-$1-$3-${4//[^a-z0-9]/-}-$7 turns=1 turn build
    shift 7
    [ -z "$BENCH_BESIDE" ] || turns=$BENCH_TURNS
    local builds=(this)
    [ -z "$BENCH_BESIDE" ] || builds=(beside this)
    for ((turn = 1; turn <= turns; turn++)); do
        for build in "${builds[@]}"; do
            if [ "$build" = this ]; then
                time_rounds "$TERN_BUILD" "$name-this-$turn" "${shape[@]}"
            else
                time_rounds "$BENCH_BESIDE" "$name-beside-$turn" "${shape[@]}"
            fi
        done
        [ -z "$BENCH_BESIDE" ] || builds=("${builds[1]}" "${builds[0]}")
    done
    "$PYTHON" -B "$TERN_ROOT/lab/bench/in_turns.py" "$EXPERIMENT_DIR/$name" "$turns" \
        "${BENCH_BESIDE:+1}" "$@" >"$EXPERIMENT_DIR/measured.json" || fail "the figures could not be read"
    [ -e "$EXPERIMENT_DIR/rounds.json" ] || echo '{}' >"$EXPERIMENT_DIR/rounds.json"
    join_numbers "$EXPERIMENT_DIR"/{rounds,measured}.json >"$EXPERIMENT_DIR/joined.json"
    mv "$EXPERIMENT_DIR/joined.json" "$EXPERIMENT_DIR/rounds.json"
}

bench_rounds() { # OUT
    local same figures=()
    for same in clients update_bytes accepted refused updates_per_second cpu_ms commit_cpu_seconds \
        commit_wait_ms round_commit_seconds written_per_byte peak_mib; do
        figures+=("rounds_$same=$same")
    done
    begin_experiment
    measure_rounds "${BENCH_COHORT:-100}" "${BENCH_ROUNDS:-5}" "${BENCH_BYTES:-7000}" \
        "${BENCH_CODEC:-$BENCH_DEFAULT_CODEC}" "${BENCH_MODEL:-$BENCH_LOAD_MODEL}" "${BENCH_STEPS:-1}" \
        "${BENCH_PARTICIPATION:-100}" "${figures[@]}"
    cp "$EXPERIMENT_DIR/rounds.json" "$1"
    clean_experiment
    print_numbers "$1"
}

# Times the rounds of the load, into rounds.json.
measure_load() {
    local same figures=() shape=("$BENCH_DEFAULT_CODEC" "$BENCH_LOAD_MODEL" 1 100)
    local share=${BENCH_PARTICIPATION:-20}
    for same in clients connections update_bytes accepted refused upload_seconds updates_per_second \
        round_commit_seconds enrollments_per_second checkins_per_second; do
        figures+=("$same=$same")
    done
    measure_rounds "$BENCH_CLIENTS" 1 10000 3lc:s=1 "$BENCH_LOAD_MODEL" 1 100 "${figures[@]}"
    measure_rounds "$BENCH_CLIENTS" 1 10000 "${shape[@]}" default_updates_per_second=updates_per_second \
        "default_${BENCH_CLIENTS}_commit_cpu_seconds=commit_cpu_seconds" \
        "default_${BENCH_CLIENTS}_commit_wait_ms=commit_wait_ms"
    measure_rounds 1000 3 10000 "${shape[@]}" default_1000_commit_cpu_seconds=commit_cpu_seconds \
        default_1000_commit_wait_ms=commit_wait_ms
    measure_rounds 100 20 1000 "${shape[@]}" default_cpu_ms_small=cpu_ms
    measure_rounds 100 20 7000 "${shape[@]}" default_cpu_ms=cpu_ms
    measure_rounds 100 5 0 float32 "$BENCH_LOAD_MODEL" 1 100 float32_cpu_ms=cpu_ms float32_peak_mib=peak_mib
    measure_rounds 100 20 7000 "${shape[@]:0:3}" "$share" "default_cpu_ms_of_$share=cpu_ms" \
        "default_peak_mib_of_$share=peak_mib"
    measure_rounds 100 5 0 float32 "$BENCH_LOAD_MODEL" 1 "$share" "float32_cpu_ms_of_$share=cpu_ms"
}

# Measures the costs of idle connections and of a long history.
measure_standing() {
    start_bench_aggregator idle limits.connections_per_address=10000
    "$TERN_BUILD/bench-bin/bench-idle" 127.0.0.1 "$AGGREGATOR_PORT" "$BENCH_DIR/ca.pem" \
        "$AGGREGATOR_PID" "$BENCH_IDLE" >"$EXPERIMENT_DIR/idle.json" || fail "bench-idle failed"
    mkdir -p "$EXPERIMENT_DIR/state"
    "$TERN_BUILD/bench-bin/bench-history" "$EXPERIMENT_DIR/state/tern.db" "$BENCH_HISTORY" \
        >"$EXPERIMENT_DIR/history.json" || fail "bench-history failed"
    "$PYTHON" -B "$TERN_ROOT/lab/bench/report_times.py" "$TERN_BUILD/bin/tern-aggregator" "$EXPERIMENT_DIR/state" \
        >"$EXPERIMENT_DIR/reports.json" || fail "status or report failed"
}

bench_load() { # OUT
    local files=(rounds.json)
    begin_experiment
    measure_load
    if [ -z "$BENCH_BESIDE" ]; then
        measure_standing
        files+=(idle.json history.json reports.json)
    fi
    join_numbers "${files[@]/#/$EXPERIMENT_DIR/}" >"$1"
    clean_experiment
    print_numbers "$1"
}

# Threads of the crowd, each with the same number of clients.
BENCH_CROWD_THREADS=50

# rate: requests a second; 0 = a closed loop. Figures are named LOOP_...
crowd_of() { # LOOP RATE CONNECTED
    local loop=$1 rate=$2 connected=$3
    start_bench_aggregator "crowd-$loop" federation.model=softmax:64-10 "round.cohort=$((connected / 4))" \
        round.over_selection=0.2 round.min_clients=2 round.rounds=0 round.min_interval=0ms round.deadline=10s \
        round.eligible_within=5s limits.enrollments_per_minute=0 \
        limits.connections_per_address="$((connected + 100))" \
        limits.connections="$((connected + 100))"
    "$TERN_BUILD/bench-bin/bench-crowd" 127.0.0.1 "$AGGREGATOR_PORT" "$BENCH_DIR/ca.pem" "$BENCH_CODE" \
        enrolled="${BENCH_ENROLLED:-10000}" connected="$connected" workers="$BENCH_CROWD_THREADS" \
        ms="$((${BENCH_SECONDS:-30} * 1000))" rate="$rate" >"$EXPERIMENT_DIR/said" || fail "bench-crowd failed"
    stop_programs
    "$PYTHON" -c 'import json, sys
said = sys.stdin.read().partition("connected\n")[2]
print(json.dumps({f"{sys.argv[1]}_{key}": value for key, value in json.loads(said).items()}, indent=1))' \
        "$loop" <"$EXPERIMENT_DIR/said" >"$EXPERIMENT_DIR/$loop.json" || fail "the figures could not be read"
}

bench_crowd() { # OUT
    local connected=${BENCH_CONNECTED:-2000}
    [ "$((connected % BENCH_CROWD_THREADS))" -eq 0 ] ||
        fail "bench crowd: BENCH_CONNECTED must be a multiple of $BENCH_CROWD_THREADS"
    begin_experiment
    crowd_of closed 0 "$connected"
    crowd_of open "${BENCH_RATE:-1000}" "$connected"
    join_numbers "$EXPERIMENT_DIR"/{closed,open}.json >"$1"
    clean_experiment
    print_numbers "$1"
}

# Values of mlp:256-H-10, less the biases of its last layer, by units of its hidden layer.
BENCH_VALUES_OF_UNIT=267

bench_large() { # OUT
    begin_experiment
    local clients=${BENCH_LARGE_CLIENTS:-20} rounds=${BENCH_ROUNDS:-4} codec=${BENCH_CODEC:-default}
    local units=$((${BENCH_VALUES:-1000000} / BENCH_VALUES_OF_UNIT))
    start_bench_aggregator large "round.cohort=$clients" "round.min_clients=$clients" "round.rounds=$rounds" \
        train.local_steps=1 train.batch_size=1 "federation.model=mlp:256-$units-10" "codec.codec=$codec" \
        "codec.codec_down=$codec"
    "$PYTHON" -B "$TERN_ROOT/lab/bench/large_model.py" "$BENCH_DIR/state/tern.db" "$AGGREGATOR_PID" \
        "$TERN_BUILD/bin/tern-fleet" run --set "fleet.server=https://127.0.0.1:$AGGREGATOR_PORT" \
        --set "fleet.ca=$BENCH_DIR/ca.pem" --set "fleet.join_code=$BENCH_CODE" --set "fleet.clients=$clients" \
        --set fleet.workers=2 --set fleet.evaluate_every=1000000 --set fleet.measure_replicas=0 \
        --set "data.source=digits:train=$((clients * 2)),test=10,size=16,seed=1" \
        --results "$EXPERIMENT_DIR/results.json" --no-table >"$1" || fail "the rounds were not completed"
    clean_experiment
    print_numbers "$1"
}

bench_link() { # OUT
    "$PYTHON" -B "$TERN_ROOT/lab/bench/large_model_links.py" "$TERN_BUILD" --json "$1" >/dev/null ||
        fail "the federation failed, or a figure could not be measured"
    print_numbers "$1"
}

stripped_size() { # PROGRAM
    strip -o "$EXPERIMENT_DIR/stripped" "$TERN_BUILD/bin/$1"
    stat -c %s "$EXPERIMENT_DIR/stripped"
}

bench_size() { # OUT
    local program sizes=()
    begin_experiment
    for program in tern-client tern-aggregator tern-fleet; do
        sizes+=("${program//-/_}_stripped_bytes" "$(stripped_size "$program")")
    done
    start_bench_aggregator size
    "$PYTHON" "$TERN_ROOT/lab/bench/client_memory.py" "$TERN_BUILD" \
        "https://127.0.0.1:$AGGREGATOR_PORT" "$BENCH_DIR/ca.pem" "$BENCH_CODE" \
        "$BENCH_DIR/client" >"$EXPERIMENT_DIR/memory.json" || fail "lab/bench/client_memory.py could not measure the client's memory"
    "$PYTHON" -c 'import json, sys
sizes = dict(zip(sys.argv[2::2], map(int, sys.argv[3::2])))
print(json.dumps({**sizes, **json.load(open(sys.argv[1]))}, indent=1))' \
        "$EXPERIMENT_DIR/memory.json" "${sizes[@]}" >"$1"
    clean_experiment
    print_numbers "$1"
}
