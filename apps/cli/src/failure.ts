import { dirname } from 'node:path';
import type { NightshiftApiError } from '@nightshift/client';

/** Exit codes of every command. */
export const EXIT = {
  ok: 0,
  /** Some runs failed, or the command could not finish. */
  failed: 1,
  /** The command line, an input or the key is wrong. */
  usage: 2,
  /** No API answers, or it cannot answer now. */
  unreachable: 3,
  interrupted: 130,
} as const;

/** Ends a command. `message` says what is wrong, and what to do next. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
  readonly exitCode: number;

  constructor(message: string, exitCode: number = EXIT.usage) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** A failure as the user reads it. */
export interface Failure {
  readonly message: string;
  readonly exitCode: number;
  /** Stable name for `--json`. */
  readonly code: string;
}

/** What is read of a refusal. */
type ApiFailure = Pick<NightshiftApiError, 'message' | 'code' | 'status' | 'errors' | 'errorsTotal'>;

/** Fields of an error that are listed; the rest is counted. */
const FIELDS_LISTED = 10;

/** Where the settings of a failed command come from, and how its file names the places of an error. */
export interface FailureContext {
  readonly inFileTerms?: (text: string) => string;
  readonly url?: { readonly value: string; readonly source: string };
  readonly apiKey?: { readonly source: string } | undefined;
}

/** Describes an error of a command for its user. */
export function failureOf(error: unknown, context: FailureContext = {}): Failure {
  if (error instanceof CommandError)
    return { message: error.message, exitCode: error.exitCode, code: 'command' };
  if (!(error instanceof Error)) return { message: String(error), exitCode: EXIT.failed, code: 'failed' };
  // Errors of the client are told by name: the client is loaded with a command, and not for --help.
  switch (error.name) {
    case 'NightshiftUnreachableError':
      return unreachableFailureOf(error, context);
    case 'NightshiftApiError':
      return apiFailureOf(error as Error & ApiFailure, context);
    case 'NightshiftFileError':
      return { message: error.message, exitCode: EXIT.failed, code: 'file' };
    case 'NightshiftResultsError':
      return { message: error.message, exitCode: EXIT.failed, code: 'results' };
    case 'AbortError':
      return { message: 'Interrupted.', exitCode: EXIT.interrupted, code: 'interrupted' };
    default:
      return systemFailureOf(error);
  }
}

function unreachableFailureOf({ message }: Error, { url }: FailureContext): Failure {
  const origin =
    url?.source === 'data folder'
      ? ' The address is that of the last npm start here, which does not run any more: start it again.'
      : '';
  return {
    message: `${message}${origin} nightshift doctor finds the reason.`,
    exitCode: EXIT.unreachable,
    code: 'unreachable',
  };
}

function apiFailureOf(error: ApiFailure, { apiKey, inFileTerms = (text) => text }: FailureContext): Failure {
  const { code } = error;
  if (code === 'unauthorized')
    return {
      message: `${error.message} The key comes from ${keyPlace(apiKey?.source)}. Correct it there, or check the address with nightshift config print.`,
      exitCode: EXIT.usage,
      code,
    };
  // The message names a single field itself.
  const isTold = error.errors.length === 1 && error.message.startsWith(error.errors[0]?.path ?? ' ');
  const listed = isTold ? [] : error.errors.slice(0, FIELDS_LISTED);
  const total = error.errorsTotal ?? error.errors.length;
  const more = isTold ? total - 1 : total - listed.length;
  const lines = [
    inFileTerms(error.message),
    ...listed.map(({ path, message }) => `  ${inFileTerms(`${path}: ${message}`)}`),
    ...(more > 0 ? [`  … and ${more} more`] : []),
  ];
  return {
    message: lines.join('\n'),
    exitCode: error.status >= 500 || error.status === 429 ? EXIT.unreachable : EXIT.usage,
    code,
  };
}

function keyPlace(source: string | undefined): string {
  switch (source) {
    case 'flag':
      return 'the file of --key-file';
    case 'environment':
      return 'NIGHTSHIFT_API_KEY';
    case 'file':
      return 'the file of nightshift config';
    default:
      return '.data/api-key';
  }
}

/** Sentences for errors of files and pipes. */
const SYSTEM: Readonly<Record<string, string>> = {
  ENOENT: 'The file does not exist. Check its path.',
  EACCES: 'This user may not use the file. Check its rights.',
  EISDIR: 'This is a folder. Name a file.',
  ENOSPC: 'The disk is full. Free space, and run the command again.',
};

function systemFailureOf(error: Error): Failure {
  const { code, path, message } = error as NodeJS.ErrnoException;
  // Downloads are written beside their file, under this ending.
  if (code === 'ENOENT' && path?.endsWith('.part') === true)
    return {
      message: `${dirname(path)}: The folder does not exist. Make it, or name another file.`,
      exitCode: EXIT.usage,
      code,
    };
  const sentence = SYSTEM[code ?? ''];
  if (sentence === undefined) return { message, exitCode: EXIT.failed, code: code ?? 'failed' };
  return {
    message: `${path === undefined ? '' : `${path}: `}${sentence}`,
    exitCode: code === 'ENOSPC' ? EXIT.failed : EXIT.usage,
    code: code ?? 'failed',
  };
}
