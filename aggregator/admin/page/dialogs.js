// Questions before what cannot be taken back, and what comes of it.
import { byId, codeIn, element } from "./text.js";

// True when the person confirms. body: elements or texts.
export function confirm(title, body, action) {
  const dialog = byId("dialog");
  byId("dialog-title").textContent = title;
  byId("dialog-body").replaceChildren(...body);
  byId("dialog-cancel").hidden = false;
  const button = byId("dialog-confirm");
  button.textContent = action;
  button.className = "danger";
  return show(dialog, byId("dialog-cancel"));
}

export function tell(title, body) {
  const dialog = byId("dialog");
  byId("dialog-title").textContent = title;
  byId("dialog-body").replaceChildren(...body);
  byId("dialog-cancel").hidden = true;
  const button = byId("dialog-confirm");
  button.textContent = "Close";
  button.className = "";
  return show(dialog, button);
}

function show(dialog, first) {
  dialog.returnValue = "";
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "confirm"), { once: true });
    dialog.showModal();
    first.focus();
  });
}

export const paragraph = (...parts) => element("p", {}, ...parts);

// Runs it and tells when it fails.
export async function attempt(what, run) {
  try {
    return await run();
  } catch (error) {
    await tell(`${what} failed`, [paragraph(...codeIn(error.message))]);
    return undefined;
  }
}
