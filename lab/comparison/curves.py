"""Curves of accuracy against rounds and against bytes, as SVG or PNG: for each table of a comparison a
row of two panels, in each a line for every run, the mean over the seeds, and a band from the least to
the most. The same results always give the same SVG."""
import io
import itertools
import statistics

import matplotlib
from matplotlib import figure, ticker

from comparison import scores
from comparison.picture import COLOURS, FIRST_COLOUR, INCH, STYLE
from comparison.tables import size

WIDTH, PANEL, HEIGHT = 1040, 430, 380
MARGIN_X, MARGIN_TOP, MARGIN_BOTTOM = 60, 40, 44
LINE_STYLES = ("-", "--", ":")


def series(result):
    """Returns (version, wire bytes per client until then, accuracy) of each measured version."""
    spent = itertools.accumulate(up + down for up, down in zip(result["round_wire_up"],
                                                               result["round_wire_down"]))
    return [(version, so_far / result["clients"], accuracy) for version, (so_far, accuracy)
            in enumerate(zip(spent, scores.series(result)), 1) if accuracy is not None]


def over_seeds(results):
    """Returns for each version measured with every seed: number, mean bytes, and mean, least and most accuracy."""
    rows = []
    for measured in zip(*(series(result) for result in results)):
        versions, spent, accuracies = zip(*measured)
        if len(set(versions)) == 1:
            rows.append((versions[0], statistics.fmean(spent), statistics.fmean(accuracies),
                         min(accuracies), max(accuracies)))
    return rows


def style_of(number):
    """Returns a line's style: the first has a colour of its own; the others differ by colour, then by dashes."""
    if number == 0:
        return {"color": FIRST_COLOUR}
    turn, colour = divmod(number - 1, len(COLOURS))
    return {"color": COLOURS[colour], "linestyle": LINE_STYLES[turn % len(LINE_STYLES)]}


def draw_lines(axes, runs, across):
    for number, (label, results) in enumerate(runs):
        rows = over_seeds(results)
        if not rows:
            continue
        style = style_of(number)
        places = [row[across] for row in rows]
        axes.plot(places, [row[2] for row in rows], linewidth=1.4, label=label, **style)
        if len(results) > 1:
            axes.fill_between(places, [row[3] for row in rows], [row[4] for row in rows],
                              color=style["color"], alpha=0.12, linewidth=0)


def draw_panels(drawing, title, runs, bottom, height):
    for column, (across, heading) in enumerate(((0, "rounds"),
                                                (1, "wire bytes per client, both ways"))):
        left = MARGIN_X + column * (PANEL + MARGIN_X)
        axes = drawing.add_axes((left / WIDTH, (bottom + MARGIN_BOTTOM) / height, PANEL / WIDTH,
                                 (HEIGHT - MARGIN_TOP - MARGIN_BOTTOM) / height))
        draw_lines(axes, runs, across)
        axes.set_xlabel(heading)
        axes.grid(True)
        axes.set_axisbelow(True)
        axes.yaxis.set_major_formatter("{x:.2f}")
        if across == 1:
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter(lambda value, _: size(value))
            axes.xaxis.set_minor_locator(ticker.NullLocator())
        else:
            axes.set_title(title or "Accuracy", loc="left", weight="bold")
            axes.legend(loc="best", frameon=False)


def curves(tables, form):
    """tables: (title, [(label, results of each seed)]); form: "svg" or "png". The file's bytes."""
    height = HEIGHT * len(tables)
    with matplotlib.rc_context(STYLE):
        drawing = figure.Figure(figsize=(WIDTH / INCH, height / INCH))
        for place, (title, runs) in enumerate(tables):
            draw_panels(drawing, title, runs, height - HEIGHT * (place + 1), height)
        file = io.BytesIO()
        if form == "svg":
            drawing.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
        else:
            drawing.savefig(file, format="png", dpi=1.5 * INCH, metadata={"Software": None})
    return file.getvalue()
