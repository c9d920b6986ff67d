// The view of the program: findings of doctor, download of the model, last changes, the log's last lines, and settings in force.
import { fetchFile, get } from "./api.js";
import { saveFile } from "./compare.js";
import { attempt } from "./dialogs.js";
import { Table, columnsOf, small } from "./table.js";
import { byId, bytes, codeIn, element, fill, setText } from "./text.js";

const EFFECTS = { restart: "after a restart", live: "on SIGHUP", init: "in a new federation" };

let settings = [];
let table = null;
let changes = [];
let changesTable = null;
let now = 0;

// --- Doctor

async function runDoctor() {
  byId("doctor-run").disabled = true;
  setText("doctor-note", "Checking files, disk, certificate, service and database…");
  const findings = await attempt("doctor", () => get("doctor"));
  byId("doctor-run").disabled = false;
  setText("doctor-note", findings === undefined ? "" : `As of ${new Date().toLocaleTimeString()}.`);
  if (findings === undefined) return;
  fill(byId("doctor"), [small("Findings of doctor", [["Health"], ["Area"], ["Finding"], ["What to do"]],
    findings.map((one) => [element("span", { class: `health ${one.health}` }, one.health), one.area, one.finding, one.advice === null ? "–" : element("span", {}, ...codeIn(one.advice))]), "wrap")]);
}

// --- The model

async function download() {
  const button = byId("model-download");
  button.disabled = true;
  button.textContent = "Exporting…";
  await attempt("The download", async () => {
    const status = await get("status");
    const file = await fetchFile("model");
    saveFile(`${status.model.replace(/[^\w.-]+/g, "-")}-v${status.version ?? 0}.safetensors`, [file], "application/octet-stream");
  });
  button.disabled = false;
  button.textContent = "Download the model";
}

// --- Changes

const CHANGES = 200; // rows of the audit log

function makeChangesTable() {
  return new Table(byId("audit-table"), columnsOf("audit", { value: (name, i) => changes[i][name], now: () => now }), {
    caption: "Last changes", word: "change", sort: "number", descending: true, wrap: true,
    search: (i) => `${changes[i].who} ${changes[i].action} ${changes[i].subject}`,
    rowClass: (i) => (changes[i].result === "done" ? null : "off"),
    choices: [["all", () => true], ["refused", (i) => changes[i].result !== "done"]],
  });
}

// --- Settings

function makeSettingsTable() {
  const name = (i) => `${settings[i].section}.${settings[i].key}`;
  return new Table(byId("settings-table"), [
    { name: "key", label: "Setting", value: name, text: name },
    { name: "value", label: "In force", value: (i) => settings[i].value, text: (i) => settings[i].value || "–" },
    { name: "default", label: "Default", value: (i) => settings[i].default, text: (i) => settings[i].default || "–" },
    { name: "effect", label: "A change takes effect", value: (i) => settings[i].takes_effect, text: (i) => EFFECTS[settings[i].takes_effect] },
    { name: "doc", label: "What it is", text: (i) => settings[i].doc, value: (i) => settings[i].doc },
  ], {
    caption: "Settings in force", word: "setting", sort: "key", wrap: true,
    search: (i) => `${name(i)} ${settings[i].value} ${settings[i].doc}`,
    choices: [["different from the default", (i) => settings[i].changed], ["all", () => true]],
  });
}

// Shows codec.accuracy in force, and the estimated bytes of a client's round for each of its values.
function showAccuracies() {
  const all = settings.find((one) => one.section === "codec" && one.key === "accuracy").estimates;
  const others = all.filter((one) => !one.in_force).map((one) => `${one.accuracy} ${bytes(one.round)}`).join(", ");
  setText("accuracies", all.filter((one) => one.in_force)
    .map((one) => `codec.accuracy = ${one.accuracy}: about ${bytes(one.round)} a client and round (${others}), an estimate.`).join(""));
}

// --- The log

function showLog({ lines }) {
  const wanted = byId("log-find").value.trim().toLowerCase();
  const host = byId("log");
  const atEnd = host.scrollHeight - host.scrollTop - host.clientHeight < 40;
  const found = lines.filter((line) => wanted === "" || line.toLowerCase().includes(wanted));
  fill(host, found.map((line) => element("span", { class: /level=error|"level":"error"/.test(line) ? "bad" : /level=warn|"level":"warn"/.test(line) ? "odd" : null }, `${line}\n`)));
  setText("log-note", found.length === 0 ? "No line." : `${found.length} of the last ${lines.length} lines.`);
  if (atEnd) host.scrollTop = host.scrollHeight;
}

export function start(refresh) {
  byId("doctor-run").addEventListener("click", runDoctor);
  byId("model-download").addEventListener("click", download);
  byId("log-find").addEventListener("input", refresh);
}

export async function show(status) {
  const [found, log, audit] = await Promise.all([get("settings"), get("log"), get(`audit?last=${CHANGES}`)]);
  now = status.now_ms;
  changes = audit;
  changesTable = changesTable || makeChangesTable();
  changesTable.update(changes.length);
  settings = found;
  table = table || makeSettingsTable();
  table.update(settings.length);
  showAccuracies();
  showLog(log);
}
