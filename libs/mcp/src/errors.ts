import { EgressError } from '@nightshift/egress';

/** Maximum length of a server's own words in an error. Unit: UTF-16 code units. */
const MESSAGE_CHARS_MAX = 500;

/** Returns the HTTP status of an error of the client; null for other errors, such as a server's JSON-RPC error. */
export function statusOf(error: unknown): number | null {
  for (const each of causesOf(error)) {
    const { status } = each as { readonly status?: unknown };
    if (typeof status === 'number') return status;
    const { data } = each as { readonly data?: { readonly status?: unknown } };
    if (typeof data?.status === 'number') return data.status;
  }
  return null;
}

/** Returns the error of the guarded HTTP client behind an error; null for other errors. */
export function egressErrorOf(error: unknown): EgressError | null {
  for (const each of causesOf(error)) if (each instanceof EgressError) return each;
  return null;
}

/** Whether the server has forgotten the session of a connection: the request was not carried out. */
export function isSessionLost(error: unknown): boolean {
  return statusOf(error) === 404;
}

/** Whether the server has answered the request, with a JSON-RPC error or an HTTP status. */
export function isAnswered(error: unknown): boolean {
  return statusOf(error) !== null || typeof (error as { readonly code?: unknown } | null)?.code === 'number';
}

/** Whether the connection was closed, by either side. */
export function isConnectionClosed(error: unknown): boolean {
  return (error as { readonly code?: unknown } | null)?.code === 'CONNECTION_CLOSED';
}

/**
 * Says in words why a server could not be used, and what to do. Holds no body of an HTTP answer.
 * A server's own message may hold secrets; cut them out.
 */
export function explainMcpError(error: unknown): string {
  const egress = egressErrorOf(error);
  if (egress !== null) return egressText(egress);
  const status = statusOf(error);
  if (status === 401 || status === 403)
    return `it answers HTTP ${status}: set its header and a token that it accepts`;
  if (status !== null && status >= 300 && status <= 399)
    return `it answers HTTP ${status} and leads elsewhere: name the address that it leads to`;
  if (status === 404 || status === 405) return `it answers HTTP ${status}: the address is no MCP endpoint`;
  if (status !== null) return `it answers HTTP ${status}`;
  const { code, message } = error as { readonly code?: unknown; readonly message?: unknown };
  if (code === 'REQUEST_TIMEOUT') return 'it does not answer in time';
  if (isConnectionClosed(error)) return 'it closed the connection';
  if (code === 'ERA_NEGOTIATION_FAILED') return 'it speaks no revision of MCP that is known here';
  if (error instanceof RangeError) return wordsOf(message);
  if (typeof code === 'number') return `it answers with an error: ${wordsOf(message)}`;
  return `it does not answer as an MCP server: ${wordsOf(message)}`;
}

function wordsOf(message: unknown): string {
  return String(message).slice(0, MESSAGE_CHARS_MAX).toWellFormed();
}

function egressText({ code, message }: EgressError): string {
  if (code === 'timed_out') return 'it does not answer in time';
  if (code === 'unreachable') return `it does not answer: ${message}`;
  return code === 'aborted' ? 'the caller gave up' : `the request was refused: ${message}`;
}

interface Cause {
  readonly code?: unknown;
  readonly data?: { readonly cause?: unknown };
  readonly cause?: unknown;
}

function* causesOf(error: unknown): Generator {
  let cause = error;
  for (let depth = 0; depth < 5 && typeof cause === 'object' && cause !== null; depth++) {
    const { code, data, cause: deeper } = cause as Cause;
    // A JSON-RPC error: its data are the server's own words.
    if (typeof code === 'number') return;
    yield cause;
    cause = deeper ?? data?.cause;
  }
}
