// Sends requests to the admin API within a session. The browser has the session's cookie, this page has the session's
// key. Behind a proxy with single sign-on there is no session: it names the user in each request.
const KEY = "tern-session-key";
const NAME = "tern-session-name"; // of the token that logged in
const ROLE = "tern-session-role";
const PAGE = 1000; // most rows of one reply
const FEW = 100; // rows of one reply with held-out figures, each of which needs many rows of the store
let signedOn = null; // name and role of the user that the proxy names; null: no proxy names one

export class Refused extends Error {
  constructor(status, message) {
    super(message || `The service answers ${status}.`);
    this.status = status;
  }
}

async function messageOf(reply) {
  try {
    return (await reply.json()).message;
  } catch {
    return "";
  }
}

async function replyOf(method, path, body) {
  const headers = {};
  const key = localStorage.getItem(KEY);
  if (key) headers.Authorization = `Session ${key}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const reply = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  if (!reply.ok) throw new Refused(reply.status, await messageOf(reply));
  return reply;
}

async function ask(method, path, body) {
  const reply = await replyOf(method, path, body);
  return reply.status === 204 ? null : reply.json();
}

export const get = (path) => ask("GET", `/api/v1/${path}`);
export const post = (path, body) => ask("POST", `/api/v1/${path}`, body);

export const fetchFile = async (path) => (await replyOf("GET", `/api/v1/${path}`)).blob();

export const hasSession = () => signedOn !== null || localStorage.getItem(KEY) !== null;

export const isSignedOn = () => signedOn !== null;

// Asks whether a proxy names the user. Then forgets the key of an earlier session, because the service
// refuses requests with both.
export async function signOn() {
  const reply = await fetch("/api/v1/session");
  if (!reply.ok) throw new Refused(reply.status, await messageOf(reply));
  const session = await reply.json();
  if (!session.sso) return;
  forgetSession();
  signedOn = session;
}

export const caller = () => signedOn ?? ({ name: localStorage.getItem(NAME), role: localStorage.getItem(ROLE) });

export async function logIn(token) {
  forgetSession();
  const session = await post("session", { token });
  localStorage.setItem(NAME, session.name);
  localStorage.setItem(ROLE, session.role);
  localStorage.setItem(KEY, session.key);
}

export function forgetSession() {
  for (const item of [KEY, NAME, ROLE]) localStorage.removeItem(item);
}

export async function logOut() {
  try {
    await ask("DELETE", "/api/v1/session");
  } finally {
    forgetSession();
  }
}

// Returns all rows of a list whose `key` is greater than `after`, as an array for each column.
export async function columnsAfter(list, key, after) {
  let all = null;
  for (;;) {
    const page = await get(`${list}/columns?limit=${PAGE}&after=${after}`);
    all = all === null ? page : append(all, page);
    const keys = page[key];
    if (keys.length < PAGE) return all;
    after = keys[keys.length - 1];
  }
}

// Returns all rows of `list` whose `key` is above `after`, as objects with these columns.
export async function rowsAfter(list, key, after, columns) {
  const all = [];
  for (;;) {
    const page = await get(`${list}?limit=${FEW}&after=${after}&columns=${columns}`);
    all.push(...page);
    if (page.length < FEW) return all;
    after = page[page.length - 1][key];
  }
}

// Appends the rows of `more` to `table`; both have an array for each column.
export function append(table, more) {
  for (const name of Object.keys(table)) for (const value of more[name]) table[name].push(value);
  return table;
}

export function truncate(table, rows) {
  for (const column of Object.values(table)) column.length = rows;
}
