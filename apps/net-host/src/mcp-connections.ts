import {
  connectMcp,
  isConnectionClosed,
  isSessionLost,
  readOffer,
  type McpConnection,
  type McpTarget,
  type OfferedTool,
} from '@nightshift/mcp';
import { renderHttpRequest } from '@nightshift/agent-core/tools/http-request';
import { EgressError } from '@nightshift/egress';
import { createHash } from 'node:crypto';
import type { McpBase } from './contract.ts';
import type { Net } from './exchange.ts';
import { createMcpFetch, REQUEST_TIMEOUT_MS } from './mcp-fetch.ts';

/** Connections from which an unused one is closed. */
const CONNECTIONS_MAX = 200;
/** Time after which an unused connection is closed. */
const IDLE_MS = 60_000;

/** An open connection and the tools that its server offers. */
export interface McpLease {
  readonly connection: McpConnection;
  readonly offer: ReadonlyMap<string, OfferedTool>;
}

export interface McpConnections {
  /**
   * Lends the connection of a call's server, with a list of tools that is young enough. Opens it at the first call; all
   * calls that wait share the attempt. After the loss of its session the next call opens another connection; other calls
   * on the lost one go on.
   * Throws: errors of the client; RangeError for an unusable offer; EgressError for an unset secret.
   */
  use<Result>(call: McpBase, run: (lease: McpLease) => Promise<Result>): Promise<Result>;
}

interface Entry {
  readonly connection: Promise<McpConnection>;
  offer: Promise<ReadonlyMap<string, OfferedTool>> | undefined;
  /** Time of the request for the offer. */
  offerMs: number;
  users: number;
  idle: NodeJS.Timeout | undefined;
}

export function createMcpConnections(net: Net): McpConnections {
  const entries = new Map<string, Entry>();

  /** Lends the connection to no further call. */
  function retire(key: string, entry: Entry): void {
    if (entries.get(key) === entry) entries.delete(key);
  }

  function close(key: string, entry: Entry): void {
    retire(key, entry);
    clearTimeout(entry.idle);
    entry.connection.then((connection) => connection.close()).catch(() => undefined);
  }

  function open(key: string, call: McpBase): Entry {
    const connection = connectMcp(targetOf(call, net), limits());
    const entry: Entry = { connection, offer: undefined, offerMs: 0, users: 0, idle: undefined };
    const forget = (): void => retire(key, entry);
    connection.then(({ closed }) => closed.addEventListener('abort', forget, { once: true }), forget);
    entries.set(key, entry);
    for (const [otherKey, other] of entries) {
      if (entries.size <= CONNECTIONS_MAX) break;
      if (other.users === 0 && otherKey !== key) close(otherKey, other);
    }
    return entry;
  }

  /** Returns a list of tools that was asked for at most so long ago, or is being read. */
  function offerOf(entry: Entry, connection: McpConnection, call: McpBase) {
    if (entry.offer !== undefined && net.nowMs() - entry.offerMs <= call.list_age_ms_max) return entry.offer;
    const offer = readOffer(connection, call.secrets, limits());
    entry.offer = offer;
    entry.offerMs = net.nowMs();
    offer.catch(() => {
      if (entry.offer === offer) entry.offer = undefined;
    });
    return offer;
  }

  return {
    async use(call, run) {
      const key = keyOf(call);
      const entry = entries.get(key) ?? open(key, call);
      entry.users += 1;
      clearTimeout(entry.idle);
      try {
        const connection = await entry.connection;
        return await run({ connection, offer: await offerOf(entry, connection, call) });
      } catch (error) {
        if (isSessionLost(error) || isConnectionClosed(error)) retire(key, entry);
        throw error;
      } finally {
        entry.users -= 1;
        if (entry.users === 0) {
          if (entries.get(key) === entry) entry.idle = setTimeout(() => close(key, entry), IDLE_MS).unref();
          else close(key, entry);
        }
      }
    },
  };
}

function limits() {
  return { signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS), timeout_ms: REQUEST_TIMEOUT_MS };
}

/** The values of secrets are a part of the key: a changed secret needs another connection. */
function keyOf({ server, secrets, allow_private }: McpBase): string {
  return createHash('sha256')
    .update(JSON.stringify([server, secrets, allow_private]))
    .digest('base64');
}

function targetOf({ server, secrets, allow_private }: McpBase, net: Net): McpTarget {
  if ('command' in server) return server;
  const rendered = renderHttpRequest({ method: 'POST', ...server }, {}, secrets);
  if (!rendered.ok) throw new EgressError('refused', rendered.message, false);
  const { url, headers } = rendered.request;
  return { url, headers, fetch: createMcpFetch(allow_private, net) };
}
