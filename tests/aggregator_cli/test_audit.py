"""Tokens with roles, and the audit log: what the verbs print, refuse and record."""
import hashlib
import json
import os
import pathlib
import pwd
import re
import sqlite3
import subprocess

from cli import BIN, FAILED, MODEL, NOTHING, REFUSED, SOURCE, USAGE, State, main

def tokens_are_printed_once_and_names_are_used_once():
    state = State()
    state.run("init", "--model", MODEL)
    made = state.json("token", "add", "grafana", "--role", "viewer", "--expires", "1d")
    assert re.fullmatch(r"[A-Za-z0-9_-]{43}", made["token"]) and made["role"] == "viewer"
    (row,) = state.json("token", "list")
    assert row["name"] == "grafana" and row["state"] == "valid"
    assert row["expires_ms"] - row["made_ms"] == 86400000
    assert made["token"] not in json.dumps(row)
    assert made["token"].encode() not in (state.path / "tern.db").read_bytes()
    assert state.run("token", "add", "ci", "--role", "admin").text.strip() != made["token"]
    state.run("token", "add", "grafana", "--role", "admin", code=REFUSED, says="there is a token grafana already")
    for name in ("", "a b", "admin.token", ".a", "unix:root", "x" * 33, "1a"):
        state.run("token", "add", name, "--role", "viewer", code=USAGE, says="cannot be the name of a token")
    for role in ([], ["--role", "none"], ["--role", "root"]):
        state.run("token", "add", "b", *role, code=USAGE, says="--role must be viewer, operator or admin")
    state.run("token", "add", "b", "--role", "viewer", "--expires", "0s", code=USAGE, says="--expires")
    for name in ("nobody", "", "a b", "x" * 300, "admin.token"):
        state.run("token", "revoke", name, code=FAILED, says=f"there is no token '{name[:180]}")
    state.run("token", "list", "b", code=USAGE, says="token add NAME")
    state.run("token", "revoke", "grafana")
    state.run("token", "revoke", "grafana", code=NOTHING)
    state.run("token", "add", "grafana", "--role", "viewer", code=REFUSED, says="there is a token grafana already")
    assert [row["state"] for row in state.json("token", "list")] == ["valid", "revoked"]
    assert [row["action"] for row in state.json("audit")] == ["init", "token add", "token add", "token revoke"]

def changes_are_in_the_audit_log():
    state = State(rounds=2)
    code = state.json("enroll-code", "--label", "lab")
    state.run("tag", 1, "site=a")
    state.run("tag", 1, "site=b")
    state.run("tag", 1, "site", code=USAGE)
    state.run("revoke", 2)
    state.run("codes", "--cancel", code["id"])
    state.run("provision", "--count", 2)
    state.run("prune", "--keep", 1)
    rows = state.json("audit")
    made = rows.pop(0)
    assert (made["action"], made["subject"], made["after"]) == ("init", "the federation", f"seed 7, {MODEL}"), made
    assert [row["action"] for row in rows] == ["enroll-code", "tag", "tag", "revoke", "codes --cancel",
                                               "provision", "prune"], rows
    user = pwd.getpwuid(os.getuid()).pw_name
    assert all(row["who"] == f"unix:{user}" and row["role"] == "none" and row["result"] == "done" for row in rows)
    assert (rows[2]["subject"], rows[2]["before"], rows[2]["after"]) == ("client 1", "site=a", "site=b")
    assert code["code"] not in json.dumps(rows)
    before = state.json("audit", "--verify")
    assert before["rows"] == 8 and before["chain"] == rows[-1]["chain"]
    copy = state.root / "copy.db"
    state.run("backup", copy)
    state.run("revoke", 1)
    state.run("restore", copy)
    assert [row["action"] for row in state.json("audit")][8:] == ["restore"]
    with sqlite3.connect(state.path / "tern.db") as database:
        database.execute("UPDATE audit SET after = 'site=c' WHERE number = 4")
    database.close()
    state.run("audit", "--verify", code=FAILED, says="row 4 of the audit log is missing or was changed")
    state.run("verify", code=FAILED, says="row 4 of the audit log is missing or was changed")

def chain_of(previous, row):
    """docs/FORMAT.md, section 13."""
    data = b"tern audit v1" + previous
    for name in ("number", "at_ms", "who", "role", "address", "action", "subject", "before", "after", "result"):
        value = ("none", "viewer", "operator", "admin").index(row[name]) if name == "role" else row[name]
        if isinstance(value, str):
            data += len(value.encode()).to_bytes(8, "little") + value.encode()
        else:
            data += value.to_bytes(8, "little")
    return hashlib.sha256(data).digest()

def the_chain_is_the_one_of_the_document():
    text = (SOURCE / "docs" / "FORMAT.md").read_text(encoding="utf-8")
    example, chain = re.search(r"```\n(\{\"number\".*?\})\nchain (\w+)\n```", text, re.DOTALL).groups()
    assert chain_of(bytes(32), json.loads(example)).hex() == chain
    state = State()
    state.run("init", "--model", MODEL)
    state.run("token", "add", "grafana", "--role", "viewer")
    columns = "number,at_ms,who,role,address,action,subject,before,after,result,chain"
    rows = state.json("audit", "--columns", columns)
    assert len(rows) == 2
    previous = bytes(32)
    for row in rows:
        previous = chain_of(previous, row)
        assert previous.hex() == row["chain"], row

def a_login_is_named_beside_the_user():
    def log_in(uid):
        return lambda: pathlib.Path("/proc/self/loginuid").write_text(str(uid), encoding="ascii")

    state = State()
    user = pwd.getpwuid(os.getuid()).pw_name
    other = next(entry for entry in pwd.getpwall() if entry.pw_uid != os.getuid())
    command = [BIN / "tern-aggregator", "--state", state.path]
    state.run("init", "--model", MODEL)
    try:
        for name, uid in (("own", os.getuid()), ("other", other.pw_uid)):
            subprocess.run([command[0], "token", "add", name, "--role", "viewer", *command[1:]], check=True,
                           stdout=subprocess.DEVNULL, timeout=60, preexec_fn=log_in(uid))
    except subprocess.SubprocessError:
        print("skipped: this machine lets no test set a login")
        return
    whos = {row["subject"]: row["who"] for row in state.json("audit")}
    assert whos["token own"] == f"unix:{user}", whos
    assert whos["token other"] == f"unix:{other.pw_name} (as {user})", whos

main(the_chain_is_the_one_of_the_document, a_login_is_named_beside_the_user, tokens_are_printed_once_and_names_are_used_once, changes_are_in_the_audit_log)
