// The overview: state of the federation, figures, charts, and bytes.
import { post } from "./api.js";
import { Chart } from "./charts.js";
import * as compare from "./compare.js";
import { attempt, confirm, paragraph } from "./dialogs.js";
import { evaluated, evaluatedNames, heldOut, heldOutNames, isLoss, labelOf, textOf, tickOf } from "./figures.js";
import { small } from "./table.js";
import { ago, byId, bytes, clock, clockTick, codeIn, count, duration, element, fill, plural, real, setText } from "./text.js";

const LAYERS = [["payload", "Payload", "up"], ["http", "HTTP", "third"], ["tls", "TLS", "down"], ["wire", "TCP/IP", "plain"]];
const EVALUATED = "evaluated:"; // prefix of a figure in the selection
const HELD_OUT = "held-out:";

let charts = null;
let openRound = null;

export function start(refresh) {
  compare.start(refresh);
  for (const id of ["figure", "layer", "layers-round"]) byId(id).addEventListener("change", refresh);
  byId("layers-round").addEventListener("input", refresh);
  byId("close-round").addEventListener("click", () => closeRound(refresh));
}

async function closeRound(refresh) {
  const round = openRound;
  const reported = round.reported === 0
    ? "It has no update yet: members that did not report are replaced where others can be."
    : `It is merged with the ${plural(round.reported, "update")} that it has, of ${count(round.target)} wanted.`;
  if (!(await confirm(`Close round ${round.round}?`, [paragraph(reported), paragraph("This cannot be undone.")], "Close the round"))) return;
  await attempt("Closing the round", () => post(`rounds/${round.round}/close`));
  refresh();
}

// --- Now

// Commands for which this page has a button or a view. Advice with "there" concerns another aggregator.
const ON_THIS_PAGE = [["close-round", "“Close round”"], ["export", "“Download the model” under System"], ["enroll-code", "Join codes"], ["clients", "Clients"]];
const adviceOf = (advice) => ON_THIS_PAGE.reduce((text, [verb, here]) =>
  text.replace(new RegExp(`\`(?:tern-aggregator )?${verb}(?: [^\`]*)?\`(?! there)`, "g"), here), advice);

function showNow(status, waiting) {
  openRound = status.open_round || null;
  byId("now").classList.toggle("help", waiting.needs_help);
  setText("now-sentence", `${waiting.now}.`);
  fill(byId("now-advice"), codeIn(adviceOf(waiting.advice)));
  byId("now-order").hidden = status.order === undefined;
  setText("now-order", status.order === undefined ? "" : `A ${status.order.verb} waits, ${status.order.what} (why: ${status.order.why}).`);
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
  const lackStatistics = waiting.reason === "statistics";
  if (waiting.waits_for === 0) {
    fill(host, [element("p", { class: "quiet" }, openRound === null ? "No round is open." : "Nobody: all members have reported.")]);
    return;
  }
  const rows = waiting.members.map((member) => [
    `${member.id} ${member.name}`,
    ago(member.last_seen_ms, status.now_ms),
    lackStatistics ? "has reported no statistics" : !member.has_task ? "has not fetched its task" : member.tries > 1 ? `fetched its task ${count(member.tries)} times or more` : "has its task",
    member.budget_left === null ? "no limit" : member.budget_left > 0 ? bytes(member.budget_left) : "spent",
  ]);
  const more = waiting.waits_for - waiting.members.length;
  fill(host, [small(lackStatistics ? "Clients whose statistics are missing" : "Members of the open round without an update",
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

// Shows the evaluators' last value of the selected figure, or of the model's main figure, or of the loss.
function foundLast(rounds) {
  const [name] = chosen().startsWith(EVALUATED) ? [chosen().slice(EVALUATED.length)] : evaluatedNames(rounds);
  const column = name === undefined ? rounds.evaluated_loss : evaluated(rounds, name);
  const at = lastKnown(column);
  if (at < 0) return figure(labelOf(name || "accuracy"), "–", "half of the evaluators have reported no version yet");
  return figure(name === undefined ? "Evaluation loss" : labelOf(name), textOf(name)(column[at]), `${rounds.accuracy_model[at]}, round ${rounds.round[at]}`);
}

// Shows the loss of the newest round that has one; with noise, clients report none, and an older one says nothing.
function trainingLoss(status, rounds) {
  const at = lastKnown(rounds.mean_loss);
  if (status.privacy) return figure("Training loss", "–", "none: with privacy.noise clients report no loss");
  return figure("Training loss", at < 0 ? "–" : real(rounds.mean_loss[at]), at < 0 ? "" : `mean of round ${rounds.round[at]}`);
}

function showFigures(status, rounds) {
  const updates = sum(rounds.participants);
  const up = updates ? sum(rounds.wire_up) / updates : null;
  const down = updates ? sum(rounds.wire_down) / updates : null;
  const cost = status.last_round;
  const saved = updates && up + down > 0 ? `${(2 * status.float32_payload / (up + down)).toFixed(1)}× less than float32 both ways` : "";
  fill(byId("figures"), [
    foundLast(rounds),
    trainingLoss(status, rounds),
    figure("Rounds", count(status.rounds_committed), (status.rounds_wanted ? `of ${count(status.rounds_wanted)}` : "without an end") + (status.mode === "secure" ? ", secure: updates are masked" : "")),
    ...(status.privacy ? [figure("Privacy", status.privacy.epsilon === null ? "–" : `ε ${real(status.privacy.epsilon)}`, status.privacy.summary)] : []),
    figure("Clients", count(status.clients), `${count(status.clients_revoked)} revoked, ${plural(status.evaluators, "evaluator")}`),
    figure("Up", bytes(up), "per update, on the wire"),
    figure("Down", bytes(down), saved || "per update, on the wire"),
    figure("Check-ins held", count(status.checkins_held), "clients that wait for a task"),
    figure("Service thread", cost ? `${(100 * cost.service_share).toFixed(1)} %` : "–", cost ? `of the time of round ${cost.round}` : "no round is committed"),
    figure("Download search", cost ? `${+cost.search_ms.toPrecision(3)} ms` : "–", cost ? `of processor time an update, round ${cost.round}` : "no round is committed"),
    figure("Database", bytes(status.database_bytes), plural(status.updates, "update")),
  ]);
}

// Lists each figure that evaluators report: the last value, the best value, and the version of the
// best.
function showEvaluated(rounds) {
  const rows = [...evaluatedNames(rounds), null].map((name) => {
    const column = name === null ? rounds.evaluated_loss : evaluated(rounds, name);
    const last = lastKnown(column);
    if (last < 0) return null;
    const better = name === null || isLoss(name) ? (a, b) => a < b : (a, b) => a > b;
    const best = column.reduce((at, value, i) => (value !== null && (at < 0 || better(value, column[at])) ? i : at), -1);
    const text = name === null ? real : textOf(name);
    return [name === null ? "Loss" : labelOf(name), text(column[last]), text(column[best]), count(rounds.round[best])];
  }).filter((row) => row !== null);
  fill(byId("evaluated"), rows.length === 0 ? [element("p", { class: "quiet" }, "No evaluator has reported.")]
    : [small("Figures of evaluators", [["Figure"], ["Last", true], ["Best", true], ["In round", true]], rows)]);
}

// --- Curves

const chosen = () => byId("figure").value;

// Whether a held-out figure is selected. Otherwise only the names of held-out figures are needed.
export const wantsHeldOut = () => chosen().startsWith(HELD_OUT);

function group(label, before, names, behind) {
  return names.length === 0 ? null : element("optgroup", { label }, ...names.map((name) => element("option", { value: before + name }, labelOf(name) + behind)));
}

function showChoice(rounds, held) {
  const select = byId("figure");
  const before = select.value;
  fill(select, [group("Found by evaluators", EVALUATED, evaluatedNames(rounds), ""), group("On held-out data of clients", HELD_OUT, heldOutNames(held), " of clients")]
    .filter((part) => part !== null));
  byId("figure-choice").hidden = select.options.length < 2;
  if (before !== "") select.value = before;
  if (select.selectedIndex < 0) select.selectedIndex = 0;
}

function drawEvaluated(chart, x, kind, rounds, name) {
  const columns = (run) => [evaluated(run, name)];
  chart.describe(EVALUATED + name, labelOf(name), "median of the evaluators",
    [{ label: name, colour: "up", text: textOf(name) }], { tick: tickOf(name) })
    .set(x, columns(rounds), otherRun(kind, columns));
}

function drawHeldOut(chart, x, rounds, held, name) {
  const text = textOf(name);
  const [weighted, mean, deviation, worst] = ["", "_mean", "_deviation", "_worst"].map((kind) => heldOut(rounds, held, name, kind));
  const away = (sign) => mean.map((value, i) => (value === null ? null : value + sign * deviation[i]));
  chart.describe(HELD_OUT + name, labelOf(name), "on held-out data of clients", [
    { label: "weighted by examples", colour: "up", text }, { label: "clients alike", colour: "third", text },
    { label: "+ deviation", colour: "plain", dash: [4, 4], text }, { label: "− deviation", colour: "plain", dash: [4, 4], text },
    { label: "worst client", colour: "down", text }], { tick: tickOf(name) })
    .set(x, [weighted, mean, away(1), away(-1), worst]);
}

function drawFigure(x, kind, rounds, held) {
  if (wantsHeldOut()) drawHeldOut(charts.figure, x, rounds, held, chosen().slice(HELD_OUT.length));
  else drawEvaluated(charts.figure, x, kind, rounds, chosen().slice(EVALUATED.length) || "accuracy");
}

function drawBytes(x, kind, status, rounds) {
  const layer = byId("layer");
  const label = layer.selectedOptions[0].textContent;
  const columns = (run, float32) => [each(run, run[`${layer.value}_up`]), each(run, run[`${layer.value}_down`]), run.round.map(() => float32)];
  const text = bytes;
  charts.bytes.describe(layer.value, "Bytes of an update", `${label}, mean of each round`, [
    { label: "up", colour: "up", text }, { label: "down", colour: "down", text },
    { label: "float32", colour: "plain", dash: [5, 4], text }], { tick: bytes, log: true })
    .set(x, columns(rounds, status.float32_payload), otherRun(kind, (run) => columns(run, null)));
}

function makeCharts() {
  const host = byId("charts");
  const [figure, loss, sent] = [new Chart(host), new Chart(host), new Chart(host)];
  return { figure, loss, bytes: sent };
}

function axis(rounds, kind) {
  if (kind === "rounds") return { values: rounds.round, label: "round", text: count, tick: count, least: 1 };
  if (kind === "time" && compare.otherRounds() === null) return { values: rounds.closed_ms, label: "time", time: "clock", text: clock, tick: clockTick };
  if (kind === "time") return { values: rounds.closed_ms.map((ms) => ms - rounds.opened_ms[0]), label: "since the first round", time: "elapsed", text: duration, tick: duration };
  let all = 0;
  const values = rounds.round.map((_, i) => (all += rounds.wire_up[i] + rounds.wire_down[i]));
  return { values, label: "bytes", text: bytes, tick: bytes };
}

const each = (rounds, column) => rounds.participants.map((n, i) => (n > 0 && column[i] > 0 ? column[i] / n : null));

// Returns the columns of the other run over its own axis; null = no run is compared.
function otherRun(kind, columnsOf) {
  const rounds = compare.otherRounds();
  return rounds === null ? null : { values: axis(rounds, kind).values, columns: columnsOf(rounds) };
}

function showCharts(status, rounds, held) {
  showChoice(rounds, held);
  charts = charts || makeCharts();
  const kind = document.querySelector("input[name=axis]:checked").value;
  const x = axis(rounds, kind);
  drawFigure(x, kind, rounds, held);
  const losses = (run) => [run.mean_loss, run.evaluated_loss];
  charts.loss.describe(status.privacy ? "noise" : "loss", "Loss", status.privacy ? "evaluation; none of training with privacy.noise" : "training: mean of the clients'", [
    { label: "training", colour: "up", text: real }, { label: "evaluation", colour: "down", text: real }],
  { tick: (v) => String(+v.toPrecision(3)) })
    .set(x, losses(rounds), otherRun(kind, losses));
  drawBytes(x, kind, status, rounds);
}

// --- Layers

// Returns the indices of the selected round, or of all rounds.
function roundsOf(rounds) {
  const wanted = byId("layers-round").value;
  return wanted === "" ? rounds.round.map((_, i) => i) : [rounds.round.indexOf(Number(wanted))].filter((i) => i >= 0);
}

// Returns the bytes that each layer adds; a column of the API includes the layers inside it.
function layersOf(rounds, which, direction) {
  const all = LAYERS.map(([name]) => sum(which.map((i) => rounds[`${name}_${direction}`][i])));
  return all.map((value, i) => value - (i ? all[i - 1] : 0));
}

function bar(part, all, colour) {
  const piece = element("span");
  piece.style.width = `${all ? (100 * part) / all : 0}%`;
  piece.style.background = `var(--${colour})`;
  return element("div", { class: "bar", "aria-hidden": "true" }, piece);
}

function showLayers(rounds) {
  const which = roundsOf(rounds);
  const round = byId("layers-round").value;
  byId("layers-round").max = rounds.round.length > 0 ? rounds.round[rounds.round.length - 1] : 1;
  if (round !== "" && which.length === 0) {
    fill(byId("layers"), [element("p", { class: "quiet" }, `There is no round ${round}.`)]);
    return;
  }
  const up = layersOf(rounds, which, "up");
  const down = layersOf(rounds, which, "down");
  const [allUp, allDown] = [sum(up), sum(down)];
  const plain = sum(which.map((i) => rounds.float32[i]));
  const rows = LAYERS.map(([, label, colour], i) => [label, bytes(up[i]), bar(up[i], allUp, colour), bytes(down[i]), bar(down[i], allDown, colour)]);
  rows.push([element("b", {}, "On the wire"), element("b", {}, bytes(allUp)), "", element("b", {}, bytes(allDown)), ""]);
  rows.push(["As float32", bytes(plain), "", bytes(plain), ""]);
  fill(byId("layers"), [small(round === "" ? "Bytes of all rounds by layer and direction" : `Bytes of round ${round} by layer and direction`,
    [["Layer"], ["Up", true], ["Share"], ["Down", true], ["Share"]], rows),
  element("p", { class: "quiet" }, `Of clients that train, in ${round === "" ? "all rounds" : `round ${round}`}. As float32: the values alone, without headers.`)]);
}

export function show(status, waiting, rounds, held) {
  showNow(status, waiting);
  showMissing(status, waiting);
  const closed = compare.closedOf(rounds);
  showCharts(status, closed, held);
  compare.show(status, closed);
  showEvaluated(closed);
  showFigures(status, rounds);
  showLayers(rounds);
}
