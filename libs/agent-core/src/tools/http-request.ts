import { isJsonObject, nestsTooDeep, type Json, type JsonObject } from '../base/json.ts';
import { onlyTemplate, parseTemplate, pointerNames, SECRETS, textOf, valueAt } from './http-template.ts';
import { URL_TEMPLATE, type HttpTool } from './http-tool.ts';

/** A request of an {@link HttpTool}, ready to send. */
export interface HttpRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
}

/** A rendered request, or the reason for the model. */
export type RenderedRequest =
  { readonly ok: true; readonly request: HttpRequest } | { readonly ok: false; readonly message: string };

/** A fault of arguments or secrets; its message never holds a secret. */
class RenderError extends Error {}

/**
 * Fills the templates of a checked tool with the arguments of a call and the values of its secrets.
 *
 * - Path: percent-encoded. A value that would make a segment empty, `.` or `..` is refused: it would change the path.
 * - Query: percent-encoded. A parameter in `query` that is one template alone is left out if its argument is absent.
 * - Header: characters outside printable ASCII are percent-encoded. One template alone is left out as in `query`.
 * - Body: a string that is one template alone becomes the value itself, or is left out; other strings hold it as text.
 *
 * As text, lists and objects are JSON, and null and absent values are empty.
 */
export function renderHttpRequest(
  http: HttpTool,
  args: JsonObject,
  secrets: Readonly<Record<string, string>>,
): RenderedRequest {
  try {
    const headers = renderHeaders(http, args, secrets);
    const body = http.body === undefined ? undefined : JSON.stringify(renderBody(http.body, args) ?? null);
    return { ok: true, request: { method: http.method, url: renderUrl(http, args), headers, body } };
  } catch (error) {
    if (error instanceof RenderError) return { ok: false, message: error.message };
    throw error;
  }
}

function fill(text: string, write: (path: readonly string[]) => string): string {
  return parseTemplate(text)
    .map((piece) => (typeof piece === 'string' ? piece : write(piece)))
    .join('');
}

/** Tells whether a text is one template alone whose argument is absent. */
function isAbsent(text: string, args: JsonObject): boolean {
  const path = onlyTemplate(text);
  return path !== null && path[0] !== SECRETS && (valueAt(args, path) ?? null) === null;
}

function renderUrl(http: HttpTool, args: JsonObject): string {
  const parts = URL_TEMPLATE.exec(http.url);
  if (parts === null) throw new RenderError('the URL of this tool cannot be called');
  const [, origin, path, search] = parts as unknown as readonly [string, string, string, string?];
  let last = '';
  const encode = (name: readonly string[]): string => {
    last = name.join('.');
    return encodeURIComponent(textOf(valueAt(args, name)));
  };
  const segments = path.split('/').map((segment) => {
    const rendered = fill(segment, encode);
    if (rendered !== segment && /^(?:\.|%2e){0,2}$/i.test(rendered))
      throw new RenderError(
        `the argument '${last}' is a part of the URL's path and must be neither empty, '.' nor '..'`,
      );
    return rendered;
  });
  const parameters = search === undefined ? [] : [fill(search, encode)];
  for (const [name, text] of Object.entries(http.query ?? {})) {
    if (isAbsent(text, args)) continue;
    const value = fill(text, (argument) => textOf(valueAt(args, argument)));
    parameters.push(`${encodeURIComponent(name)}=${encodeURIComponent(value)}`);
  }
  return `${origin}${segments.join('/')}${parameters.length === 0 ? '' : `?${parameters.join('&')}`}`;
}

function renderHeaders(
  http: HttpTool,
  args: JsonObject,
  secrets: Readonly<Record<string, string>>,
): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, text] of Object.entries(http.headers ?? {})) {
    if (isAbsent(text, args)) continue;
    headers[name] = fill(text, (path) =>
      path[0] === SECRETS ? secretOf(path, secrets) : headerText(textOf(valueAt(args, path))),
    );
  }
  const hasType = Object.keys(headers).some((name) => name.toLowerCase() === 'content-type');
  if (http.body !== undefined && !hasType) headers['content-type'] = 'application/json';
  return headers;
}

function headerText(text: string): string {
  return text.replaceAll(/[^\x20-\x7e]/gu, encodeURIComponent);
}

function secretOf([, name = '']: readonly string[], secrets: Readonly<Record<string, string>>): string {
  const value = Object.hasOwn(secrets, name) ? secrets[name] : undefined;
  if (value === undefined) throw new RenderError(`the secret '${name}' of this tool is not set`);
  if (!/^[\x20-\x7e]*$/.test(value))
    throw new RenderError(`the secret '${name}' of this tool has a character that no header may hold`);
  return value;
}

/** Returns the value for a part of the body; undefined if its argument is absent. */
function renderBody(part: Json, args: JsonObject): Json | undefined {
  if (typeof part === 'string') {
    const path = onlyTemplate(part);
    return path === null ? fill(part, (name) => textOf(valueAt(args, name))) : valueAt(args, path);
  }
  if (Array.isArray(part))
    return (part as readonly Json[]).flatMap((item) => {
      const value = renderBody(item, args);
      return value === undefined ? [] : [value];
    });
  if (!isJsonObject(part)) return part;
  return Object.fromEntries(
    Object.entries(part).flatMap(([key, item]) => {
      const value = renderBody(item, args);
      return value === undefined ? [] : [[key, value]];
    }),
  );
}

/** The result in an answer, or the reason why it has none. */
export type HttpResult =
  { readonly ok: true; readonly text: string } | { readonly ok: false; readonly message: string };

/** Reads the result from the text of a successful answer. `pointer` is {@link HttpTool.result}; undefined: the whole text. */
export function readHttpResult(answer: string, pointer: string | undefined): HttpResult {
  if (pointer === undefined) return { ok: true, text: answer };
  if (nestsTooDeep(answer)) return { ok: false, message: 'the answer nests too deep' };
  let json: Json;
  try {
    json = JSON.parse(answer) as Json;
  } catch {
    return { ok: false, message: 'the answer is not JSON' };
  }
  const value = valueAt(json, pointerNames(pointer));
  if (value === undefined) return { ok: false, message: `the answer has no value at '${pointer}'` };
  return { ok: true, text: typeof value === 'string' ? value : JSON.stringify(value) };
}
