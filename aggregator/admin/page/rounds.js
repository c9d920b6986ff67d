// Every round as a row.
import { Table } from "./table.js";
import { byId, bytes, count, duration, percent, real } from "./text.js";

let rounds = null;
let table = null;

const perUpdate = (name) => (i) => (rounds.participants[i] > 0 ? rounds[name][i] / rounds.participants[i] : null);
const lasted = (i) => (rounds.closed_ms[i] ? rounds.closed_ms[i] - rounds.opened_ms[i] : null);

const figuresOf = (i) => Object.entries(rounds.metrics[i] || {});

function make() {
  const column = (name) => (i) => rounds[name][i];
  const shown = (name, label, value, format) => ({ name, label, number: true, value, text: (i) => format(value(i)) });
  return new Table(byId("rounds-table"), [
    shown("round", "Round", column("round"), count),
    { name: "state", label: "State", value: column("state"), text: column("state") },
    shown("applied", "Updates", column("applied"), count),
    shown("target", "Wanted", column("target"), count),
    shown("lasted", "Lasted", lasted, (ms) => (ms === null ? "–" : duration(ms))),
    shown("mean_loss", "Loss", column("mean_loss"), real),
    shown("accuracy", "Accuracy", column("accuracy"), percent),
    { name: "figures", label: "Figures", value: (i) => figuresOf(i)[0]?.[1] ?? null, text: (i) => figuresOf(i).map(([name, v]) => `${name} ${real(v)}`).join(", ") || "–" },
    { name: "model", label: "Of", value: column("accuracy_model"), text: (i) => rounds.accuracy_model[i] || "–" },
    shown("steps", "Steps", column("local_steps"), (v) => (v === null ? "–" : v.toFixed(1))),
    shown("rate", "Learning rate", column("learning_rate"), (v) => String(v)),
    shown("up", "Up / update", perUpdate("wire_up"), bytes),
    shown("down", "Down / update", perUpdate("wire_down"), bytes),
  ], {
    caption: "Rounds", word: "round", sort: "round", descending: true,
    search: (i) => `${rounds.round[i]} ${rounds.state[i]}`,
    choices: [["all", () => true], ["evaluated", (i) => rounds.accuracy_model[i] !== null], ["below their target", (i) => rounds.state[i] === "committed" && rounds.applied[i] < rounds.target[i]]],
  });
}

export function show(_, all) {
  rounds = all;
  table = table || make();
  table.update(rounds.round.length);
}
