import { startCallHost } from '@nightshift/host-process';
import type { SandboxFetch, SandboxOutcome, SandboxReply, SandboxRequest } from './contract.ts';
import { answerFetch } from './fetches.ts';
import { hostCommand, testJail, type SandboxLayer } from './jail.ts';
import { FRAME_BYTES_MAX, type FetchedMessage, type FetchRequestMessage } from './messages.ts';
import { encodeCall, endedReply, type PendingCall } from './pending-call.ts';
import { readMessage } from './read-message.ts';

const THREADS_DEFAULT = 2;
const RECYCLE_AFTER_CALLS = 1_000;
/** Interval of the signs of life. Unit: milliseconds. */
const PING_EVERY_MS = 10_000;

export interface SandboxHostOptions {
  readonly fetch: SandboxFetch;
  /** Calls under way at a time. Default: 2. */
  readonly threads?: number;
  /** `off` leaves bubblewrap out even where it works. Default: `auto`. */
  readonly bubblewrap?: 'auto' | 'off';
  readonly onLog?: (line: string) => void;
}

export interface SandboxHost {
  /** The layers between uploaded code and the machine, and why one does not hold. */
  readonly layers: readonly SandboxLayer[];
  /** Runs a call. Never rejects. Calls beyond the threads wait here, where a crash does not affect them. */
  runCall(request: SandboxRequest, options?: { readonly signal?: AbortSignal }): Promise<SandboxReply>;
  /** The process that takes calls, or the jail around it. */
  pid(): number | undefined;
  /** Ends all calls and the process. */
  close(): Promise<void>;
}

/**
 * Starts the sandbox host as a child process; resolves once it takes calls. It is replaced after 1,000 calls or an error of
 * its own, and restarted when it dies.
 * Throws: Error if it does not start.
 */
export async function startSandboxHost(options: SandboxHostOptions): Promise<SandboxHost> {
  const { threads = THREADS_DEFAULT, fetch } = options;
  const jail: SandboxLayer =
    options.bubblewrap === 'off'
      ? { name: 'bubblewrap', holds: false, reason: 'it is switched off' }
      : await testJail(process.execPath);
  const host = await startCallHost<PendingCall, SandboxOutcome, SandboxReply, FetchRequestMessage>({
    name: 'sandbox-host',
    command: () => hostCommand(threads, jail.holds),
    frameBytesMax: FRAME_BYTES_MAX,
    // The process has a thread for each call that it is sent, so the code is entered at once.
    callsMax: threads,
    isStartedWhenSent: true,
    recycleAfterCalls: RECYCLE_AFTER_CALLS,
    pingEveryMs: PING_EVERY_MS,
    onLog: (line) => options.onLog?.(line.startsWith('[sandbox-host]') ? line : `[sandbox-host] ${line}`),
    readMessage,
    isRepeatable: ({ request }) => request.side_effects !== 'once',
    replyOf: ({ request }, outcome) => ({ call_id: request.call_id, ...outcome, started: true }),
    endedReply: ({ request }, end) => endedReply(request, end),
    onMessage(message, callOf, send) {
      const call = callOf(message.id);
      if (call !== undefined) void onFetch(call, message, fetch, send);
    },
  });
  return {
    layers: [
      { name: 'quickjs', holds: true },
      { name: 'process', holds: true },
      { name: 'permission', holds: true },
      jail,
    ],
    pid: host.pid,
    close: host.close,
    async runCall(request, { signal } = {}) {
      let json: string;
      try {
        json = encodeCall(request);
      } catch (error) {
        const { message: reason } = error as Error;
        return endedReply(request, { status: 'failed', reason, started: false, unavailable: false });
      }
      const call: PendingCall = {
        request,
        fetches: { requests: 0, chars: 0 },
        ended: new AbortController(),
      };
      return host.runCall(call, json, signal).finally(() => call.ended.abort());
    },
  };
}

async function onFetch(
  { request, fetches, ended }: PendingCall,
  { id, fetch: number, request: text }: FetchRequestMessage,
  fetch: SandboxFetch,
  send: (message: object) => boolean,
): Promise<void> {
  const answer = await answerFetch(text, request, fetches, fetch, ended.signal);
  const tell = (given: unknown): boolean =>
    send({ kind: 'fetched', id, fetch: number, answer: JSON.stringify(given) } satisfies FetchedMessage);
  if (!tell(answer)) tell({ error: 'the response is too large' });
}
