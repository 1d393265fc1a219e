import type { ToolRequest } from '../../src/tools/runner.ts';
import {
  DEFAULT_PROJECT_ID,
  createMcpServer,
  deleteMcpServer,
  inTransaction,
  listMcpServers,
  readMcpTools,
} from '@nightshift/db';
import { openTestDatabase, type TestDatabase } from '@nightshift/db/testing';
import type { McpOffer, NetHost } from '@nightshift/net-host';
import { afterAll, beforeAll, expect, inject, onTestFinished, test } from 'vitest';
import { EVERYTHING, mcpTool, serveMcp } from '../../../../test/mcp-servers.ts';
import { startTestHost } from '../../../net-host/test/support/net-hosts.ts';
import { createOfferRecorder, registerMcpPrograms, type McpOfferParts } from '../../src/register-mcp.ts';
import { createMcpRunner } from '../../src/tools/mcp/mcp-runner.ts';
import { parseMcpPrograms } from '../../src/tools/mcp/programs.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
});
afterAll(() => database.close());

type Reported = Parameters<McpOfferParts['report']>[0];

async function openParts(programs: McpOfferParts['programs'] = new Map()) {
  const host: NetHost = await startTestHost();
  const reports: Reported[] = [];
  const parts: McpOfferParts = {
    ...{ db: database.db, programs, allow_private: true },
    host: { get: () => Promise.resolve(host), close: () => host.close() },
    readSecrets: () => Promise.resolve({}),
    report: (report) => reports.push(report),
  };
  return { host, parts, reports };
}

/** Makes a runner that reads servers without a cache, and lists their tools before each call. */
function runnerOf(parts: McpOfferParts) {
  return createMcpRunner(parts.host, {
    ...parts,
    readServer: async (id) =>
      (await listMcpServers(database.db, DEFAULT_PROJECT_ID)).find((row) => row.id === id),
    onChanged: createOfferRecorder(parts),
    list_age_ms_max: 0,
  });
}

function requestOf(server_id: string, tool_name: string, definition_sha256: string): ToolRequest {
  return {
    ...{ call_id: 'a', kind: 'mcp', tool_name, arguments: { text: 'hello' }, agent_id: 'agent-1' },
    ...{ run_id: 'run-1', tool_use_id: 'toolu_1', idempotency_key: 'key', side_effects: 'none' },
    ...{ timeout_ms: 100_000, result_char_limit: 1_000 },
    source: { mcp: { server_id, tool_name, definition_sha256 } },
  };
}

const signal = new AbortController().signal;

test('a call of a changed tool fails, and the offer is stored; without its server it fails too', async () => {
  const server = await serveMcp([mcpTool('echo')]);
  onTestFinished(() => server.close());
  const { host, parts, reports } = await openParts();
  const listed = await host.runCall({
    ...{ kind: 'mcp_list', call_id: 'l', idempotency_key: 'l', side_effects: 'none', timeout_ms: 100_000 },
    ...{ result_char_limit: 1, server: { url: server.url, headers: {} }, secrets: {}, allow_private: true },
    list_age_ms_max: 0,
  });
  const offer = JSON.parse(listed.result) as McpOffer;
  const config = { name: 'echoes', url: server.url, headers: {}, auth_header: null };
  const id = await inTransaction(database.db, (trx) =>
    createMcpServer(trx, DEFAULT_PROJECT_ID, config, offer),
  );
  const runner = runnerOf(parts);
  const request = requestOf(id, 'echo', offer.tools[0]?.sha256 ?? '');
  expect(await runner.run(request, { signal })).toMatchObject({ status: 'succeeded', result: 'hello' });

  server.tools[0] = mcpTool('echo', 'Changed.');
  const changed = await runner.run(request, { signal });
  expect(changed).toMatchObject({ status: 'failed', started: false });
  expect(changed).not.toHaveProperty('offer_changed');
  await expect
    .poll(() => reports)
    .toEqual([expect.objectContaining({ outcome: 'changed', server: 'echoes' })]);
  expect(await readMcpTools(database.db, id)).toMatchObject([{ offered: { description: 'Changed.' } }]);
  await runner.run(request, { signal });
  expect(server.calls).toHaveLength(1);

  await inTransaction(database.db, (trx) => deleteMcpServer(trx, DEFAULT_PROJECT_ID, id));
  const gone = await runner.run(request, { signal });
  expect(gone).toMatchObject({ status: 'failed', started: false });
  expect(gone.result).toContain('was deleted');
});

test('programs are registered with their tools, and those that fail are reported', async () => {
  const programs = parseMcpPrograms(
    JSON.stringify({
      mcpServers: {
        everything: { command: process.execPath, args: [EVERYTHING, 'stdio'] },
        absent: { command: '/nowhere/at-all' },
      },
    }),
  );
  const { parts, reports } = await openParts(programs);
  await registerMcpPrograms(parts);
  expect(reports).toEqual([
    { outcome: 'registered', server: 'everything' },
    expect.objectContaining({ outcome: 'left out', server: 'absent' }),
  ]);
  await registerMcpPrograms({ ...parts, programs: new Map([...programs].slice(0, 1)) });
  const servers = await listMcpServers(database.db, DEFAULT_PROJECT_ID);
  expect(servers).toMatchObject([{ name: 'everything', url: null, revision: '2025-11-25' }]);
  const [{ id }] = servers as [(typeof servers)[0]];
  const echo = (await readMcpTools(database.db, id)).find(({ name }) => name === 'echo');
  expect(echo).toMatchObject({ approved: null, tool_id: null });

  const request = { ...requestOf(id, 'echo', echo?.offered_sha256 ?? ''), arguments: { message: 'hello' } };
  expect(await runnerOf(parts).run(request, { signal })).toMatchObject({ result: 'Echo: hello' });
  const elsewhere = await runnerOf({ ...parts, programs: new Map() }).run(request, { signal });
  expect(elsewhere).toMatchObject({ status: 'failed', started: false });
  expect(elsewhere.result).toContain("no program 'everything' in MCP_SERVERS_FILE");
});

test.each([
  ['{', 'is not JSON'],
  ['{}', 'mcpServers'],
  ['{"mcpServers":{"a b":{"command":"x"}}}', 'mcpServers'],
  ['{"mcpServers":{"a":{"args":["canary"]}}}', 'mcpServers.a.command'],
  ['{"mcpServers":{"a":{"command":"x","env":{"KEY":7}}}}', 'mcpServers.a.env.KEY'],
])('the file %s is refused', (text, fault) => {
  let message = '';
  try {
    parseMcpPrograms(text);
  } catch (error) {
    ({ message } = error as Error);
  }
  expect(message).toContain(fault);
  expect(message).not.toContain('canary');
});
