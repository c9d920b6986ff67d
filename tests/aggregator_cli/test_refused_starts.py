"""What serve refuses to start with, and how it says what to do."""
import stat
import subprocess

from cli import BIN, MODEL, SOURCE, USAGE, State, main

def a_model_that_does_not_fit_the_body_limit():
    state = State()
    state.run("init", "--model", "mlp:64-32-10")  # 2,410 values: 9.6 kB of float32
    small = ["--set", "limits.body_bytes=4Ki"]
    error = state.run("serve", *small, "--set", "codec.codec=float32", code=USAGE,
                      says="limits.body_bytes").error
    assert "codec.codec = float32" in error and "mlp:64-32-10" in error, error
    needed = error.split("set it to ")[1].split()[0]
    state.run("serve", "--set", f"limits.body_bytes={int(needed) - 1}", "--set",
              "codec.codec=float32", code=USAGE, says="limits.body_bytes")
    # What is enough, and what a denser codec leaves room for, only lacks the certificate.
    ternary = small + ["--set", "codec.codec=3lc:s=1"]
    for enough in (["--set", f"limits.body_bytes={needed}", "--set", "codec.codec=float32"],
                   ternary):
        assert "body_bytes" not in state.run("serve", *enough, code=USAGE).error

def a_large_model_needs_no_setting():
    state = State()
    large = ["--model", "mlp:784-12580-10", "--set", "codec.codec=float32"]  # 10 million values
    state.run("init", *large, "--set", "limits.body_bytes=16Mi", code=USAGE, says="limits.body_bytes")
    made = state.json("init", *large)
    assert 4 * made["values"] <= made["update_bytes_max"] <= 4.1 * made["values"]
    assert "body_bytes" not in state.run("serve", "--set", "codec.codec=float32", code=USAGE).error

def an_update_longer_than_a_value_of_postgresql():
    state = State()
    large = ["--set", "federation.model=mlp:26000-10000-10", "--set", "codec.codec=float32"]
    state.run("serve", "--check", *large)
    postgres = ["--set", "store.url=postgresql:///tern"]
    state.run("serve", "--check", *large, *postgres, code=USAGE, says="PostgreSQL stores at most 1 GB in a value")
    state.run("serve", "--check", *large[:2], *postgres)

def a_database_of_another_scheme():
    state = State()
    state.run("init", "--model", MODEL)
    alone = "is not a kind of database that Tern knows: use postgresql:// or postgres:// for PostgreSQL, or the path of an SQLite file"
    for verb, *arguments in (["serve"], ["serve", "--check"], ["status"], ["copy", "elsewhere.db"], ["init"]):
        for url, scheme in (("mysql://h/tern", "mysql"), ("PostgreSQL:///tern", "PostgreSQL"), ("file:///tern.db", "file")):
            state.run(verb, *arguments, "--set", f"store.url={url}", code=USAGE, says=f"store.url: {scheme}:// {alone}")
    for verb in ("copy", "backup"):
        state.run(verb, "mysql://x", code=USAGE, says=f": mysql:// {alone}")
    state.run("status", "--set", "store.url=tern.db", code=USAGE, says="must be empty or begin with postgresql://")

def a_codec_that_is_unknown_or_for_updates_alone():
    state = State()
    state.run("init", "--model", MODEL)

    def refuse(*settings):
        arguments = [word for setting in settings for word in ("--set", setting)]
        return state.run("serve", *arguments, code=USAGE).error

    error = refuse("codec.codec=4lc")
    assert "codec.codec = 4lc" in error and "3lc" in error and "dgc" in error, error
    error = refuse("codec.codec_down=3lc:s=2")
    assert "codec.codec_down = 3lc:s=2: 3lc: s is 1 to 1.999999" in error, error
    error = refuse("codec.codec_down=dgc")
    assert "dgc cannot encode downloads: the codec needs a client's velocity" in error, error
    error = refuse("codec.codec=stochastic-ternary")
    assert "codec.codec = stochastic-ternary" in error and "would grow" in error, error
    assert "Set codec.codec_down" in error, error
    advice = error.split("e.g. ")[1].split()[0]
    assert "certificate" in refuse("codec.codec=stochastic-ternary", advice)
    assert "cheapest | trunk" in refuse("downloads.plan=best")
    assert "certificate" in refuse("codec.codec=scalecom", "codec.codec_down=density:p=0.05")

def a_proxy_that_is_no_address():
    state = State()
    state.run("init", "--model", MODEL)
    for name in ("proxy_from", "cache_from"):
        error = state.run("serve", "--set", f"server.{name}=127.0.0.1, proxy.example", code=USAGE).error
        assert f'server.{name}: "proxy.example" is not an address or network' in error, error

def single_sign_on_without_a_socket():
    state = State()
    state.run("init", "--model", MODEL)
    sso = ["--set", "admin.sso=user=X-User,groups=X-Groups,origin=https://tern.example,viewer=staff"]
    for address in ("127.0.0.1", "::1", ""):
        state.run("serve", "--check", *sso, "--set", f"admin.address={address}", code=USAGE, says="admin.sso needs admin.address = unix:/path")
    state.run("serve", "--check", *sso, "--set", "admin.address=unix:admin.sock")
    state.run("serve", "--check", "--set", "admin.sso=yes", "--set", "admin.address=unix:admin.sock", code=USAGE, says="is not KEY=VALUE")

def a_schedule_or_a_selection_that_cannot_be_kept():
    for settings, words in (
            (["train.learning_rate=linear"], "there are constant, cosine, step, plateau"),
            (["train.learning_rate=cosine"], "train.learning_rate = cosine needs round.rounds"),
            (["train.learning_rate=step:final=0.1"], "final is above rate"),
            (["train.learning_rate=0.1,warmup=9", "round.rounds=9"], "warmup must be less than round.rounds = 9"),
            (["round.selection=site"], "tags:KEY | tags:KEY=VALUE"),
            (["round.selection=tags:site,line"], "values of one tag only"), (["round.selection=tags:"], "names no tag"),
            (["round.selection=tags:site=a,=b"], "round.selection = tags:site=a,=b: \"=b\" has no key"),
            (["train.learning_rate=step:decay=1"], "step: decay is 0.001 to 0.999"),
            (["train.learning_rate=plateau:rounds=0"], "plateau: rounds is 1 to 1000000")):
        arguments = [word for setting in settings for word in ("--set", setting)]
        State().run("init", *arguments, "--model", MODEL, code=USAGE, says=words)
        State().run("serve", "--check", *arguments, code=USAGE, says=words)

def a_bound_that_would_scale_down():
    state = State()
    state.run("init", "--model", MODEL)
    for value in ("0.5", "0.99999999", "1e-20", "nan", "inf", "-1", "1e7", "1e99", "1.", ".5", "1e", "4001"):
        state.run("serve", "--set", f"round.strategy=fednova:scale_max={value}", code=USAGE,
                  says=f'fednova: scale_max is 0, or 1 to 4000, not "{value}"')
    for value in ("0", "1", "2.5", "4e3", "0e0", "1.0000000001"):
        error = state.run("serve", "--set", f"round.strategy=fednova:scale_max={value}", code=USAGE).error
        assert "scale_max" not in error and "certificate" in error, error

def advised(*settings):
    arguments = [word for setting in settings for word in ("--set", setting)]
    return State().run("serve", "--check", *arguments, "--set", f"federation.model={MODEL}").error.splitlines()

def settings_that_do_not_go_together_are_named():
    for given, words in (
            (["codec.codec=dgc:p=0.001", "codec.codec_down=default", "train.momentum=0.9"], "already has momentum"),
            (["codec.codec=3lc:s=1.75"], "downloads with 3lc:s=1.75 lose so much"),
            (["codec.codec=density:p=1"], "density:p=1 sends all values"),
            (["codec.codec_down=sparse:p=1"], "sparse:p=1 sends all values"),
            (["codec.codec=3lc:clip=0.5"], "3lc:s=1,clip=0.5 has a scale below the mean magnitude"),
            (["round.cohort=4", "round.quorum=5"], "round.quorum = 5 is above round.cohort = 4"),
            (["round.min_interval=0"], "only clients' own [budget] limits what they spend"),
            (["round.strategy=fedavgm:server_momentum=0.9"], "server_momentum=0.9 is reduced to about 0.58"),
            (["codec.codec=float32", "codec.error_feedback=decay"], "error_feedback = decay has no effect: float32"),
            (["codec.codec=dgc", "codec.codec_down=default", "codec.error_feedback=step-ahead"], "the same as keep"),
            (["codec.error_feedback=keep", "train.learning_rate=cosine", "round.rounds=9"], "three times their size"),
            (["codec.codec=scalecom", "codec.codec_down=default", "round.strategy=fedbuff"], "cannot use late updates"),
            (["train.learning_rate=plateau", "round.patience=10"], "plateau never lowers the learning rate: round.patience = 10")):
        found = advised(*given)
        assert len(found) == 1 and found[0].startswith("tern-aggregator: warning: "), (given, found)
        assert words in found[0] and len(found[0]) < 280, found
    for sound in ([], ["round.min_interval=1m"], ["round.min_interval=0", "round.rounds=9"], ["codec.codec=float32"], ["round.cohort=4", "round.quorum=5", "round.fraction=0.5"],
                  ["codec.codec_down=density:p=1,fit=yes"], ["codec.codec=3lc:clip=0"],
                  ["codec.codec=3lc:s=1.75", "codec.codec_down=default"], ["codec.codec=3lc:s=1.75,clip=4.5"],
                  ["codec.codec=3lc:s=1.75", "train.local_steps=1"],
                  ["codec.codec=float32", "round.strategy=fedavgm:server_momentum=0.9"],
                  ["round.strategy=fedprox:prox_mu=0.1", "train.momentum=0.9"],
                  ["train.schedule=fixed+deadline:min=2,max=50"],
                  ["train.schedule=adaptive:interval=9,start=2+deadline:fraction=0.9"],
                  ["train.learning_rate=step:decay=0.1,rounds=3,final=0.001"],
                  ["train.learning_rate=plateau:warmup=5", "round.patience=11"],
                  ["codec.error_feedback=reset:after=3"]):
        assert advised(*sound) == [], (sound, advised(*sound))

def secure_rounds_name_what_excludes_them():
    key = "BDTUUHLQqsNtk8w9FB0EBVfI6_pm-oqcDIpwDrBWcl2e5Fven1U4mDkO8NTHImGv-PztiHYd6MQ3a0gH6a3Fb9w"
    for strategy, settings, words in (("krum", ["round.cohort=60"], "round.strategy = krum looks at single updates"),
                                      ("multikrum", ["round.cohort=60"], "round.strategy = multikrum looks at single updates"),
                                      ("krum", ["round.cohort=10"], "round.cohort = 10 is below secure.min_clients = 50")):
        given = [f"round.strategy={strategy}", "secure.helper=https://helper:8444", f"secure.helper_key={key}", *settings]
        State().run("serve", "--check", *[word for one in given for word in ("--set", one)], code=USAGE, says=words)

def a_key_of_the_helper_that_is_none():
    for key in ("", "abc", "A" * 87, "BDTU UHL", "B" + "A" * 87):
        given = ["secure.helper=https://helper:8444", f"secure.helper_key={key}", "round.cohort=60"]
        State().run("serve", "--check", *[word for one in given for word in ("--set", one)], code=USAGE,
                    says=f"secure.helper_key = \"{key}\" is not a helper's public key: copy the 87 characters")

def secure_settings_that_serve_refuses_later():
    key = "BDTUUHLQqsNtk8w9FB0EBVfI6_pm-oqcDIpwDrBWcl2e5Fven1U4mDkO8NTHImGv-PztiHYd6MQ3a0gH6a3Fb9w"
    sound = ["secure.helper=https://helper:8444", f"secure.helper_key={key}", "round.cohort=60"]
    for changed, words in (("privacy.noise=0.0001", "privacy.noise = 0.0001 rounds to no noise at all"),
                           ("secure.helper=http://helper:8444", "secure.helper = http://helper:8444 is no https:// address")):
        State().run("serve", "--check", *[word for one in [*sound, changed] for word in ("--set", one)], code=USAGE, says=words)

def our_own_configurations_go_together():
    """Those that do not show what the others are better than."""
    others = [f"{program}.example.ini" for program in ("client", "fleet", "helper", "ring")]
    for path in sorted((SOURCE / "configs").rglob("*.ini")):
        if "[experiment]" not in path.read_text() and path.name not in others:
            for sentence in State().run("serve", "--check", "--config", path).error.splitlines():
                assert "three times their size" in sentence and "= keep" in sentence, (path, sentence)

def init_and_serve_name_them_too():
    state = State()
    setting = ["--set", "codec.codec_down=sparse:p=1"]
    said = "sparse:p=1 sends all values: p is the share of the values that is sent, so choose p < 1"
    state.run("init", "--model", MODEL, *setting, says=f"tern-aggregator: warning: {said}")
    error = state.run("serve", *setting, code=USAGE, says="certificate").error  # none was made
    assert f'level=warn event=settings advice="{said}"' in error, error
    assert "advice" not in state.run("serve", code=USAGE).error

def too_few_rounds_to_adapt_are_named():
    state = State()
    adaptive = ["--check", "--set", "train.schedule=adaptive", "--set", "round.rounds=6"]
    error = state.run("serve", *adaptive).error
    assert "adaptive:interval=5 never adapts within round.rounds = 6" in error, error
    assert "never adapts" not in state.run("serve", *adaptive[:-1], "round.rounds=7").error

def init_refuses_what_serve_would():
    state = State()
    state.run("init", "--model", MODEL, "--set", "codec.codec=4lc", code=USAGE, says="codec.codec = 4lc")
    assert not state.path.exists()

def a_missing_certificate_is_explained_and_the_advice_works():
    state = State()
    state.run("init", "--model", MODEL)
    error = state.run("serve", code=USAGE, says=str(state.path / "server.crt")).error
    assert "server.certificate" in error and "No such file" in error, error
    advice = "openssl" + error.split("openssl", 1)[1]
    subprocess.run(advice, shell=True, check=True, stdout=subprocess.DEVNULL)
    (state.path / "server.key").unlink()
    state.run("serve", code=USAGE, says="server.private_key")
    subprocess.run(advice, shell=True, check=True, stdout=subprocess.DEVNULL)
    command = [BIN / "tern-aggregator", "serve", "--state", state.path, "--set", "server.port=0",
               "--set", "admin.address="]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as served:
        announced = served.stdout.readline()
        served.terminate()
    assert announced.startswith(b"listening on"), announced

def a_damaged_certificate_is_named():
    state = State()
    state.run("init", "--model", MODEL)
    for name in ("server.crt", "server.key"):
        (state.path / name).write_text("no PEM\n")
    state.run("serve", "--set", "server.port=0", code=USAGE, says="is not a PEM file")

def a_lost_admin_token_is_made_anew_and_a_malformed_one_refused():
    state = State()
    state.run("init", "--model", MODEL)
    error = state.run("serve", code=USAGE, says=str(state.path / "server.crt")).error
    subprocess.run("openssl" + error.split("openssl", 1)[1], shell=True, check=True,
                   stdout=subprocess.DEVNULL)
    token = state.path / "admin.token"
    ports = ["--set", "server.port=0", "--set", "admin.port=0"]
    token.write_text("short\n")
    state.run("serve", *ports, code=USAGE, says="delete it")
    assert token.read_text() == "short\n"
    token.unlink()
    command = [BIN / "tern-aggregator", "serve", "--state", state.path, *ports]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as served:
        announced = served.stdout.readline()
        served.terminate()
        log = served.communicate(timeout=150)[1]
    assert b", admin on" in announced, announced
    assert b"admin-token-made" in log, log
    assert len(token.read_text()) == 33 and stat.S_IMODE(token.stat().st_mode) == 0o600

main(a_model_that_does_not_fit_the_body_limit,
     a_large_model_needs_no_setting,
     an_update_longer_than_a_value_of_postgresql,
     a_database_of_another_scheme,
     a_codec_that_is_unknown_or_for_updates_alone,
     a_proxy_that_is_no_address,
     single_sign_on_without_a_socket,
     a_bound_that_would_scale_down,
     settings_that_do_not_go_together_are_named,
     a_schedule_or_a_selection_that_cannot_be_kept,
     secure_rounds_name_what_excludes_them,
     secure_settings_that_serve_refuses_later,
     a_key_of_the_helper_that_is_none,
     our_own_configurations_go_together,
     init_and_serve_name_them_too,
     too_few_rounds_to_adapt_are_named,
     init_refuses_what_serve_would,
     a_missing_certificate_is_explained_and_the_advice_works,
     a_damaged_certificate_is_named,
     a_lost_admin_token_is_made_anew_and_a_malformed_one_refused)
