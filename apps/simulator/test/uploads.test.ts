import { once } from 'node:events';
import { existsSync, mkdirSync, renameSync } from 'node:fs';
import { mkdtemp, readdir, rename, rm, rmdir, symlink } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { plainHeaders, request, requests, running } from './support/running.ts';
import type { Running } from './support/running.ts';

async function withDataDir(): Promise<Running & { folder: string; files: () => Promise<string[]> }> {
  const dataDir = await mkdtemp(join(tmpdir(), 'simulator-uploads-'));
  onTestFinished(() => rm(dataDir, { recursive: true, force: true }));
  const started = await running({ dataDir });
  const [spool = ''] = await readdir(dataDir);
  const folder = join(dataDir, spool);
  return { ...started, folder, files: () => readdir(folder) };
}

test('a client that disconnects during an upload leaves no batch and no file', async () => {
  const { simulator, files } = await withDataDir();
  const sending = httpRequest(`${simulator.apiUrl}/v1/messages/batches`, {
    method: 'POST',
    headers: { ...plainHeaders, 'content-length': 10_000 },
  });
  sending.on('error', () => undefined);
  sending.write('{"requests":[');
  await expect.poll(files).toHaveLength(1);
  sending.destroy();
  await expect.poll(files).toEqual([]);
  expect(simulator.control.batches()).toEqual([]);
  expect(simulator.control.journal().entries).toMatchObject([
    { op: 'create', outcome: 'client_aborted', committed: null },
  ]);
});

test('a body of unknown length in many chunks is accepted', async () => {
  const { simulator } = await running();
  const sending = httpRequest(`${simulator.apiUrl}/v1/messages/batches`, {
    method: 'POST',
    headers: plainHeaders,
  });
  const body = JSON.stringify({ requests: requests(20) });
  for (let at = 0; at < body.length; at += 97) sending.write(body.slice(at, at + 97));
  sending.end();
  const [response] = (await once(sending, 'response')) as [{ statusCode: number; resume(): void }];
  response.resume();
  expect(response.statusCode).toBe(200);
  expect(simulator.control.batches()).toMatchObject([{ count: 20, body_bytes: body.length }]);
});

test('the body is deleted when the batch ends, the results when it is deleted', async () => {
  const { simulator, client, files } = await withDataDir();
  const { id } = await client.messages.batches.create({ requests: requests(5) });
  expect(await files()).toEqual([expect.stringMatching(/^body-\d+$/)]);
  await simulator.control.advance(1000);
  expect(await files()).toEqual([expect.stringMatching(/\.results$/)]);
  await client.messages.batches.delete(id);
  expect(await files()).toEqual([]);
});

test('a refused body is not kept', async () => {
  const { client, files } = await withDataDir();
  await expect(client.messages.batches.create({ requests: [request('bad id')] })).rejects.toThrow();
  expect(await files()).toEqual([]);
});

test('a reset during uploads and answers leaves no file', async () => {
  const { simulator, client, files } = await withDataDir();
  await client.messages.batches.create({ requests: requests(2000) });
  const ended = await client.messages.batches.create({ requests: requests(5) });
  await simulator.control.command(ended.id, 'end');
  const ending = simulator.control.command(simulator.control.batches()[0]?.id ?? '', 'end');
  await simulator.control.reset();
  await ending;
  expect(await files()).toEqual([]);
  expect(simulator.control.ledger().totals.requests).toBe(0);
});

test('a full disk during an upload is answered with 500, and the next create is served', async ({ skip }) => {
  if (!existsSync('/dev/full')) return skip('no /dev/full');
  const { simulator, client, folder, files } = await withDataDir();
  await client.messages.batches.create({ requests: requests(1) });
  const [before = ''] = await files();
  const next = `body-${Number(before.slice('body-'.length)) + 1}`;
  await symlink('/dev/full', join(folder, next));
  const said = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  onTestFinished(() => said.mockRestore());
  const many = requests(2_000);
  await expect(client.messages.batches.create({ requests: many })).rejects.toMatchObject({ status: 500 });
  expect(said).toHaveBeenCalledWith(expect.stringContaining('ENOSPC'));
  await client.messages.batches.create({ requests: many });
  expect(simulator.control.batches()).toHaveLength(2);
});

test('results that meet a full disk are written once it has space, and billed once', async ({ skip }) => {
  if (!existsSync('/dev/full')) return skip('no /dev/full');
  const { simulator, client, folder, files } = await withDataDir();
  const { id } = await client.messages.batches.create({ requests: requests(5) });
  const [body = ''] = await files();
  await symlink('/dev/full', join(folder, `${body}.results`));
  await expect(simulator.control.command(id, 'end')).rejects.toMatchObject({ code: 'ENOSPC' });
  // Frees space by deleting the partial results, and removes the link to the full disk.
  expect(await files()).toEqual([body]);
  expect(simulator.control.ledger().totals.requests).toBe(0);
  await simulator.control.advance(5_000);
  expect(simulator.control.batch(id)?.status).toBe('ended');
  expect(simulator.control.ledger().totals.requests).toBe(5);
});

test('a reset during a full disk is answered and leaves no file', async ({ skip }) => {
  if (!existsSync('/dev/full')) return skip('no /dev/full');
  const { simulator, client, folder, files } = await withDataDir();
  const { id } = await client.messages.batches.create({ requests: requests(5) });
  const [body = ''] = await files();
  await symlink('/dev/full', join(folder, `${body}.results`));
  const failed = expect(simulator.control.command(id, 'end')).rejects.toMatchObject({ code: 'ENOSPC' });
  await simulator.control.reset();
  await failed;
  expect(await files()).toEqual([]);
});

test('a batch whose body cannot be deleted ends, is billed once, and deletes the body later', async () => {
  const { simulator, client, folder, files } = await withDataDir();
  const { id } = await client.messages.batches.create({
    requests: [...requests(4), request('too-much', '⟦sim:hugeText?bytes=10000000000⟧')],
  });
  const [body = ''] = await files();
  const path = join(folder, body);
  // The simulator reports failed requests while the body is open; a folder in its place then prevents the deletion.
  const said = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  onTestFinished(() => said.mockRestore());
  said.mockImplementationOnce(() => {
    renameSync(path, `${path}.aside`);
    mkdirSync(path);
    return true;
  });
  await Promise.allSettled([simulator.control.command(id, 'end')]);
  await rmdir(path);
  await rename(`${path}.aside`, path);
  await simulator.control.advance(5_000);
  expect(simulator.control.batch(id)?.status).toBe('ended');
  expect(simulator.control.ledger().totals.requests).toBe(4);
  expect(said).toHaveBeenLastCalledWith(expect.stringContaining(`the body of ${id} cannot be removed`));
  await client.messages.batches.delete(id);
  expect(await files()).toEqual([]);
});
