// Compares this run with another run, from a file of "Save run" or a reply of /api/v1/rounds/columns.
import { attempt } from "./dialogs.js";
import { evaluated, evaluatedNames, labelOf, textOf } from "./figures.js";
import { small } from "./table.js";
import { byId, bytes, count, duration, element, fill, real } from "./text.js";

const NEEDED = ["round", "state", "opened_ms", "closed_ms", "mean_loss", "accuracy", "evaluated_loss", "metrics", "participants",
  ...["payload", "http", "tls", "wire"].flatMap((layer) => [`${layer}_up`, `${layer}_down`])];

let other = null; // the run to compare with: {name, rounds}
let own = null; // this run: {model, rounds}

// Returns the rounds of the other run; null = none is chosen.
export const otherRounds = () => (other === null ? null : other.rounds);

// Returns the closed rounds. Curves and comparisons leave out an open round, whose figures are of only some members.
export function closedOf(rounds) {
  const closed = rounds.state.findIndex((state) => state === "open");
  return closed < 0 ? rounds : Object.fromEntries(Object.entries(rounds).map(([name, column]) => [name, column.slice(0, closed)]));
}

export function saveFile(name, parts, type) {
  const link = element("a", { href: URL.createObjectURL(new Blob(parts, { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

function read(name, text) {
  let found;
  try {
    found = JSON.parse(text);
  } catch (error) {
    throw new Error(`${name} is not JSON: ${error.message}. Choose a file that "Save run" wrote.`);
  }
  const rounds = found?.rounds ?? found;
  const missing = NEEDED.find((column) => !Array.isArray(rounds?.[column]));
  if (missing !== undefined) throw new Error(`${name} has no column "${missing}". Choose a file that "Save run" wrote, or what /api/v1/rounds/columns answers.`);
  const uneven = NEEDED.find((column) => rounds[column].length !== rounds.round.length);
  if (uneven !== undefined) throw new Error(`${name}: column "${uneven}" has ${rounds[uneven].length} values, and "round" has ${rounds.round.length}.`);
  const closed = closedOf(rounds);
  if (closed.round.length === 0) throw new Error(`${name} has no closed round. There is nothing to compare.`);
  return { name, rounds: closed };
}

async function choose(refresh) {
  const [file] = byId("other-run").files;
  byId("other-run").value = "";
  if (file === undefined) return;
  const found = await attempt("Reading the other run", async () => read(file.name, await file.text()));
  if (found !== undefined) other = found;
  refresh();
}

export function start(refresh) {
  byId("other-run").addEventListener("change", () => choose(refresh));
  byId("compare").addEventListener("click", () => byId("other-run").click());
  byId("save-run").addEventListener("click", () => saveFile(`${own.model.replace(/[^\w.-]+/g, "-")}-run.json`, [JSON.stringify(own)], "application/json"));
  byId("compare-end").addEventListener("click", () => {
    other = null;
    refresh();
  });
}

// --- The table

const lastOf = (column) => column.findLast((value) => value !== null) ?? null;
const sum = (column) => column.reduce((all, value) => all + value, 0);
const perUpdate = (rounds, name) => (sum(rounds.participants) > 0 ? sum(rounds[name]) / sum(rounds.participants) : null);

function rowsOf(runs) {
  const row = (label, value, text) => [label, ...runs.map((rounds) => text(value(rounds)))];
  const names = new Set(runs.flatMap(evaluatedNames));
  return [
    row("Rounds", (rounds) => rounds.round.length, count),
    row("Duration", (rounds) => rounds.closed_ms[rounds.closed_ms.length - 1] - rounds.opened_ms[0], duration),
    row("Updates", (rounds) => sum(rounds.participants), count),
    row("Training loss, last", (rounds) => lastOf(rounds.mean_loss), real),
    row("Evaluation loss, last", (rounds) => lastOf(rounds.evaluated_loss), real),
    ...[...names].map((name) => row(`${labelOf(name)}, last`, (rounds) => lastOf(evaluated(rounds, name)), textOf(name))),
    row("Up per update", (rounds) => perUpdate(rounds, "wire_up"), bytes),
    row("Down per update", (rounds) => perUpdate(rounds, "wire_down"), bytes),
    row("On the wire, both ways", (rounds) => sum(rounds.wire_up) + sum(rounds.wire_down), bytes),
  ];
}

export function show(status, rounds) {
  own = { model: status.model, rounds };
  byId("save-run").disabled = rounds.round.length === 0;
  byId("compared").hidden = other === null || rounds.round.length === 0;
  if (byId("compared").hidden) return;
  fill(byId("compared-table"), [small("This run and the other run", [["Figure"], ["This run", true], [other.name, true]], rowsOf([rounds, other.rounds]))]);
}
