import type { SandboxHost } from '@nightshift/sandbox-host';
import type { LazyHost } from '../lazy-host.ts';
import { noteCut } from '../note-cut.ts';
import type { CallPool } from '../places.ts';
import { failed, type ToolRunner } from '../runner.ts';
import type { ReadSecrets } from '../secrets.ts';
import type { ReadCode } from './code-cache.ts';

/** Creates the runner of uploaded code. `threads`: calls that the host runs at a time; others wait in it. */
export function createSandboxRunner(
  host: LazyHost<Pick<SandboxHost, 'runCall' | 'close'>>,
  { threads, readCode, readSecrets }: { threads: number; readCode: ReadCode; readSecrets: ReadSecrets },
): ToolRunner {
  const pool: CallPool = { name: 'sandbox', calls_max: threads * 4, reserve: threads };
  return {
    poolOf: () => pool,
    async run(request, { signal }) {
      const { code_sha256 = '', parameters = [], network = [], secrets = [] } = request.source ?? {};
      const code = await readCode(code_sha256);
      if (code === null) return failed(request, 'The code of this tool is not stored any more.');
      const { call_id, tool_name, timeout_ms, idempotency_key, result_char_limit, side_effects } = request;
      const env = { ...(await readSecrets(request.agent_id, secrets)), LETTA_AGENT_ID: request.agent_id };
      const { runCall } = await host.get();
      const reply = await runCall(
        {
          ...{ call_id, tool_name, timeout_ms, idempotency_key, result_char_limit, side_effects },
          ...{ code, parameters, network, env },
          arguments: request.arguments,
          now_ms: Date.now(),
        },
        { signal },
      );
      return noteCut(reply);
    },
  };
}
