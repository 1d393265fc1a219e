import { crashed, createCalls } from './calls.ts';
import type { NetCall, Reply } from './contract.ts';
import { encodeFrame, type FromHost } from './protocol.ts';
import { superviseChild } from './supervisor.ts';

export interface NetHostOptions {
  /** Calls under way at a time; others wait. Default: 2,000. */
  readonly callsMax?: number;
  /** Interval of the signs of life; a process that misses three is killed. Default: 5,000. */
  readonly pingEveryMs?: number;
  /** The node executable. Default: the executable of this process. */
  readonly nodePath?: string;
  /** Receives each log line of the process and of its modules. Default: the lines are dropped. */
  readonly onLog?: (line: string) => void;
}

/** The worker's handle of its net host. */
export interface NetHost {
  /**
   * Runs a call; resolves with its reply and never rejects.
   * - When the process dies, calls that had not started run in the next one. Started ones run there once more, unless their
   *   side effect may happen once only: those end as `crashed` and `started`.
   * - When `signal` fires, the call ends as `crashed` at once.
   */
  runCall(call: NetCall, options?: { readonly signal?: AbortSignal | undefined }): Promise<Reply>;
  /** Ends the process and all calls. Resolves when it is gone. Idempotent. */
  close(): Promise<void>;
  /** Returns the current process id, if any. */
  pid(): number | undefined;
}

/**
 * Starts the net host as a child process; resolves once it takes calls.
 * The child sees only PATH, TZ and LANG of this environment. It ends with this process, and is restarted when it dies.
 * Throws: Error if the process does not start.
 */
export async function startNetHost(options: NetHostOptions = {}): Promise<NetHost> {
  const { callsMax = 2_000, pingEveryMs = 5_000, nodePath = process.execPath, onLog = () => {} } = options;
  const calls = createCalls(callsMax);
  const firstReady = Promise.withResolvers<void>();
  let isClosed = false;
  let nextId = 1;

  const supervisor = superviseChild({
    nodePath,
    pingEveryMs,
    onLog,
    onMessage,
    onDeath: (reason) => {
      firstReady.reject(new Error(`the net host does not start: ${reason}`));
      calls.onDeath(reason);
    },
    onGivenUp: (reason) => calls.endAll(`the net host does not start: ${reason}`),
  });

  function onMessage(message: FromHost): void {
    if (message.kind === 'ready') firstReady.resolve();
    else if (message.kind === 'starting') calls.onStarting(message.id);
    else if (message.kind === 'reply') calls.onReply(message.id, message.reply);
    sendCalls();
  }

  function sendCalls(): void {
    if (supervisor.isReady()) for (const frame of calls.take()) supervisor.send(frame);
  }

  await firstReady.promise.catch(async (error: unknown) => {
    await supervisor.close();
    throw error;
  });

  return {
    pid: () => supervisor.pid(),
    async runCall(call, { signal } = {}) {
      if (isClosed) return { ...crashed(call, false, 'the net host is closed'), unavailable: true };
      if (signal?.aborted === true) return crashed(call, false, 'the caller gave up before the call started');
      const id = nextId++;
      let frame: Buffer;
      try {
        frame = encodeFrame({ kind: 'call', id, call });
      } catch (error) {
        return { ...crashed(call, false, `the call cannot be sent: ${String(error)}`), status: 'failed' };
      }
      const cancel = (): void => {
        calls.cancel(id);
        supervisor.send(encodeFrame({ kind: 'cancel', id }));
        // Later, because the same signal may end the next calls too.
        setImmediate(sendCalls);
      };
      signal?.addEventListener('abort', cancel, { once: true });
      const reply = calls.add(id, call, frame);
      supervisor.wake();
      sendCalls();
      return reply.finally(() => signal?.removeEventListener('abort', cancel));
    },
    async close() {
      isClosed = true;
      calls.endAll('the net host is closed');
      await supervisor.close();
    },
  };
}
