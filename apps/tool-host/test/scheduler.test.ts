import { expect, test, vi } from 'vitest';
import type { HostSettings } from '../src/protocol.ts';
import { createScheduler } from '../src/scheduler.ts';
import type { ThreadTask } from '../src/task.ts';
import type { Threads } from '../src/threads.ts';

test('of a tool nobody has measured one task runs alone for a moment, then as many as the slow lane takes', () => {
  vi.useFakeTimers({ toFake: ['performance', 'setInterval', 'clearInterval'] });
  try {
    const tasks: ThreadTask[] = [];
    const threads: Threads = {
      lanes: { fast: 2, slow: 4 },
      threadsMax: 6,
      run: (task) => {
        tasks.push(task);
        return new Promise(() => {});
      },
      inspect: () => Promise.reject(new Error('not asked for')),
      warm: () => Promise.resolve(),
      whenExited: () => Promise.resolve(),
      memoryBytes: () => Promise.resolve(undefined),
      stuckThreads: () => 0,
      discard: () => {},
    };
    const settings: HostSettings = {
      tools_dirs: [],
      threads: 2,
      calls_in_flight_per_thread: 16,
      thread_memory_mb: 256,
      thread_idle_ms: 30_000,
      load_timeout_ms: 10_000,
    };
    const scheduler = createScheduler(settings, {
      sendOutcomes: () => {},
      sendStarting: () => Promise.resolve(),
      log: () => {},
      giveUp: () => {},
    });
    const tool = { name: 'new', description: 'A tool.', parameters: { type: 'object' }, file: '/new.ts' };
    const manifest = { ...tool, side_effects: 'none', timeout_ms: 30_000, result_char_limit: 1_000 } as const;
    scheduler.use({ tools: [manifest], problems: [] }, threads);
    scheduler.enqueue(
      Array.from({ length: 200 }, (_, id) => [id, 'new', 0, 2] as const),
      Buffer.from('{}'.repeat(200)),
    );
    expect(tasks.map((task) => task.tool_of_call.length)).toEqual([16]);
    vi.advanceTimersByTime(1_000);
    expect(tasks.map((task) => task.tool_of_call.length)).toEqual([16, 16, 16, 16]);
  } finally {
    vi.useRealTimers();
  }
});
