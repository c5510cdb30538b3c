// Page of a task: runs it again, alone or with others, after showing which ones.
import { tell } from "./actions.js";
import { runOperation, tasks } from "./operations.js";

const card = document.getElementById("rerun");

if (card) {
  const form = card.querySelector("form");
  const go = document.getElementById("rerun-go");
  form.addEventListener("submit", (event) => { event.preventDefault(); look(form, go); });
  form.addEventListener("change", () => { clear(); go.hidden = true; });
  go.addEventListener("click", () => run(form, go));
}

const bodyOf = (form, dry) => ({ scope: new FormData(form).get("scope"), dry_run: dry });

async function look(form, go) {
  clear();
  const view = await runOperation(card.dataset.api, bodyOf(form, true), (now) => say(`Scanned ${tasks(now.seen)} so far`));
  if (!view) { say(""); return; }
  const list = document.getElementById("layers");
  const layers = view.rerun?.layers ?? [];
  layers.forEach((layer) => list.append(itemOf(layer)));
  list.hidden = layers.length === 0;
  const more = (view.rerun?.depth ?? 0) - layers.length;
  const passed = view.rerun?.passed ? `, ${tasks(view.rerun.passed)} passed by` : "";
  say(`${tasks(view.matched)} would run again${more > 0 ? `, in ${more} layers more` : ""}${passed}`);
  go.hidden = view.matched === 0;
  go.textContent = view.matched === 1 ? "Run it again" : `Run ${tasks(view.matched)} again`;
}

async function run(form, go) {
  go.disabled = true;
  const view = await runOperation(card.dataset.api, bodyOf(form, false), (now) => say(`${tasks(now.matched)} reset so far`));
  go.disabled = false;
  go.hidden = true;
  if (!view) return;
  clear();
  say(`${tasks(view.matched)} run again`);
  tell(`${tasks(view.matched)} run again`);
}

function itemOf(layer) {
  const item = document.createElement("li");
  const named = (layer.taskids ?? []).join(", ");
  const rest = layer.tasks - (layer.taskids ?? []).length;
  item.textContent = named ? named + (rest ? ` and ${rest.toLocaleString("en")} more` : "") : tasks(layer.tasks);
  return item;
}

function clear() {
  document.getElementById("layers").replaceChildren();
  document.getElementById("layers").hidden = true;
  say("");
}

function say(words) {
  document.getElementById("rerun-words").textContent = words;
}
