"""A comparison as an SVG picture: accuracy against bytes or modelled time, one panel for each group,
or one for all with the Pareto front. The same rows always give the same bytes."""
import io
import math

import matplotlib
from matplotlib import figure, ticker

from comparison.tables import duration, front_of, size

FIRST_COLOUR = "#c8553d"
COLOURS = ["#1b6ca8", "#3d8b37", "#8e5bb5", "#b8860b", "#2f8f8f", "#7a7a7a"]
INCH = 72  # an SVG of matplotlib has so many units to the inch
LEFT, WIDTH, LEGEND = 64, 560, 380
TITLE, LEAST_HEIGHT, TICKS, LINE = 48, 420, 40, 15
STYLE = {"svg.hashsalt": "tern", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 8.5,
         "axes.edgecolor": "#e4e4e4", "grid.color": "#e4e4e4", "xtick.color": "#e4e4e4",
         "ytick.color": "#e4e4e4", "xtick.labelcolor": "black", "ytick.labelcolor": "black"}


class Axis:
    """The horizontal axis: its value in a row, its title, and its number format."""

    def __init__(self, plan):
        self.by_time = plan.axis == "time"
        self.bandwidth = "%g" % plan.bandwidths[0]
        self.title = ("Accuracy against modelled time of the whole run" if self.by_time else
                      "Accuracy against wire bytes per client over the whole run, both directions")

    def value(self, row):
        return row["seconds"][self.bandwidth] if self.by_time else row["total_wire"]

    def text(self, value):
        return duration(value) if self.by_time else size(value)


class Panel:
    """Rows with their colours, and the lines under the title. `front`: rows joined by a line."""

    def __init__(self, rows, colours, subtitle, front=()):
        self.rows, self.colours, self.subtitle, self.front = rows, colours, subtitle, front
        self.height = TITLE + max(LEAST_HEIGHT, LINE * len(rows)) + TICKS
        self.most = math.ceil(max(row["accuracy"] for row in rows) * 100 + 0.2) / 100
        worst = min(row["accuracy"] for row in rows)
        self.least = max(math.floor(worst * 50) / 50, self.most - 0.16)

    def draw(self, axes, axis):
        scales(axes, axis, [axis.value(row) for row in self.rows])
        axes.set_ylim(self.least, self.most)
        axes.text(0, 1, axis.title + "\n", weight="bold", transform=axes.transAxes, va="bottom")
        axes.text(0, 1, self.subtitle + "pale: below the axis", transform=axes.transAxes, va="bottom")
        axes.plot([axis.value(row) for row in self.front], [row["accuracy"] for row in self.front],
                  color="#999999", linestyle="--", linewidth=1, zorder=1)
        for number, (row, colour) in enumerate(zip(self.rows, self.colours), 1):
            self.point(axes, number, axis.value(row), row["accuracy"], colour)
            axes.annotate("%d  %s  (%.4f, %s)" % (number, row["label"], row["accuracy"],
                                                  axis.text(axis.value(row))),
                          (1, 1), xytext=(20, -LINE * number), xycoords="axes fraction",
                          textcoords="offset points")

    def point(self, axes, number, value, accuracy, colour):
        shown = max(accuracy, self.least)
        axes.plot(value, shown, "o", markersize=7, color=colour, markeredgewidth=0, clip_on=False,
                  alpha=0.9 if accuracy >= self.least else 0.3, zorder=2)
        axes.annotate(str(number), (value, shown), xytext=(6, 5 - number % 3 * 4),
                      textcoords="offset points")


def scales(axes, axis, values):
    """Returns the scales: horizontal logarithmic in quarters of a decade, vertical in hundredths, with a grid."""
    axes.set_xscale("log")
    axes.set_xlim(10 ** (math.floor(math.log10(min(values)) * 4) / 4),
                  10 ** (math.ceil(math.log10(max(values)) * 4) / 4 + 0.01))
    axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(lambda value, _: axis.text(value))
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.yaxis.set_major_locator(ticker.MaxNLocator(nbins=10, steps=[1, 2]))
    axes.yaxis.set_major_formatter("{x:.2f}")
    axes.grid(True)
    axes.set_axisbelow(True)


def with_accuracy(groups):
    """Returns the groups without rows that have no accuracy."""
    known = [(name, [row for row in rows if row["accuracy"] is not None and row["score"] != "loss"])
             for name, rows in groups]
    return [(name, rows) for name, rows in known if rows]


def separate(plan, groups):
    return [Panel(rows, [FIRST_COLOUR] + [COLOURS[0]] * (len(rows) - 1),
                  "".join(part + "; " for part in plan.overrides_of_group(name)))
            for name, rows in groups]


def together(axis, groups):
    rows, colours = [], []
    for number, (_, group) in enumerate(groups):
        rows += group
        colours += [FIRST_COLOUR] + [COLOURS[number % len(COLOURS)]] * (len(group) - 1)
    return [Panel(rows, colours, "dashed: the Pareto front; one colour for each group; ",
                  sorted(front_of(groups), key=axis.value))]


def picture(plan, groups):
    """Returns the SVG as text."""
    axis, groups = Axis(plan), with_accuracy(groups)
    panels = together(axis, groups) if plan.front else separate(plan, groups)
    width, height = LEFT + WIDTH + LEGEND, sum(panel.height for panel in panels)
    file, top = io.StringIO(), height
    with matplotlib.rc_context(STYLE):
        drawing = figure.Figure(figsize=(width / INCH, height / INCH))
        for panel in panels:
            top -= panel.height
            inner = panel.height - TITLE - TICKS
            panel.draw(drawing.add_axes((LEFT / width, (top + TICKS) / height, WIDTH / width,
                                         inner / height)), axis)
        drawing.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return file.getvalue()
