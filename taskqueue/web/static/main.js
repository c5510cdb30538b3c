// Common to all pages: times in the reader's zone, live changes, forms that ask first.
import { showTimes } from "./times.js";
import { follow } from "./live.js";
import { obeyForms } from "./actions.js";

showTimes(document);
obeyForms();
closeMenus();
// On a phone the navigation scrolls.
document.querySelector(".places [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
if (document.body.dataset.live) follow(document.body.dataset.live);

// A menu stays open until one of its buttons, or anything else, is clicked.
function closeMenus() {
  const close = (kept) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) if (menu !== kept) menu.open = false;
  };
  document.addEventListener("click", (event) => close(event.target.closest("details.menu button") ? null : event.target.closest("details.menu")));
  document.addEventListener("keydown", (event) => {
    const menu = event.target.closest?.("details.menu[open]");
    if (event.key === "Escape" && menu) { menu.open = false; menu.querySelector("summary").focus(); }
  });
}
