"""The tasks' tables, drawn from a seed. Only sums and products of random.Random.random() go into them, so they are
the same on every machine; values are whole 1024ths, which float32 holds and CSV writes exactly.

    tables.py NAME FILE.csv"""
import dataclasses
import random
import sys

from convex.objectives import Objective, Ridge, Softmax

CLIENTS = 4
ROWS = 64  # of each client
VALUES = 256  # of each model, in one segment: s = sqrt(n) is 16


@dataclasses.dataclass(frozen=True)
class Table:
    """A task: what a federation is given of it, and its objective."""

    name: str
    model: str  # spec
    penalty: float  # train.weight_decay
    wanted: str  # the column's name, and how data.source calls it
    rows: list  # (client, features, wanted), one client's behind the other's

    def objective(self):
        outputs = int(self.model.partition(",")[0].rpartition("-")[2])
        loss = Ridge() if self.wanted == "target" else Softmax(outputs)
        return Objective(loss, [(features, wanted) for _, features, wanted in self.rows], self.penalty)

    def source(self, path):
        """As data.source: every row is trained on, by the client whose it is, and every row measured on."""
        return "csv:%s,%s=%s,group=client,scale=none,test_file=%s" % (path, self.wanted, self.wanted, path)

    def write(self, path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(",".join(["f%d" % i for i in range(len(self.rows[0][1]))] + [self.wanted, "client"]) + "\n")
            for client, features, wanted in self.rows:
                file.write(",".join([repr(value) for value in features] + [repr(wanted), "c%d" % client]) + "\n")


def exact(value):
    return round(value * 1024) / 1024


class Drawn:
    def __init__(self, seed):
        self.random = random.Random(seed).random

    def one(self):
        """From -1 to 1, of variance 1/3."""
        return 2 * self.random() - 1

    def many(self, count):
        return [self.one() for _ in range(count)]


def even():
    """Numbers told of columns that are all alike and independent; a heavy penalty: well conditioned."""
    drawn, width = Drawn(1), VALUES - 1
    slopes = drawn.many(width)
    rows = []
    for client in range(CLIENTS):
        for _ in range(ROWS):
            features = [exact(value / 8) for value in drawn.many(width)]
            told = sum(slope * value for slope, value in zip(slopes, features)) + drawn.one() / 4
            rows.append((client, features, exact(told)))
    return Table("even", "linear:%d-1,loss=mse" % width, 0.5, "target", rows)


def uneven():
    """Numbers told of columns that shrink from one to the next and follow each other, a thousand times smaller at the
    end; each client's rows are elsewhere; a light penalty: badly conditioned."""
    drawn, width = Drawn(2), VALUES - 1
    slopes = drawn.many(width)
    rows = []
    for client in range(CLIENTS):
        middle = drawn.many(width)
        for _ in range(ROWS):
            features, neighbour, size = [], 0.0, 1.0
            for own in middle:
                neighbour = 0.875 * neighbour + 0.5 * drawn.one()
                size *= 0.973
                features.append(exact(size * (neighbour + own / 4) / 4))
            told = sum(slope * value for slope, value in zip(slopes, features)) + drawn.one() / 8
            rows.append((client, features, exact(told)))
    return Table("uneven", "linear:%d-1,loss=mse" % width, 0.0625, "target", rows)


def classes():
    """One of four classes, of which each client has mostly one."""
    drawn, count = Drawn(3), 4
    width = VALUES // count - 1
    centres = [drawn.many(width) for _ in range(count)]
    rows = []
    for client in range(CLIENTS):
        for row in range(ROWS):
            label = client % count if row % 4 else (client + row // 4) % count
            features = [exact((centre / 2 + own) / 8) for centre, own in zip(centres[label], drawn.many(width))]
            rows.append((client, features, label))
    return Table("classes", "softmax:%d-%d" % (width, count), 0.0625, "label", rows)


TABLES = {make.__name__: make for make in (even, uneven, classes)}


if __name__ == "__main__":
    TABLES[sys.argv[1]]().write(sys.argv[2])
