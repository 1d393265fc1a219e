export {
  FETCH_CHARS_MAX,
  FETCHES_MAX,
  OUTPUT_CHARS_MAX,
  RESULT_CHAR_LIMIT_DEFAULT,
  RESULT_CHAR_LIMIT_MAX,
  TIMEOUT_MS_MAX,
  type SandboxFetch,
  type SandboxFetchAnswer,
  type SandboxFetchRequest,
  type SandboxReply,
  type SandboxRequest,
  type SandboxStatus,
  type SideEffects,
} from './contract.ts';
export { answerFetch } from './fetches.ts';
export type { SandboxLayer } from './jail.ts';
export { startSandboxHost, type SandboxHost, type SandboxHostOptions } from './start-sandbox-host.ts';
