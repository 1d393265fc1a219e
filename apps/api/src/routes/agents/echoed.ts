import { toStorableText } from '@nightshift/agent-core';
import type { AgentPatch } from '../../schemas/agent.ts';
import type { ResponseFormat } from '../../schemas/response-format.ts';

/** Fields that are kept as they came, for clients that read them back. */
const ECHOED = [
  'embedding',
  'embedding_config',
  'model_settings',
  'enable_sleeptime',
  'max_files_open',
  'per_file_view_window_char_limit',
] as const satisfies readonly (keyof AgentPatch)[];

/** Letta's clients say it in one of two places. */
export function responseFormatOf(input: AgentPatch): ResponseFormat | null {
  return input.model_settings?.response_format ?? input.response_format ?? null;
}

/** `present` with what the caller gives; of secrets the names alone. */
export function echoedOf(
  input: AgentPatch,
  present: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const given = ECHOED.flatMap((field) => (input[field] == null ? [] : [[field, input[field]] as const]));
  const response_format = responseFormatOf(input);
  const secrets = input.secrets ?? input.tool_exec_environment_variables;
  return {
    ...present,
    ...Object.fromEntries(given),
    ...(response_format === null ? {} : { response_format }),
    ...(secrets == null ? {} : { secret_names: Object.keys(secrets).map(toStorableText) }),
  };
}
