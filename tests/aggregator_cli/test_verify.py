"""verify agrees with an honest history and finds every dishonest one."""
import hashlib
import sqlite3

from cli import FAILED, State, main

ROUNDS = 6

def edit(state, *statements):
    with sqlite3.connect(state.path / "tern.db") as database:
        for statement in statements:
            database.execute(*statement)
    database.close()

def an_honest_history_is_confirmed():
    state = State(rounds=ROUNDS)
    result = state.json("verify")
    assert result["ok"] and result["rounds"] == ROUNDS and result["updates"] == 3 * ROUNDS
    assert result["model_sha256"] == state.json("status")["model_sha256"]
    assert f"Replaying all {ROUNDS} rounds (18 updates)" in state.run("verify").text
    assert State(rounds=0).json("verify")["rounds"] == 0

def the_first_version_that_differs_is_named():
    for column in ("model_sha256", "replica"):
        state = State(rounds=ROUNDS)
        edit(state, (f"UPDATE versions SET {column} = zeroblob(32) WHERE version IN (3, 5)",))
        result = state.json("verify", code=FAILED)
        assert not result["ok"] and result["differs"] == 3 and result["rounds"] == 2
        state.run("verify", code=FAILED, says="version 3")

def a_missing_update_is_found():
    state = State(rounds=ROUNDS)
    edit(state, ("DELETE FROM update_bodies WHERE id ="
                 " (SELECT id FROM updates WHERE round = 4 AND client = 2)",))
    assert state.json("verify", code=FAILED)["rounds"] == 3
    state = State(rounds=ROUNDS)
    edit(state, ("DELETE FROM update_bodies WHERE id ="
                 " (SELECT id FROM updates WHERE round = 4 AND client = 2)",),
         ("DELETE FROM updates WHERE round = 4 AND client = 2",))
    assert state.json("verify", code=FAILED)["differs"] == 4

def a_changed_update_is_found():
    """One that still fits its hash changes the model; one that does not is damage."""
    state = State(rounds=ROUNDS)
    database = sqlite3.connect(state.path / "tern.db")
    key, body = database.execute("SELECT id, body FROM updates JOIN update_bodies USING (id)"
                                 " WHERE round = 2 AND client = 1").fetchone()
    other, = database.execute("SELECT body FROM updates JOIN update_bodies USING (id)"
                              " WHERE round = 2 AND client = 3").fetchone()
    database.close()
    assert body != other
    edit(state, ("UPDATE update_bodies SET body = ? WHERE id = ?", (other, key)))
    state.run("verify", code=FAILED, says="damaged")
    edit(state, ("UPDATE updates SET sha256 = ?, body_len = ? WHERE id = ?",
                 (hashlib.sha256(other).digest(), len(other), key)))
    assert state.json("verify", code=FAILED)["differs"] == 2

def a_changed_recipe_is_found():
    state = State(rounds=ROUNDS)
    edit(state, ("UPDATE rounds SET server_learning_rate = 0.5 WHERE round = 5",))
    assert state.json("verify", code=FAILED)["differs"] == 5
    state = State(rounds=ROUNDS)
    edit(state, ("UPDATE rounds SET codec_down = 'float32' WHERE round = 1",))
    assert state.json("verify", code=FAILED)["differs"] == 1

def an_averaged_model_of_other_rounds_is_found():
    """The rows of versions do not contain the averaged model, so only a replay finds the difference."""
    state = State(rounds=ROUNDS)
    edit(state, ("UPDATE rounds SET averaged = 2 WHERE round = 5",))
    assert state.json("verify", code=FAILED)["differs"] == ROUNDS
    edit(state, ("UPDATE rounds SET averaged = 3 WHERE round = 5",),
         ("DELETE FROM weights WHERE name = 'average'",))
    state.run("verify", code=FAILED, says="averaged model")
    edit(state, ("UPDATE rounds SET averaged = 4 WHERE round = 1",))
    state.run("verify", code=FAILED, says="round 1 cannot be replayed")

def weights_that_are_not_the_newest_version_are_found():
    state = State(rounds=ROUNDS)
    # CRC-32C is not at hand here, so both kinds are exchanged: each still has a right checksum.
    edit(state, ("UPDATE weights SET kind = kind + 2 WHERE name = ''",),
         ("UPDATE weights SET kind = 3 - kind WHERE name = ''",))
    state.run("verify", code=FAILED, says="weights")

def a_damaged_page_is_found():
    state = State(rounds=ROUNDS)
    path = state.path / "tern.db"
    data = bytearray(path.read_bytes())
    page = 8192
    found = 0
    for number in range(1, len(data) // page):
        damaged = bytearray(data)
        damaged[number * page:number * page + 64] = bytes(64)
        path.write_bytes(damaged)
        found += state.run("verify", code=FAILED).code
        (state.path / "tern.db-wal").unlink(missing_ok=True)
    assert found == len(data) // page - 1

main(an_honest_history_is_confirmed, the_first_version_that_differs_is_named,
     a_missing_update_is_found, a_changed_update_is_found, a_changed_recipe_is_found,
     an_averaged_model_of_other_rounds_is_found,
     weights_that_are_not_the_newest_version_are_found, a_damaged_page_is_found)
