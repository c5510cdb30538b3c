// Forms that change something through /api/v1, as any program would.
//
//   <form data-api="/api/v1/projects/news/pause" data-method="POST" data-ask="Pause news?"
//         data-will="It dispatches no tasks; new ones are still accepted." data-done="news is paused">
//
// Fields become JSON: data-type="number" | "json" | "list" is their type; an empty field is left out. A button with
// data-api does the same without fields. data-then="/path" goes there afterwards, data-then="reload" reloads. Both are
// without the root path of a proxy.

import { root } from "./addresses.js";

const csrf = document.querySelector('meta[name="csrf"]').content;

export function obeyForms() {
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.dataset.api) return;
    event.preventDefault();
    obey(form, valuesOf(form));
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-api]");
    if (button && !button.form?.dataset.api) { event.preventDefault(); obey(button, JSON.parse(button.dataset.body ?? "{}")); }
  });
}

export async function obey(element, body) {
  const { api, method = "POST", ask: question, will = "", done = "Done", then: next } = element.dataset;
  if (question && !(await ask(question, will))) return;
  const answer = await call(method, api, body);
  if (!answer) return;
  tell(done);
  element.dispatchEvent(new CustomEvent("obeyed", { bubbles: true, detail: answer }));
  if (next === "reload") location.reload();
  else if (next) location.assign(root + next);
}

export async function call(method, path, body) {
  const init = { method, headers: { "X-CSRF-Token": csrf, Accept: "application/json" } };
  if (method !== "GET") {
    init.headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(body ?? {});
  }
  try {
    const response = await fetch(root + path, init);
    const said = response.status === 204 ? {} : await response.json().catch(() => ({}));
    if (response.ok) return said;
    tell(said.detail ?? said.title ?? `${response.status} ${response.statusText}`, true);
  } catch (error) {
    tell(`No answer: ${error.message}`, true);
  }
  return null;
}

export function ask(question, will) {
  const dialog = document.getElementById("ask");
  dialog.querySelector("#ask-title").textContent = question;
  dialog.querySelector("#ask-text").textContent = will;
  dialog.querySelector('[value="yes"]').textContent = question.replace(/ .*/s, "").replace(/\?$/, "");
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

export function tell(text, bad = false) {
  const word = document.createElement("div");
  word.className = bad ? "word bad" : "word";
  word.textContent = text;
  if (bad) word.setAttribute("role", "alert");
  document.getElementById("told").append(word);
  setTimeout(() => word.remove(), bad ? 12000 : 4000);
}

function valuesOf(form) {
  const values = {};
  for (const field of form.elements) {
    if (!field.name || field.disabled || (field.type === "checkbox" && !field.checked)) continue;
    const value = typed(field);
    if (value !== undefined) put(values, field.name.split("."), value);
  }
  return values;
}

function typed(field) {
  const text = field.value.trim();
  if (field.type === "checkbox") return field.dataset.type ? read(field.value, field.dataset.type) : true;
  return text === "" ? undefined : read(text, field.dataset.type);
}

function read(text, type) {
  if (type === "number") return Number.isNaN(Number(text)) ? text : Number(text);
  if (type === "json") { try { return JSON.parse(text); } catch { return text; } }
  if (type === "list") return text.split(/[\s,]+/);
  return text;
}

function put(values, names, value) {
  const last = names.pop();
  for (const name of names) values = values[name] ??= {};
  values[last] = value;
}
