// Figures of the model's quality, by name: from evaluators, and from clients' held-out data.
import { percent, real } from "./text.js";

const FIRST = ["accuracy", "r2", "auc"]; // main figures of a model, listed first

const rank = (name) => (FIRST.includes(name) ? FIRST.indexOf(name) : FIRST.length);
const inOrder = (names) => [...names].sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));

const isShare = (name) => name === "accuracy" || name.startsWith("recall") || name === "largest";
export const textOf = (name) => (isShare(name) ? percent : real);
export const tickOf = (name) => (isShare(name) ? (v) => `${+(100 * v).toFixed(1)} %` : (v) => String(+v.toPrecision(3)));
// Whether lower values are better, judged by the figure's name.
export const isLoss = (name) => /loss|error|mae|mse|deviation/i.test(name);
const LABELS = { recall_worst: "Right of the worst class", largest: "Share of the largest class" };
export const labelOf = (name) => LABELS[name] ?? name[0].toUpperCase() + name.slice(1).replaceAll("_", " ");

const CLASS = "class_worst"; // number of the class of a client's "recall_worst", which is no figure itself
export const isFigure = (name) => name !== CLASS;

export function evaluatedNames(rounds) {
  const names = new Set();
  if (rounds.accuracy.some((value) => value !== null)) names.add("accuracy");
  for (const metrics of rounds.metrics) for (const name in metrics) names.add(name);
  return inOrder(names);
}

export const evaluated = (rounds, name) =>
  rounds.metrics.map((metrics, i) => (name === "accuracy" ? rounds.accuracy[i] : null) ?? metrics?.[name] ?? null);

// Returns the class that one client reports as its worst.
export const worstClass = (metrics) => metrics?.[CLASS] ?? null;

// rows: a map from round to the round's columns held_out_...
export function heldOutNames(rows) {
  const names = new Set();
  for (const row of rows.values()) {
    for (const key in row) if (row[key] !== null && key.endsWith("_worst_client")) names.add(key.slice("held_out_".length, -"_worst_client".length));
  }
  return inOrder(names);
}

// Returns the column of a figure. kind: "" = mean weighted by examples, "_mean", "_deviation" or "_worst".
export const heldOut = (rounds, rows, name, kind) =>
  rounds.round.map((round) => rows.get(round)?.[`held_out_${name}${kind}`] ?? null);
