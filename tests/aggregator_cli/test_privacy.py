"""privacy: epsilon and delta from what rounds recorded, and why no epsilon is true."""
import contextlib
import math
import sqlite3

from cli import NOTHING, OK, USAGE, State, insert, main

NOISE = ("--set", "privacy.noise=2")


def epsilon(loss, delta):
    """Canonne, Kamath and Steinke 2020, proposition 12, with the divergence loss / 2 * order."""
    orders = (1 + math.exp(step / 200) for step in range(-1600, 2400))
    return min(loss / 2 * order + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
               for order in orders)


@contextlib.contextmanager
def database(state):
    with contextlib.closing(sqlite3.connect(state.path / "tern.db")) as opened, opened:
        yield opened


def noisy(clients=2000, rounds=3, noise=2000, loss=0.75):
    """A federation whose released sums all have noise. The second client was in all of them."""
    state = State()
    state.run("init", "--model", "mlp:16-8-4")
    with database(state) as opened:
        for number in range(1, clients + 1):
            insert(opened, "clients", id=number, name=f"device-{number}", token_hash=number.to_bytes(32, "big"),
                   privacy_loss=loss if number == 2 else loss / 3 if number == 5 else 0.0)
        for number in range(1, rounds + 1):
            insert(opened, "rounds", round=number, state=1, mode=1, noise=noise, applied=100, target=100,
                   opened_ms=number, closed_ms=number, attempts=1)
            insert(opened, "secure_rounds", round=number, state=2, asked_ms=number, facts=b"")
        opened.execute("UPDATE totals SET rounds_committed = ?", [rounds])
    return state


def refusals(state, *settings):
    shown = state.json("privacy", *(settings or NOISE), code=NOTHING)
    assert shown["epsilon"] is None and shown["epsilon_at_end"] is None, shown
    assert shown["epsilon_if_poisson"] is None and shown["epsilon_at_end_if_poisson"] is None, shown
    text = state.run("privacy", *(settings or NOISE), code=NOTHING).text
    assert text.startswith("No epsilon is true") and "psilon 0" not in text and "At most" not in text, text
    for refusal in shown["refusals"]:
        assert refusal["sentence"] in text and refusal["advice"] in text, text
    return [refusal["reason"] for refusal in shown["refusals"]]


def test_figures_of_the_worst_client():
    state = noisy()
    shown = state.json("privacy", *NOISE, "--set", "round.rounds=10")
    assert shown["refusals"] == [] and shown["worst_client"] == 2 and shown["delta"] == 1e-5, shown
    assert abs(shown["epsilon"] / epsilon(0.75, 1e-5) - 1) < 1e-4, shown
    assert abs(shown["epsilon_at_end"] / epsilon(0.75 + 7 / 4, 1e-5) - 1) < 1e-4, shown
    assert 0 < shown["epsilon_if_poisson"] < shown["epsilon"], shown
    assert shown["epsilon_if_poisson"] < shown["epsilon_at_end_if_poisson"] < shown["epsilon_at_end"], shown
    text = state.run("privacy", *NOISE, "--set", "round.rounds=10").text
    assert f"Epsilon {shown['epsilon']:.4g} with delta 1e-05: of client 2" in text, text
    assert "settings of the aggregator" in text and "secure.min_noise, which is 0 by default" in text, text
    assert "this is no guarantee here" in text and "Assumptions:" in text, text
    assert shown["warning"] == "" and len(shown["assumptions"]) > 3, shown


def test_the_status_has_it():
    state = noisy(rounds=1)
    line = f"Privacy     epsilon {epsilon(0.75, 1e-5):.3g}, delta 1e-05"
    assert line in state.run("status", *NOISE).text
    assert state.json("status", *NOISE)["privacy"]["worst_client"] == 2
    plain = State(rounds=1)
    assert "Privacy " not in plain.run("status").text  # nobody asked for noise


def test_all_clients_worst_first():
    rows = noisy().json("clients", "--sort", "-privacy_loss", "--columns", "id,privacy_loss")
    assert [row["id"] for row in rows[:2]] == [2, 5] and rows[0]["privacy_loss"] == 0.75, rows[:2]


def test_delta_and_the_limit():
    state = noisy()
    lower = state.json("privacy", *NOISE, "--set", "privacy.delta=1e-9")
    assert lower["delta"] == 1e-9 and abs(lower["epsilon"] / epsilon(0.75, 1e-9) - 1) < 1e-4, lower
    limited = state.json("privacy", *NOISE, "--set", "round.rounds=1000", "--set", "privacy.epsilon_max=8")
    assert limited["epsilon_at_end"] == 8, limited
    assert "if no further round is abandoned" not in limited["summary"], limited
    unlimited = ("privacy", *NOISE, "--set", "round.rounds=1000")
    assert "after round 1000 if no further round is abandoned" in state.json(*unlimited)["summary"]
    assert "after round 1000 if no further round is abandoned, of a client" in state.run(*unlimited).text
    endless = state.json("privacy", *NOISE)
    assert endless["epsilon_at_end"] is None and endless["epsilon"] > 0, endless
    off = state.json("privacy", "--set", "round.rounds=10")  # noise of the rounds so far, and none in further ones
    assert off["epsilon"] > 0 and off["epsilon_at_end"] is None, off
    assert "Of another round none is true" in state.run("privacy", "--set", "round.rounds=10").text


def test_few_clients():
    assert "protects little" in noisy(clients=999).json("privacy", *NOISE)["warning"]
    assert "decoration" in noisy(clients=50).json("privacy", *NOISE)["warning"]


def test_refuses_without_noise():
    state = State()
    state.run("init", "--model", "mlp:16-8-4")
    assert refusals(state, "--set", "round.rounds=5") == ["no-noise"]


def test_refuses_plain_rounds():
    state = noisy()
    with database(state) as opened:
        opened.execute("UPDATE rounds SET mode = 0, noise = 0 WHERE round = 2")
        opened.execute("DELETE FROM secure_rounds WHERE round = 2")
    assert refusals(state) == ["plain-round"]


def test_refuses_sums_without_noise():
    state = noisy()
    with database(state) as opened:
        opened.execute("UPDATE rounds SET noise = 0, state = 2 WHERE round = 1")  # the helper may have answered
    assert refusals(state) == ["round-without-noise"]
    with database(state) as opened:
        opened.execute("UPDATE secure_rounds SET asked_ms = 0 WHERE round = 1")  # it was not asked
    state.run("privacy", *NOISE, code=OK)


def test_refuses_statistics():
    state = noisy()
    with database(state) as opened:
        insert(opened, "statistics", client=1, body=b"x")
    assert refusals(state) == ["statistics"]


def test_refuses_metrics_of_clients():
    state = noisy()
    with database(state) as opened:
        insert(opened, "metrics", version=1, name="loss", client=1)
    assert refusals(state) == ["metrics"]


def test_evaluators_are_outside():
    state = noisy()
    assert not state.json("privacy", *NOISE)["evaluators_reported"]
    with database(state) as opened:
        insert(opened, "evaluations", version=1, client=3)
    assert state.json("privacy", *NOISE)["evaluators_reported"]
    assert "Not of evaluators" in state.run("privacy", *NOISE).text


def test_refuses_a_restored_database():
    state = noisy()
    backup = state.root / "backup"
    state.run("backup", backup)
    state.run("privacy", *NOISE, code=OK)
    state.run("restore", backup)
    assert refusals(state) == ["restored"]


def test_refuses_the_original_of_a_copy():
    state = noisy()
    with database(state) as opened:
        opened.execute("UPDATE federation SET copied_to = 'copied.db', copied_ms = 1")
    assert refusals(state) == ["copied"]


def test_refuses_a_delta_that_reveals_a_client():
    assert refusals(noisy(), *NOISE, "--set", "privacy.delta=0.0005") == ["delta"]


def test_all_reasons_of_a_federation_without_any_care():
    state = State(rounds=2)
    assert "plain-round" in refusals(state)
    assert "no-noise" in refusals(state, "--set", "round.rounds=5")


def test_a_limit_needs_noise():
    state = State()
    state.run("init", "--model", "mlp:16-8-4")
    state.run("serve", "--set", "privacy.epsilon_max=3", code=USAGE, says="privacy.epsilon_max = 3 limits nothing")


if __name__ == "__main__":
    main(test_figures_of_the_worst_client, test_the_status_has_it, test_all_clients_worst_first, test_delta_and_the_limit,
         test_few_clients, test_refuses_without_noise, test_refuses_plain_rounds, test_refuses_sums_without_noise,
         test_refuses_statistics, test_refuses_metrics_of_clients, test_evaluators_are_outside,
         test_refuses_a_restored_database, test_refuses_the_original_of_a_copy,
         test_refuses_a_delta_that_reveals_a_client, test_all_reasons_of_a_federation_without_any_care,
         test_a_limit_needs_noise)
