import { isJsonObject, type Json, type JsonObject } from '../base/json.ts';
import type { FieldError } from '../base/errors.ts';
import { mayHold, parseTemplate, SECRETS } from './http-template.ts';

/**
 * A tool that is one HTTP request.
 *
 * `{{argument}}` and `{{argument.field}}` in its texts stand for arguments of the call, `{{secrets.NAME}}` in a header for
 * a secret. {@link renderHttpRequest} says how each place encodes them.
 */
export interface HttpTool {
  /** One of {@link HTTP_METHODS}. */
  readonly method: string;
  /** Absolute http or https URL; templates may stand in its path and query. */
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Query parameters, appended to those of the URL. */
  readonly query?: Readonly<Record<string, string>> | undefined;
  /** JSON body. Templates may stand in its strings, not in its keys. */
  readonly body?: Json | undefined;
  /** JSON Pointer of the result in a JSON answer. Default: the answer's whole text. */
  readonly result?: string | undefined;
}

export const HTTP_METHODS: readonly string[] = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'];

/** Headers that the HTTP client sets itself: they frame or route the request. */
const RESERVED_HEADERS: ReadonlySet<string> = new Set([
  'accept-encoding',
  'connection',
  'content-length',
  'expect',
  'host',
  'http2-settings',
  'keep-alive',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Tells whether a header is set by the HTTP client alone. Ignores case. */
export function isReservedHeader(name: string): boolean {
  return RESERVED_HEADERS.has(name.toLowerCase());
}

const HEADER_NAME = /^[\w!#$%&'*+.^`|~-]+$/;
/** Characters that the text of a header may have. */
const HEADER_TEXT = /^[\t\x20-\x7e]*$/;
const POINTER = /^(?:\/(?:[^~/]|~[01])*)*$/;
/** Origin, path and query of a URL template. */
export const URL_TEMPLATE = /^(https?:\/\/[^/?#{}\\\s]+)((?:\/[^?#]*)?)(?:\?([^#]*))?$/i;

/** Returns the names of the secrets that the values of headers name. */
export function secretNamesIn(headers: Readonly<Record<string, string>>): readonly string[] {
  const pieces = Object.values(headers).flatMap(parseTemplate);
  return [
    ...new Set(
      pieces.flatMap((piece) => (typeof piece === 'object' && piece[0] === SECRETS ? piece.slice(1, 2) : [])),
    ),
  ];
}

/** Checks an HTTP tool against the schema of its arguments; returns one problem per faulty field, with its JSON Pointer. */
export function checkHttpTool(http: HttpTool, inputSchema: JsonObject): readonly FieldError[] {
  const problems: FieldError[] = [];
  const refuse = (path: string, message: string): void => void problems.push({ path, message });

  function checkText(path: string, text: string, maySecrets: boolean): void {
    for (const piece of parseTemplate(text)) {
      if (typeof piece === 'string') {
        if (piece.includes('{{'))
          refuse(path, "has '{{' without a template; write {{name}} or {{name.field}}");
      } else if (piece[0] === SECRETS) {
        if (!maySecrets) refuse(path, 'names a secret; secrets may stand in header values only');
        else if (piece.length !== 2) refuse(path, 'names no secret; write {{secrets.NAME}}');
      } else if (!mayHold(inputSchema, piece)) {
        refuse(path, `has the template {{${piece.join('.')}}}, but the schema has no such argument`);
      }
    }
  }

  function checkBody(path: string, value: Json): void {
    if (typeof value === 'string') checkText(path, value, false);
    else if (typeof value === 'object' && value !== null) {
      for (const [key, item] of Object.entries(value)) {
        const at = below(path, key);
        if (isJsonObject(value) && key.includes('{{'))
          refuse(at, 'has a template in a key; templates may stand in values only');
        checkBody(at, item);
      }
    }
  }

  if (!HTTP_METHODS.includes(http.method)) refuse('/method', `must be one of ${HTTP_METHODS.join(', ')}`);
  const fault = faultOfUrl(http.url);
  if (fault === null) checkText('/url', http.url, false);
  else refuse('/url', fault);
  for (const [path, message] of faultsOfHeaders(http.headers ?? {})) refuse(path, message);
  for (const [name, text] of Object.entries(http.headers ?? {}))
    checkText(below('/headers', name), text, true);
  for (const [name, text] of Object.entries(http.query ?? {})) checkText(below('/query', name), text, false);
  if (http.body !== undefined) {
    if (http.method === 'GET') refuse('/body', 'must be absent: a GET request has no body');
    checkBody('/body', http.body);
  }
  if (http.result !== undefined && !POINTER.test(http.result))
    refuse('/result', "must be a JSON Pointer, such as '/items/0'; '' is the whole answer");
  return problems;
}

function below(path: string, name: string): string {
  return `${path}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`;
}

function faultOfUrl(text: string): string | null {
  const [, origin] = URL_TEMPLATE.exec(text) ?? [];
  if (origin === undefined)
    return text.includes('#')
      ? 'must have no fragment'
      : 'must begin with http:// or https:// and a host without templates';
  if (!URL.canParse(origin)) return 'has no valid host or port';
  return origin.includes('@') ? 'must have no name or password; put a secret into a header' : null;
}

function* faultsOfHeaders(headers: Readonly<Record<string, string>>): Generator<[string, string]> {
  const seen = new Set<string>();
  for (const [name, text] of Object.entries(headers)) {
    const path = below('/headers', name);
    if (!HEADER_NAME.test(name)) yield [path, 'is no name of a header'];
    else if (isReservedHeader(name) || name.toLowerCase() === 'idempotency-key')
      yield [path, 'is set by Nightshift itself; leave it out'];
    else if (seen.has(name.toLowerCase())) yield [path, 'is there twice'];
    else if (!HEADER_TEXT.test(text)) yield [path, 'may hold printable ASCII characters only'];
    seen.add(name.toLowerCase());
  }
}
