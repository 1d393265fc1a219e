import { join } from 'node:path';
import { startStack } from '../../scripts/stack/stack.ts';
import { workOnStack } from '../../scripts/stack/signals.ts';

// Starts a stack in the given directory, freezes its worker, and fails once the stack is gone, like any work on it.
await workOnStack(
  () =>
    startStack({
      dataDir: process.argv[2] ?? '',
      workers: 1,
      port: 0,
      toolsDir: join(import.meta.dirname, '../../samples/tools'),
    }),
  async (stack) => {
    console.log(stack.workers[0]?.freeze() === true ? 'frozen' : 'not frozen');
    for (;;) await stack.pool.query('select pg_sleep(0.01)');
  },
);
