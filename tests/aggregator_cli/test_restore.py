"""A backup takes the database's place: what is lost is said, what was there is kept, and what is no backup of this
federation changes nothing."""
import fcntl
import os
import sqlite3
import stat

from cli import FAILED, MODEL, State, main

MADE = ".before-restore-"

def backed_up(rounds):
    state = State(rounds)
    backup = state.root / "backup.db"
    state.run("backup", backup)
    return state, backup

def kept(state):
    return [name for name in sorted(os.listdir(state.path)) if MADE in name]

def bytes_of(state):
    return {path.name: path.read_bytes() for path in state.path.iterdir() if path.is_file()}

def refuses(state, *arguments, says, code=FAILED):
    """Nothing but the lock's file may be new."""
    before = bytes_of(state)
    state.run("restore", *arguments, code=code, says=says)
    after = bytes_of(state)
    after.pop("lock", None)
    before.pop("lock", None)
    assert after == before, (sorted(after), sorted(before))

def a_backup_comes_back():
    state, backup = backed_up(3)
    before = backup.read_bytes()
    state.run("revoke", 1)
    with sqlite3.connect(state.path / "tern.db") as database:  # a client that enrolled since
        columns = [row[1] for row in database.execute("PRAGMA table_info(clients)")]
        values = ", ".join({"id": "99", "token_hash": "zeroblob(32)"}.get(name, name) for name in columns)
        database.execute(f"INSERT INTO clients SELECT {values} FROM clients WHERE id = 2")
    database.close()
    restored = state.json("restore", backup)
    assert restored["version"] == 3 and restored["round"] == 3, restored
    assert restored["versions_lost"] == 0 and restored["rounds_lost"] == 0 and restored["clients_lost"] == 1
    rows = state.json("clients")
    assert len(rows) == 4 and rows[0]["revoked"] is False
    assert state.json("verify")["ok"]
    assert backup.read_bytes() == before
    assert stat.S_IMODE(os.stat(state.path / "tern.db").st_mode) == 0o600
    assert [str(state.path / name) for name in kept(state)] == [restored["kept"]]
    assert sorted(os.listdir(state.path)) == ["admin.token", "lock", "tern.db", kept(state)[0]]

def what_was_there_comes_back_in_turn():
    state = State(rounds=5)
    older = State(rounds=3)
    text = state.run("restore", older.path / "tern.db", "--force").text
    assert "version 3, round 3" in text and "Versions lost: 2, rounds: 2, clients: 0" in text, text
    old = state.path / kept(state)[0]
    assert state.json("restore", old, "--force")["versions_lost"] == 0
    assert state.json("status")["version"] == 5 and state.json("verify")["ok"]

def a_damaged_database_is_replaced_and_kept():
    state, backup = backed_up(3)
    database = state.path / "tern.db"
    for damage in (b"", b"no database at all" * 100, database.read_bytes()[:20000]):
        for name in kept(state):
            (state.path / name).unlink()
        database.write_bytes(damage)
        assert "could not be read" in state.run("restore", backup).text
        assert state.json("verify")["ok"] and state.json("status")["version"] == 3
        assert len(kept(state)) == 1
    database.unlink()
    assert "kept as" not in state.run("restore", backup).text
    assert state.json("verify")["ok"]

def an_empty_place_takes_it():
    state, backup = backed_up(2)
    there = state.root / "new" / "place"
    state.run("restore", backup, "--state", there, state=False)
    assert stat.S_IMODE(there.stat().st_mode) == 0o700
    assert state.run("verify", "--json", "--state", there, state=False).json["ok"]

def what_is_no_backup_of_it_changes_nothing():
    state, backup = backed_up(2)
    bad = state.root / "bad.db"
    refuses(state, state.root / "missing.db", says="cannot be read: No such file")
    state.run("restore", state.root / "missing.db", "--state", state.root / "new", code=FAILED, state=False)
    assert not (state.root / "new").exists()
    refuses(state, state.root, says="not a file")
    bad.write_bytes(b"")
    refuses(state, bad, says="not a Tern database")
    bad.write_text("something else\n" * 100)
    refuses(state, bad, says="not a SQLite database")
    good = backup.read_bytes()
    bad.write_bytes(good[:len(good) // 2])
    refuses(state, bad, says="nothing has changed")
    body = bytearray(good)
    with sqlite3.connect(backup) as database:
        (body_of_one,) = database.execute("SELECT body FROM update_bodies LIMIT 1").fetchone()
    database.close()
    at = good.index(body_of_one[:64])
    body[at] ^= 1  # no page is wrong by that
    bad.write_bytes(body)
    refuses(state, bad, says="the stored bytes of an update differ")
    with sqlite3.connect(bad) as database:
        database.execute("PRAGMA user_version = 900")
    database.close()
    refuses(state, bad, says="nothing has changed")
    other = State()
    other.run("init", "--model", MODEL)
    refuses(state, other.path / "tern.db", says="belongs to another federation")
    beside = backup.with_name("backup.db-wal")
    beside.write_bytes(b"x")
    refuses(state, backup, says="the database is in use")

def whoever_holds_the_state_is_let_alone():
    state, backup = backed_up(2)
    with open(state.path / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refuses(state, backup, says="is served by another process")
    reader = sqlite3.connect(state.path / "tern.db")
    reader.execute("SELECT count(*) FROM clients").fetchone()
    state.run("restore", backup, code=FAILED, says="another process holds the database")
    reader.close()
    state.run("restore", backup)

main(a_backup_comes_back, what_was_there_comes_back_in_turn, a_damaged_database_is_replaced_and_kept,
     an_empty_place_takes_it, what_is_no_backup_of_it_changes_nothing, whoever_holds_the_state_is_let_alone)
