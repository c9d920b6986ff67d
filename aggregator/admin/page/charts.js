// Line charts as SVG. A chart has series over one x; a second run can be drawn beside the first, dashed.
import { element, fill } from "./text.js";

const HEIGHT = 210;
const LEFT = 62; // pixels for the labels of the y axis
const RIGHT = 10;
const TOP = 8;
const BOTTOM = 24;
const TICK_WIDTH = 76; // pixels that a label of the x axis needs
const TICK_HEIGHT = 34;
const DOTS = 40; // a curve with fewer points shows each point
const TABLE_ROWS = 60;
const SVG = "http://www.w3.org/2000/svg";
const NOTHING = "–";
const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200];
const DAY_S = 86400;

function svg(tag, attributes, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// --- Scales

// Returns the smallest of 1, 2 and 5 times a power of ten that divides the span into at most `most` steps.
function roundStep(span, most) {
  const power = 10 ** Math.floor(Math.log10(span / most));
  return [1, 2, 5, 10].map((n) => n * power).find((step) => span / step <= most * 1.0001);
}

function ticksEvery(step, low, high, offset = 0) {
  const ticks = [];
  for (let i = Math.ceil((low - offset) / step - 1e-9); offset + i * step <= high + step * 1e-9; i++) ticks.push(offset + i * step);
  return ticks;
}

// Returns ticks at midnight and full hours of the reader's time zone, or at full steps of elapsed time.
function timeTicks(low, high, most, isClock) {
  const span = (high - low) / 1000;
  const step = STEPS_S.find((s) => span / s <= most) || DAY_S * Math.max(1, roundStep(span / DAY_S, most));
  const offset = isClock ? new Date(low).getTimezoneOffset() * 60000 : 0;
  return ticksEvery(1000 * step, low, high, offset);
}

function logTicks(low, high) {
  const decades = Math.log10(high / low);
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    for (const n of decades > 2.5 ? [1] : decades > 1 ? [1, 3] : [1, 2, 5]) ticks.push(n * 10 ** power);
  }
  const within = ticks.filter((tick) => tick >= low && tick <= high);
  return within.length > 1 ? within : ticksEvery(roundStep(high - low, 4), low, high);
}

function extent(columns, keeps) {
  let low = Infinity;
  let high = -Infinity;
  for (const column of columns) {
    for (const value of column) {
      if (value === null || !keeps(value)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  return low <= high ? [low, high] : null;
}

// Adds a margin to both ends of an axis, also if all values are equal.
function widened([low, high], isLog) {
  if (isLog) return low === high ? [low / 2, high * 2] : [low / 1.15, high * 1.15];
  const margin = low === high ? Math.abs(low) * 0.1 || 1 : (high - low) * 0.05;
  return [low - margin, high + margin];
}

// Returns the index of the value nearest to `wanted` in an ascending column.
function nearest(column, wanted) {
  let low = 0;
  let high = column.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (column[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return low > 0 && wanted - column[low - 1] < column[low] - wanted ? low - 1 : low;
}

function lastKnown(column) {
  for (let i = column.length - 1; i >= 0; i--) if (column[i] !== null) return i;
  return -1;
}

// --- The chart

// Series are {label, colour, dash, text(value)}. The legend shows the values under the pointer, or else the last
// ones; arrow keys move from point to point and are read aloud; a table below has the values.
export class Chart {
  constructor(host) {
    this.kind = null;
    this.runs = null; // [{values, columns}]: this run, and another one
    this.at = null; // index of the point under the pointer, in this run
    this.heard = element("p", { class: "unseen", "aria-live": "polite" });
    this.caption = element("figcaption");
    this.place = element("div", { class: "plot", role: "img", tabindex: "0" });
    this.legend = element("div", { class: "legend" });
    this.rows = element("div", { class: "scroll tall", tabindex: "0", role: "group" });
    this.details = element("details", {}, element("summary", {}, "Values"), this.rows);
    this.place.addEventListener("keydown", (event) => this.step(event));
    this.place.addEventListener("pointermove", (event) => this.point(event));
    this.place.addEventListener("pointerleave", () => this.choose(null));
    this.place.addEventListener("blur", () => this.choose(null));
    this.details.addEventListener("toggle", () => this.fillTable());
    host.append(element("figure", { class: "card" }, this.caption, this.place, this.legend, this.details, this.heard));
    new ResizeObserver(() => this.resize()).observe(this.place);
  }

  // Sets title and series; does nothing if the chart has this kind already. options: {tick(value), log}
  describe(kind, title, note, series, options) {
    if (this.kind === kind) return this;
    Object.assign(this, { kind, title, series, options, runs: null, at: null });
    this.heard.textContent = "";
    this.caption.replaceChildren(`${title} `, element("small", {}, note));
    return this;
  }

  // x: {values, label, text(value), tick(value, span), time: "clock", "elapsed" or absent}; columns: one array per
  // series, null where a value is not known. other: {values, columns} of another run, or null.
  set(x, columns, other = null) {
    this.x = x;
    this.runs = [{ values: x.values, columns }, ...(other === null ? [] : [other])];
    if (this.at !== null && this.at >= x.values.length) this.at = null;
    this.place.setAttribute("aria-label", `${this.title}. ${this.summary()} Arrow keys move from point to point.`);
    this.draw();
    this.fillTable();
  }

  summary() {
    return this.series.map((series, i) => {
      const known = this.runs[0].columns[i].filter((value) => value !== null);
      if (known.length === 0) return `${series.label}: nothing yet.`;
      return `${series.label}: ${series.text(known[0])} at first, ${series.text(known[known.length - 1])} at last.`;
    }).join(" ");
  }

  resize() {
    if (this.runs !== null && this.width !== this.place.clientWidth) this.draw();
  }

  draw() {
    const isLog = this.options.log === true;
    const keeps = isLog ? (value) => value > 0 : () => true;
    this.width = this.place.clientWidth;
    const [right, bottom] = [Math.max(LEFT + 60, this.width - RIGHT), HEIGHT - BOTTOM];
    const known = this.runs.map((run) => run.values.filter((_, i) => run.columns.some((column) => column[i] !== null)));
    const across = extent(known, () => true);
    const up = extent(this.runs.flatMap((run) => run.columns), keeps);
    const drawing = svg("svg", { class: "chart", width: Math.max(this.width, right), height: HEIGHT, "aria-hidden": "true" });
    this.place.replaceChildren(drawing);
    this.toX = null;
    if (across === null || up === null) {
      drawing.append(svg("text", { x: right / 2, y: HEIGHT / 2, class: "none" }, "Nothing yet"));
      this.showLegend();
      return;
    }
    const [x0, x1] = across[0] === across[1] ? [across[0] - 1, across[1] + 1] : across;
    const [y0, y1] = widened(up, isLog);
    const scale = isLog ? Math.log : Number;
    this.toX = (value) => LEFT + (right - LEFT) * ((value - x0) / (x1 - x0));
    this.fromX = (pixel) => x0 + (x1 - x0) * ((pixel - LEFT) / (right - LEFT));
    this.toY = (value) => bottom - (bottom - TOP) * ((scale(value) - scale(y0)) / (scale(y1) - scale(y0)));
    this.drawAxes(drawing, [x0, x1], [y0, y1], isLog, right, bottom);
    this.runs.forEach((run, which) => run.columns.forEach((column, i) => this.drawCurve(drawing, run.values, column, this.series[i], which > 0, keeps)));
    this.cursor = svg("g", { class: "cursor" });
    drawing.append(this.cursor);
    this.keeps = keeps;
    this.bottom = bottom;
    this.choose(this.at);
  }

  drawAxes(drawing, [x0, x1], [y0, y1], isLog, right, bottom) {
    const wide = Math.max(2, Math.floor((right - LEFT) / TICK_WIDTH));
    const high = Math.floor((bottom - TOP) / TICK_HEIGHT);
    const upright = isLog ? logTicks(y0, y1) : ticksEvery(roundStep(y1 - y0, high), y0, y1);
    const level = this.x.time ? timeTicks(x0, x1, wide, this.x.time === "clock") : ticksEvery(Math.max(this.x.least || 0, roundStep(x1 - x0, wide)), x0, x1);
    for (const tick of upright) {
      const y = this.toY(tick);
      drawing.append(svg("line", { class: "grid", x1: LEFT, x2: right, y1: y, y2: y }),
        svg("text", { class: "end", x: LEFT - 8, y: y + 4 }, this.options.tick(tick)));
    }
    for (const tick of level) {
      const x = this.toX(tick);
      drawing.append(svg("line", { class: "grid", x1: x, x2: x, y1: TOP, y2: bottom }));
      // Aligns a label that would cross the edge of the chart with the edge.
      drawing.append(svg("text", { class: x > right - TICK_WIDTH / 3 ? "end" : "middle", x: Math.min(x, right + 4), y: HEIGHT - 8 }, this.x.tick(tick, x1 - x0)));
    }
    drawing.append(svg("line", { class: "axis", x1: LEFT, x2: right, y1: bottom, y2: bottom }));
  }

  // Draws only the lowest and the highest point within each pixel.
  drawCurve(drawing, values, column, series, isOther, keeps) {
    const points = [];
    let [pixel, low, high] = [-1, null, null];
    const flush = () => {
      if (low === null) return;
      points.push(...(low === high ? [low] : low.at < high.at ? [low, high] : [high, low]));
      low = high = null;
    };
    let few = 0;
    column.forEach((value, i) => {
      if (value === null || !keeps(value)) return;
      const point = { at: i, x: this.toX(values[i]), y: this.toY(value) };
      few++;
      if (Math.floor(point.x) !== pixel) flush();
      pixel = Math.floor(point.x);
      if (low === null || point.y < low.y) low = point;
      if (high === null || point.y > high.y) high = point;
    });
    flush();
    const path = points.map((point, i) => `${i === 0 ? "M" : "L"}${point.x.toFixed(1)} ${point.y.toFixed(1)}`).join("");
    const style = `curve ${series.colour}${isOther ? " other" : ""}`;
    drawing.append(svg("path", { class: style, d: path, "stroke-dasharray": isOther ? "2 3" : series.dash || null }));
    if (few < DOTS) for (const point of points) drawing.append(svg("circle", { class: style, cx: point.x, cy: point.y, r: 2 }));
  }

  // --- The selected point

  point(event) {
    if (this.toX === null || this.runs[0].values.length === 0) return;
    this.choose(nearest(this.runs[0].values, this.fromX(event.clientX - this.place.getBoundingClientRect().left)));
  }

  choose(at) {
    this.at = at;
    if (this.toX === null || this.runs === null) return;
    const dots = [];
    if (at !== null) {
      const x = this.toX(this.runs[0].values[at]);
      dots.push(svg("line", { x1: x, x2: x, y1: TOP, y2: this.bottom }));
      this.series.forEach((series, i) => {
        const value = this.runs[0].columns[i][at];
        if (value !== null && this.keeps(value)) dots.push(svg("circle", { class: series.colour, cx: x, cy: this.toY(value), r: 3.5 }));
      });
    }
    this.cursor.replaceChildren(...dots);
    this.showLegend();
  }

  // Returns the value of a series at the selected point, or the last known value where no point is
  // selected.
  valueOf(run, i) {
    const column = run.columns[i];
    if (this.at === null) return column[lastKnown(column)] ?? null;
    const at = run === this.runs[0] ? this.at : nearest(run.values, this.runs[0].values[this.at]);
    return column[at] ?? null;
  }

  showLegend() {
    const last = Math.max(-1, ...this.runs[0].columns.map(lastKnown));
    const at = this.at === null ? last : this.at;
    const where = at < 0 ? "" : `${this.at === null ? "last: " : ""}${this.x.label} ${this.x.text(this.runs[0].values[at])}`;
    const entry = (run, which) => this.series.map((series, i) => {
      const value = this.valueOf(run, i);
      return element("span", { class: "entry" },
        svg("svg", { width: 18, height: 8, "aria-hidden": "true" },
          svg("path", { class: `curve ${series.colour}`, d: "M0 4H18", "stroke-dasharray": which > 0 ? "2 3" : series.dash || null })),
        `${series.label}${which > 0 ? ", other run" : ""} `, element("b", {}, value === null ? NOTHING : series.text(value)));
    });
    fill(this.legend, [element("span", { class: "where" }, where), ...this.runs.flatMap(entry)]);
  }

  step(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (by === undefined || this.runs === null || this.toX === null) return;
    event.preventDefault();
    const last = this.runs[0].values.length - 1;
    this.choose(Math.min(last, Math.max(0, this.at === null ? last : this.at + by)));
    this.heard.textContent = [`${this.x.label} ${this.x.text(this.runs[0].values[this.at])}`, ...this.series.map((series, i) => {
      const value = this.valueOf(this.runs[0], i);
      return `${series.label} ${value === null ? NOTHING : series.text(value)}`;
    })].join(", ");
  }

  // --- The table

  fillTable() {
    if (!this.details.open || this.runs === null) return;
    const { values, columns } = this.runs[0];
    const every = Math.max(1, Math.ceil(values.length / TABLE_ROWS));
    const shown = values.map((_, i) => i).filter((i) => (values.length - 1 - i) % every === 0).reverse();
    const caption = every > 1 ? `${this.title}: every ${every}th point` : this.title;
    const cells = (i) => columns.map((column, s) => element("td", { class: "number" }, column[i] === null ? NOTHING : this.series[s].text(column[i])));
    this.rows.setAttribute("aria-label", caption);
    fill(this.rows, [element("table", { class: "rows plain" }, element("caption", { class: "quiet" }, caption),
      element("thead", {}, element("tr", {}, ...[this.x.label, ...this.series.map((series) => series.label)].map((label) => element("th", { scope: "col", class: "number" }, label)))),
      element("tbody", {}, ...shown.map((i) => element("tr", {}, element("th", { scope: "row", class: "number" }, this.x.text(values[i])), ...cells(i)))))]);
  }
}
