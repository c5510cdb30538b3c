// List of tasks: actions on chosen ones, or on all that match.
import { ask, call, tell } from "./actions.js";
import { root } from "./addresses.js";
import { runOperation, tasks } from "./operations.js";

const WORDS = {
  retry: ["Retry", "They run now, with all retries.", "will run now"],
  cancel: ["Cancel", "They end as cancelled. Fetchers that run some of them go on, but their reports are ignored.", "cancelled"],
  reprioritise: ["Reprioritise", "Larger priorities run first.", "reprioritised"],
};

const PAST = { retry: "Retried", cancel: "Cancelled", reprioritise: "Reprioritised" };

const acts = document.getElementById("acts");
const all = document.getElementById("all");
const boxes = [...document.querySelectorAll("input.one")];
const chosen = () => boxes.filter((box) => box.checked).map((box) => JSON.parse(box.value));

if (acts) {
  all.addEventListener("change", () => { boxes.forEach((box) => { box.checked = all.checked; }); show(); });
  boxes.forEach((box) => box.addEventListener("change", show));
  acts.querySelectorAll("button[data-act]").forEach((button) => button.addEventListener("click", () => act(button.dataset.act)));
  document.getElementById("progress-done").addEventListener("click", () => location.reload());
  show();
}

function show() {
  const count = chosen().length;
  all.checked = count > 0 && count === boxes.length;
  all.indeterminate = count > 0 && count < boxes.length;
  acts.classList.toggle("some", count > 0);
  document.getElementById("chosen").textContent = count ? `${tasks(count)} chosen` : "Choose tasks, or act on all that match";
}

async function act(action) {
  const priority = Number(document.getElementById("priority")?.value ?? 0);
  const body = action === "reprioritise" ? { priority } : {};
  const taskids = chosen();
  await (taskids.length ? actOnChosen(action, taskids, body) : actOnAll(action, body));
}

async function actOnChosen(action, taskids, body) {
  const [verb, will, past] = WORDS[action];
  if (!(await ask(`${verb} ${tasks(taskids.length)}?`, will))) return;
  const path = `/api/v1/projects/${encodeURIComponent(acts.dataset.project)}/tasks/${action}`;
  const answer = await call("POST", path, { ...body, taskids });
  if (!answer) return;
  const outcomes = answer.outcomes ?? [];
  const count = (what) => outcomes.filter((each) => each === what).length;
  const words = [`${tasks(count("done"))} ${past}`];
  if (count("ignored")) words.push(`${count("ignored")} left as they were`);
  if (count("unknown")) words.push(`${count("unknown")} unknown by now`);
  if (count("bare")) words.push(`${count("bare")} whose bodies were dropped`);
  tell(words.join(", "));
  setTimeout(() => location.reload(), 900);
}

async function actOnAll(action, body) {
  const [verb, will] = WORDS[action];
  const said = { ...body, action, project: acts.dataset.project, filter: JSON.parse(acts.dataset.filter) };
  const counted = await runOperation("/api/v1/operations", { ...said, dry_run: true }, (view) => follow(view, "Counting"));
  hide();
  if (!counted) return;
  if (!counted.matched) { tell(`No task to ${action}: ${tasks(counted.seen)} scanned`); return; }
  if (!(await ask(`${verb} ${tasks(counted.matched)}?`, `All that match, on every page. ${will}`))) return;
  const ended = await runOperation("/api/v1/operations", said, (view) => follow(view, verb));
  if (!ended) { hide(); return; }
  const words = ended.cancelled ? "Cancelled where it was: " : "";
  document.getElementById("progress-words").textContent = `${words}${PAST[action]} ${tasks(ended.matched)} of ${ended.seen.toLocaleString("en")} scanned`;
  document.getElementById("progress-cancel").hidden = true;
  document.getElementById("progress-done").hidden = false;
}

function follow(view, verb) {
  const card = document.getElementById("progress");
  card.hidden = false;
  document.getElementById("progress-words").textContent =
    `${verb}: ${tasks(view.matched)} so far, ${view.seen.toLocaleString("en")} of about ${Math.max(view.known, view.seen).toLocaleString("en")} scanned`;
  const bar = document.getElementById("progress-bar");
  bar.max = Math.max(view.known, view.seen, 1);
  bar.value = view.seen;
  document.getElementById("progress-link").href = `${root}/operations/${view.id}`;
  const cancel = document.getElementById("progress-cancel");
  cancel.hidden = false;
  cancel.onclick = () => call("POST", `/api/v1/operations/${view.id}/cancel`);
}

function hide() {
  document.getElementById("progress").hidden = true;
}
