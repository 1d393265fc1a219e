import { DEFAULT_PROJECT_ID, findMcpServer, type Database, type McpServerRow } from '@nightshift/db';

/** Time after which a server is read again. */
const KEPT_MS = 1_000;

/** Returns an MCP server as it was at most a second ago; undefined if it is deleted. Throws: the database's error. */
export type ReadMcpServer = (serverId: string) => Promise<McpServerRow | undefined>;

/** Reads MCP servers from the database; calls of the same second share a read. */
export function createMcpServerReader(db: Database): ReadMcpServer {
  const kept = new Map<string, { readonly server: Promise<McpServerRow | undefined>; readonly ms: number }>();
  return (serverId) => {
    const now = performance.now();
    for (const [id, { ms }] of kept) if (now - ms > KEPT_MS) kept.delete(id);
    const held = kept.get(serverId);
    if (held !== undefined) return held.server;
    const server = findMcpServer(db, DEFAULT_PROJECT_ID, serverId);
    kept.set(serverId, { server, ms: now });
    server.catch(() => kept.delete(serverId));
    return server;
  };
}
