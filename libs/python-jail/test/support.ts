import { openPythonJail, type PythonCall, type PythonJail, type PythonReply } from '../src/index.ts';

/** Opens the machine's jail; without one, prints the reason and returns undefined. */
export async function openJailOrSkip(): Promise<PythonJail | undefined> {
  try {
    return await openPythonJail();
  } catch (error) {
    process.stderr.write(`Uploaded Python is not tested: ${(error as Error).message}\n`);
    return undefined;
  }
}

/** Calls the function `f` of a source. */
export function call(
  jail: PythonJail,
  source: string,
  more: Partial<PythonCall> = {},
  signal?: AbortSignal,
): Promise<PythonReply> {
  return jail.runCall(
    {
      ...{ call_id: 'call', tool_name: 'f', source, arguments: {}, env: {} },
      ...{ timeout_ms: 60_000, result_char_limit: 50_000, ...more },
    },
    signal === undefined ? {} : { signal },
  );
}
