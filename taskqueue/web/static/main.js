// What every page does: times in the reader's zone, changes that arrive by themselves, forms that ask first.
import { showTimes } from "./times.js";
import { follow } from "./live.js";
import { obeyForms } from "./actions.js";

showTimes(document);
obeyForms();
if (document.body.dataset.live) follow(document.body.dataset.live);
