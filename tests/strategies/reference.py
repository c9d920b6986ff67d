"""The strategies in plain Python, from the papers, value by value in float64.

An update is (num_examples, local_steps, staleness, values). A strategy is a function of the updates
of a round that returns what the server's learning rate multiplies; what it carries from round to
round it keeps itself.
"""

import math


# --- How far local steps carry: FedNova's norm of a_i, added up step by step ---


def steps_norm(steps, momentum=0.0, alpha=0.0):
    """Where a client ends whose gradient is 1 at every step."""
    distance = velocity = 0.0
    for _ in range(steps):
        velocity = momentum * velocity + 1.0 - alpha * distance
        distance += velocity
    return distance


def steps_norm_of_weights(steps, momentum=0.0, alpha=0.0):
    """The same from the paper's vectors a_i, for momentum or a proximal term."""
    assert momentum == 0.0 or alpha == 0.0
    if momentum > 0.0:
        return sum((1 - momentum ** (steps - k)) / (1 - momentum) for k in range(steps))
    return sum((1 - alpha) ** k for k in range(steps))


# --- Means ---


def step_scales(updates, momentum=0.0, alpha=0.0, bounded=True, scale_max=0):
    """What normalising multiplies each update by."""
    total = sum(n for n, _, _, _ in updates)
    norms = [steps_norm(steps, momentum, alpha) for _, steps, _, _ in updates]
    most = 8 * 2 ** math.floor(math.log2(sorted(norms)[len(norms) // 2])) if bounded else math.inf
    effective = sum(n / total * min(norm, most) for (n, _, _, _), norm in zip(updates, norms))
    return [min(effective / norm, scale_max or math.inf) for norm in norms]


def bound_scales(updates, scales, norm_bound):
    """What multiplies each so that none is above norm_bound times the lower median of the norms."""
    norms = [scale * math.sqrt(sum(v * v for v in values))
             for (_, _, _, values), scale in zip(updates, scales)]
    most = norm_bound * sorted(norms)[(len(norms) - 1) // 2]
    if len(norms) < 3 or most == 0:
        return [1.0] * len(norms)
    return [min(1.0, most / norm) if norm > 0 else 1.0 for norm in norms]


def bound_claims(updates, examples_bound):
    """No update counts for more examples than examples_bound times the lower median claim."""
    claims = sorted(n for n, _, _, _ in updates)
    if len(claims) < 3 or not examples_bound:
        return updates
    most = math.floor(examples_bound * claims[(len(claims) - 1) // 2])
    return [(min(n, most), *rest) for n, *rest in updates]


def scaled_mean(updates, scales, extra=lambda staleness: 1.0):
    total = sum(n for n, _, _, _ in updates)
    count = len(updates[0][3])
    return [sum(n / total * extra(s) * values[i] * scale
                for (n, _, s, values), scale in zip(updates, scales))
            for i in range(count)]


def normalised_mean(updates, momentum, alpha, bounded=True):
    return scaled_mean(updates, step_scales(updates, momentum, alpha, bounded))


class Mean:
    """FedAvg, FedProx and FedNova."""

    def __init__(self, normalise=0, local_momentum=0.0, prox_mu=0.0, learning_rate=0.0, scale_max=0,
                 norm_bound=0, examples_bound=0):
        self.normalise = normalise
        self.scale_max = scale_max
        self.norm_bound = norm_bound
        self.examples_bound = examples_bound
        self.momentum = local_momentum
        self.alpha = prox_mu * learning_rate

    def extra(self, staleness):
        return 1.0

    def mean(self, updates):
        updates = bound_claims(updates, self.examples_bound)
        scales = [1.0] * len(updates)
        if self.normalise:
            scales = step_scales(updates, self.momentum, self.alpha, scale_max=self.scale_max)
        if self.norm_bound:
            bounds = bound_scales(updates, scales, self.norm_bound)
            scales = [scale * bound for scale, bound in zip(scales, bounds)]
        return scaled_mean(updates, scales, self.extra)

    def __call__(self, updates):
        return self.mean(updates)


class Buff(Mean):
    def extra(self, staleness):
        return 1.0 / math.sqrt(1.0 + staleness)


# --- Server optimisers ---


class AvgM(Mean):
    def __init__(self, server_momentum, **rest):
        super().__init__(**rest)
        self.beta, self.m = server_momentum, None

    def __call__(self, updates):
        mean = self.mean(updates)
        before = self.m or [0.0] * len(mean)
        self.m = [self.beta * m + d for m, d in zip(before, mean)]
        return self.m


class Svrg(Mean):
    """QSVRG's server (Alistarh et al., 2017, section 3.3), from the iterates themselves: the last of an epoch is
    replaced by the mean of all."""

    def __init__(self, steps):
        super().__init__()
        self.steps = steps
        self.iterates = []

    def round(self, model, updates, begins):
        if begins:
            self.iterates = [model]
        self.iterates.append([w + d for w, d in zip(model, self.mean(updates))])
        if len(self.iterates) < self.steps:
            return self.iterates[-1]
        return [sum(values) / self.steps for values in zip(*self.iterates)]


class Adaptive(Mean):
    def __init__(self, tau, beta1=0.0, beta2=0.0, **rest):
        super().__init__(**rest)
        self.tau, self.beta1, self.beta2 = tau, beta1, beta2
        self.m = self.v = None

    def __call__(self, updates):
        mean = self.mean(updates)
        m = self.m or [0.0] * len(mean)
        v = self.v or [self.tau ** 2] * len(mean)
        self.m = [self.beta1 * a + (1 - self.beta1) * d for a, d in zip(m, mean)]
        self.v = [self.second(a, d * d) for a, d in zip(v, mean)]
        return [a / (math.sqrt(b) + self.tau) for a, b in zip(self.m, self.v)]


class Adagrad(Adaptive):
    def second(self, v, square):
        return v + square


class Adam(Adaptive):
    def second(self, v, square):
        return self.beta2 * v + (1 - self.beta2) * square


class Yogi(Adaptive):
    def second(self, v, square):
        sign = (v > square) - (v < square)
        return v - (1 - self.beta2) * square * sign


# --- Coordinate by coordinate ---


def median(updates):
    columns = zip(*(values for _, _, _, values in updates))
    found = []
    for column in columns:
        column = sorted(column)
        half = len(column) // 2
        even = len(column) % 2 == 0
        found.append((column[half - 1] + column[half]) / 2 if even else column[half])
    return found


class Trimmed:
    def __init__(self, trim_percent):
        self.percent = trim_percent

    def __call__(self, updates):
        cut = len(updates) * self.percent // 100
        columns = zip(*(values for _, _, _, values in updates))
        kept = [sorted(column)[cut:len(column) - cut] for column in columns]
        return [sum(column) / len(column) for column in kept]


# --- Whole updates: Blanchard et al., NIPS 2017 ---


class Krum:
    """The m updates of least score: the summed squared distances to the n - f - 2 nearest others."""

    def __init__(self, attackers_percent, multi=False):
        self.percent = attackers_percent
        self.multi = multi

    def scores(self, vectors, attackers):
        near = max(len(vectors) - attackers - 2, 0)
        apart = [sorted(sum((a - b) ** 2 for a, b in zip(one, other))
                        for j, other in enumerate(vectors) if j != i)
                 for i, one in enumerate(vectors)]
        return [sum(distances[:near]) for distances in apart]

    def __call__(self, updates):
        vectors = [values for _, _, _, values in updates]
        n = len(vectors)
        attackers = min(n * self.percent // 100, max((n - 3) // 2, 0))
        scores = self.scores(vectors, attackers)
        order = sorted(range(n), key=lambda i: (scores[i], i))
        chosen = order[:n - attackers if self.multi else 1]
        return [sum(vectors[i][at] for i in chosen) / len(chosen) for at in range(len(vectors[0]))]
