"""Strongly convex objectives over a table, and where exactly they are least, in plain Python and float64.

    f(w) = mean over the rows of the row's loss + penalty / 2 * |w|^2

w is a model's flat vector as docs/FORMAT.md lays it out (section 6): all weights, then all biases, which
are penalised too. So f is `penalty`-strongly convex, and what tern-client trains with
train.weight_decay = penalty and no momentum. A row is (features, wanted)."""
import math
from operator import add, mul


def dot(a, b):
    return sum(map(mul, a, b))


# --- Loss of a row from the model's outputs


class Ridge:
    """`linear:F-1,loss=mse`: the square of one output's distance to a number."""

    outputs = 1
    curvature = 2.0  # the largest second derivative by the outputs

    @staticmethod
    def loss(z, wanted):
        return (z[0] - wanted) ** 2

    @staticmethod
    def slopes(z, wanted):
        return [2 * (z[0] - wanted)]

    @staticmethod
    def curvatures(_z):
        return [[2.0]]


class Softmax:
    """`softmax:F-C`: the cross-entropy of the outputs' softmax."""

    curvature = 0.5  # of diag(p) - p p', by Gershgorin's circles

    def __init__(self, classes):
        self.outputs = classes

    @staticmethod
    def shares(z):
        powers = [math.exp(value - max(z)) for value in z]
        total = sum(powers)
        return [power / total for power in powers]

    @staticmethod
    def loss(z, wanted):
        return math.log(sum(math.exp(value - max(z)) for value in z)) - (z[wanted] - max(z))

    def slopes(self, z, wanted):
        return [share - (k == wanted) for k, share in enumerate(self.shares(z))]

    def curvatures(self, z):
        p = self.shares(z)
        return [[p[a] * ((a == b) - p[b]) for b in range(len(p))] for a in range(len(p))]


# --- The mean over rows


class Objective:
    def __init__(self, loss, rows, penalty):
        self.loss, self.penalty = loss, penalty
        self.inputs = [list(features) + [1.0] for features, _ in rows]  # 1: what the bias multiplies
        self.wanted = [wanted for _, wanted in rows]
        self.width = len(self.inputs[0])
        self.count = self.width * loss.outputs  # values of the model

    def unflatten(self, w):
        """Returns for each output its weights, followed by its bias."""
        size, biases = self.width - 1, self.loss.outputs * (self.width - 1)
        return [list(w[k * size:(k + 1) * size]) + [w[biases + k]] for k in range(self.loss.outputs)]

    @staticmethod
    def flatten(vectors):
        return [value for vector in vectors for value in vector[:-1]] + [vector[-1] for vector in vectors]

    def outputs(self, vectors, row):
        return [dot(vector, self.inputs[row]) for vector in vectors]

    def value(self, w):
        vectors = self.unflatten(w)
        losses = [self.loss.loss(self.outputs(vectors, row), wanted) for row, wanted in enumerate(self.wanted)]
        return math.fsum(losses) / len(losses) + self.penalty / 2 * math.fsum(value * value for value in w)

    def gradient(self, w, rows=None):
        """Returns the gradient of penalty and mean loss over `rows` (default: all); with some rows it is stochastic."""
        rows = range(len(self.wanted)) if rows is None else rows
        vectors = self.unflatten(w)
        sums = [[0.0] * self.width for _ in vectors]
        for row in rows:
            slopes = self.loss.slopes(self.outputs(vectors, row), self.wanted[row])
            for k, slope in enumerate(slopes):
                sums[k] = list(map(add, sums[k], [slope * value for value in self.inputs[row]]))
        return [total / len(rows) + self.penalty * value for total, value in zip(self.flatten(sums), w)]

    def hessian(self, w):
        """Rows and columns in the order of the vectors of unflatten(), one behind the other."""
        vectors, count = self.unflatten(w), len(self.wanted)
        by_row = [self.loss.curvatures(self.outputs(vectors, row)) for row in range(count)]
        columns = list(zip(*self.inputs))
        made = [[0.0] * self.count for _ in range(self.count)]
        for a in range(self.loss.outputs):
            for b in range(a + 1):
                weights = [curvatures[a][b] / count for curvatures in by_row]
                for i, column in enumerate(columns):
                    weighted = list(map(mul, weights, column))
                    for j, other in enumerate(columns):
                        value = dot(weighted, other)
                        made[a * self.width + i][b * self.width + j] = value
                        made[b * self.width + j][a * self.width + i] = value
        for i in range(self.count):
            made[i][i] += self.penalty
        return made

    # Smoothness and strong convexity, which theorems use.

    def smoothness(self):
        """L: no gradient of one row, nor of any rows' mean, changes faster than this times the way."""
        return self.loss.curvature * max(dot(row, row) for row in self.inputs) + self.penalty

    def convexity(self):
        """l: the penalty's; the rows add to it what they determine of all values, which is seldom much."""
        return self.penalty

    def optimum(self):
        """The one w at which f is least: by Newton's method from 0, halving a step that f does not fall by. Of a square
        loss the first step is the closed form, and the next takes away its rounding."""
        w = [0.0] * self.count
        value = self.value(w)
        for _ in range(100):
            gradient = self.gradient(w)
            if math.sqrt(dot(gradient, gradient)) < 1e-14:
                return w
            step = self.flatten(split(solve(self.hessian(w), join(self.unflatten(gradient))), self.width))
            scale = 1.0
            while True:
                tried = [a - scale * b for a, b in zip(w, step)]
                lower = self.value(tried)
                if lower < value:
                    break
                scale /= 2
                if scale < 1e-3:  # as near as float64 comes
                    return w
            w, value = tried, lower
        raise ArithmeticError("Newton's method has not come to rest")


# --- Linear algebra


def join(vectors):
    return [value for vector in vectors for value in vector]


def split(values, width):
    return [values[at:at + width] for at in range(0, len(values), width)]


def solve(matrix, right):
    """x of matrix x = right by Cholesky's factors; the matrix is symmetric and positive definite."""
    lower = []
    for i, row in enumerate(matrix):
        made = []
        for j in range(i):
            made.append((row[j] - dot(made, lower[j])) / lower[j][j])
        made.append(math.sqrt(row[i] - dot(made, made)))
        lower.append(made)
    forward = []
    for row, value in zip(lower, right):
        forward.append((value - dot(forward, row)) / row[-1])
    columns = list(zip(*(row + [0.0] * (len(lower) - len(row)) for row in lower)))
    x = [0.0] * len(forward)
    for i in reversed(range(len(x))):
        x[i] = (forward[i] - dot(columns[i][i + 1:], x[i + 1:])) / columns[i][i]
    return x
