// A table that shows its rows in pages, filtered and sorted by a column; usable by keyboard.
import { get } from "./api.js";
import { ago, bytes, clockShort, count, duration, element, fill, percent, real } from "./text.js";

const PAGE_ROWS = 50;

let views = null; // lists by name; a list is an array of its columns, each {name, title, type, format, listed}

// Fetches the descriptions of all lists.
export async function readViews() {
  views = views || await get("views");
}

const UNKNOWN = "–";

// Texts of known values by the format of their column.
const TEXTS = {
  plain: (value) => (typeof value === "number" ? count(value) : String(value)),
  bytes,
  duration,
  score: (value) => real(value),
  share: percent,
  short: (value) => String(Number(value.toPrecision(4))),
  time: clockShort,
  ago: (value, now) => ago(value, now),
  id: (value) => value.slice(0, 8),
};

function textOf({ type, format }, value, now) {
  if (value === null || value === "") return UNKNOWN;
  if (type === "boolean") return value ? "yes" : UNKNOWN;
  if (type === "object") return Object.entries(value).map(([name, v]) => `${name} ${real(v)}`).join(", ") || UNKNOWN;
  return (TEXTS[format] || TEXTS.plain)(value, now);
}

// Returns what a column is sorted by; null = unknown. The time 0 means "never", or "not yet".
function sortKey({ type, format }, value) {
  if (value === null) return null;
  if (type === "object") return Object.values(value)[0] ?? null;
  if (type === "boolean") return Number(value);
  return value === 0 && (format === "time" || format === "ago") ? null : value;
}

// Makes the columns that the dashboard shows of a list, from the API's description. rows: {value(name, i), now()}.
// special: {NAME: {value(i), text(i), node(i)}}, in place of what the description gives.
export function columnsOf(list, rows, special = {}) {
  return views[list].filter(({ listed }) => listed).map((column) => ({
    name: column.name,
    label: column.title,
    number: column.type === "integer" || column.type === "number",
    long: column.format === "long" || column.format === "note",
    value: (i) => sortKey(column, rows.value(column.name, i)),
    text: (i) => textOf(column, rows.value(column.name, i), rows.now()),
    ...special[column.name],
  }));
}

// columns: {name, label, number, long, value(i), text(i), node(i)} with the index i of a row; rows are sorted by value, and
// text or node is shown.
// options: {caption, search(i), choices: [[label, keeps(i)]], word, rowClass(i), sort, descending, wrap}
export class Table {
  constructor(host, columns, options) {
    this.columns = columns;
    this.options = options;
    this.rows = 0;
    this.order = [];
    this.page = 0;
    this.sort = columns.find((column) => column.name === options.sort) || columns[0];
    this.descending = options.descending === true;
    this.build(host);
  }

  build(host) {
    const { options } = this;
    this.search = element("input", { type: "search", "aria-label": `Find ${options.word}s`, placeholder: "Find" });
    this.search.addEventListener("input", () => this.arrange(true));
    this.choice = element("select", { "aria-label": `Which ${options.word}s` },
      ...options.choices.map(([label], i) => element("option", { value: i }, label)));
    this.choice.addEventListener("change", () => this.arrange(true));
    this.back = element("button", { type: "button", class: "small", onclick: () => this.turn(-1) }, "Previous");
    this.forth = element("button", { type: "button", class: "small", onclick: () => this.turn(1) }, "Next");
    this.where = element("span", { class: "quiet", role: "status" });
    this.heads = this.columns.map((column) => this.head(column));
    this.body = element("tbody");
    const table = element("table", { class: options.wrap ? "rows wrap" : "rows" },
      element("caption", { class: "unseen" }, options.caption),
      element("thead", {}, element("tr", {}, ...this.heads)), this.body);
    host.replaceChildren(
      element("div", { class: "tools" }, this.search, options.choices.length > 1 ? this.choice : null,
        element("span", { class: "grow" }), this.where, this.back, this.forth),
      element("div", { class: "card scroll", tabindex: "0", role: "group", "aria-label": options.caption }, table));
  }

  head(column) {
    const attributes = { scope: "col", class: classOf(column) };
    if (column.value === undefined) return element("th", attributes, element("span", { class: "unseen" }, column.label));
    return element("th", attributes, element("button", { type: "button", onclick: () => this.sortBy(column) }, column.label));
  }

  sortBy(column) {
    this.descending = column === this.sort ? !this.descending : column.number === true;
    this.sort = column;
    this.arrange(true);
  }

  turn(by) {
    this.page += by;
    this.show();
  }

  update(rows) {
    this.rows = rows;
    this.arrange(false);
  }

  arrange(toStart) {
    const word = this.search.value.trim().toLowerCase();
    const keeps = this.options.choices[Number(this.choice.value) || 0][1];
    const value = this.sort.value;
    const order = [];
    for (let i = 0; i < this.rows; i++) {
      if (keeps(i) && (word === "" || this.options.search(i).toLowerCase().includes(word))) order.push(i);
    }
    const sign = this.descending ? -1 : 1;
    order.sort((a, b) => sign * compare(value(a), value(b), sign) || a - b);
    this.order = order;
    if (toStart) this.page = 0;
    this.show();
  }

  show() {
    const pages = Math.max(1, Math.ceil(this.order.length / PAGE_ROWS));
    this.page = Math.min(Math.max(this.page, 0), pages - 1);
    const from = this.page * PAGE_ROWS;
    const shown = this.order.slice(from, from + PAGE_ROWS);
    const to = from + shown.length;
    const word = this.order.length === 1 ? this.options.word : `${this.options.word}s`;
    this.where.textContent = this.order.length === 0 ? `no ${this.options.word}s`
      : `${count(from + 1)}–${count(to)} of ${count(this.order.length)} ${word}`;
    this.back.disabled = this.page === 0;
    this.forth.disabled = this.page === pages - 1;
    this.heads.forEach((head, i) => {
      if (this.columns[i] === this.sort) head.setAttribute("aria-sort", this.descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    fill(this.body, shown.map((i) => this.row(i)));
  }

  row(i) {
    const cells = this.columns.map((column, at) => element(at === 0 ? "th" : "td",
      { class: classOf(column), scope: at === 0 ? "row" : null, "data-label": column.label },
      column.node ? column.node(i) : column.text(i)));
    return element("tr", { class: this.options.rowClass ? this.options.rowClass(i) : null }, ...cells);
  }
}

const classOf = ({ number, long }) => (number ? "number" : long ? "name" : null);

// Sorts unknown values last in both orders.
function compare(a, b, sign) {
  if (a === null || b === null) return sign * ((a === null) - (b === null));
  return a < b ? -1 : a > b ? 1 : 0;
}

// Makes a short table without pages. heads: [label, isNumber]; rows: arrays of texts or nodes; style: "wrap" or "".
export function small(caption, heads, rows, style = "") {
  return element("div", { class: "scroll tall", tabindex: "0", role: "group", "aria-label": caption },
    element("table", { class: `rows ${style}` }, element("caption", { class: "unseen" }, caption),
      element("thead", {}, element("tr", {}, ...heads.map(([label, number]) =>
        element("th", { scope: "col", class: number ? "number" : null }, label)))),
      element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((cell, i) =>
        element(i === 0 ? "th" : "td", { scope: i === 0 ? "row" : null, class: heads[i][1] ? "number" : null, "data-label": heads[i][0] }, cell)))))));
}
