// What is known of how good the model is, by names: what evaluators report, and what clients find on data of their own.
import { percent, real } from "./text.js";

const FIRST = ["accuracy", "r2", "auc"]; // by which a model is known, where it has one of them

const rank = (name) => (FIRST.includes(name) ? FIRST.indexOf(name) : FIRST.length);
const inOrder = (names) => [...names].sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));

const isShare = (name) => name === "accuracy" || name === "worst_class";
export const textOf = (name) => (isShare(name) ? percent : real);
export const tickOf = (name) => (isShare(name) ? (v) => `${+(100 * v).toFixed(1)} %` : (v) => String(+v.toPrecision(3)));
// Whether less of it is better, by its name.
export const isLoss = (name) => /loss|error|mae|mse|deviation/i.test(name);
export const labelOf = (name) => name[0].toUpperCase() + name.slice(1).replaceAll("_", " ");

// "recall_4" is the share that is right of class 4, which is the worst class of whoever reports it. Classes differ from
// report to report, so that they make one figure: the worst class of all.
const RECALL = /^recall_(\d+)$/;
const WORST = "worst_class";
const figureOf = (name) => (RECALL.test(name) ? WORST : name);
const recalls = (metrics) => Object.keys(metrics ?? {}).filter((name) => RECALL.test(name));
const least = (values) => (values.length === 0 ? null : Math.min(...values));

export function evaluatedNames(rounds) {
  const names = new Set();
  if (rounds.accuracy.some((value) => value !== null)) names.add("accuracy");
  for (const metrics of rounds.metrics) for (const name in metrics) names.add(figureOf(name));
  return inOrder(names);
}

function valueOf(metrics, name) {
  if (name === WORST) return least(recalls(metrics).map((recall) => metrics[recall]));
  return metrics?.[name] ?? null;
}

export const evaluated = (rounds, name) =>
  rounds.metrics.map((metrics, i) => (name === "accuracy" ? rounds.accuracy[i] : null) ?? valueOf(metrics, name));

// Classes that somebody reports as the worst, of the last closed round that has any: {round, classes: [{name, recall, by}]},
// worst first; null where nobody has. rows: of the API's held-out figures, by round.
export function worstClasses(rounds, rows) {
  for (let i = rounds.round.length - 1; i >= 0; i--) {
    const held = rows.get(rounds.round[i])?.metrics;
    const found = new Map();
    const take = (name, recall, by) => {
      if (!found.has(name) || recall < found.get(name).recall) found.set(name, { name: RECALL.exec(name)[1], recall, by });
    };
    for (const name of recalls(rounds.metrics[i])) take(name, rounds.metrics[i][name], "evaluators");
    for (const name of recalls(held)) take(name, held[name].worst, `client ${held[name].worst_client}`);
    if (found.size > 0) return { round: rounds.round[i], classes: [...found.values()].sort((a, b) => a.recall - b.recall) };
  }
  return null;
}

// rows: of the API's held-out figures, by round.
export function heldOutNames(rows) {
  const names = new Set();
  for (const row of rows.values()) for (const name in row.metrics) names.add(figureOf(name));
  return inOrder(names);
}

// A column of one of its kinds: weighted, mean, deviation, worst.
export const heldOut = (rounds, rows, name, kind) =>
  rounds.round.map((round) => (name === WORST ? worstOf(rows.get(round)?.metrics, kind) : rows.get(round)?.metrics[name]?.[kind] ?? null));

// A mean over clients whose worst classes differ would be one of nothing.
const worstOf = (metrics, kind) => (kind === "worst" ? least(recalls(metrics).map((name) => metrics[name].worst)) : null);
