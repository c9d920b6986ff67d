"""What theorem 3.6 of QSGD (Alistarh et al., NIPS 2017) says of QSVRG, with constants.

The paper leaves them at eta = O(1/L) and T = O(L/l). They follow as in SVRG's proof (Bubeck, Convex Optimization:
Algorithms and Complexity, theorem 6.5), in which the quantiser at s = sqrt(n) at most doubles second moments (lemma
3.1): with a = L eta and kappa = L/l, E f(y') - f* is at most this times f(y) - f*:

    kappa / (a (1 - 4 a) T) + 4 a / (1 - 4 a)"""
import math

STEP = 1 / 17  # a
STEPS = 38  # T over kappa
RATE = 0.9
FLOAT = 32  # F, bits


def factor(a, steps):
    """steps: T over kappa."""
    return 1 / (a * (1 - 4 * a) * steps) + 4 * a / (1 - 4 * a)


def rate_of(objective):
    """eta."""
    return STEP / objective.smoothness()


def steps_of(objective):
    """T."""
    return math.ceil(STEPS * objective.smoothness() / objective.convexity())


def bits_of_epoch(count, steps):
    """That a client sends at most, of a model of `count` values, with T = steps."""
    return (FLOAT + 2.8 * count) * (steps + 1) + FLOAT * count
