"""A comparison as an SVG picture: accuracy against bytes or modelled time, one panel for each group,
or one for all with the Pareto front."""
import math

from comparison.tables import duration, front_of, size

FIRST_COLOUR = "#c8553d"
COLOURS = ["#1b6ca8", "#3d8b37", "#8e5bb5", "#b8860b", "#2f8f8f", "#7a7a7a"]


def escape(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def line(x1, y1, x2, y2, colour):
    return '<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"/>' % (x1, y1, x2, y2, colour)


def label(x, y, text, anchor, weight="normal"):
    return ('<text x="%.1f" y="%.1f" text-anchor="%s" font-weight="%s">%s</text>'
            % (x, y, anchor, weight, escape(text)))


class Axis:
    """What lies across: its value of a row, its title, and how a value is written."""

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
    """Rows with a colour each; across is logarithmic."""
    LEFT, TOP, WIDTH, HEIGHT, LEGEND = 64, 40, 560, 420, 330

    def __init__(self, axis, rows, colours, top):
        self.axis, self.rows, self.colours, self.top = axis, rows, colours, top
        values = [axis.value(row) for row in rows]
        self.low = math.floor(math.log10(min(values)) * 4) / 4
        self.high = math.ceil(math.log10(max(values)) * 4) / 4 + 0.01
        best = max(row["accuracy"] for row in rows)
        self.most = math.ceil(best * 100 + 0.2) / 100
        worst = min(row["accuracy"] for row in rows)
        self.least = max(math.floor(worst * 50) / 50, self.most - 0.16)

    def x(self, value):
        return self.LEFT + self.WIDTH * (math.log10(value) - self.low) / (self.high - self.low)

    def y(self, accuracy):
        share = (max(accuracy, self.least) - self.least) / (self.most - self.least)
        return self.top + self.TOP + self.HEIGHT * (1 - share)

    def axes(self):
        parts = []
        for decade in range(math.floor(self.low), math.ceil(self.high) + 1):
            for factor in (1, 2, 5):
                value = factor * 10.0 ** decade
                if self.low <= math.log10(value) <= self.high:
                    parts.append(line(self.x(value), self.top + self.TOP, self.x(value),
                                      self.top + self.TOP + self.HEIGHT, "#e4e4e4"))
                    parts.append(label(self.x(value), self.top + self.TOP + self.HEIGHT + 16,
                                       self.axis.text(value), "middle"))
        step = 0.01 if self.most - self.least <= 0.1 else 0.02
        for i in range(math.ceil(self.least / step), math.floor(self.most / step) + 1):
            parts.append(line(self.LEFT, self.y(i * step), self.LEFT + self.WIDTH,
                              self.y(i * step), "#e4e4e4"))
            parts.append(label(self.LEFT - 8, self.y(i * step) + 4, "%.2f" % (i * step), "end"))
        return parts

    def front(self, rows):
        points = " ".join("%.1f,%.1f" % (self.x(self.axis.value(row)), self.y(row["accuracy"]))
                          for row in rows)
        return '<polyline points="%s" fill="none" stroke="#999" stroke-dasharray="4 3"/>' % points

    def draw(self, subtitle):
        parts = [label(self.LEFT, self.top + 16, self.axis.title, "start", "bold"),
                 label(self.LEFT, self.top + 31, subtitle + "pale: below the axis", "start")]
        parts += self.axes()
        for number, (row, colour) in enumerate(zip(self.rows, self.colours), 1):
            below = row["accuracy"] < self.least
            x, y = self.x(self.axis.value(row)), self.y(row["accuracy"])
            parts.append('<circle cx="%.1f" cy="%.1f" r="4" fill="%s" fill-opacity="%s"/>'
                         % (x, y, colour, "0.3" if below else "0.9"))
            parts.append(label(x + 6, y - 5 + (number % 3) * 4, str(number), "start"))
            parts.append(label(self.LEFT + self.WIDTH + 20, self.top + self.TOP + 6 + 15 * number,
                               "%d  %s  (%.4f, %s)" % (number, row["label"], row["accuracy"],
                                                       self.axis.text(self.axis.value(row))),
                               "start"))
        return parts

    @classmethod
    def height(cls, rows):
        return cls.TOP + max(cls.HEIGHT, 15 * len(rows)) + 60


def separate(plan, axis, groups):
    parts, top = [], 0
    for name, rows in groups:
        colours = [FIRST_COLOUR] + [COLOURS[0]] * (len(rows) - 1)
        panel = Panel(axis, rows, colours, top)
        parts += panel.draw("".join(part + "; " for part in plan.overrides_of_group(name)))
        top += Panel.height(rows)
    return parts, top


def together(plan, axis, groups):
    rows, colours = [], []
    for number, (_, group) in enumerate(groups):
        rows += group
        colours += [FIRST_COLOUR] + [COLOURS[number % len(COLOURS)]] * (len(group) - 1)
    panel = Panel(axis, rows, colours, 0)
    front = sorted(front_of(groups), key=axis.value)
    return ([panel.front(front)] + panel.draw("dashed: the Pareto front; one colour for each "
                                              "group; "), Panel.height(rows))


def picture(plan, groups):
    axis = Axis(plan)
    parts, height = (together if plan.front else separate)(plan, axis, groups)
    width = Panel.LEFT + Panel.WIDTH + Panel.LEGEND + 60
    return ('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" '
            'font-family="sans-serif" font-size="11">\n<rect width="100%%" height="100%%" '
            'fill="white"/>\n%s\n</svg>\n' % (width, height, "\n".join(parts)))
