"""The largest of some values."""

MILLION = 1000000


def how_many(density, n):
    """Returns the number of values sent out of n, at a density in millionths."""
    return -(-density * n // MILLION)


def kth_magnitude(values, k):
    return sorted((abs(t) for t in values), reverse=True)[k - 1]


def largest(values, density):
    """Indices of the values of largest magnitude, in order; of equal ones those of lower index.
    Zeros are never among them."""
    order = sorted(range(len(values)), key=lambda i: (-abs(values[i]), i))
    return sorted(i for i in order[: how_many(density, len(values))] if values[i] != 0)
