// The view of all clients, as a table.
import { columnsAfter, post } from "./api.js";
import { attempt, confirm, paragraph } from "./dialogs.js";
import { Table, columnsOf } from "./table.js";
import { byId, bytes, count, element } from "./text.js";

const AGAIN_MS = 30000; // between two requests for the list
const DAY_MS = 86400000;

let clients = null;
let table = null;
let readAt = 0;
let reading = null;
let now = 0;
let again = () => {};

export async function revoke({ id, name }, refresh) {
  const body = [paragraph(`Client ${id} (${name || "without a name"}) is shut out: its token and its key are refused from now on.`),
    paragraph("It would have to enrol again, as a new client. Its contributions remain in the model.")];
  if (!(await confirm(`Revoke client ${id}?`, body, "Revoke"))) return;
  await attempt("The revocation", () => post(`clients/${id}/revoke`));
  readAt = 0;
  refresh();
}

function make() {
  const link = (i) => element("a", { href: `#client/${clients.id[i]}`, "aria-label": `Client ${clients.id[i]}` }, count(clients.id[i]));
  return new Table(byId("clients-table"), [
    ...columnsOf("clients", { value: (name, i) => clients[name][i], now: () => now }, {
      id: { node: link },
      budget_left: { text: (i) => (clients.budget_left[i] === null ? "no limit" : bytes(clients.budget_left[i])) },
      anomaly: { text: anomalyOf },
    }),
    { name: "act", label: "Actions", node: (i) => button(i) },
  ], {
    caption: "Clients", word: "client", sort: "id",
    search: (i) => `${clients.id[i]} ${clients.name[i]} ${clients.platform[i]} ${clients.tags[i]} ${clients.replica[i] || ""}`,
    rowClass: (i) => (clients.revoked[i] ? "off" : null),
    choices: [["all", () => true], ["not revoked", (i) => !clients.revoked[i]], ["revoked", (i) => clients.revoked[i]],
      ["evaluators", (i) => clients.evaluator[i]], ["not seen for a day", (i) => !clients.revoked[i] && now - clients.last_seen_ms[i] > DAY_MS],
      ["budget spent", (i) => clients.budget_left[i] === 0], ["with an anomaly", (i) => anomalyOf(i) !== "–"]],
  });
}

const anomalyOf = (i) => {
  const anomaly = clients.anomaly[i];
  return anomaly === null || anomaly === "none" ? "–" : anomaly;
};

function button(i) {
  if (clients.revoked[i]) return "";
  return element("button", { type: "button", class: "small changes", "aria-label": `Revoke client ${clients.id[i]}`, onclick: () => revoke({ id: clients.id[i], name: clients.name[i] }, again) }, "Revoke…");
}

async function read() {
  clients = await columnsAfter("clients", "id", 0);
  readAt = Date.now();
  table = table || make();
}

// Shows the table. Fetches the list if it is older than AGAIN_MS, by one request at a time.
export async function show(status, _, refresh) {
  again = refresh;
  now = status.now_ms;
  if (clients === null || Date.now() - readAt > AGAIN_MS) {
    reading = reading || read().finally(() => { reading = null; });
    await reading;
  }
  table.update(clients.id.length);
}
