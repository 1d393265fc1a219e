import type { Jail } from './jail.ts';
import { OUTPUT_CHARS_MAX, runInJail, type JailEnd } from './process.ts';

/** A call of an uploaded Python function. */
export interface PythonCall {
  /** The caller's own key, returned with the reply. */
  readonly call_id: string;
  /** The function of the source that is called. */
  readonly tool_name: string;
  readonly source: string;
  /** A JSON object, validated by the caller; passed by name. */
  readonly arguments: Readonly<Record<string, unknown>>;
  /** Unit: milliseconds. */
  readonly timeout_ms: number;
  /** Unit: UTF-16 code units. */
  readonly result_char_limit: number;
  /** Values of `os.environ`. */
  readonly env: Readonly<Record<string, string>>;
  /**
   * Answers a `fetch`, whose request is JSON text of hostile code, with `{ status, headers, body }` or `{ error }`. Never
   * rejects. The signal fires at the end of the call. Without it there is no `fetch`.
   */
  readonly onFetch?: (request: string, signal: AbortSignal) => Promise<object>;
}

export interface PythonReply extends JailEnd {
  readonly call_id: string;
  /** The jail does not start. The call may be repeated later. */
  readonly unavailable?: true;
}

/** Maximum length of source and arguments together. Unit: UTF-16 code units of their JSON. */
const REQUEST_CHARS_MAX = 1024 * 1024;

/** Maximum length of the requests of a call; their maker has a bound of its own. Unit: bytes. */
const FETCH_BYTES_MAX = 8 * 1024 * 1024;
/** Maximum length of a reply without its result: an error, and the frame. Unit: bytes. */
const OTHER_BYTES_MAX = 64 * 1024;

/** Runs a call in a process of its own. Never rejects. */
export async function callTool(jail: Jail, call: PythonCall, signal: AbortSignal): Promise<PythonReply> {
  const { call_id, source, tool_name, timeout_ms, result_char_limit, env, onFetch } = call;
  const request = {
    ...{ source, name: tool_name, env, result_char_limit, has_network: onFetch !== undefined },
    arguments: JSON.stringify(call.arguments),
  };
  if (request.source.length + request.arguments.length > REQUEST_CHARS_MAX) {
    const result = 'code and arguments exceed 1 MB together; send less in one call';
    return { call_id, ...NOT_STARTED, status: 'failed', result };
  }
  const ended = new AbortController();
  const end = await runInJail(jail, {
    ...{ program: 'call', request, timeoutMs: timeout_ms, signal },
    replyBytesMax: OTHER_BYTES_MAX + 6 * result_char_limit + (onFetch === undefined ? 0 : FETCH_BYTES_MAX),
    onFetch: onFetch === undefined ? undefined : (text) => onFetch(text, ended.signal),
  });
  ended.abort();
  const limit = end.status === 'succeeded' ? result_char_limit : OUTPUT_CHARS_MAX;
  const reply: PythonReply = {
    ...{ ...end, call_id, result: end.result.slice(0, limit) },
    truncated: end.truncated || (end.status === 'succeeded' && end.result.length > limit),
  };
  return end.status === 'crashed' && !end.started && !signal.aborted
    ? { ...reply, unavailable: true }
    : reply;
}

const NOT_STARTED = { truncated: false, duration_ms: 0, stdout: '', stderr: '', started: false } as const;
