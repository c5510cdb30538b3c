// Page of a flow: runs a task again, after showing how many others with it; reloads when the graph's shape has changed.
import { ask, call, tell } from "./actions.js";
import { segment } from "./addresses.js";

const form = document.getElementById("rerun");
if (form) {
  const { taskid, scope } = form.elements;
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-rerun]");
    if (!button) return;
    taskid.value = decodeURIComponent(button.dataset.rerun);
    form.scrollIntoView({ block: "center" });
    scope.focus({ preventScroll: true });
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    rerun(`/api/v1/projects/${form.dataset.project}/tasks/${segment(taskid.value.trim())}/rerun`, scope.value);
  });
}

async function rerun(path, scope) {
  const planned = await ended(await call("POST", path, { scope, dry_run: true }));
  if (!planned || !(await ask("Run again?", willRun(planned)))) return;
  const ran = await ended(await call("POST", path, { scope }));
  if (ran) tell(`${tasks(ran.matched)} will run again`);
}

async function ended(answer) {
  let view = answer?.operation ?? answer;
  while (view && !view.ended_at) {
    await new Promise((resolve) => setTimeout(resolve, 300));
    const next = await call("GET", `/api/v1/operations/${view.id}`);
    view = next?.operation ?? next;
  }
  return view;
}

function willRun(view) {
  const depth = view.rerun?.depth ?? 0;
  const passed = view.rerun?.passed ? ` ${tasks(view.rerun.passed)} would be passed by.` : "";
  return `${tasks(view.matched)} would run again${depth > 1 ? `, in ${depth} layers` : ""}.${passed}`;
}

function tasks(count) {
  return count === 1 ? "1 task" : `${count.toLocaleString("en")} tasks`;
}

const drawing = document.getElementById("drawing");
// Scroll a graph that is much wider than the screen to its middle.
if (drawing.scrollWidth > 1.25 * drawing.clientWidth) drawing.scrollLeft = (drawing.scrollWidth - drawing.clientWidth) / 2;

const shape = document.querySelector('[data-cell="shape"]');
const first = shape.dataset.state;
new MutationObserver(() => { if (shape.dataset.state !== first) location.reload(); }).observe(shape, { attributes: true });
