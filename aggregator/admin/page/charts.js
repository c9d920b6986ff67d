// Curves by uPlot, where the program has it.
import { element } from "./text.js";

export const hasCharts = () => typeof window.uPlot === "function";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

const nothing = "–";

// A curve per series over one x: {label, colour, dash, text(value)}. What the curves end with is told to those
// who do not see them, and arrow keys go from point to point.
export class Chart {
  constructor(host) {
    this.series = [];
    this.kind = null;
    this.data = null;
    this.plot = null;
    this.heard = element("p", { class: "unseen", "aria-live": "polite" });
    this.caption = element("figcaption");
    this.place = element("div", { class: "plot", role: "img", tabindex: "0" });
    this.place.addEventListener("keydown", (event) => this.step(event));
    host.append(element("figure", { class: "card" }, this.caption, this.place, this.heard));
    new ResizeObserver(() => this.resize()).observe(this.place);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  // What it draws from now on; nothing changes where it is of that kind already.
  describe(kind, title, note, series, options) {
    if (this.kind === kind) return this;
    if (this.plot !== null) this.plot.destroy();
    Object.assign(this, { kind, title, series, options, data: null, plot: null });
    this.heard.textContent = "";
    this.caption.replaceChildren(`${title} `, element("small", {}, note));
    return this;
  }

  // x: {values, label, text}; columns: one array for each series.
  set(x, columns) {
    const same = this.plot !== null && this.x !== undefined && this.x.label === x.label;
    this.x = x;
    this.data = [x.values, ...columns];
    this.place.setAttribute("aria-label", `${this.title}. ${this.summary()} Arrow keys go from point to point.`);
    if (same) this.plot.setData(this.data);
    else this.draw();
  }

  summary() {
    return this.series.map((series, i) => {
      const known = this.data[i + 1].filter((value) => value !== null);
      if (known.length === 0) return `${series.label}: nothing yet.`;
      return `${series.label}: ${series.text(known[0])} at first, ${series.text(known[known.length - 1])} at last.`;
    }).join(" ");
  }

  size() {
    return { width: Math.max(200, this.place.clientWidth), height: 210 };
  }

  resize() {
    if (this.plot !== null && this.plot.width !== this.size().width) this.plot.setSize(this.size());
  }

  draw() {
    if (this.data === null || !hasCharts()) return;
    if (this.plot !== null) this.plot.destroy();
    const axis = { stroke: colour("quiet"), grid: { stroke: colour("grid"), width: 1 }, ticks: { stroke: colour("grid"), width: 1 },
      font: "11px system-ui, sans-serif" };
    this.plot = new window.uPlot({
      ...this.size(),
      scales: { x: { time: false }, y: this.options.scale || {} },
      axes: [
        { ...axis, values: (_, ticks) => ticks.map(this.x.tick), space: 60, size: 30 },
        { ...axis, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : this.options.tick(tick))), size: 62 },
      ],
      legend: { markers: { width: 2 } },
      cursor: { drag: { x: true, y: false }, points: { size: 6 } },
      series: [
        { label: this.x.label, value: (_, value) => (value === null ? nothing : this.x.text(value)) },
        ...this.series.map((series) => ({
          label: series.label, stroke: colour(series.colour), width: 1.5, dash: series.dash, spanGaps: true,
          points: { show: this.data[0].length < 40, size: 4 },
          value: (_, value) => (value === null ? nothing : series.text(value)),
        })),
      ],
    }, this.data, this.place);
  }

  step(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by === undefined || this.plot === null || this.data[0].length === 0) return;
    event.preventDefault();
    const last = this.data[0].length - 1;
    const at = this.plot.cursor.idx;
    const next = Math.min(last, Math.max(0, at === null || at === undefined ? last : at + by));
    this.plot.setCursor({ left: this.plot.valToPos(this.data[0][next], "x"), top: 40 });
    this.heard.textContent = [`${this.x.label} ${this.x.text(this.data[0][next])}`, ...this.series.map((series, i) => {
      const value = this.data[i + 1][next];
      return `${series.label} ${value === null ? nothing : series.text(value)}`;
    })].join(", ");
  }
}
