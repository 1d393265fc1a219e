import {
  startSandboxHost,
  type SandboxHost,
  type SandboxHostOptions,
  type SandboxReply,
  type SandboxRequest,
} from '../src/index.ts';

/** Starts a host whose requests are answered by `fetch`; by default with their own JSON. */
export function startHost(options: Partial<SandboxHostOptions> = {}): Promise<SandboxHost> {
  return startSandboxHost({
    fetch: async (request) => ({ status: 200, headers: { 'X-Kind': 'echo' }, body: JSON.stringify(request) }),
    ...options,
  });
}

let calls = 0;

/** Returns a call of `f` with the arguments in their order. */
export function request(code: string, more: Partial<SandboxRequest> = {}): SandboxRequest {
  calls += 1;
  return {
    call_id: `call-${calls}`,
    tool_name: 'f',
    code,
    parameters: Object.keys(more.arguments ?? {}),
    arguments: {},
    timeout_ms: 60_000,
    now_ms: Date.UTC(2026, 0, 1),
    idempotency_key: 'key',
    network: [],
    side_effects: 'once',
    ...more,
  };
}

export async function run(
  host: SandboxHost,
  code: string,
  more: Partial<SandboxRequest> = {},
): Promise<SandboxReply> {
  return host.runCall(request(code, more));
}
