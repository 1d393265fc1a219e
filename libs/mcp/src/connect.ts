import type {
  CallToolResult,
  Client,
  JsonSchemaValidator,
  jsonSchemaValidator,
  Tool,
  Transport,
} from '@modelcontextprotocol/client';

/** A server: an address, or a program of the operator that speaks over its standard input and output. */
export type McpTarget =
  | {
      readonly url: string;
      /** Sent with each request to the URL's origin. */
      readonly headers: Readonly<Record<string, string>>;
      readonly fetch: McpFetch;
    }
  | {
      readonly command: string;
      readonly args: readonly string[];
      /** The environment of the program, beside PATH. */
      readonly env: Readonly<Record<string, string>>;
    };

/** A guarded `fetch`. Opens no stream that only listens: a GET is answered 405 by this library. */
export type McpFetch = (input: string | URL, init?: RequestInit) => Promise<Response>;

export interface RequestLimits {
  readonly signal: AbortSignal;
  readonly timeout_ms: number;
}

/** An open connection. Calls run side by side. */
export interface McpConnection {
  /** Revision of the protocol that the server speaks. */
  readonly revision: string;
  /** Fires once the server or its process has closed the connection. */
  readonly closed: AbortSignal;
  /** Lists all tools of the server. Throws: errors of the client. */
  listTools(limits: RequestLimits): Promise<readonly Tool[]>;
  /** Calls a tool as it was listed. Throws: errors of the client. */
  callTool(
    tool: Tool,
    args: Readonly<Record<string, unknown>>,
    limits: RequestLimits,
  ): Promise<CallToolResult>;
  close(): Promise<void>;
}

/** Pages of a list of tools that are read. */
const PAGES_MAX = 16;

/** Results are text for a model: a server's schema for them is no check, and a hostile one would cost time. */
const NO_VALIDATOR: jsonSchemaValidator = {
  getValidator:
    <Value>(): JsonSchemaValidator<Value> =>
    (value) => ({ valid: true, data: value as Value, errorMessage: undefined }),
};

/**
 * Connects to a server, by the newest revision that both speak. Loads the client at the first call.
 * Throws: errors of the client; {@link explainMcpError} describes them.
 */
export async function connectMcp(target: McpTarget, limits: RequestLimits): Promise<McpConnection> {
  const { Client } = await import('@modelcontextprotocol/client');
  const client = new Client(
    { name: 'nightshift', version: '0.1.0' },
    {
      versionNegotiation: { mode: 'auto' },
      listMaxPages: PAGES_MAX,
      jsonSchemaValidator: NO_VALIDATOR,
      inputRequired: { autoFulfill: false },
    },
  );
  // Errors of requests are thrown to their callers.
  client.onerror = () => {};
  const closed = new AbortController();
  const transport = await openTransport(target);
  try {
    await client.connect(transport, optionsOf(limits));
  } catch (error) {
    await client.close().catch(() => undefined);
    throw error;
  }
  client.onclose = () => closed.abort();
  return {
    revision: client.getNegotiatedProtocolVersion() ?? 'unknown',
    closed: closed.signal,
    async listTools(requestLimits) {
      if (client.getServerCapabilities()?.tools === undefined) return [];
      const options = { ...optionsOf(requestLimits), cacheMode: 'bypass' as const };
      return (await client.listTools(undefined, options)).tools;
    },
    callTool(tool, args, requestLimits) {
      const { outputSchema: _, ...toolDefinition } = tool;
      return client.callTool(
        { name: tool.name, arguments: { ...args } },
        { ...optionsOf(requestLimits), toolDefinition },
      );
    },
    close: () => closeClient(client, transport),
  };
}

function optionsOf({ signal, timeout_ms }: RequestLimits) {
  return { signal, timeout: timeout_ms, maxTotalTimeout: timeout_ms };
}

async function openTransport(target: McpTarget): Promise<Transport & { terminateSession?(): Promise<void> }> {
  if ('command' in target) {
    const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
    const { command, args, env } = target;
    return new StdioClientTransport({ command, args: [...args], env: { ...env }, stderr: 'inherit' });
  }
  const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
  return new StreamableHTTPClientTransport(new URL(target.url), {
    fetch: postsOnly(target.fetch),
    requestInit: { headers: { ...target.headers } },
    redirectPolicy: 'same-origin',
    reconnectionOptions: {
      maxRetries: 0,
      initialReconnectionDelay: 1_000,
      maxReconnectionDelay: 1_000,
      reconnectionDelayGrowFactor: 1,
    },
  });
}

/** Refuses GET: a stream of notifications would stay open as long as the connection, without a limit of bytes. */
function postsOnly(fetch: McpFetch): McpFetch {
  return (input, init) =>
    init?.method === 'GET' ? Promise.resolve(new Response(null, { status: 405 })) : fetch(input, init);
}

/** Ends the session at the server if it has one, then the connection. Never throws. */
async function closeClient(client: Client, transport: { terminateSession?(): Promise<void> }): Promise<void> {
  await transport.terminateSession?.().catch(() => undefined);
  await client.close().catch(() => undefined);
}
