// The dashboard: logs in, asks the API every few seconds, and shows the view in the address's fragment.
import { append, caller, columnsAfter, forgetSession, get, hasSession, isSignedOn, logIn, logOut, rowsAfter, signOn, truncate } from "./api.js";
import * as client from "./client.js";
import * as clients from "./clients.js";
import * as codes from "./codes.js";
import * as overview from "./overview.js";
import * as rounds from "./rounds.js";
import * as system from "./system.js";
import { readViews } from "./table.js";
import { byId, setText } from "./text.js";

const AGAIN_MS = 5000;
const RECENT = 3; // newest rounds, whose held-out figures are fetched again since clients may still report some
const VIEWS = ["overview", "rounds", "clients", "client", "codes", "system"];

let history = null; // rounds as columns
let held = { rows: new Map(), whole: false }; // held-out figures by round; whole: of all rounds
let timer = 0;
let busy = null;

// "#client/12" opens the view of client 12.
function view() {
  const [name, id] = location.hash.slice(1).split("/");
  if (name === "client" && !/^[1-9]\d*$/.test(id)) return "clients";
  return VIEWS.includes(name) ? name : "overview";
}

// --- Asking

// Fetches new rounds, and fetches again the rounds that can still change: open rounds, and the two rounds before, for
// late evaluators.
async function readRounds() {
  if (history === null) {
    history = await columnsAfter("rounds", "round", 0);
    return;
  }
  let known = history.round.length;
  while (known > 0 && history.state[known - 1] === "open") known--;
  known = Math.max(0, known - 2);
  const after = known > 0 ? history.round[known - 1] : 0;
  const more = await columnsAfter("rounds", "round", after);
  truncate(history, known);
  append(history, more);
}

// Fetches held-out figures of all rounds only if a chart shows them, since each needs a row of the store per client.
async function readHeldOut() {
  const last = history.round.length > 0 ? history.round[history.round.length - 1] : 0;
  const known = held.whole ? Math.max(0, ...held.rows.keys()) : last;
  const whole = overview.wantsHeldOut() || held.whole;
  const after = whole && !held.whole ? 0 : Math.max(0, known - RECENT);
  for (const row of await rowsAfter("rounds", "round", after, "round,held_out_*")) held.rows.set(row.round, row);
  held.whole = whole;
}

async function showAll() {
  const name = view();
  const [status, waiting] = await Promise.all([get("status"), name === "overview" ? get("waiting") : null, readRounds(), readViews()]);
  setText("model", status.model);
  if (name === "overview") {
    await readHeldOut();
    overview.show(status, waiting, history, held.rows);
  }
  if (name === "rounds") rounds.show(status, history);
  if (name === "clients") await clients.show(status, history, refresh);
  if (name === "client") await client.show(status, history, Number(location.hash.split("/")[1]), refresh);
  if (name === "system") await system.show(status);
  if (name === "codes") await codes.show(status, history, refresh);
  setText("updated", `as of ${new Date(status.now_ms).toLocaleTimeString()}`);
  performance.mark(`shown:${name}`);
}

function trouble(sentence) {
  byId("trouble").hidden = sentence === "";
  setText("trouble", sentence);
}

async function turn() {
  try {
    await showAll();
    trouble("");
  } catch (error) {
    if (error.status === 401 && isSignedOn()) {
      trouble("The proxy no longer names you. Load this page again to log in.");
      return;
    }
    if (error.status === 401) {
      forgetSession();
      showLogin();
      return;
    }
    trouble(`The figures may be old: ${error.message} The dashboard tries again.`);
  }
  timer = setTimeout(refresh, AGAIN_MS);
}

// Fetches and shows the view, unless the page is hidden. One run at a time.
async function refresh() {
  clearTimeout(timer);
  if (!hasSession() || document.hidden) return;
  while (busy !== null) await busy;
  busy = turn().finally(() => { busy = null; });
  await busy;
}

// --- Views

function showLogin() {
  clearTimeout(timer);
  history = null;
  held = { rows: new Map(), whole: false };
  byId("header").hidden = true;
  trouble("");
  for (const name of VIEWS) byId(`view-${name}`).hidden = true;
  byId("login").hidden = false;
  byId("token").focus();
}

function showView() {
  if (!hasSession()) return;
  const name = view();
  byId("login").hidden = true;
  byId("header").hidden = false;
  const { name: who, role } = caller();
  setText("caller", `${who}, ${role}`);
  document.body.classList.toggle("viewer", role === "viewer"); // the service refuses changes in any case
  for (const other of VIEWS) byId(`view-${other}`).hidden = other !== name;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${name}` || (name === "client" && link.hash === "#clients")) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `Tern – ${byId(`${name}-title`).textContent}`;
  refresh();
}

async function submitToken(event) {
  event.preventDefault();
  const token = byId("token").value.trim();
  setText("login-error", "");
  try {
    await logIn(token);
    byId("token").value = "";
    showView();
    byId("main").focus();
  } catch (error) {
    setText("login-error", error.message);
    byId("token").select();
  }
}

async function leave() {
  try {
    await logOut();
  } catch (error) {
    // logOut() has deleted the key in any case.
  }
  showLogin();
}

async function begin() {
  try {
    await signOn();
    byId("logout").hidden = isSignedOn(); // the proxy logs its users out
  } catch (error) {
    showLogin();
    setText("login-error", error.message);
    return;
  }
  if (hasSession()) showView();
  else showLogin();
}

// Moves the focus without changing the address, whose fragment is the view.
function skip(event) {
  event.preventDefault();
  byId("main").focus();
}

overview.start(refresh);
codes.start();
system.start(refresh);
byId("login-form").addEventListener("submit", submitToken);
byId("logout").addEventListener("click", leave);
for (const radio of document.querySelectorAll("input[name=axis]")) radio.addEventListener("change", refresh);
document.querySelector(".skip").addEventListener("click", skip);
addEventListener("hashchange", showView);
document.addEventListener("visibilitychange", refresh);
begin();
