import { startCallHost, type CallEnd } from '@nightshift/host-process';
import { fileURLToPath } from 'node:url';
import { encodeCall } from './call-request.ts';
import { keptEnvironment } from './config.ts';
import {
  ERROR_CHARS_MAX,
  type ToolCallOutcome,
  type ToolCallRequest,
  type ToolCatalog,
  type ToolManifest,
  type ToolModuleProblem,
} from './contract.ts';
import { hostSettings, type ToolHostOptions } from './options.ts';
import { FRAME_BYTES_MAX, type CatalogMessage, type FromToolHost, type OutcomeFrame } from './protocol.ts';
import { cutText } from './text.ts';
import { isToolOutput } from './thread-output.ts';

/** Calls the host may hold at a time; others wait here, where a crash of the host does not affect them. */
const CALLS_MAX = 4_096;
/** Interval of the signs of life. Unit: milliseconds. */
const PING_EVERY_MS = 10_000;
/** Milliseconds until a cancelled call ends even without an answer of the host. */
const CANCEL_GRACE_MS = 2_000;
/** Threads drop their input once it is answered, so a small heap saves memory. */
const HEAP_ARGUMENTS = ['--max-semi-space-size=4', '--heap-growing-percent=50'];
/** Silences the warning of the type stripper, which has no other switch. */
const QUIET_ARGUMENTS = ['--disable-warning=ExperimentalWarning'];

/** The worker's handle of its tool host. */
export interface ToolHost {
  /** Returns the usable tools, sorted by name. */
  listTools(): readonly ToolManifest[];
  /** Returns the unusable modules and folders, with reasons. */
  listProblems(): readonly ToolModuleProblem[];
  /**
   * Runs a call and resolves with its outcome. Never rejects.
   * - A call that fails, hangs or ends its thread costs others only time. Exception: `once` calls of its tool that run in its
   *   thread end as `crashed`. For a while, calls of such a tool then get a thread each.
   * - A timeout runs from the start of a call. A call that times out while its thread computes is repeated alone, unless it
   *   is `once`: its neighbours may have used its time.
   * - When the process dies, running calls are repeated once in the next, each alone on its thread; `once` calls end as
   *   `crashed`. Waiting calls run there as usual. If no host can be started, the outcome is `crashed` and `unavailable`.
   * - When `signal` fires, the call ends as `crashed` within two seconds.
   */
  runCall(call: ToolCallRequest, options?: { readonly signal?: AbortSignal }): Promise<ToolCallOutcome>;
  /** Ends the process; outstanding calls end as `crashed` and `unavailable`. Resolves when it is gone. Idempotent. */
  close(): Promise<void>;
  /** Returns the host's current process id, if any. */
  pid(): number | undefined;
}

/**
 * Starts the tool host as a child process; resolves once its tools are loaded.
 * The child sees only PATH, TZ and LANG of this environment and none of its descriptors. It ends with this process, and is
 * restarted whenever it dies.
 * Throws: TypeError for a wrong option, by name; Error with the reason if the process does not start.
 */
export async function startToolHost(options: ToolHostOptions): Promise<ToolHost> {
  const settings = JSON.stringify(hostSettings(options));
  const { nodePath = process.execPath, onLog = () => {} } = options;
  const program = fileURLToPath(new URL('./host.ts', import.meta.url));
  let catalog: ToolCatalog | undefined;
  /** Tools whose calls may be repeated. */
  let repeatable: ReadonlySet<string> = new Set();

  function onCatalog(found: ToolCatalog): void {
    // The caller of the first start reads the problems itself; of restarts they are only logged.
    if (catalog !== undefined)
      for (const { file, reason } of found.problems)
        onLog(`[tool-host] tool module left out: ${file}: ${reason}`, 'host');
    catalog = found;
    const harmless = found.tools.filter(({ side_effects }) => side_effects !== 'once');
    repeatable = new Set(harmless.map(({ name }) => name));
  }

  const host = await startCallHost<ToolCallRequest, OutcomeFrame, ToolCallOutcome, CatalogMessage>({
    name: 'tool-host',
    command: () => ({
      program: nodePath,
      arguments: [...HEAP_ARGUMENTS, ...QUIET_ARGUMENTS, program, settings],
      env: keptEnvironment(),
    }),
    frameBytesMax: FRAME_BYTES_MAX,
    callsMax: CALLS_MAX,
    pingEveryMs: PING_EVERY_MS,
    cancelGraceMs: CANCEL_GRACE_MS,
    onLog,
    sourceOf: (line) => (isToolOutput(line) ? 'tool' : 'host'),
    readMessage: (message) => message as FromToolHost,
    onMessage: (message) => onCatalog(message.catalog),
    isRepeatable: ({ tool_name }) => repeatable.has(tool_name),
    replyOf: outcomeOf,
    endedReply: endedOutcome,
  });
  return {
    listTools: () => catalog?.tools ?? [],
    listProblems: () => catalog?.problems ?? [],
    pid: host.pid,
    close: host.close,
    async runCall(request, { signal } = {}) {
      const encoded = encodeCall(request);
      if ('json' in encoded) return host.runCall(request, encoded.json, signal);
      return endedOutcome(request, {
        status: 'failed',
        reason: encoded.error,
        started: false,
        unavailable: false,
      });
    },
  };
}

/** Builds the outcome of a call. Field by field: this runs for every call, and a spread costs ten times as much. */
function outcomeOf({ call_id }: ToolCallRequest, frame: OutcomeFrame): ToolCallOutcome {
  const { status, result, truncated, duration_ms, started, error } = frame;
  const outcome = { call_id, status, result, truncated, duration_ms, started };
  return error === undefined ? outcome : { ...outcome, error };
}

/** Builds the outcome of a call that the host did not end. */
function endedOutcome(
  { call_id }: ToolCallRequest,
  { status, reason, started, unavailable }: CallEnd,
): ToolCallOutcome {
  const error = cutText(reason, ERROR_CHARS_MAX);
  const outcome = { call_id, status, result: error, truncated: false, duration_ms: 0, started, error };
  return unavailable ? { ...outcome, unavailable } : outcome;
}
