import type { PythonJail } from '@nightshift/python-jail';
import { answerFetch, type SandboxFetch } from '@nightshift/sandbox-host';
import type { LazyHost } from '../lazy-host.ts';
import { noteCut } from '../note-cut.ts';
import type { CallPool } from '../places.ts';
import { failed, type ToolRunner } from '../runner.ts';
import type { ReadCode } from '../sandbox/code-cache.ts';
import type { ReadSecrets } from '../secrets.ts';

/** Calls of Python under way in one worker: each is a process of at most 256 MB. */
const POOL: CallPool = { name: 'python', calls_max: 4, reserve: 1 };

/** Creates the runner of uploaded Python. A worker without a jail fails its calls, as it does those of a missing module. */
export function createPythonRunner(
  jail: LazyHost<PythonJail>,
  parts: { readonly fetch: SandboxFetch; readonly readCode: ReadCode; readonly readSecrets: ReadSecrets },
): ToolRunner {
  return {
    poolOf: () => POOL,
    async run(request, { signal }) {
      const { code_sha256 = '', network = [], secrets = [] } = request.source ?? {};
      const source = await parts.readCode(code_sha256);
      if (source === null) return failed(request, 'The code of this tool is not stored any more.');
      const values = await parts.readSecrets(request.agent_id, secrets);
      const opened = await jail.get().catch((error: unknown) => (error as Error).message);
      if (typeof opened === 'string') return failed(request, `This worker cannot run Python: ${opened}.`);
      const { call_id, tool_name, timeout_ms, result_char_limit } = request;
      const fetches = { requests: 0, chars: 0 };
      const reply = await opened.runCall(
        {
          ...{ call_id, tool_name, source, timeout_ms, result_char_limit },
          arguments: request.arguments,
          env: { ...values, LETTA_AGENT_ID: request.agent_id },
          ...(network.length === 0
            ? {}
            : {
                onFetch: (text, ended) =>
                  answerFetch(text, { call_id, network }, fetches, parts.fetch, ended),
              }),
        },
        { signal },
      );
      return noteCut(reply);
    },
  };
}
