import { registerHooks } from 'node:module';
import { workerData } from 'node:worker_threads';

/**
 * Where a thread begins. JavaScript, because TypeScript would load the compiler that this spares the thread:
 * ES modules come from the sources that the host has read (see thread-sources.ts), others from their files.
 *
 * @type {import('./thread-sources.ts').ThreadSources}
 */
const sources = workerData;

registerHooks({
  load(url, context, nextLoad) {
    const source = context.format?.startsWith('commonjs') ? undefined : sources.get(url);
    return source === undefined ? nextLoad(url, context) : { format: 'module', source, shortCircuit: true };
  },
});

export const { runSession, inspectModule, importModules } = await import('./thread.ts');
