import { registerHooks } from 'node:module';
import { workerData } from 'node:worker_threads';

// Where a thread begins. JavaScript, because TypeScript would load the compiler of types, which takes memory and time in
// each thread: the main thread has removed the types.

/** @type {import('./thread.ts').ThreadData} */
const { sources } = workerData;

registerHooks({
  load(url, context, nextLoad) {
    const source = sources.get(url);
    return source === undefined ? nextLoad(url, context) : { format: 'module', source, shortCircuit: true };
  },
});

export const { runCode } = await import('./thread.ts');
