// Addresses: within the pages they begin with a slash, and behind a proxy with the path below which it shows them.

export const root = document.documentElement.dataset.root;

// A name as one segment of a path. Dots alone would be taken for steps: docs/reference/http.md, as segments.py has it.
export const segment = (name) => encodeURIComponent(/^~*\.{1,2}$/.test(name) ? `~${name}` : name);
