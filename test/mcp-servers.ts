import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import { createServer as createSocketServer, type AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { createMcpHandler, McpServer, type CallToolResult, type Tool } from '@modelcontextprotocol/server';

/** A server on loopback; its URL is that of its MCP endpoint. */
export interface TestMcpServer {
  readonly url: string;
  close(): Promise<void>;
}

/** A server of revision 2026-07-28 whose tools a test may change at any time. */
export interface ChangingMcpServer extends TestMcpServer {
  readonly tools: Tool[];
  /** Headers of all requests. */
  readonly seen: IncomingMessage[];
  /** Arguments of all calls. */
  readonly calls: { readonly name: string; readonly args: unknown }[];
}

/** Makes a tool with one text argument. */
export function mcpTool(name: string, description = `The tool ${name}`): Tool {
  const inputSchema = { type: 'object' as const, properties: { text: { type: 'string' } } };
  return { name, description, inputSchema };
}

/**
 * Serves tools over streamable HTTP in revision 2026-07-28, and in those of 2025 unless `legacy` is 'reject'. `answer` makes the
 * result of a call. Default: its argument `text`.
 */
export async function serveMcp(
  tools: Tool[],
  answer: (name: string, args: Record<string, unknown>) => CallToolResult | Promise<CallToolResult> = (
    _,
    args,
  ) => ({ content: [{ type: 'text', text: String(args['text']) }] }),
  legacy: 'stateless' | 'reject' = 'reject',
): Promise<ChangingMcpServer> {
  const calls: ChangingMcpServer['calls'] = [];
  const seen: IncomingMessage[] = [];
  const handler = createMcpHandler(
    () => {
      const info = { name: 'changing', version: '1.0.0' };
      // Below the high level, schemas are plain JSON.
      const { server } = new McpServer(info, { capabilities: { tools: {} } });
      server.setRequestHandler('tools/list', () => ({ tools: [...tools] }));
      server.setRequestHandler('tools/call', ({ params }) => {
        calls.push({ name: params.name, args: params.arguments });
        return answer(params.name, params.arguments ?? {});
      });
      return server;
    },
    { legacy },
  );
  const http = await serveHttp((request, response) => {
    seen.push(request);
    void (async () => {
      const { method = 'GET', url = '/', headers } = request;
      const body = method === 'POST' ? await buffer(request) : undefined;
      const answered = await handler.fetch(
        new Request(`http://127.0.0.1${url}`, {
          method,
          headers: Object.entries(headers).map(([name, value]): [string, string] => [name, String(value)]),
          ...(body === undefined ? {} : { body }),
        }),
      );
      response.writeHead(answered.status, Object.fromEntries(answered.headers));
      for await (const piece of answered.body ?? []) response.write(piece);
      response.end();
    })().catch(() => response.destroy());
  });
  return {
    ...{ tools, calls, seen, url: `${http.url}/mcp` },
    async close() {
      await handler.close();
      await http.close();
    },
  };
}

/** Serves HTTP on loopback. */
export async function serveHttp(listener: RequestListener): Promise<TestMcpServer> {
  const server = createServer(listener);
  server.listen({ port: 0, host: '127.0.0.1', backlog: 4_096 });
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** The reference server, of the revisions of 2025, as a child process over streamable HTTP. */
export async function startEverything(): Promise<TestMcpServer> {
  const port = await freePort();
  const child = spawn(process.execPath, [EVERYTHING, 'streamableHttp'], {
    env: { PATH: process.env['PATH'], PORT: String(port) },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const exited = once(child, 'exit');
  child.stderr.setEncoding('utf8');
  let log = '';
  await new Promise<void>((resolve, reject) => {
    child.stderr.on('data', (text: string) => {
      log += text;
      if (log.includes('listening')) resolve();
    });
    exited.then(() => reject(new Error(`the reference server did not start: ${log}`)), reject);
  });
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    async close() {
      child.kill('SIGKILL');
      await exited;
    },
  };
}

/** The program of the reference server; its argument `stdio` makes it speak over its standard input and output. */
export const EVERYTHING = fileURLToPath(
  new URL('../node_modules/@modelcontextprotocol/server-everything/dist/index.js', import.meta.url),
);

async function freePort(): Promise<number> {
  const server = createSocketServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
