// What every page does: times in the reader's zone, changes that arrive by themselves, forms that ask first.
import { showTimes } from "./times.js";
import { follow } from "./live.js";
import { obeyForms } from "./actions.js";

showTimes(document);
obeyForms();
closeMenus();
// On a phone not all places fit beside each other.
document.querySelector(".places [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
if (document.body.dataset.live) follow(document.body.dataset.live);

// A menu is open until something of it is chosen, or somebody turns to something else.
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
