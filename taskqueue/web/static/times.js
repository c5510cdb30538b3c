// Times: <time data-unix="1763800000.5"> in the reader's zone, in UTC on hover.

const written = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const brief = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });
const hour = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });

export function showTimes(root) {
  for (const element of root.querySelectorAll("time[data-unix]")) {
    const at = new Date(Number(element.dataset.unix) * 1000);
    if (Number.isNaN(at.getTime())) continue;
    element.dateTime = at.toISOString();
    element.title = at.toISOString().replace("T", " ").replace(/\.\d+Z$/, " UTC");
    const today = at.toDateString() === new Date().toDateString();
    if (element.dataset.brief !== undefined && today) { element.textContent = brief.format(at); continue; }
    element.textContent = today ? hour.format(at) : written.format(at);
  }
}
