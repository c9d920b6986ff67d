// The view of all rounds, as a table.
import { Table, columnsOf } from "./table.js";
import { byId, count, duration } from "./text.js";

let rounds = null;
let table = null;
let now = 0;

const lasted = (i) => (rounds.closed_ms[i] || now) - rounds.opened_ms[i];

const isOpen = (i) => rounds.state[i] === "open";
const soFar = (i, text) => (isOpen(i) ? `${text} so far` : text);

function make() {
  return new Table(byId("rounds-table"), columnsOf("rounds", { value: (name, i) => rounds[name][i], now: () => now }, {
    updates: { text: (i) => soFar(i, count(rounds.updates[i])) },
    took_ms: { value: lasted, text: (i) => soFar(i, duration(Math.max(0, lasted(i)))) },
  }), {
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
