// What the federation is at, and what it costs.
import { post } from "./api.js";
import { Chart, hasCharts } from "./charts.js";
import { attempt, confirm, paragraph } from "./dialogs.js";
import { small } from "./table.js";
import { ago, byId, bytes, count, duration, element, fill, percent, plural, real, setText } from "./text.js";

const LAYERS = [["payload", "Payload", "up"], ["http", "HTTP", "third"], ["tls", "TLS", "down"], ["wire", "TCP/IP", "plain"]];

let charts = null;
let openRound = null;

export function start(refresh) {
  byId("close-round").addEventListener("click", () => closeRound(refresh));
  byId("no-charts").hidden = hasCharts();
  byId("charts").hidden = !hasCharts();
}

async function closeRound(refresh) {
  const round = openRound;
  const reported = round.reported === 0
    ? "It has no update yet: members that did not report are replaced where others can be."
    : `It is merged with the ${plural(round.reported, "update")} that it has, of ${count(round.target)} wanted.`;
  if (!(await confirm(`Close round ${round.round}?`, [paragraph(reported), paragraph("This cannot be taken back.")], "Close the round"))) return;
  await attempt("Closing the round", () => post(`rounds/${round.round}/close`));
  refresh();
}

// --- Now

function showNow(status, waiting) {
  openRound = status.open_round || null;
  byId("now").classList.toggle("help", waiting.needs_help);
  setText("now-sentence", `${waiting.now}.`);
  setText("now-advice", waiting.advice);
  byId("close-round").hidden = openRound === null || status.merging;
  byId("now-progress").hidden = openRound === null;
  if (openRound === null) {
    setText("now-round", "");
    return;
  }
  byId("now-progress").max = openRound.target;
  byId("now-progress").value = Math.min(openRound.reported, openRound.target);
  const deadline = status.merging ? "being merged" : status.deadline_in_ms > 0 ? `deadline in ${duration(status.deadline_in_ms)}` : "deadline passed";
  setText("now-round", `Round ${openRound.round}: ${count(openRound.reported)} of ${count(openRound.target)} updates, quorum ${count(openRound.quorum)}, ${deadline}.`);
}

function showMissing(status, waiting) {
  const host = byId("missing");
  if (openRound === null || waiting.waits_for === 0) {
    fill(host, [element("p", { class: "quiet" }, openRound === null ? "No round is open." : "Nobody: all members have reported.")]);
    return;
  }
  const rows = waiting.members.map((member) => [
    `${member.id} ${member.name}`,
    ago(member.last_seen_ms, status.now_ms),
    member.has_task ? "has its task" : "has not come for its task",
    !member.budgeted ? "no limit" : member.budget_left > member.budget_spent ? bytes(member.budget_left - member.budget_spent) : "spent",
  ]);
  const more = waiting.waits_for - waiting.members.length;
  fill(host, [small("Members of the open round without an update",
    [["Client"], ["Last seen", true], ["State"], ["Budget left", true]], rows),
  ...(more > 0 ? [element("p", { class: "quiet" }, `and ${count(more)} more, seen later`)] : [])]);
}

// --- Figures

function lastKnown(column) {
  for (let i = column.length - 1; i >= 0; i--) if (column[i] !== null) return i;
  return -1;
}

const sum = (column) => column.reduce((all, value) => all + value, 0);

function figure(label, value, more) {
  return element("div", {}, element("dt", {}, label), element("dd", { class: "value" }, value), element("dd", { class: "more" }, more));
}

// Models that tell numbers or find anomalies have losses alone here.
function withoutAccuracy(rounds) {
  const at = lastKnown(rounds.evaluation_loss);
  return at < 0 ? "no evaluator has reported" : `evaluation loss ${real(rounds.evaluation_loss[at])}, round ${rounds.round[at]}`;
}

function showFigures(status, rounds) {
  const at = lastKnown(rounds.accuracy);
  const loss = lastKnown(rounds.mean_loss);
  const updates = sum(rounds.participants);
  const up = updates ? sum(rounds.wire_up) / updates : null;
  const down = updates ? sum(rounds.wire_down) / updates : null;
  const saved = updates && up + down > 0 ? `${(2 * status.float32_payload / (up + down)).toFixed(1)}× less than float32 both ways` : "";
  fill(byId("figures"), [
    figure("Accuracy", at < 0 ? "–" : percent(rounds.accuracy[at]), at < 0 ? withoutAccuracy(rounds) : `${rounds.accuracy_model[at]}, round ${rounds.round[at]}`),
    figure("Training loss", loss < 0 ? "–" : real(rounds.mean_loss[loss]), loss < 0 ? "" : `mean of round ${rounds.round[loss]}`),
    figure("Rounds", count(status.rounds_committed), status.rounds_wanted ? `of ${count(status.rounds_wanted)}` : "without an end"),
    figure("Clients", count(status.clients), `${count(status.clients_revoked)} revoked, ${count(status.evaluators)} evaluate`),
    figure("Up", bytes(up), "per update, on the wire"),
    figure("Down", bytes(down), saved || "per update, on the wire"),
    figure("Check-ins held", count(status.checkins_held), "clients that wait for a task"),
    figure("Database", bytes(status.database_bytes), plural(status.updates, "update")),
  ]);
}

// --- Curves

function makeCharts() {
  const host = byId("charts");
  const b = { text: bytes };
  return {
    accuracy: new Chart(host, "Accuracy", "on held-out data, of each version", [
      { label: "accuracy", colour: "up", text: percent }], { tick: (v) => `${+(100 * v).toFixed(1)} %` }),
    loss: new Chart(host, "Loss", "training: mean of the clients'", [
      { label: "training", colour: "up", text: real },
      { label: "evaluation", colour: "down", text: real }], { tick: (v) => String(+v.toPrecision(3)) }),
    bytes: new Chart(host, "Bytes of an update", "on the wire, mean of each round; logarithmic", [
      { label: "up", colour: "up", ...b }, { label: "down", colour: "down", ...b },
      { label: "float32", colour: "plain", dash: [5, 4], ...b }],
    { tick: bytes, scale: { distr: 3 } }),
  };
}

function axis(rounds, kind) {
  if (kind === "rounds") return { values: rounds.round, label: "round", text: count, tick: (v) => (Number.isInteger(v) ? count(v) : "") };
  let all = 0;
  const values = rounds.round.map((_, i) => (all += rounds.wire_up[i] + rounds.wire_down[i]));
  return { values, label: "bytes", text: bytes, tick: bytes };
}

const each = (rounds, column) => rounds.participants.map((n, i) => (n > 0 && column[i] > 0 ? column[i] / n : null));

function showCharts(status, rounds) {
  if (!hasCharts()) return;
  charts = charts || makeCharts();
  const x = axis(rounds, document.querySelector("input[name=axis]:checked").value);
  charts.accuracy.set(x, [rounds.accuracy]);
  charts.loss.set(x, [rounds.mean_loss, rounds.evaluation_loss]);
  charts.bytes.set(x, [each(rounds, rounds.wire_up), each(rounds, rounds.wire_down), rounds.round.map(() => status.float32_payload)]);
}

// --- Layers

// What each layer adds to the one within; a column of the API has all within it.
function layersOf(rounds, direction) {
  const all = LAYERS.map(([name]) => sum(rounds[`${name}_${direction}`]));
  return all.map((value, i) => value - (i ? all[i - 1] : 0));
}

function bar(part, all, colour) {
  const piece = element("span");
  piece.style.width = `${all ? (100 * part) / all : 0}%`;
  piece.style.background = `var(--${colour})`;
  return element("div", { class: "bar", "aria-hidden": "true" }, piece);
}

function showLayers(status, rounds) {
  const up = layersOf(rounds, "up");
  const down = layersOf(rounds, "down");
  const [allUp, allDown] = [sum(up), sum(down)];
  const plain = sum(rounds.participants) * status.float32_payload;
  const rows = LAYERS.map(([, label, colour], i) => [label, bytes(up[i]), bar(up[i], allUp, colour), bytes(down[i]), bar(down[i], allDown, colour)]);
  rows.push([element("b", {}, "On the wire"), element("b", {}, bytes(allUp)), "", element("b", {}, bytes(allDown)), ""]);
  rows.push(["As float32", bytes(plain), "", bytes(plain), ""]);
  fill(byId("layers"), [small("Bytes of all rounds by layer and direction",
    [["Layer"], ["Up", true], ["Share"], ["Down", true], ["Share"]], rows),
  element("p", { class: "quiet" }, "Of clients that train, in rounds. As float32: the values alone, without headers.")]);
}

export function show(status, waiting, rounds) {
  showNow(status, waiting);
  showMissing(status, waiting);
  showFigures(status, rounds);
  showCharts(status, rounds);
  showLayers(status, rounds);
}
