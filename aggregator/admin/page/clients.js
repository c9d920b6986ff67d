// The view of all clients, as a table.
import { columnsAfter, post } from "./api.js";
import { attempt, confirm, paragraph } from "./dialogs.js";
import { Table } from "./table.js";
import { ago, byId, bytes, count, element, real } from "./text.js";

const AGAIN_MS = 30000; // between two requests for the list
const DAY_MS = 86400000;

let clients = null;
let table = null;
let readAt = 0;
let reading = null;
let now = 0;
let newest = 0; // number of the newest round
let again = () => {};

const column = (name) => (i) => clients[name][i];
const age = (i) => (clients.error_round[i] === null ? null : Math.max(0, newest - clients.error_round[i]));

export async function revoke({ id, name }, refresh) {
  const body = [paragraph(`Client ${id} (${name || "without a name"}) is shut out: its token and its key are refused from now on.`),
    paragraph("It would have to enrol again, as a new client. What it has contributed stays.")];
  if (!(await confirm(`Revoke client ${id}?`, body, "Revoke"))) return;
  await attempt("The revocation", () => post(`clients/${id}/revoke`));
  readAt = 0;
  refresh();
}

function make() {
  const shown = (name, label, value, format) => ({ name, label, number: true, value, text: (i) => format(value(i)) });
  const since = (value) => value || null;
  return new Table(byId("clients-table"), [
    { name: "id", label: "ID", number: true, value: column("id"), node: (i) => element("a", { href: `#client/${clients.id[i]}`, "aria-label": `Client ${clients.id[i]}` }, count(clients.id[i])) },
    { name: "name", label: "Name", value: column("name"), text: (i) => clients.name[i] || "–" },
    { name: "tags", label: "Tags", value: column("tags"), text: (i) => clients.tags[i] || "–" },
    { name: "state", label: "State", value: column("state"), text: column("state") },
    shown("seen", "Last seen", (i) => since(clients.last_seen_ms[i]), (v) => ago(v || 0, now)),
    shown("budget", "Budget left", column("budget_left"), (v) => (v === null ? "no limit" : bytes(v))),
    shown("norm", "Error norm", column("error_norm"), (v) => real(v, 3)),
    shown("age", "Age in rounds", age, count),
    { name: "anomaly", label: "Anomaly", value: column("anomaly"), text: (i) => anomalyOf(i) },
    shown("version", "Version", column("version"), count),
    { name: "replica", label: "Replica", value: column("replica"), text: (i) => (clients.replica[i] || "–").slice(0, 8) },
    shown("steps", "Local steps", column("local_steps"), count),
    { name: "act", label: "Actions", node: (i) => button(i) },
  ], {
    caption: "Clients", word: "client", sort: "id",
    search: (i) => `${clients.id[i]} ${clients.name[i]} ${clients.platform[i]} ${clients.tags[i]} ${clients.replica[i] || ""}`,
    rowClass: (i) => (clients.revoked[i] ? "off" : null),
    choices: [["all", () => true], ["not revoked", (i) => !clients.revoked[i]], ["revoked", (i) => clients.revoked[i]],
      ["evaluators", (i) => clients.evaluator[i]], ["silent for a day", (i) => !clients.revoked[i] && now - clients.last_seen_ms[i] > DAY_MS],
      ["budget spent", (i) => clients.budget_left[i] === 0], ["with an anomaly", (i) => anomalyOf(i) !== "–"]],
  });
}

const anomalyOf = (i) => {
  const anomaly = clients.anomaly[i];
  return anomaly === null || anomaly === "none" ? "–" : anomaly;
};

function button(i) {
  if (clients.revoked[i]) return "";
  return element("button", { type: "button", class: "small", "aria-label": `Revoke client ${clients.id[i]}`, onclick: () => revoke({ id: clients.id[i], name: clients.name[i] }, again) }, "Revoke…");
}

async function read() {
  clients = await columnsAfter("clients", "id", 0);
  readAt = Date.now();
  table = table || make();
}

// Shows the table. Fetches the list if it is older than AGAIN_MS, by one request at a time.
export async function show(status, rounds, refresh) {
  again = refresh;
  now = status.now_ms;
  newest = rounds.round.length ? rounds.round[rounds.round.length - 1] : 0;
  if (clients === null || Date.now() - readAt > AGAIN_MS) {
    reading = reading || read().finally(() => { reading = null; });
    await reading;
  }
  table.update(clients.id.length);
}
