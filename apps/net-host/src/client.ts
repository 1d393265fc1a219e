import { startCallHost } from '@nightshift/host-process';
import { fileURLToPath } from 'node:url';
import { keptEnvironment } from './config.ts';
import type { NetCall, Reply } from './contract.ts';
import { FRAME_BYTES_MAX, type FromNetHost } from './protocol.ts';

export interface NetHostOptions {
  /** Calls under way at a time; others wait. Default: no limit, because each caller has places of its own. */
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
  const { callsMax = Infinity, pingEveryMs = 5_000, nodePath = process.execPath, onLog = () => {} } = options;
  const program = fileURLToPath(new URL('./host.ts', import.meta.url));
  const host = await startCallHost<NetCall, Reply, Reply>({
    name: 'net-host',
    command: () => ({
      program: nodePath,
      arguments: ['--disable-warning=ExperimentalWarning', program],
      env: keptEnvironment(),
    }),
    frameBytesMax: FRAME_BYTES_MAX,
    callsMax,
    pingEveryMs,
    onLog,
    readMessage: (message) => message as FromNetHost,
    isRepeatable: ({ side_effects }) => side_effects !== 'once',
    replyOf: (_, reply) => reply,
    endedReply: ({ call_id }, { status, reason, started, unavailable }) => ({
      call_id,
      status,
      result: reason,
      truncated: false,
      duration_ms: 0,
      started,
      attempts: 0,
      answer_bytes: 0,
      ...(unavailable ? { unavailable } : {}),
    }),
  });
  return {
    pid: host.pid,
    close: host.close,
    runCall: (call, { signal } = {}) => host.runCall(call, JSON.stringify({ call }), signal),
  };
}
