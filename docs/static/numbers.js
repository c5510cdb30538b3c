// Sphinx's search ignores numbers, but users look for statuses such as 429. It is loaded after this script.
document.addEventListener("DOMContentLoaded", () => {
  if (typeof Search === "undefined") return;
  const parse = Search._parseQuery;
  Search._parseQuery = (query) => {
    const parsed = parse(query);
    const [, searched, , highlighted] = parsed;
    for (const number of query.match(/\b\d{2,5}\b/g) ?? []) {
      searched.add(number);
      highlighted.add(number);
    }
    return parsed;
  };
});
