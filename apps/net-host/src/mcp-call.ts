import type { SideEffects } from '@nightshift/agent-core';
import { withoutSecrets } from '@nightshift/agent-core/tools/without-secrets';
import {
  egressErrorOf,
  explainMcpError,
  isAnswered,
  isConnectionClosed,
  isSessionLost,
  statusOf,
  toResultText,
} from '@nightshift/mcp';
import { setTimeout as wait } from 'node:timers/promises';
import type { McpBase, McpCall, McpListCall, McpOffer } from './contract.ts';
import { AWAY, type Net } from './exchange.ts';
import { GIVEN_UP, outcomeOfError } from './http-call.ts';
import type { McpConnections, McpLease } from './mcp-connections.ts';
import { inExchange } from './mcp-fetch.ts';
import { failed, succeeded, type Outcome, type Progress } from './progress.ts';
import { retryDelayMs } from './retry-delay.ts';

const TRIES_MAX = 3;
const TOO_MANY_REQUESTS = 429;

/**
 * Calls a tool of an MCP server, if the server offers it as it was approved. Repeats a call that may be repeated, and any call
 * that was not sent or whose session was lost, while its server is away. Secrets are cut out of the outcome.
 */
export function runMcpCall(
  call: McpCall,
  progress: Progress,
  cancelled: AbortSignal,
  net: Net,
  connections: McpConnections,
): Promise<Outcome> {
  return repeated(call, progress, cancelled, net, connections, async ({ connection, offer }, limits) => {
    const offered = offer.get(call.tool_name);
    if (offered?.sha256 !== call.definition_sha256) return changed(call.tool_name, offered !== undefined);
    const keep_alive = call.side_effects !== 'once';
    const result = await inExchange({ ...limits, keep_alive, progress }, () => {
      // A program has no request that could tell.
      if ('command' in call.server)
        Object.assign(progress, { started: true, attempts: progress.attempts + 1 });
      return connection.callTool(offered.tool, call.arguments, limits);
    });
    const { ok, text } = toResultText(result);
    return ok ? succeeded(text) : failed(text);
  });
}

/** Lists the tools of an MCP server. */
export function runMcpListCall(
  call: McpListCall,
  progress: Progress,
  cancelled: AbortSignal,
  net: Net,
  connections: McpConnections,
): Promise<Outcome> {
  return repeated(call, progress, cancelled, net, connections, ({ connection: { revision }, offer }) => {
    const tools = [...offer.values()].map(({ definition, sha256 }) => ({ definition, sha256 }));
    return Promise.resolve(succeeded(JSON.stringify({ revision, tools } satisfies McpOffer)));
  });
}

interface Limits {
  readonly signal: AbortSignal;
  readonly timeout_ms: number;
}

async function repeated(
  call: McpBase,
  progress: Progress,
  cancelled: AbortSignal,
  net: Net,
  connections: McpConnections,
  run: (lease: McpLease, limits: Limits) => Promise<Outcome>,
): Promise<Outcome> {
  // A timeout signal would hold the memory of an ended call until its time.
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), call.timeout_ms);
  try {
    return await withRetries(call, progress, { cancelled, late: late.signal }, net, connections, run);
  } finally {
    clearTimeout(timer);
  }
}

async function withRetries(
  call: McpBase,
  progress: Progress,
  { cancelled, late }: { readonly cancelled: AbortSignal; readonly late: AbortSignal },
  net: Net,
  connections: McpConnections,
  run: (lease: McpLease, limits: Limits) => Promise<Outcome>,
): Promise<Outcome> {
  const deadlineMs = net.nowMs() + call.timeout_ms;
  const signal = AbortSignal.any([late, cancelled]);
  for (let tries = 1; ; tries++) {
    const timeout_ms = Math.max(1, Math.ceil(deadlineMs - net.nowMs()));
    const error = await untilAborted(
      signal,
      connections.use(call, (lease) => run(lease, { signal, timeout_ms })),
    ).then(
      (outcome) => ({ outcome }),
      (thrown: unknown) => ({ thrown }),
    );
    if ('outcome' in error) return clean(error.outcome, call);
    if (cancelled.aborted) return GIVEN_UP;
    if (late.aborted) return { status: 'timed_out', text: 'the MCP server did not answer in time' };
    const { thrown } = error;
    const isLost = isSessionLost(thrown);
    const mayRepeat = isLost || (isPassing(thrown) && (!progress.started || call.side_effects !== 'once'));
    const delayMs = isLost ? 0 : retryDelayMs(tries, undefined, Date.now(), Math.random());
    if (!mayRepeat || tries >= TRIES_MAX || net.nowMs() + delayMs >= deadlineMs)
      return clean(outcomeOf(thrown, progress.started, call.side_effects), call);
    await wait(delayMs, undefined, { signal }).catch(() => undefined);
  }
}

/** Waits for work until the signal fires; connecting is shared, so it goes on. Throws: the reason of the signal. */
async function untilAborted<Result>(signal: AbortSignal, work: Promise<Result>): Promise<Result> {
  const aborted = Promise.withResolvers<never>();
  const abort = (): void => aborted.reject(signal.reason);
  if (signal.aborted) abort();
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([work, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

function changed(name: string, isOffered: boolean): Outcome {
  const text = isOffered
    ? `the MCP server has changed the tool '${name}' since it was approved, so it was not called; go on without it until its new definition is approved`
    : `the MCP server no longer offers the tool '${name}', so it was not called; go on without it`;
  return { ...failed(text), offer_changed: true };
}

/** Whether the same call may succeed later. */
function isPassing(error: unknown): boolean {
  const status = statusOf(error);
  if (status !== null) return AWAY.has(status) || status === TOO_MANY_REQUESTS;
  return egressErrorOf(error)?.code === 'unreachable' || isConnectionClosed(error);
}

/**
 * Translates an error. A call that was sent and has no answer may have taken effect: it is broken off, not failed. So is a call
 * that may not be repeated and whose answer cannot be read.
 */
function outcomeOf(error: unknown, started: boolean, sideEffects: SideEffects): Outcome {
  const egress = egressErrorOf(error);
  if (egress !== null) return outcomeOfError(egress, sideEffects);
  const text = `the MCP server cannot be used: ${explainMcpError(error)}`;
  const isUnread = sideEffects === 'once' && !isAnswered(error);
  return started && (isUnread || isConnectionClosed(error)) ? { status: 'crashed', text } : failed(text);
}

function clean(outcome: Outcome, { secrets }: McpBase): Outcome {
  return { ...outcome, text: withoutSecrets(outcome.text, secrets) };
}
