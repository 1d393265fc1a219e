import type { AgentPatch } from '../../schemas/agent.ts';
import type { ResponseFormat } from '../../schemas/response-format.ts';
import { secretsOf } from './agent-secrets.ts';

/** Fields that are stored unchanged for clients that read them back. */
const ECHOED = [
  'embedding',
  'embedding_config',
  'enable_sleeptime',
  'max_files_open',
  'per_file_view_window_char_limit',
] as const satisfies readonly (keyof AgentPatch)[];

/** Reads the response format from the three fields in which Letta's clients may send it. */
export function responseFormatOf(input: AgentPatch): ResponseFormat | null {
  const { model_settings, response_format, llm_config } = input;
  return model_settings?.response_format ?? response_format ?? llm_config?.response_format ?? null;
}

/** Merges the given fields into `present`, model settings field by field, with the names of secrets. */
export function echoedOf(
  input: AgentPatch,
  present: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const given = givenOf(Object.fromEntries(ECHOED.map((field) => [field, input[field]])));
  const settings = givenOf(input.model_settings ?? {});
  const response_format = responseFormatOf(input);
  const secrets = secretsOf(input);
  return {
    ...present,
    ...given,
    ...(input.model_settings == null
      ? {}
      : { model_settings: { ...(present.model_settings as object | undefined), ...settings } }),
    ...(response_format === null ? {} : { response_format }),
    ...(secrets == null ? {} : { secret_names: Object.keys(secrets) }),
  };
}

/** Drops fields that are null or absent. */
function givenOf(fields: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value != null));
}
