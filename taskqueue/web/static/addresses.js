// Addresses in the pages begin with a slash; behind a proxy its root path is put before them.

export const root = document.documentElement.dataset.root;

// A name as one segment of a path. Names of dots would be resolved: see docs/reference/http.md and addresses.py.
export const segment = (name) => encodeURIComponent(/^~*\.{1,2}$/.test(name) ? `~${name}` : name);
