// The view of one client: identity, bytes, error buffer, and its last rounds.
import { get } from "./api.js";
import { revoke } from "./clients.js";
import { Chart } from "./charts.js";
import { isFigure, labelOf, textOf, worstClass } from "./figures.js";
import { Table, columnsOf } from "./table.js";
import { ago, byId, bytes, clock, count, definitions, element, fill, real, setText } from "./text.js";

const ROUNDS = 500; // rounds to search for the client

let shown = null; // id of the client in the view
let rounds = [];
let table = null;
let chart = null;

const NOTHING = "–";
const known = (value, text) => (value === null || value === undefined || value === "" ? NOTHING : text(value));

function aboutClient(client, now) {
  return [
    ["Name", client.name || NOTHING], ["Platform", client.platform || NOTHING], ["Tags", client.tags || NOTHING],
    ["Enrolled", `${clock(client.created_ms)}${client.code ? `, by code ${client.code}` : ""}`],
    ["Last seen", ago(client.last_seen_ms, now)],
    ["State", client.state],
    ["Budget left", client.budget_left === null ? "no limit" : bytes(client.budget_left)],
    ["Speed", known(client.steps_per_second || null, (v) => `${v.toPrecision(3)} steps/s`)],
    ["Version", count(client.version)],
  ];
}

function aboutWork(client) {
  const { schedule } = client;
  return [
    ["Rounds selected", count(client.invited)], ["Updates accepted", count(client.reported)],
    ["Up, on the wire", `${bytes(client.wire_up)} (payload ${bytes(client.payload_up)})`],
    ["Down, on the wire", `${bytes(client.wire_down)} (payload ${bytes(client.payload_down)})`],
    ["Local steps", known(schedule, (row) => `${count(row.local_steps)} (${row.reason})`)],
    ["Codec", known(schedule?.codec, String)],
  ];
}

function aboutBuffer({ ledger }) {
  if (ledger === null) return [["Residual error", "no update yet"]];
  return [
    ["Residual error, norm", real(ledger.norm)], ["Largest value", real(ledger.maximum)],
    ["Last accepted round", known(ledger.round, count)], ["Loss in it", known(ledger.round && ledger.loss, real)],
    ["Bytes of this update", known(ledger.round && ledger.update_bytes, bytes)],
    ["Directive", `${ledger.directive}${ledger.reason ? `: ${ledger.reason}` : ""}`],
    ["Anomaly", ledger.anomaly === "none" ? "none" : `${ledger.anomaly}: ${ledger.sentence}`],
  ];
}

function aboutFigures({ held_out: held }) {
  if (held === null) return [["Figures", "none for the last versions"]];
  const worst = worstClass(held.metrics);
  return [["Version", count(held.version)], ["Examples", count(held.num_examples)],
    ...Object.entries(held.metrics).filter(([name]) => isFigure(name))
      .map(([name, value]) => [`${labelOf(name)}${name === "recall_worst" && worst !== null ? ` (${worst})` : ""}`, textOf(name)(value)])];
}

function make() {
  return new Table(byId("client-rounds"), columnsOf("rounds of a client", { value: (name, i) => rounds[i][name], now: () => 0 }), {
    caption: "Rounds of the client", word: "round", sort: "round", descending: true,
    search: (i) => `${rounds[i].round} ${rounds[i].state}`,
    choices: [["all", () => true], ["accepted", (i) => rounds[i].state === "accepted"], ["not accepted", (i) => rounds[i].state !== "accepted"]],
  });
}

export async function show(status, history, id, refresh) {
  const last = history.round.length > 0 ? history.round[history.round.length - 1] : 0;
  const after = Math.max(0, last - ROUNDS);
  const [client, found] = await Promise.all([get(`clients/${id}`), get(`clients/${id}/rounds?limit=${ROUNDS}&after=${after}`)]);
  if (shown !== id) {
    shown = id;
    table = chart = null;
    byId("client-chart").replaceChildren();
  }
  rounds = found;
  setText("client-title", `Client ${id}${client.name ? `: ${client.name}` : ""}`);
  fill(byId("client-about"), [definitions("Client", aboutClient(client, status.now_ms)), definitions("Contribution", aboutWork(client)), definitions("Error ledger", aboutBuffer(client)), definitions("Held-out data", aboutFigures(client))]);
  fill(byId("client-actions"), client.revoked ? [] : [element("button", { type: "button", class: "danger changes", onclick: () => revoke(client, refresh) }, "Revoke…")]);
  setText("client-note", after > 0 ? `From the last ${count(ROUNDS)} rounds.` : "");
  chart = chart || new Chart(byId("client-chart"));
  chart.describe("bytes", "Bytes of a round", "on the wire", [{ label: "up", colour: "up", text: bytes }, { label: "down", colour: "down", text: bytes }], { tick: bytes })
    .set({ values: rounds.map((row) => row.round), label: "round", text: count, tick: count, least: 1 }, [rounds.map((row) => row.wire_up), rounds.map((row) => row.wire_down)]);
  table = table || make();
  table.update(rounds.length);
}
