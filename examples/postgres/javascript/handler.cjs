// A handler that writes its own tables, in JavaScript with node-postgres.
//
//     npm install
//     DATABASE_URL=postgres://keylane_handler@db.example/shop \
//     keylane work --store postgres://... --fence-to-handler --exec node handler.cjs

const { createInterface } = require('node:readline');
const { Client } = require('pg');

const STALE = 'KL001'; // a newer owner has claimed the partition of this job
const DONE_ALREADY = 'KL002'; // an earlier try of this job has committed

async function work(database, job) {
  const { amount } = JSON.parse(job.payload);
  // One client for all of it: each query of a pool may run on another connection.
  await database.query('BEGIN');
  try {
    await database.query('SELECT keylane.admit($1)', [job.sensitive_fence]);
    await database.query('INSERT INTO payment (job, account, amount) VALUES ($1, $2, $3)', [job.id, job.key, amount]);
    await database.query('COMMIT');
  } catch (error) {
    await database.query('ROLLBACK');
    throw error;
  }
}

async function answer(database, job) {
  try {
    await work(database, job);
    return { outcome: 'done' };
  } catch (error) {
    if (error.code === DONE_ALREADY) return { outcome: 'done' };
    if (error.code === STALE) console.error(`${STALE}: not mine any more, nothing written`);
    if (error instanceof SyntaxError) return { outcome: 'reject', reason: String(error) };
    return { outcome: 'retry', reason: `${error.code}: ${error.message}` };
  }
}

async function main() {
  const database = new Client({ connectionString: process.env.DATABASE_URL });
  // The worker starts another one, which connects anew.
  database.on('error', () => process.exit(1));
  await database.connect();
  for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
    const job = JSON.parse(line);
    process.stdout.write(JSON.stringify({ id: job.id, ...(await answer(database, job)) }) + '\n');
  }
  await database.end();
}

main();
