// Applies changes that the server sends: {"blocks": {id: html}, "cells": {"row/cell": text | {attribute: value}},
// "rows": {row: html}, "order": {list: [row, …]}, "state": {"trouble": text}}. HTML comes only from the server's
// templates, which escape everything; all else is set as text or as attributes from the list below.
import { root } from "./addresses.js";
import { showTimes } from "./times.js";

const ATTRIBUTES = new Set(["width", "x", "points", "d", "data-state", "title", "aria-label", "value", "max", "href", "data-will"]);

export function follow(path) {
  const source = new EventSource(root + path);
  source.addEventListener("open", () => pulse("live", "live"));
  source.addEventListener("error", () => goOn(source, path));
  source.addEventListener("change", (event) => takeIn(JSON.parse(event.data)));
  addEventListener("pagehide", () => source.close());
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
}

// A browser reconnects by itself, except after a refusal: too many streams, or an ended session.
async function goOn(source, path) {
  pulse("lost", "connection lost");
  if (source.readyState !== EventSource.CLOSED) return;
  const isStranger = await fetch(`${root}/login`, { redirect: "manual" }).then((answer) => answer.ok, () => false);
  if (isStranger) pulse("lost", "signed out: load the page again");
  else setTimeout(() => follow(path), 5000 * (1 + Math.random()));
}

function takeIn(change) {
  for (const [id, html] of Object.entries(change.blocks ?? {})) replaceBlock(id, html);
  for (const [list, rows] of Object.entries(change.order ?? {})) reorder(list, rows, change.rows ?? {});
  for (const [name, value] of Object.entries(change.cells ?? {})) setCell(name, value);
  const trouble = change.state?.trouble;
  if (trouble !== undefined) pulse(trouble ? "lost" : "live", trouble || "live");
}

function pulse(state, word) {
  const element = document.getElementById("pulse");
  element.dataset.state = state;
  element.querySelector(".pulse-word").textContent = word;
}

function replaceBlock(id, html) {
  const element = document.getElementById(id);
  // A block with a focused field, a ticked box or an open menu is not replaced.
  if (!element || isInUse(element)) return;
  const focused = element.contains(document.activeElement) ? nameOf(document.activeElement) : null;
  element.innerHTML = html;
  showTimes(element);
  if (focused) element.querySelector(focused)?.focus();
  element.dispatchEvent(new CustomEvent("replaced", { bubbles: true }));
}

function isInUse(element) {
  const active = document.activeElement;
  const typing = element.contains(active) && active.matches("input, textarea, select");
  return typing || element.querySelector("input:checked, dialog[open], details[open].menu") !== null;
}

function nameOf(element) {
  return element.id ? `#${CSS.escape(element.id)}` : element.dataset.key ? `[data-key="${CSS.escape(element.dataset.key)}"]` : null;
}

function reorder(list, names, html) {
  const body = document.getElementById(list);
  if (!body) return;
  const known = new Map([...body.children].map((row) => [row.dataset.row, row]));
  const wanted = names.map((name) => known.get(name) ?? made(html[name])).filter(Boolean);
  const kept = new Set(wanted);
  for (const row of known.values()) if (!kept.has(row) && !row.contains(document.activeElement)) row.remove();
  wanted.forEach((row, place) => {
    if (body.children[place] !== row) body.insertBefore(row, body.children[place] ?? null);
  });
}

function made(html) {
  if (html === undefined) return null;
  const template = document.createElement("template");
  template.innerHTML = html;
  showTimes(template.content);
  return template.content.firstElementChild;
}

function setCell(name, value) {
  const [row, cell] = splitLast(name);
  const element = document.querySelector(`[data-row="${CSS.escape(row)}"] [data-cell="${CSS.escape(cell)}"]`);
  if (!element || element === document.activeElement) return;
  if (typeof value === "string") { element.textContent = value; return; }
  for (const [attribute, text] of Object.entries(value)) {
    if (attribute === "text") element.textContent = text;
    else if (attribute === "value" && "value" in element) element.value = text;
    else if (ATTRIBUTES.has(attribute)) element.setAttribute(attribute, text);
  }
}

function splitLast(name) {
  const at = name.lastIndexOf("/");
  return [name.slice(0, at), name.slice(at + 1)];
}
