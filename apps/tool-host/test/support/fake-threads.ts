import type { Speed, ToolManifest } from '../../src/contract.ts';
import type { CallFrame, HostSettings, OutcomeFrame } from '../../src/protocol.ts';
import { createScheduler, type Scheduler } from '../../src/scheduler.ts';
import type { FromThread, ToThread } from '../../src/thread-messages.ts';
import type { ThreadPool } from '../../src/threads.ts';

export const SETTINGS: HostSettings = {
  tools_dirs: [],
  threads: 2,
  thread_memory_mb: 256,
  load_timeout_ms: 10_000,
};

/** A thread played by a test. It ends a session when the host asks for it. */
export interface FakeThread {
  readonly tool: ToolManifest;
  /** Ids of the calls handed over, in order. */
  readonly calls: number[];
  say(message: FromThread): void;
  /** Enters a call. */
  enter(call: number): void;
  /** Reports that the call succeeded. */
  succeed(call: number): void;
  die(error?: unknown): void;
}

/** Creates a tool that the scheduler knows. */
export function toolNamed(name: string, more: Partial<ToolManifest> = {}): ToolManifest {
  return {
    name,
    description: 'A tool.',
    parameters: { type: 'object' },
    side_effects: 'none',
    speed: 'fast',
    concurrency: null,
    timeout_ms: 30_000,
    result_char_limit: 1_000,
    file: `/${name}.ts`,
    ...more,
  };
}

/** Creates a scheduler over fake threads: three fast ones, of which a tool may have two, and five slow ones. */
export function schedulerWith(
  tools: readonly ToolManifest[],
  onThread: (thread: FakeThread, message: ToThread) => void = () => {},
  sendStarting: (ids: readonly number[]) => Promise<void> = () => Promise.resolve(),
  busyMs: () => number = () => 0,
): {
  readonly scheduler: Scheduler;
  readonly threads: FakeThread[];
  readonly outcomes: (OutcomeFrame & { readonly id: number })[];
  readonly log: string[];
  /** Queues calls of these tools, numbered from 1 on over all uses. */
  enqueue(names: readonly string[], interrupted?: boolean): void;
} {
  const threads: FakeThread[] = [];
  const outcomes: (OutcomeFrame & { readonly id: number })[] = [];
  const log: string[] = [];
  const pools: Record<Speed, ThreadPool> = { fast: fakePool(3, 2), slow: fakePool(5, 4) };
  let calls = 0;

  function fakePool(threadsMax: number, threadsPerTool: number): ThreadPool {
    return {
      threadsMax,
      threadsPerTool,
      threadsStarted: () => threadsMax,
      connect(tool, onMessage, signal) {
        const { promise, resolve } = Promise.withResolvers<{
          readonly crash?: { readonly error: unknown };
        }>();
        const thread: FakeThread = {
          tool,
          calls: [],
          say: onMessage,
          enter: (call) => onMessage({ kind: 'step', running: call, ended: 0, outcome: '' }),
          succeed: (call) =>
            onMessage({
              kind: 'step',
              running: 0,
              ended: call,
              outcome: JSON.stringify({ status: 'succeeded', started: true }),
            }),
          die: (error = new Error('the thread is gone')) => resolve({ crash: { error } }),
        };
        threads.push(thread);
        signal.addEventListener('abort', () => thread.die());
        let began = false;
        return {
          post(message) {
            if (!began) onMessage({ kind: 'began', threadId: threads.length });
            began = true;
            if (message.kind === 'end') void Promise.resolve().then(() => resolve({}));
            if (message.kind === 'calls')
              thread.calls.push(...(JSON.parse(message.json) as readonly CallFrame[]).map(({ id }) => id));
            onThread(thread, message);
          },
          ended: promise,
        };
      },
      memoryBytes: () => Promise.resolve(undefined),
      busyMs: () => busyMs(),
      stuckThreads: () => 0,
    };
  }

  const scheduler = createScheduler(
    { tools, problems: [] },
    pools,
    SETTINGS,
    {
      sendOutcome: (id, json) => outcomes.push({ id, ...(JSON.parse(json) as OutcomeFrame) }),
      sendStarting,
      log: (line) => log.push(line),
      giveUp: () => {},
    },
    16,
  );
  return {
    scheduler,
    threads,
    outcomes,
    log,
    enqueue(names, interrupted = false) {
      scheduler.enqueue(
        names.map((tool_name) => {
          calls += 1;
          const frame = '{"arguments":{}}';
          return { id: calls, tool_name, timeout_ms: 0, frame, repeated: interrupted };
        }),
      );
    },
  };
}
