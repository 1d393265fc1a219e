import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import * as sdk from '../src/generated/sdk.gen.ts';
import { sendJson, serve } from './server.ts';

/** Operations that the hand layer calls by their path, or leaves to `request`. */
const BY_PATH: Readonly<Record<string, string>> = {
  signIn: 'for browsers: the dashboard posts it',
  signOut: 'for browsers: the dashboard posts it',
  retrieveSession: 'for browsers: the dashboard asks it',
  createSignInLink: 'for npm start, which prints the link',
  downloadResults: 'batches.results reads it line by line',
  exportAgents: 'agents.exportLines reads it line by line',
  importAgents: 'agents.importFile and agents.importLines send it without a timeout',
  streamBatchEvents: 'batches.wait reads it event by event',
  livez: 'a check of the process, without a key',
  readyz: 'a check of the process, without a key',
  lettaReady: 'a check of the process, for clients of Letta',
};

test('each operation of openapi.json is offered by the hand layer, or listed with a reason', () => {
  const src = join(import.meta.dirname, '../src');
  const text = globSync('*.ts', { cwd: src })
    .map((name) => readFileSync(join(src, name), 'utf8'))
    .join('');
  const offered = Object.keys(sdk).filter((name) => text.includes(`sdk.${name}(`));
  const missing = Object.keys(sdk).filter((name) => !offered.includes(name) && !(name in BY_PATH));
  expect(missing).toEqual([]);
  expect(Object.keys(BY_PATH).filter((name) => offered.includes(name) || !(name in sdk))).toEqual([]);
});

test('events are listed as JSON: the same path streams them otherwise', async () => {
  const { client, received } = await serve((_, response) => sendJson(response, [{ id: 'event-1' }]));
  for await (const { id } of client.admin.events()) expect(id).toBe('event-1');
  expect(received[0]?.headers.accept).toBe('application/json');
});
