"""Colour pictures that are drawn on the spot: five shapes, each plain or striped, of many sizes, places and angles, on a
background of two colours with blots and noise. A class has a tint, which only leans to it: the shape tells the rest."""
import numpy

SHAPES = 5
CLASSES = 2 * SHAPES
BLOTS = 2  # behind the shape
NOISE = 0.1
LEAST_CONTRAST = 0.3
GROUND = 0.6  # how far backgrounds are from grey
TINT = 0.65  # share of a shape's colour that follows from its class


def inside(shape, x, y):
    """Which points of the plane a shape of about radius 1 covers."""
    radius, most = numpy.hypot(x, y), numpy.maximum(abs(x), abs(y))
    return numpy.select(
        [shape == 0, shape == 1, shape == 2, shape == 3],
        [radius < 0.95, most < 0.82, (y > -0.6) & (y < 1.0 - 1.8 * abs(x)),
         (numpy.minimum(abs(x), abs(y)) < 0.32) & (most < 1.0)],
        (radius < 1.0) & (radius > 0.55))


def colours(draw, count):
    return draw.uniform(0, 1, (count, 3, 1, 1))


def tints():
    """One of each class, the same in all data sets."""
    return colours(numpy.random.default_rng(5), CLASSES)


def unlike(draw, other, tint):
    """Colours of some tints that differ from others by LEAST_CONTRAST in the mean of the channels, where they can."""
    found = TINT * tint + (1 - TINT) * colours(draw, len(other))
    for _ in range(20):
        near = abs(found - other).mean((1, 2, 3)) < LEAST_CONTRAST
        found[near] = TINT * tint[near] + (1 - TINT) * colours(draw, int(near.sum()))
    return found


def some(draw, count, size):
    """So many pictures [count][3][size][size] in float32, standardised, and their classes."""
    labels = draw.integers(0, CLASSES, count)
    line = numpy.linspace(-1, 1, size)
    across, down = numpy.meshgrid(line, line)

    def of_each(least, most):
        return draw.uniform(least, most, (count, 1, 1))
    x, y = across - of_each(-0.25, 0.25), down - of_each(-0.25, 0.25)
    angle, scale = of_each(-0.5, 0.5), of_each(0.5, 0.8)
    turned = ((numpy.cos(angle) * x + numpy.sin(angle) * y) / scale,
              (numpy.cos(angle) * y - numpy.sin(angle) * x) / scale)
    stripes = numpy.sin(turned[0] * of_each(7, 10) + of_each(0, 6)) > 0
    shape = inside((labels % SHAPES)[:, None, None], *turned)
    tilt = of_each(0, 2 * numpy.pi)
    slope = ((numpy.cos(tilt) * across + numpy.sin(tilt) * down + 1) / 2)[:, None]
    first, second = colours(draw, count), colours(draw, count)
    ground = 0.5 + GROUND * (first * slope + second * (1 - slope) - 0.5)

    for _ in range(BLOTS):
        blot = numpy.hypot(across - of_each(-1, 1), down - of_each(-1, 1)) < of_each(0.1, 0.3)
        ground = numpy.where(blot[:, None], colours(draw, count), ground)
    tint = tints()[labels]
    front = unlike(draw, (first + second) / 2, tint)
    striped = ((labels >= SHAPES)[:, None, None] & stripes)[:, None]
    painted = numpy.where(striped, unlike(draw, front, 1 - tint), front)
    pictures = numpy.where(shape[:, None], painted, ground) + draw.normal(0, NOISE, ground.shape)
    return ((pictures - 0.5) / 0.35).astype(numpy.float32), labels


def pictures(count, size, seed):
    """In parts, whose arrays are small."""
    draw = numpy.random.default_rng(seed)
    parts = [some(draw, min(2000, count - at), size) for at in range(0, count, 2000)]
    return numpy.concatenate([part for part, _ in parts]), numpy.concatenate([labels for _, labels in parts])
