import { join } from 'node:path';
import { startStack } from '../../scripts/stack/stack.ts';

// Starts a stack in the given directory and holds it until this process is killed.
const stack = await startStack({
  dataDir: process.argv[2] ?? '',
  workers: 1,
  port: 0,
  toolsDir: join(import.meta.dirname, '../../samples/tools'),
});
const { rows } = await stack.pool.query<{ pid: number }>('select pg_backend_pid() as pid');
console.log(JSON.stringify({ postgres: rows[0]?.pid }));
