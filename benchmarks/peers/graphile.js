// Producer and fetcher of Graphile Worker, for benchmarks/peers/graphile.py; prints one JSON object at its end.
//
//     node graphile.js schema ADDRESS
//     node graphile.js produce|fetch ADDRESS TASKS BATCH BODY WINDOW
//
// graphile-worker, and pg, which comes with it, are looked for in NODE_PATH.
"use strict";

const { randomBytes } = require("crypto");
const { Logger, run, runMigrations } = require("graphile-worker");
const { Pool } = require(require.resolve("pg", { paths: [require.resolve("graphile-worker")] }));

const CONCURRENCY = 24; // as in the configuration that the project publishes its figures of
const POLL_MS = 100; // a new job is announced; this is for an announcement that came while jobs were fetched
const START_MS = 3000; // a fetcher that starts together with the producer is there by then
const FETCHERS = "select from pg_stat_activity where query ilike 'listen %'";
const ADD = `
select count(*)::int as accepted from graphile_worker.add_jobs(array(
  select json_populate_recordset(null::graphile_worker.job_spec, $1::json)))`;

const [role, address, ...numbers] = process.argv.slice(2);
const [tasks, batch, body, window] = numbers.map(Number);
const now = () => Date.now() / 1000;

async function schema() {
  await runMigrations({ connectionString: address, logger });
  return {};
}

async function produce() {
  const made = batches();
  const pool = new Pool({ connectionString: address, max: window });
  const lanes = await Promise.all(Array.from({ length: window }, () => pool.connect()));
  await fetcherIsThere(lanes[0]);
  let accepted = 0;
  const beganAt = now();
  await Promise.all(
    lanes.map(async (lane) => {
      for (let specs = made.pop(); specs; specs = made.pop()) {
        const { rows } = await lane.query({ name: "add", text: ADD, values: [specs] });
        accepted += rows[0].accepted;
      }
    }),
  );
  const endedAt = now();
  lanes.forEach((lane) => lane.release());
  await pool.end();
  return { began_at: beganAt, ended_at: endedAt, accepted };
}

// What Node takes to start is not counted; nor is it waited for if nothing fetches yet.
async function fetcherIsThere(lane) {
  for (const until = Date.now() + START_MS; Date.now() < until; ) {
    if ((await lane.query(FETCHERS)).rowCount) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

// The arguments of all calls. A payload is JSON, so a body of bytes goes as base64.
function batches() {
  const content = randomBytes(body).toString("base64");
  const made = [];
  for (let start = 0; start < tasks; start += batch) {
    const specs = Array.from({ length: Math.min(batch, tasks - start) }, () => {
      const taskid = randomBytes(16).toString("hex");
      return { identifier: "bench", payload: { taskid, url: `http://example.com/${taskid}`, body: content } };
    });
    made.push(JSON.stringify(specs));
  }
  return made;
}

async function fetch() {
  const taken = new Set();
  let finished = 0;
  let allRun;
  const ran = new Promise((resolve) => (allRun = resolve));
  const runner = await run({
    preset: {
      worker: {
        connectionString: address,
        concurrentJobs: CONCURRENCY,
        maxPoolSize: CONCURRENCY + 1,
        pollInterval: POLL_MS,
        localQueue: { size: Math.max(CONCURRENCY + 1, window * batch) },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
        logger,
      },
    },
    noHandleSignals: true,
    taskList: {
      bench: async ({ taskid }) => {
        taken.add(taskid);
        finished += 1;
        if (finished === tasks) allRun();
      },
    },
  });
  const beganAt = now();
  await ran;
  await runner.stop(); // waits until what was completed is in the database
  return { began_at: beganAt, ended_at: now(), finished, distinct: taken.size };
}

const logger = new Logger(() => (level, message) => {
  if (level === "error") console.error(message);
});

process.env.NO_LOG_SUCCESS = "1";
({ schema, produce, fetch })[role]()
  .then((result) => {
    process.stdout.write(JSON.stringify(result) + "\n", () => process.exit(0));
  })
  .catch((error) => {
    console.error(error);
    process.exit(1);
  });
