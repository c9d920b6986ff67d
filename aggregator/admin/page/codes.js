// The view of join codes: makes, lists and cancels them.
import { get, post } from "./api.js";
import { attempt, confirm, paragraph, tell } from "./dialogs.js";
import { Table, columnsOf } from "./table.js";
import { byId, count, duration, element } from "./text.js";

let codes = [];
let table = null;
let now = 0;
let again = () => {};

async function cancel(code) {
  const body = [paragraph(`Nobody enrols with the code ${code.id}${code.label ? ` (${code.label})` : ""} from now on.`),
    paragraph("Clients that enrolled with the code stay enrolled.")];
  if (!(await confirm("Cancel this join code?", body, "Cancel the code"))) return;
  await attempt("Cancelling the code", () => post(`enroll-codes/${code.id}/cancel`));
  again();
}

async function makeCode(event) {
  event.preventDefault();
  const uses = Number(byId("code-uses").value);
  const expires = byId("code-expires");
  const label = byId("code-label").value.trim();
  const tags = byId("code-tags").value.trim();
  const evaluator = byId("code-evaluator").value === "yes";
  const body = [paragraph(`Whoever has it can enrol ${uses === 1 ? "one client" : `${count(uses)} clients`}, for ${expires.selectedOptions[0].text}.`)];
  if (evaluator) body.push(paragraph("Clients may enrol as evaluators: their figures decide accuracy and the best version."));
  if (!(await confirm("Make a join code?", body, "Make the code"))) return;
  const made = await attempt("Making the code", () => post("enroll-codes", { uses, expires_s: Number(expires.value), label, tags, evaluator }));
  again();
  if (made === undefined) return;
  const copy = element("button", { type: "button", class: "small", onclick: () => copyText(copy, made.code) }, "Copy");
  await tell("The join code", [element("p", { class: "code" }, made.code), copy,
    paragraph("It is shown once: the aggregator keeps only its hash. On the device: ", element("code", {}, `tern-client enroll ${made.code}`))]);
}

async function copyText(button, text) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select it and copy by hand";
  }
}

function expiry(i) {
  const left = codes[i].expires_ms - now;
  return left > 0 ? `in ${duration(left)}` : `${duration(-left)} ago`;
}

function make() {
  return new Table(byId("codes-table"), [
    ...columnsOf("codes", { value: (name, i) => codes[i][name], now: () => now }, { expires_ms: { text: expiry } }),
    { name: "act", label: "Actions", node: (i) => (codes[i].state !== "valid" ? ""
      : element("button", { type: "button", class: "small changes", "aria-label": `Cancel code ${codes[i].id}`, onclick: cancel.bind(null, codes[i]) }, "Cancel…")) },
  ], {
    caption: "Join codes", word: "code", sort: "expires_ms", descending: true,
    search: (i) => `${codes[i].id} ${codes[i].tags || ""} ${codes[i].label || ""}`,
    rowClass: (i) => (codes[i].state === "valid" ? null : "off"),
    choices: [["all", () => true], ["valid", (i) => codes[i].state === "valid"]],
  });
}

export function start() {
  byId("code-form").addEventListener("submit", makeCode);
}

export async function show(status, _, refresh) {
  again = refresh;
  now = status.now_ms;
  codes = await get("enroll-codes");
  table = table || make();
  table.update(codes.length);
}
