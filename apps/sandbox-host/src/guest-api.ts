import type { MessagePort } from 'node:worker_threads';
import type { QuickJSDeferredPromise } from 'quickjs-emscripten-core';
import { FETCH_CHARS_MAX, FETCHES_MAX, OUTPUT_CHARS_MAX } from './contract.ts';
import type { Sandbox } from './sandbox.ts';

/** The functions that hostile code can reach outside of its instance: one that prints, and one that sends a request. */

/** A `fetch` on a task's port: the request, or the answer, as JSON text. */
export interface FetchMessage {
  readonly fetch: number;
  readonly text: string;
}

export interface Output {
  stdout: string;
  stderr: string;
}

/** Defines `console`. Returns the output, which grows until each stream has its maximum. */
export function captureConsole({ context, own }: Sandbox): Output {
  const output: Output = { stdout: '', stderr: '' };
  const print = context.newFunction('print', (stream, text) => {
    const name = context.getString(stream) === 'stderr' ? 'stderr' : 'stdout';
    if (output[name].length >= OUTPUT_CHARS_MAX) return;
    const line = JSON.parse(context.getString(text)) as string;
    output[name] = (output[name] + line).slice(0, OUTPUT_CHARS_MAX);
  });
  const limit = context.newNumber(OUTPUT_CHARS_MAX);
  context.unwrapResult(context.callFunction(own('defineConsole'), context.undefined, print, limit));
  return output;
}

/** Defines `process.env`. */
export function defineEnv({ context, own }: Sandbox, env: Readonly<Record<string, string>>): void {
  const text = context.newString(JSON.stringify(env));
  context.unwrapResult(context.callFunction(own('defineEnv'), context.undefined, text));
}

export interface Fetches {
  /** Whether a request has no answer yet. */
  isWaiting(): boolean;
  /** Waits for the next answer and gives it to the code. Ends at the deadline. */
  next(): Promise<void>;
}

/** Defines `fetch` if there is a port. The worker's side carries the requests out, and counts again. */
export function openFetches({ context, own, deadline }: Sandbox, port: MessagePort | undefined): Fetches {
  if (port === undefined) return { isWaiting: () => false, next: () => Promise.resolve() };
  const waiting = new Map<number, QuickJSDeferredPromise>();
  let requests = 0;
  let chars = 0;
  let wake = (): void => {};

  const send = context.newFunction('send', (handle) => {
    const promise = context.newPromise();
    requests += 1;
    chars += context.getNumber(context.getProp(handle, 'length'));
    const problem =
      requests > FETCHES_MAX
        ? `a call may make ${FETCHES_MAX} requests`
        : chars > FETCH_CHARS_MAX
          ? 'the requests of the call are too large'
          : undefined;
    if (problem === undefined) {
      waiting.set(requests, promise);
      const message: FetchMessage = { fetch: requests, text: context.getString(handle) };
      port.postMessage(message);
    } else promise.resolve(context.newString(JSON.stringify({ error: problem })));
    return promise.handle;
  });
  context.unwrapResult(context.callFunction(own('defineFetch'), context.undefined, send));
  port.on('message', ({ fetch, text }: FetchMessage) => {
    waiting.get(fetch)?.resolve(context.newString(text));
    waiting.delete(fetch);
    wake();
  });
  return {
    isWaiting: () => waiting.size > 0,
    async next() {
      const { promise, resolve } = Promise.withResolvers<void>();
      wake = resolve;
      const timer = setTimeout(resolve, deadline - performance.now() + 1);
      await promise;
      clearTimeout(timer);
    },
  };
}
