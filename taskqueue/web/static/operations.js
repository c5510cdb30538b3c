// Operations run in the daemon: one that is started here is followed until it ends or the user leaves the page.
import { call } from "./actions.js";

const WAIT_SECONDS = 0.4;

export const tasks = (count) => (count === 1 ? "1 task" : `${count.toLocaleString("en")} tasks`);

// Starts an operation; resolves with the operation when it has ended, or with null if it was refused.
export async function runOperation(path, body, told) {
  let answer = await call("POST", path, body);
  while (answer) {
    const view = answer.operation ?? answer;
    told(view);
    if (view.ended_at) return view;
    answer = await call("GET", `/api/v1/operations/${view.id}?seconds=${WAIT_SECONDS}`);
  }
  return null;
}
