import { availableParallelism } from 'node:os';
import { resolve } from 'node:path';
import { z } from 'zod';
import type { HostSettings } from './protocol.ts';

/** Beyond these the worker's own thread is what calls wait for. */
const THREADS_DEFAULT_MAX = 4;
/** Threads for fast calls that a host may be told to have. */
export const TOOL_THREADS_MAX = 64;
/** Megabytes that one thread may be given. */
export const TOOL_THREAD_MEMORY_MB_MIN = 32;
export const TOOL_THREAD_MEMORY_MB_MAX = 65_536;
export const TOOL_THREAD_MEMORY_MB_DEFAULT = 256;

/** How {@link startToolHost} shall run the tool host. */
export interface ToolHostOptions {
  /** Folders of tool modules, in order of precedence. A folder that is missing is a problem in the catalog, not an error. */
  readonly toolsDirs: readonly string[];
  /**
   * Threads for fast calls, which are there from the start, 1 to 64. Default: the number of processors, at most 4. Up to twice
   * as many more, at least two, are started while slow calls wait, and leave when idle.
   */
  readonly threads?: number;
  /** Asynchronous calls that run at a time in one thread, 1 to 256. Default 16. */
  readonly callsInFlightPerThread?: number;
  /** Memory of one thread, heap and buffers together, in megabytes, at least 32; one that takes more is ended. Default 256. */
  readonly threadMemoryMb?: number;
  /** A thread beyond those for fast calls leaves when it was idle for this many milliseconds. Default 30,000. */
  readonly threadIdleMs?: number;
  /** A module that takes longer than this to import is unusable, in milliseconds. Default 10,000. */
  readonly loadTimeoutMs?: number;
  /** The node executable. Default: the one running this process. */
  readonly nodePath?: string;
  /** Arguments before the script, such as those of Node's permission model. Default none. */
  readonly nodeArguments?: readonly string[];
  /** Receives each line the host, its threads and the tools print. Default: the lines are dropped. */
  readonly onLog?: (line: string, source: LogSource) => void;
}

/** Whose words a line of the log is: the host's and its runtime's, or a tool's, which may hold anything. */
export type LogSource = 'host' | 'tool';

const optionsSchema = z.object({
  toolsDirs: z.array(z.string().min(1)),
  threads: z
    .int()
    .min(1)
    .max(TOOL_THREADS_MAX)
    .default(Math.min(THREADS_DEFAULT_MAX, availableParallelism())),
  callsInFlightPerThread: z.int().min(1).max(256).default(16),
  threadMemoryMb: z
    .int()
    .min(TOOL_THREAD_MEMORY_MB_MIN)
    .max(TOOL_THREAD_MEMORY_MB_MAX)
    .default(TOOL_THREAD_MEMORY_MB_DEFAULT),
  threadIdleMs: z.int().min(0).max(3_600_000).default(30_000),
  loadTimeoutMs: z.int().min(100).max(600_000).default(10_000),
});

/** Checks the options and fills in defaults. Throws a TypeError that names the option. */
export function hostSettings(options: ToolHostOptions): HostSettings {
  const parsed = optionsSchema.safeParse(options);
  if (!parsed.success) throw new TypeError(`startToolHost: ${z.prettifyError(parsed.error)}`);
  const { data } = parsed;
  return {
    tools_dirs: data.toolsDirs.map((dir) => resolve(dir)),
    threads: data.threads,
    calls_in_flight_per_thread: data.callsInFlightPerThread,
    thread_memory_mb: data.threadMemoryMb,
    thread_idle_ms: data.threadIdleMs,
    load_timeout_ms: data.loadTimeoutMs,
  };
}
