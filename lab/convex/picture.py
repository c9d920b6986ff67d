"""Distance to the optimum against epochs and against bits, as SVG: a row for each table. The same runs always give
the same bytes."""
import io
import itertools

import matplotlib
from matplotlib import figure, ticker

from comparison.picture import COLOURS, FIRST_COLOUR, INCH, STYLE
from convex import bounds

WIDTH, PANEL, HEIGHT = 1040, 430, 300
MARGIN_X, MARGIN_TOP, MARGIN_BOTTOM = 60, 40, 44
LABELS = {"qsvrg": "QSVRG", "fedavg": "QSGD, the same steps"}
# One font and no tick marks: these take most of an SVG's bytes.
SMALL = {**STYLE, "font.sans-serif": ["DejaVu Sans"], "xtick.bottom": False, "ytick.left": False}
COLOUR_OF = {"qsvrg": FIRST_COLOUR, "fedavg": COLOURS[0]}


def draw(axes, runs, across):
    """runs: of a table, by strategy; across: 0 for epochs, 1 for bits that a client has sent."""
    for strategy, run in runs.items():
        places = [range(len(run["distances"])), [0, *itertools.accumulate(run["bits"])]][across]
        # Rounding in float64 may make the last distances negative.
        shown = [max(distance, 1e-16) for distance in run["distances"]]
        axes.plot(places, shown, "o-", markersize=3, linewidth=1.4, label=LABELS[strategy], color=COLOUR_OF[strategy])
    if across == 0:
        first = runs["qsvrg"]["distances"][0]
        epochs = range(len(runs["qsvrg"]["distances"]))
        axes.plot(epochs, [first * bounds.RATE ** epoch for epoch in epochs], "--", linewidth=1, color="#999999",
                  label="the theorem: 0.9 of it left after each epoch")


def lay_out(axes, across):
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(ticker.LogLocator(base=100, numticks=20))
    axes.yaxis.set_minor_locator(ticker.NullLocator())
    axes.yaxis.set_major_formatter("{x:.0e}")
    axes.set_xlabel(("epochs", "bits that a client has sent")[across])
    axes.xaxis.set_major_locator(ticker.MaxNLocator(nbins=8, integer=True))
    if across == 1:
        axes.xaxis.set_major_formatter(lambda value, _: "%g M" % (value / 1e6))
    axes.grid(True)
    axes.set_axisbelow(True)


def picture(tables):
    """tables: of each its runs by strategy. The SVG as text."""
    height, file = HEIGHT * len(tables), io.StringIO()
    with matplotlib.rc_context(SMALL):
        drawing = figure.Figure(figsize=(WIDTH / INCH, height / INCH))
        for place, (name, runs) in enumerate(tables.items(), 1):
            for across in (0, 1):
                axes = drawing.add_axes(((MARGIN_X + across * (PANEL + MARGIN_X)) / WIDTH,
                                         (height - HEIGHT * place + MARGIN_BOTTOM) / height, PANEL / WIDTH,
                                         (HEIGHT - MARGIN_TOP - MARGIN_BOTTOM) / height))
                draw(axes, runs, across)
                lay_out(axes, across)
                if across == 0:
                    axes.set_title("%s: distance to the optimum, f - f*" % name, loc="left", weight="bold")
                    axes.legend(loc="best", frameon=False)
        drawing.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return file.getvalue()
