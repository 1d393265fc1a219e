import { availableParallelism } from 'node:os';
import { resolve } from 'node:path';
import { z } from 'zod';
import type { LogSource } from '@nightshift/host-process';
import type { HostSettings } from './protocol.ts';

/** With more threads, the worker's own thread becomes the bottleneck. */
const THREADS_DEFAULT_MAX = 4;
/** Maximum fast threads of a host. */
export const TOOL_THREADS_MAX = 64;
/** Minimum memory of a thread. Unit: megabytes. */
export const TOOL_THREAD_MEMORY_MB_MIN = 32;
export const TOOL_THREAD_MEMORY_MB_MAX = 65_536;
export const TOOL_THREAD_MEMORY_MB_DEFAULT = 256;

/** Options of {@link startToolHost}. */
export interface ToolHostOptions {
  /** Folders of tool modules, in order of precedence. A missing folder is a problem in the catalog, not an error. */
  readonly toolsDirs: readonly string[];
  /**
   * Threads for fast calls, started at once, 1 to 64. More are started while calls wait, and end when idle: each class
   * of tools has up to twice this number plus one. Default: the number of processors, at most 4.
   */
  readonly threads?: number;
  /**
   * Memory of one thread, heap and buffers together, at least 32; a thread that exceeds it is ended. Default: 256. Unit:
   * megabytes.
   */
  readonly threadMemoryMb?: number;
  /** Timeout of a module's import, after which it is unusable. Default: 10,000. Unit: milliseconds. */
  readonly loadTimeoutMs?: number;
  /** The node executable. Default: the executable of this process. */
  readonly nodePath?: string;
  /** Receives each log line of the host, its threads and the tools. Default: the lines are dropped. */
  readonly onLog?: (line: string, source: LogSource) => void;
}

const optionsSchema = z.object({
  toolsDirs: z.array(z.string().min(1)),
  threads: z
    .int()
    .min(1)
    .max(TOOL_THREADS_MAX)
    .default(Math.min(THREADS_DEFAULT_MAX, availableParallelism())),
  threadMemoryMb: z
    .int()
    .min(TOOL_THREAD_MEMORY_MB_MIN)
    .max(TOOL_THREAD_MEMORY_MB_MAX)
    .default(TOOL_THREAD_MEMORY_MB_DEFAULT),
  loadTimeoutMs: z.int().min(100).max(600_000).default(10_000),
});

/**
 * Checks the options and fills in defaults.
 * Throws: TypeError that names the option.
 */
export function hostSettings(options: ToolHostOptions): HostSettings {
  const parsed = optionsSchema.safeParse(options);
  if (!parsed.success) throw new TypeError(`startToolHost: ${z.prettifyError(parsed.error)}`);
  const { data } = parsed;
  return {
    tools_dirs: data.toolsDirs.map((dir) => resolve(dir)),
    threads: data.threads,
    thread_memory_mb: data.threadMemoryMb,
    load_timeout_ms: data.loadTimeoutMs,
  };
}
