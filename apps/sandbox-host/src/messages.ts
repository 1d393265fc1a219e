import type { FromHost, ToHost } from '@nightshift/host-process';
import type { SandboxCall, SandboxOutcome } from './contract.ts';

/** Messages between the worker's side and the host process. */

/** Maximum length of a message: 4 MiB, for a megabyte of text that is escaped twice. Unit: bytes of JSON. */
export const FRAME_BYTES_MAX = 4 * 1024 * 1024;

/** `arguments` is JSON text, which only the sandbox parses. */
export interface WireCall {
  readonly call: SandboxCall;
  readonly arguments: string;
}

/** `answer` is the JSON text of a {@link FetchAnswer}. */
export interface FetchedMessage {
  readonly kind: 'fetched';
  readonly id: number;
  readonly fetch: number;
  readonly answer: string;
}

/** `request` is JSON text of the sandboxed code. */
export interface FetchRequestMessage {
  readonly kind: 'fetch';
  readonly id: number;
  readonly fetch: number;
  readonly request: string;
}

export type ToSandboxHost = ToHost<WireCall> | FetchedMessage;
export type FromSandboxHost = FromHost<SandboxOutcome> | FetchRequestMessage;
