import { openPythonJail } from '../../libs/python-jail/src/index.ts';
import { answerFetch } from '../../apps/sandbox-host/src/index.ts';
import type { HostileProgram } from './programs.ts';
import { answer, childrenOf, residentMb, type HostileHost } from './run.ts';

const HARMLESS: HostileProgram = {
  name: 'neighbour',
  code: 'def f(a, b):\n    return {"sum": sum(a * b for i in range(1000))}\n',
  arguments: { a: 2, b: 3 },
};

/** Opens the jail for hostile programs. Its memory is that of the largest process. Throws: there is no jail. */
export async function openHostilePython(): Promise<HostileHost> {
  const jail = await openPythonJail();
  return {
    layers: jail.layers.map((layer) => `on  ${layer} (Python ${jail.version})`),
    startsProcesses: true,
    neighbour: HARMLESS,
    async call({ name, code, network = [], arguments: given = {} }, timeout_ms) {
      const fetches = { requests: 0, chars: 0 };
      const call = { call_id: name, network };
      return jail.runCall({
        ...{ call_id: name, tool_name: 'f', source: code, timeout_ms, result_char_limit: 50_000 },
        ...{ arguments: given, env: { KEY: 'value' } },
        ...(network.length === 0
          ? {}
          : { onFetch: (text, signal) => answerFetch(text, call, fetches, answer, signal) }),
      });
    },
    memoryMb: () => Math.max(0, ...childrenOf(process.pid).map(residentMb)),
    close: () => jail.close(),
  };
}
