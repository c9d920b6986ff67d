// The view of all rounds, as a table.
import { Table } from "./table.js";
import { byId, bytes, clockShort, count, duration, percent, real } from "./text.js";

let rounds = null;
let table = null;
let now = 0;

const perUpdate = (name) => (i) => (rounds.participants[i] > 0 ? rounds[name][i] / rounds.participants[i] : null);
const lasted = (i) => (rounds.closed_ms[i] || now) - rounds.opened_ms[i];

const isOpen = (i) => rounds.state[i] === "open";
const updates = (i) => (isOpen(i) ? rounds.participants[i] : rounds.applied[i]);
const figuresOf = (i) => Object.entries(rounds.metrics[i] || {});

function make() {
  const column = (name) => (i) => rounds[name][i];
  const shown = (name, label, value, format) => ({ name, label, number: true, value, text: (i) => format(value(i)) });
  return new Table(byId("rounds-table"), [
    shown("round", "Round", column("round"), count),
    { name: "state", label: "State", value: column("state"), text: column("state") },
    { name: "applied", label: "Updates", number: true, value: updates, text: (i) => `${count(updates(i))}${isOpen(i) ? " so far" : ""}` },
    shown("target", "Wanted", column("target"), count),
    { name: "closed", label: "Closed", number: true, value: (i) => rounds.closed_ms[i] || now, text: (i) => clockShort(rounds.closed_ms[i]) },
    { name: "lasted", label: "Lasted", number: true, value: lasted, text: (i) => `${duration(Math.max(0, lasted(i)))}${isOpen(i) ? " so far" : ""}` },
    shown("mean_loss", "Loss", column("mean_loss"), real),
    shown("accuracy", "Accuracy", column("accuracy"), percent),
    { name: "figures", label: "Figures", value: (i) => figuresOf(i)[0]?.[1] ?? null, text: (i) => figuresOf(i).map(([name, v]) => `${name} ${real(v)}`).join(", ") || "–" },
    { name: "model", label: "Model", value: column("accuracy_model"), text: (i) => rounds.accuracy_model[i] || "–" },
    shown("steps", "Steps", column("local_steps"), (v) => (v === null ? "–" : v.toFixed(1))),
    shown("rate", "Rate", column("learning_rate"), (v) => String(v)),
    shown("up", "Up / update", perUpdate("wire_up"), bytes),
    shown("down", "Down / update", perUpdate("wire_down"), bytes),
  ], {
    caption: "Rounds", word: "round", sort: "round", descending: true,
    search: (i) => `${rounds.round[i]} ${rounds.state[i]}`,
    choices: [["all", () => true], ["evaluated", (i) => rounds.accuracy_model[i] !== null], ["below their target", (i) => rounds.state[i] === "committed" && rounds.applied[i] < rounds.target[i]]],
  });
}

export function show(status, all) {
  now = status.now_ms;
  rounds = all;
  table = table || make();
  table.update(rounds.round.length);
}
