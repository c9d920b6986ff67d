// Dialogs that confirm an action which cannot be undone, and that show its result.
import { byId, codeIn, element } from "./text.js";

// Returns true if the user confirms. body: elements or texts.
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

// Runs an action, and shows a dialog if it fails. Returns undefined then.
export async function attempt(what, run) {
  try {
    return await run();
  } catch (error) {
    await tell(`${what} failed`, [paragraph(...codeIn(error.message))]);
    return undefined;
  }
}
