"""How long a run would have taken, from what it did: measured bytes, steps and processor time, with
links of a given bandwidth. Pure functions. A round is synchronous: it takes as long as its slowest
client, which downloads, computes and uploads one after the other over a link of its own. The
aggregator's work and the latency of the links are left out."""
import collections
import statistics

Participation = collections.namedtuple(
    "Participation", "version client steps wire_up wire_down train_ms codec_ms device_ms")


def participations(result):
    return [Participation(*row) for row in zip(*(result["record_" + field]
                                                 for field in Participation._fields))]


def step_seconds(results):
    """Returns the processor time of a local step: the median over runs with the same model."""
    return statistics.median(row.train_ms / row.steps for result in results
                             for row in participations(result) if row.steps > 0) / 1e3


def codec_seconds(rows):
    return statistics.median(row.codec_ms for row in rows) / 1e3


def client_seconds(row, mbit, compute):
    return 8 * (row.wire_up + row.wire_down) / (mbit * 1e6) + compute(row)


def round_seconds(rows, mbit, compute, expected=0, deadline=0.0):
    """Returns the seconds of a round. If fewer clients than expected reported, it lasted until the deadline."""
    longest = max(client_seconds(row, mbit, compute) for row in rows)
    return longest if len(rows) >= expected else max(longest, deadline)


def by_round(rows):
    rounds = collections.defaultdict(list)
    for row in rows:
        rounds[row.version].append(row)
    return rounds


def run_seconds(rows, mbit, compute, expected=0, deadline=0.0, until=None):
    """Returns the seconds of all rounds, or of those up to version `until`."""
    return sum(round_seconds(clients, mbit, compute, expected, deadline)
               for version, clients in by_round(rows).items()
               if until is None or version <= until)


def measured_compute(step, codec):
    """Returns the computing time when a step takes `step` seconds and a round's coding `codec`."""
    return lambda row: row.steps * step + codec


def device_compute(device_second):
    """Returns the computing time from the devices' reported times, times `device_second`."""
    return lambda row: row.device_ms / 1e3 * device_second
