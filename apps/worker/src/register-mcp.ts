import { secretNamesIn } from '@nightshift/agent-core';
import {
  DEFAULT_PROJECT_ID,
  inTransaction,
  registerMcpProgram,
  storeMcpOffer,
  type Database,
  type McpServerRow,
  type StoredOffer,
} from '@nightshift/db';
import type { McpServer, NetHost } from '@nightshift/net-host';
import type { LazyHost } from './tools/lazy-host.ts';
import { targetOf } from './tools/mcp/mcp-runner.ts';
import type { McpProgram } from './tools/mcp/programs.ts';
import type { ReadSecrets } from './tools/secrets.ts';

/** Time to connect to a server and to list its tools. */
const LIST_TIMEOUT_MS = 30_000;
/** Interval of reads of a changed server's tools. */
const CHANGED_INTERVAL_MS = 30_000;

type Host = LazyHost<Pick<NetHost, 'runCall' | 'close'>>;
type Report = (report: {
  readonly outcome: string;
  readonly server: string;
  readonly reason?: string;
}) => void;

/** Parts for reading the tools of servers. */
export interface McpOfferParts {
  readonly db: Database;
  readonly host: Host;
  readonly programs: ReadonlyMap<string, McpProgram>;
  readonly allow_private: boolean;
  readonly readSecrets: ReadSecrets;
  readonly report: Report;
}

/** Registers the operator's programs as MCP servers with the tools that they offer. One that fails is left out. Never throws. */
export async function registerMcpPrograms(parts: McpOfferParts): Promise<void> {
  for (const [server, program] of parts.programs) {
    await readOffer(parts, program, {})
      .then((offer) =>
        inTransaction(parts.db, (trx) => registerMcpProgram(trx, DEFAULT_PROJECT_ID, server, offer)),
      )
      .then(() => parts.report({ outcome: 'registered', server }))
      .catch((error: unknown) =>
        parts.report({ outcome: 'left out', server, reason: (error as Error).message }),
      );
  }
}

/**
 * Makes a function that stores what a changed server offers, so that its user sees the difference; at most once in thirty
 * seconds per server.
 */
export function createOfferRecorder(parts: McpOfferParts): (server: McpServerRow) => void {
  const lastMs = new Map<string, number>();
  return (row) => {
    const now = performance.now();
    if (now - (lastMs.get(row.id) ?? -Infinity) < CHANGED_INTERVAL_MS) return;
    lastMs.set(row.id, now);
    const server = targetOf(row, parts.programs);
    if (server === null) return;
    void parts
      .readSecrets(null, secretNamesIn(row.headers))
      .then((secrets) => readOffer(parts, server, secrets))
      .then((offer) =>
        inTransaction(parts.db, (trx) => storeMcpOffer(trx, DEFAULT_PROJECT_ID, row.id, offer)),
      )
      .then(() => parts.report({ outcome: 'changed', server: row.name, reason: CHANGED }))
      .catch((error: unknown) =>
        parts.report({ outcome: 'unread', server: row.name, reason: (error as Error).message }),
      );
  };
}

const CHANGED =
  'it offers other tools than those that were approved; calls of these fail until they are approved';

/** Throws: Error with the reason, without secrets. */
async function readOffer(
  { host, allow_private }: McpOfferParts,
  server: McpServer,
  secrets: Readonly<Record<string, string>>,
): Promise<StoredOffer> {
  const { runCall } = await host.get();
  const { status, result } = await runCall({
    ...{ kind: 'mcp_list', call_id: 'list', idempotency_key: 'list', side_effects: 'none' },
    ...{ timeout_ms: LIST_TIMEOUT_MS, result_char_limit: 1_000, list_age_ms_max: 0 },
    ...{ server, secrets, allow_private },
  });
  if (status !== 'succeeded') throw new Error(result);
  return JSON.parse(result) as StoredOffer;
}
