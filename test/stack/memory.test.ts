import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, test } from 'vitest';
import { peakMemoryMb, watchMemory } from '../../scripts/load/memory.ts';

const isLinux = process.platform === 'linux';

test.skipIf(!isLinux)(
  `the peak of a process stays known after it has ended${isLinux ? '' : ': only Linux tells it'}`,
  async () => {
    const child = spawn(process.execPath, ['-e', 'process.stdin.resume(); console.log(1)'], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    await once(child.stdout, 'data');
    const watch = watchMemory([{ name: 'child', pid: child.pid ?? 0 }]);
    const peak = watch.peaks().get('child') ?? 0;
    expect(peak).toBeGreaterThan(10);
    child.stdin.end();
    await once(child, 'close');
    expect(peakMemoryMb(child.pid ?? 0)).toBeNull();
    expect(watch.peaks().get('child')).toBeGreaterThanOrEqual(peak);
    watch.stop();
  },
);
