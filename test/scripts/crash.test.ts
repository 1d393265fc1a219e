import { expect, onTestFinished, test, vi } from 'vitest';
import { killWorker } from '../../scripts/demo/crash.ts';
import type { StackProcess } from '../../scripts/stack/processes.ts';
import type { Stack } from '../../scripts/stack/stack.ts';

test('on Windows, where no process can be frozen, the demo kills its worker all the same, and says so', async () => {
  onTestFinished(() => void vi.restoreAllMocks());
  vi.spyOn(process, 'platform', 'get').mockReturnValue('win32');
  vi.spyOn(process, 'kill').mockImplementation(() => {
    throw new Error('kill ENOSYS');
  });
  const kill = vi.fn(async () => {});
  const victim = { name: 'worker-2', pid: 4_194_305, kill } as Partial<StackProcess> as StackProcess;
  const query = vi.fn(async () => ({ rows: [{ rows: 1, runs: 9 }] }));
  const aftermath = await killWorker({ workers: [victim], pool: { query } } as unknown as Stack, victim);
  expect(kill).toHaveBeenCalledOnce();
  expect(aftermath).toMatchObject({ held: 0, runs_held: 0 });
  expect(aftermath.victim).toMatch(/^worker-2 \(.*Windows/);
});
