// Formats numbers and times for people, and makes elements.
const whole = new Intl.NumberFormat("en");

export const count = (value) => (value === null ? "–" : whole.format(value));

export function bytes(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  const digits = unit === 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return `${value.toFixed(digits)} ${units[unit]}`;
}

export const real = (value, digits = 4) =>
  value === null || value === undefined ? "–" : value !== 0 && Math.abs(value) < 1e-3 ? value.toExponential(2) : value.toFixed(digits);

export const percent = (value) => (value === null || value === undefined ? "–" : `${(100 * value).toFixed(2)} %`);

export function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 9950) return `${(ms / 1000).toFixed(1)} s`;
  const s = Math.round(ms / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} m ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} m`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
}

export const clock = (ms) => (ms ? new Date(ms).toLocaleString([], { dateStyle: "medium", timeStyle: "medium" }) : "–");

export const clockShort = (ms) => (ms ? new Date(ms).toLocaleString([], { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" }) : "–");

// Formats a label of an axis that spans `span` milliseconds.
export function clockTick(ms, span) {
  const date = new Date(ms);
  if (span > 3 * 86400000) return date.toLocaleDateString([], { month: "short", day: "numeric" });
  return date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", ...(span < 600000 ? { second: "2-digit" } : {}) });
}

export const ago = (then, now) => (then === 0 ? "never" : `${duration(Math.max(0, now - then))} ago`);

export const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

// Makes an element: element("p", { class: "quiet" }, "text", child...). Markup in a text is not interpreted.
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") made.addEventListener("click", value);
    else if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

// Splits a sentence with commands between backticks into texts and elements.
export const codeIn = (text) => text.split("`").map((part, i) => (i % 2 === 1 ? element("code", {}, part) : document.createTextNode(part)));

// Makes a card with a list of names and values.
export function definitions(title, pairs) {
  return element("section", { class: "card" }, element("h3", {}, title),
    element("dl", { class: "facts" }, ...pairs.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)])));
}

export const byId = (id) => document.getElementById(id);

export function setText(id, text) {
  const node = byId(id);
  if (node.textContent !== text) node.textContent = text;
}

function sameAttributes(old, made) {
  for (const { name } of [...old.attributes]) if (!made.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of [...made.attributes]) {
    if (name === "style") old.style.cssText = made.style.cssText;
    else if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
}

// Changes `old` to equal `made` with few changes, so that focus, selection and scrolling stay. Replaces a button that
// differs, since its listener differs, too.
function morph(old, made) {
  if (old.isEqualNode(made)) return;
  if (old.nodeName !== made.nodeName || old.nodeType !== Node.ELEMENT_NODE || old.nodeName === "BUTTON") {
    old.replaceWith(made);
    return;
  }
  sameAttributes(old, made);
  fill(old, [...made.childNodes]);
}

// Sets the children of a node, keeping as many of the present ones as possible.
export function fill(host, children) {
  const old = [...host.childNodes];
  children.forEach((child, i) => {
    if (i < old.length) morph(old[i], child);
    else host.append(child);
  });
  for (const left of old.slice(children.length)) left.remove();
}
