import type { HttpTool } from '@nightshift/agent-core';
import type { NetHost } from '@nightshift/net-host';
import type { LazyHost } from '../lazy-host.ts';
import type { CallPool } from '../places.ts';
import { failed, type ToolRunner } from '../runner.ts';
import type { ReadSecrets } from '../secrets.ts';

/** HTTP calls under way in one worker: they wait on one event loop and cost no thread. */
const POOL: CallPool = { name: 'http', calls_max: 1_500, reserve: 300 };

/** Creates the runner of HTTP tools. */
export function createHttpRunner(
  host: LazyHost<Pick<NetHost, 'runCall' | 'close'>>,
  { allow_private, readSecrets }: { allow_private: boolean; readSecrets: ReadSecrets },
): ToolRunner {
  return {
    poolOf: () => POOL,
    async run(request, { signal }) {
      const { http, secrets = [] } = request.source ?? {};
      if (http === undefined) return failed(request, 'This tool has no request.');
      const { call_id, side_effects, idempotency_key, timeout_ms, result_char_limit } = request;
      const values = await readSecrets(request.agent_id, secrets);
      const { runCall } = await host.get();
      return runCall(
        {
          ...{ kind: 'http', call_id, side_effects, idempotency_key, timeout_ms, result_char_limit },
          // Checked when the tool was stored.
          http: http as unknown as HttpTool,
          arguments: request.arguments,
          secrets: values,
          allow_private,
        },
        { signal },
      );
    },
  };
}
