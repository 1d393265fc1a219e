import { createHash } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { openBodyFile, removeStaleBodyFiles } from '../../src/provider/body-file.ts';
import { scriptedServer, sendJson, wireBatch } from './scripted-server.ts';

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'nightshift-body-'));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
});

describe('a body file', () => {
  test('holds the requests and knows its exact size, count and hash', async () => {
    const file = await openBodyFile(join(dir, 'made', 'on', 'demand'));
    const requests = ['{"a":"é"}', '{"b":"😀"}', '{"c":3}'];
    for (const request of requests) {
      const expected = file.bytesWith(Buffer.byteLength(request));
      await file.append(Buffer.from(request));
      expect(file.bytes).toBe(expected);
    }
    const body = await file.finish();
    const bytes = await readFile(body.path);
    expect(bytes.toString()).toBe('{"requests":[{"a":"é"},{"b":"😀"},{"c":3}]}');
    expect(body).toMatchObject({
      bytes: bytes.length,
      count: 3,
      sha256: createHash('sha256').update(bytes).digest('hex'),
    });
    const blob = await body.blob();
    expect(blob).toMatchObject({ size: bytes.length, type: 'application/json' });
    expect(await blob.text()).toBe(bytes.toString());
  });

  test('is exact over many pages', async () => {
    const file = await openBodyFile(dir);
    const request = JSON.stringify({ custom_id: 'x', text: 'ü'.repeat(1500) });
    for (let n = 0; n < 1000; n++) await file.append(Buffer.from(request));
    const body = await file.finish();
    const bytes = await readFile(body.path);
    expect(bytes.length).toBe(body.bytes);
    expect(bytes.equals(Buffer.from(`{"requests":[${Array(1000).fill(request).join(',')}]}`))).toBe(true);
    expect(body.sha256).toBe(createHash('sha256').update(bytes).digest('hex'));
  });

  test('without requests is a valid body', async () => {
    const body = await (await openBodyFile(dir)).finish();
    expect(await readFile(body.path, 'utf8')).toBe('{"requests":[]}');
    expect(body).toMatchObject({ bytes: 15, count: 0 });
  });

  test('is readable by its owner only', async () => {
    const file = await openBodyFile(dir);
    expect((await stat(file.path)).mode & 0o777).toBe(0o600);
    await file.discard();
  });

  test('is deleted by discard, finished or not, once or twice', async () => {
    const open = await openBodyFile(dir);
    await open.append(Buffer.from('{}'));
    await open.discard();
    await open.discard();
    const file = await openBodyFile(dir);
    const body = await file.finish();
    await body.discard();
    await file.discard();
    expect(await readdir(dir)).toEqual([]);
  });

  test('refuses further requests once it is finished', async () => {
    const file = await openBodyFile(dir);
    await file.finish();
    await expect(file.append(Buffer.from('{}'))).rejects.toThrow(/finished/);
    await expect(file.finish()).rejects.toThrow(/finished/);
  });

  test('is sent from disk with a Content-Length', async () => {
    const server = await scriptedServer((_seen, response) => sendJson(response, 200, wireBatch()));
    const file = await openBodyFile(dir);
    const request = JSON.stringify({ text: 'x'.repeat(3000) });
    for (let n = 0; n < 1000; n++) await file.append(Buffer.from(request));
    const body = await file.finish();
    const outcome = await server.provider.createBatch(await body.blob(), { timeoutMs: 10_000 });
    expect(outcome.outcome).toBe('created');
    expect(server.requests[0]!.headers['content-length']).toBe(String(body.bytes));
    expect(server.requests[0]!.body).toBe(await readFile(body.path, 'utf8'));
  });
});

describe('stale body files', () => {
  test('of dead processes, and older than an hour, are removed; those of live processes stay', async () => {
    const live = await openBodyFile(dir);
    onTestFinished(() => live.discard());
    const old = await openBodyFile(dir);
    onTestFinished(() => old.discard());
    const twoHoursAgo = new Date(Date.now() - 2 * 3_600_000);
    await utimes(old.path, twoHoursAgo, twoHoursAgo);
    // Above the highest process id of Linux.
    await writeFile(join(dir, `${hostname()}.999999999.dead.body.json`), 'x');
    await writeFile(join(dir, `${hostname()}.${process.pid}.of-the-last-container.body.json`), 'x');
    await writeFile(join(dir, 'elsewhere.999999999.young.body.json'), 'x');
    await writeFile(join(dir, 'notes.txt'), 'x');

    expect(await removeStaleBodyFiles(dir)).toBe(3);
    const left = await readdir(dir);
    expect(left.map((name) => join(dir, name))).toContain(live.path);
    expect(left).toHaveLength(3);
  });

  test('are none in a missing directory', async () => {
    expect(await removeStaleBodyFiles(join(dir, 'missing'))).toBe(0);
  });
});
