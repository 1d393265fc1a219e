import { EgressError } from '@nightshift/egress';
import type { FetchCall, FetchResult } from './contract.ts';
import { exchange, type Net } from './exchange.ts';
import { outcomeOfError } from './http-call.ts';
import { succeeded, type Outcome, type Progress } from './progress.ts';

/** Makes one request of sandboxed code; any answer is a success. */
export async function runFetchCall(
  call: FetchCall,
  progress: Progress,
  signal: AbortSignal,
  net: Net,
): Promise<Outcome> {
  const { method, url, headers, body, allowed_hosts, allow_private, timeout_ms } = call;
  const request = { method, url, headers, body: body ?? undefined };
  try {
    const answer = await exchange(
      request,
      { allowed_hosts, allow_private, timeout_ms, signal },
      progress,
      net,
    );
    const result: FetchResult = {
      status: answer.status,
      url: answer.url,
      headers: answer.headers,
      body: answer.text,
    };
    return succeeded(JSON.stringify(result));
  } catch (error) {
    if (error instanceof EgressError) return outcomeOfError(error);
    throw error;
  }
}
